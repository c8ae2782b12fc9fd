"""``compare``: campaigns beside each other, and the summary at the end of a multirun."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.campaign.conclusion import Conclusion
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.commands.terminal import console
from autotune.recommend.recommendation import Checked, Provenance
from autotune.views.documents import json_text
from autotune.views.text import advice_text, ratio_text


def compare(directories: Sequence[Path], as_json: bool) -> None:
    """Print one line for each campaign: stack, size, state, gain, and what its recommendation changes."""
    campaigns = [read_campaign(directory) for directory in directories]
    found = [campaign.conclude() for campaign in campaigns]
    rows = [row(*pair) for pair in zip(campaigns, found, strict=True)]
    if as_json:
        sys.stdout.write(json_text(rows))
        return
    from autotune.views.tables import campaigns_table

    common = os.path.commonpath([d.absolute() for d in directories]) if len(directories) > 1 else ""
    for one, directory in zip(rows, directories, strict=True):
        one["directory"] = os.path.relpath(directory.absolute(), common) if common else str(directory)
    made = [one.recommendation for one in found]
    unverified = sum(one is None or one.provenance.checked is Checked.NOT for one in made)
    console(width=None if sys.stdout.isatty() else 200).print(campaigns_table(rows, unverified))


def row(campaign: CampaignDirectory, found: Conclusion) -> dict[str, Any]:
    """What is compared of one campaign and of what it has found, as JSON values."""
    about, chosen, (gain, (low, high)) = campaign.about, found.recommendation, found.speedup
    return {
        "directory": str(campaign.path),
        "campaign": about.scenario.title,
        "collective": list(about.scenario.collective),
        "stack": about.site.description,
        "stamp": str(about.site.stamp),
        "nodes": about.site.nodes,
        "ranks": about.site.ranks,
        "state": campaign.state.value,
        "launches": len(campaign.history),
        "speedup": gain,
        "speedup_low": low,
        "speedup_high": high,
        "gain": ratio_text(gain, (low, high)),
        "verified": (chosen.provenance if chosen else Provenance()).verified,
        "advice": advice_text(chosen, about.space.unset) if chosen else "",
    }
