"""``compare``: two logs, guidelines such as allreduce ≤ reduce + bcast, and the best choices by size."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.guidelines import campaign_findings
from autotune.commands.terminal import console
from autotune.errors import ExitCode, UserError
from autotune.exporters.writing import write_files
from autotune.recommend.front import candidates
from autotune.recommend.guideline_test import findings
from autotune.recommend.guidelines import of_table
from autotune.recommend.winners import winners as winners_of
from autotune.tables.two_logs import Call, TwoLogs, compared
from autotune.tables.two_logs_text import logs_document, logs_table
from autotune.tables.verbs.import_ import measurements
from autotune.views.documents import answer_text, csv_text
from autotune.views.guidelines import ADVICE, concerning, findings_document, findings_lines
from autotune.views.tuning_table import Entry, tuning_page, tuning_rows, tuning_text


def compare_logs(paths: Sequence[Path], as_json: bool, comm_size: int | None) -> None:
    """Print by what factor each call is faster or slower in the second log than in the first log.

    Args:
        paths: The two logs, the reference first.
        as_json: Whether to print a JSON document instead of a table.
        comm_size: Number of ranks of rows that do not contain this number.

    Raises:
        UserError: there are not exactly two logs, or they have no call in common.
        TableError: a file cannot be read, or is not a complete log or table.
    """
    if len(paths) != 2 or any(path.is_dir() for path in paths):
        raise UserError("compare takes directories of campaigns, or two logs", "compare LOG1 LOG2")
    comparison = compared(*(measurements([path], comm_size) for path in paths))
    if not comparison.pairs:
        has = [_text(calls) for calls in (comparison.only_first, comparison.only_second)]
        hint = f"{paths[0]} has {has[0]}; {paths[1]} has {has[1]}"
        raise UserError("the logs have no call in common", f"{hint}; {_why(comparison)}")
    if as_json:
        sys.stdout.write(answer_text("compare-logs", logs_document(comparison)))
        return

    names = str(paths[0]), str(paths[1])
    common = os.path.commonpath([path.absolute() for path in paths])
    if names[0] != names[1]:
        names = os.path.relpath(paths[0], common), os.path.relpath(paths[1], common)
    console(width=None if sys.stdout.isatty() else 200).print(logs_table(comparison, names))


def _text(calls: Sequence[Call]) -> str:
    slots = [slot for slot, _ in calls]
    kinds = dict.fromkeys(f"{name} on {ranks or 'unknown'} ranks" for name, ranks, _ in slots)
    sizes = [size for _, _, size in slots]
    return f"{', '.join(kinds)} of {min(sizes)} to {max(sizes)} bytes" if slots else "nothing"


def _why(comparison: TwoLogs) -> str:
    """Explain why two logs have no call in common.

    The cause is a label without a common value or, if there is none, a number of ranks that a log may lack.
    """
    shared_slots = {slot for slot, _ in comparison.only_first} & {slot for slot, _ in comparison.only_second}
    sides: list[dict[str, set[str]]] = [{}, {}]
    for values, calls in zip(sides, (comparison.only_first, comparison.only_second), strict=True):
        for slot, setting in calls:
            for name, value in setting if slot in shared_slots else ():
                values.setdefault(name, set()).add(value)
    unlike = [
        f"{name} ({', '.join(sorted(sides[0][name]))} | {', '.join(sorted(sides[1][name]))})"
        for name in sorted(sides[0].keys() & sides[1].keys())
        if not sides[0][name] & sides[1][name]
    ]
    return f"they differ in {', '.join(unlike)}" if unlike else "--comm-size adds the ranks a log lacks"


def guidelines(
    paths: tuple[Path, ...], as_json: bool, rate: float, comm_size: int | None, collective: str | None
) -> int:
    """Print the guidelines that are violated in a campaign, or in several tables together.

    Args:
        paths: The directory of one campaign, or logs and tables.
        as_json: Whether to print a JSON document instead of text.
        rate: Probability of reporting any violation if no guideline is violated.
        comm_size: Number of ranks of rows that do not contain this number.
        collective: Collective of rows that do not name a collective.

    Returns:
        1 if a guideline is violated, else 0.

    Raises:
        TableError: a file cannot be read, or is not a complete log or table.
        UserError: a directory does not contain a campaign, or a campaign is one of several arguments.
        JournalError: the campaign's journal is damaged or has a newer format.
    """
    concerned = None
    if any(path.is_dir() for path in paths):
        if len(paths) > 1:
            raise UserError("a campaign stands for itself", "name one directory, or only logs and tables")
        campaign = read_campaign(paths[0])
        recommendation = campaign.conclude().recommendation
        report = campaign_findings(campaign.about, campaign.history, recommendation, rate)
        concerned = concerning(report, campaign.about.space, recommendation)
    else:
        report = findings(of_table(measurements(paths, comm_size, collective)), rate)
    if as_json:
        sys.stdout.write(answer_text("compare-guidelines", findings_document(report, concerned)))
    else:
        lines = [*findings_lines(report)]
        if concerned:
            lines.append(f"{len(concerned)} of them with the exported settings")
        kinds = dict.fromkeys(violation.guideline.kind for violation in report.violations)
        lines += [f"  {kind}: {ADVICE[kind]}" for kind in kinds]
        sys.stdout.write("\n".join(lines) + "\n")
    return ExitCode.FINDING if report.violations else ExitCode.WELL


def winners(directories: Sequence[Path], out: Path | None, plot: Path | None, as_json: bool) -> None:
    """Print the best per-size choices (such as algorithms) of one or several campaigns as a table.

    Args:
        directories: Directories of campaigns, for example one for each number of nodes.
        out: File for the table as CSV; None if no such file should be written.
        plot: File for an HTML page with a figure of the table; None if no such file should be written.
        as_json: Whether to print the table as JSON instead of text.

    Raises:
        UserError: a directory does not contain a campaign, two campaigns measured the same slot (collective,
            communicator size, message size), no choice was measured yet, or a file cannot be written.
    """
    table: list[Entry] = []
    campaign_of_slot: dict[tuple[int, tuple[str, int, int]], Path] = {}
    for directory in directories:
        for entry in _entries(read_campaign(directory)):
            if (first := campaign_of_slot.setdefault((entry.nodes, entry.slot), directory)) != directory:
                collective, ranks, size = entry.slot
                slot = f"{collective} of {size} B, {ranks} ranks, nodes={entry.nodes}"
                hint = "name campaigns that differ in nodes, ranks, collectives or sizes"
                raise UserError(f"{first} and {directory} both have {slot}", hint)
            table.append(entry)
    if not table:
        raise UserError(
            f"{', '.join(map(str, directories))}: no choice by message size was measured",
            "the space has no parameter with per_size, or nothing was launched yet; "
            "`report` shows what a setting gains at each size",
        )
    table.sort(key=lambda winner: (winner.slot[0], winner.nodes, winner.slot[1:]))
    files = {}
    if out is not None:
        files[out] = csv_text(rows := tuning_rows(table), list(rows[0]))
    if plot is not None:
        files[plot] = tuning_page(table, ", ".join(directory.name for directory in directories))
    if files:
        write_files(files)
    text = answer_text("compare-winners", {"rows": tuning_rows(table)}) if as_json else tuning_text(table)
    sys.stdout.write(text)
    sys.stderr.writelines(f"{path}\n" for path in files)


def _entries(campaign: CampaignDirectory) -> list[Entry]:
    """Return the best per-size choices for a campaign's recommended setting, or for the best one so far."""
    about = campaign.about
    settings = candidates(about.objectives, about.space, campaign.history)
    recommendation = campaign.conclude().recommendation
    places = winners_of(about.objectives, about.space, campaign.history, settings, recommendation)
    return [Entry(about.bench.nodes, place) for place in places]
