"""``history DIR``: all measurements of a campaign as a table."""

from pathlib import Path

from autotune.campaign.directory import read_campaign
from autotune.errors import UserError, allowed


def history(directory: Path, table_format: str, out: Path | None) -> None:
    """Print or write all measurements."""
    if table_format not in ("csv", "parquet"):
        raise UserError(f"--format {table_format}", allowed(table_format, ("csv", "parquet")))
    campaign = read_campaign(directory)
    from autotune.views.frames import history_frame, write_table

    write_table(history_frame(campaign.history), table_format, out)
