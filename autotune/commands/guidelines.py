"""``guidelines DIR|TABLE…``: where measurements contradict each other, before anything is exported."""

import sys
from pathlib import Path

from autotune.campaign.description import Description
from autotune.campaign.directory import read_campaign
from autotune.commands.import_ import measurements
from autotune.errors import ExitCode, UserError
from autotune.history.trial import History
from autotune.recommend.guideline_test import Findings, findings
from autotune.recommend.guidelines import of_campaign, of_table
from autotune.recommend.recommendation import Recommendation
from autotune.views.documents import json_text
from autotune.views.guidelines import ADVICE, concerning, findings_document, findings_lines


def guidelines(
    paths: tuple[Path, ...], as_json: bool, rate: float, comm_size: int | None, collective: str | None
) -> int:
    """Print the violations of a campaign, or of tables together; 1 where there are any.

    Raises:
        TableError: a file that cannot be read, or that is not a complete log or table.
        UserError: a directory without a campaign, or a campaign among several arguments.
        JournalError: the campaign's journal is damaged or of a newer format.
    """
    concerned = None
    if any(path.is_dir() for path in paths):
        if len(paths) > 1:
            raise UserError("a campaign stands for itself", "name one directory, or only logs and tables")
        campaign = read_campaign(paths[0])
        chosen = campaign.conclude().recommendation
        found = campaign_findings(campaign.about, campaign.history, chosen, rate)
        concerned = concerning(found, campaign.about.space, chosen)
    else:
        found = findings(of_table(measurements(paths, comm_size, collective)), rate)
    if as_json:
        sys.stdout.write(json_text(findings_document(found, concerned)))
        return ExitCode.FINDING if found.violations else ExitCode.WELL
    lines = [*findings_lines(found)]
    if concerned:
        lines.append(f"{len(concerned)} of them with the exported settings")
    kinds = dict.fromkeys(one.guideline.kind for one in found.violations)
    lines += [f"  {kind}: {ADVICE[kind]}" for kind in kinds]
    sys.stdout.write("\n".join(lines) + "\n")
    return ExitCode.FINDING if found.violations else ExitCode.WELL


def campaign_findings(
    about: Description, history: History, chosen: Recommendation | None, rate: float = 0.05
) -> Findings:
    """Violations in a campaign's launches, by the stack itself and by the exported settings."""
    return findings(of_campaign(about.space, history, chosen), rate, about.scenario.verify.max_loss)
