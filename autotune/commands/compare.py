"""``compare DIR…``: print several campaigns in one table.

A multirun (several campaigns from one command) ends with the same table.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.campaign.conclusion import Conclusion
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.commands.terminal import console
from autotune.history.objectives import known_end
from autotune.recommend.recommendation import Checked, Provenance
from autotune.views.documents import answer_text
from autotune.views.text import advice_text, ratio_text


def compare(directories: Sequence[Path], as_json: bool) -> None:
    """Print one line for each campaign: its MPI, size, state and gain, and the recommended changes."""
    campaigns = [read_campaign(directory) for directory in directories]
    conclusions = [campaign.conclude() for campaign in campaigns]
    rows = [row(*pair) for pair in zip(campaigns, conclusions, strict=True)]
    if as_json:
        sys.stdout.write(answer_text("compare", {"campaigns": rows}))
        return
    from autotune.views.tables import campaigns_table

    common = os.path.commonpath([d.absolute() for d in directories]) if len(directories) > 1 else ""
    for line, directory in zip(rows, directories, strict=True):
        line["directory"] = os.path.relpath(directory.absolute(), common) if common else str(directory)
    recommendations = [conclusion.recommendation for conclusion in conclusions]
    unverified = sum(r is None or r.provenance.checked is Checked.NOT for r in recommendations)
    console(width=None if sys.stdout.isatty() else 200).print(campaigns_table(rows, unverified))


def row(campaign: CampaignDirectory, conclusion: Conclusion) -> dict[str, Any]:
    """Return the table's row for a campaign and its conclusion, as a mapping from columns to JSON values."""
    about, recommendation, (gain, (low, high)) = campaign.about, conclusion.recommendation, conclusion.speedup
    return {
        "directory": str(campaign.path),
        "campaign": about.scenario.title,
        "collective": list(about.scenario.collective),
        "stack": about.bench.description,
        "stamp": str(about.bench.stamp),
        "nodes": about.bench.nodes,
        "ranks": about.bench.ranks,
        "state": campaign.state.value,
        "launches": len(campaign.history),
        "speedup": gain,
        "speedup_low": known_end(low),
        "speedup_high": known_end(high),
        "gain": ratio_text(gain, (low, high)),
        "verified": (recommendation.provenance if recommendation else Provenance()).verified,
        "advice": advice_text(recommendation, about.space.unset) if recommendation else "",
    }
