"""``compare``: campaigns beside each other, two logs, and the summary at the end of a multirun."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.campaign.conclusion import Conclusion
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.commands.import_ import measurements
from autotune.commands.terminal import console
from autotune.errors import UserError
from autotune.recommend.recommendation import Checked, Provenance
from autotune.recommend.two_logs import Call, TwoLogs, compared
from autotune.views.documents import json_text, logs_document
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


def compare_logs(paths: Sequence[Path], as_json: bool, comm_size: int | None) -> None:
    """Print how the calls of a second log differ from the same ones in a first.

    Raises:
        UserError: not two logs, or logs without a call in common.
        TableError: a file that cannot be read, or that is not a complete log or table.
    """
    if len(paths) != 2 or any(path.is_dir() for path in paths):
        raise UserError("compare takes directories of campaigns, or two logs", "compare LOG1 LOG2")
    found = compared(*(measurements([path], comm_size) for path in paths))
    if not found.pairs:
        has = [_text(calls) for calls in (found.only_first, found.only_second)]
        hint = f"{paths[0]} has {has[0]}; {paths[1]} has {has[1]}"
        raise UserError("the logs have no call in common", f"{hint}; {_why(found)}")
    if as_json:
        sys.stdout.write(json_text(logs_document(found)))
        return
    from autotune.views.tables import logs_table

    names = str(paths[0]), str(paths[1])
    common = os.path.commonpath([path.absolute() for path in paths])
    if names[0] != names[1]:
        names = os.path.relpath(paths[0], common), os.path.relpath(paths[1], common)
    console(width=None if sys.stdout.isatty() else 200).print(logs_table(found, names))


def _text(calls: Sequence[Call]) -> str:
    slots = [slot for slot, _ in calls]
    kinds = dict.fromkeys(f"{name} on {ranks or 'unknown'} ranks" for name, ranks, _ in slots)
    sizes = [size for _, _, size in slots]
    return f"{', '.join(kinds)} of {min(sizes)} to {max(sizes)} bytes" if slots else "nothing"


def _why(found: TwoLogs) -> str:
    """Labels without a common value where all else is the same; else the ranks may be what a log lacks."""
    same = {slot for slot, _ in found.only_first} & {slot for slot, _ in found.only_second}
    sides: list[dict[str, set[str]]] = [{}, {}]
    for values, calls in zip(sides, (found.only_first, found.only_second), strict=True):
        for slot, setting in calls:
            for name, value in setting if slot in same else ():
                values.setdefault(name, set()).add(value)
    unlike = [
        f"{name} ({', '.join(sorted(sides[0][name]))} | {', '.join(sorted(sides[1][name]))})"
        for name in sorted(sides[0].keys() & sides[1].keys())
        if not sides[0][name] & sides[1][name]
    ]
    return f"they differ in {', '.join(unlike)}" if unlike else "--comm-size adds the ranks a log lacks"


def row(campaign: CampaignDirectory, found: Conclusion) -> dict[str, Any]:
    """One campaign and its conclusion as JSON values, for a comparison."""
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
