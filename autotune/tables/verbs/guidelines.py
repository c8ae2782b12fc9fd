"""``compare --guidelines``: report violated performance guidelines, such as allreduce ≤ reduce + bcast."""

import sys
from pathlib import Path

from autotune.campaign.directory import read_campaign
from autotune.campaign.guidelines import campaign_findings
from autotune.errors import ExitCode, UserError
from autotune.recommend.guideline_test import findings
from autotune.recommend.guidelines import of_table
from autotune.tables.verbs.import_ import measurements
from autotune.views.documents import json_text
from autotune.views.guidelines import ADVICE, concerning, findings_document, findings_lines


def guidelines(
    paths: tuple[Path, ...], as_json: bool, rate: float, comm_size: int | None, collective: str | None
) -> int:
    """Print the violated guidelines in a campaign, or in several tables together.

    Args:
        paths: The directory of one campaign, or logs and tables.
        as_json: Print a JSON document in place of text.
        rate: Probability that any violation is reported although no guideline is violated.
        comm_size: Number of ranks of rows that do not contain it.
        collective: The collective of rows that do not name one.

    Returns:
        1 if a guideline is violated, else 0.

    Raises:
        TableError: a file cannot be read, or is not a complete log or table.
        UserError: a directory contains no campaign, or a campaign is among several arguments.
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
        sys.stdout.write(json_text(findings_document(report, concerned)))
        return ExitCode.FINDING if report.violations else ExitCode.WELL
    lines = [*findings_lines(report)]
    if concerned:
        lines.append(f"{len(concerned)} of them with the exported settings")
    kinds = dict.fromkeys(violation.guideline.kind for violation in report.violations)
    lines += [f"  {kind}: {ADVICE[kind]}" for kind in kinds]
    sys.stdout.write("\n".join(lines) + "\n")
    return ExitCode.FINDING if report.violations else ExitCode.WELL
