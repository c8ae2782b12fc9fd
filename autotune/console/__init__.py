"""What a campaign shows in a terminal, or as plain lines where there is none. This package owns rich."""

from autotune.console.live import CampaignConsole
from autotune.console.tables import design_table, effects_tables, front_table, machine_table, size_tables

__all__ = [
    "CampaignConsole",
    "design_table",
    "effects_tables",
    "front_table",
    "machine_table",
    "size_tables",
]
