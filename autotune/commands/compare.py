"""``compare``: campaigns beside each other, and the summary at the end of a multirun."""

import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.campaign.directory import Record, read_record
from autotune.recommend.summary import speedup_interval
from autotune.views.documents import json_text
from autotune.views.text import advice_text, ratio_text


def compare(directories: Sequence[Path], as_json: bool) -> None:
    """Print one line for each campaign: stack, size, state, gain, and what its recommendation changes."""
    rows = [row(read_record(directory)) for directory in directories]
    if as_json:
        sys.stdout.write(json_text(rows))
        return
    from rich.console import Console

    from autotune.views.tables import campaigns_table

    common = os.path.commonpath([d.absolute() for d in directories]) if len(directories) > 1 else ""
    for one, directory in zip(rows, directories, strict=True):
        one["directory"] = os.path.relpath(directory.absolute(), common) if common else str(directory)
    Console(width=None if sys.stdout.isatty() else 200).print(campaigns_table(rows))


def row(record: Record) -> dict[str, Any]:
    """What is compared of one campaign, as JSON values."""
    found = record.recommendation
    gain = found.speedup if found and found.gains else math.nan
    low, high = speedup_interval(found) if found and found.gains else (math.nan, math.nan)
    return {
        "directory": str(record.directory),
        "campaign": record.name,
        "collective": list(record.scenario["collective"]),
        "stack": record.site.get("description", ""),
        "stamp": record.site.get("stamp", ""),
        "nodes": record.site.get("nodes"),
        "ranks": record.site.get("ranks"),
        "state": record.state,
        "launches": len(record.history),
        "speedup": gain,
        "speedup_low": low,
        "speedup_high": high,
        "gain": ratio_text(gain, (low, high)),
        "verified": found.provenance.verified if found else "UNVERIFIED",
        "advice": advice_text(found, record.space.default) if found else "",
    }
