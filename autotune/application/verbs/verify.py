"""``verify DIR --app -- COMMAND``: compare runs of an application with exported files and without them."""

import math
import mmap
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from autotune.application.reach import BOTHER
from autotune.application.scenario import predicted_share, worth_text
from autotune.application.verification import (
    Agreement,
    ApplicationDecision,
    ApplicationVerdict,
    agreement,
    difference,
    judged,
)
from autotune.application.worth import end_text
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.interruption import alarm, check, heeded
from autotune.campaign.turns import turns_of
from autotune.commands.companions import environment_of
from autotune.commands.verify import design_of, new_folder, print_result, write_result
from autotune.errors import CampaignError, ExitCode, UserError
from autotune.exporters.files import export_files
from autotune.exporters.launch_line import placed
from autotune.history.folder import check_ours, make_empty
from autotune.history.objectives import known_end
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.scenario.pattern import check_pattern, found
from autotune.stacks import dialect, implementations
from autotune.stacks.application import installation_of, is_launcher, run
from autotune.stacks.installation import Installation
from autotune.views.text import duration_text, ratio_text

RESULT = "application.json"  # Name of the file with the result, in the directory of a verification.
_SIDES = ("default", "files")  # Names of the runs without the exported files, and with them.
_LEAST_S = 1e-3  # Shorter runs count as if they took this many seconds, so that no time is zero.


def verify_application(
    directory: Path,
    command: Sequence[str],
    launches: int | None,
    figure: str | None,
    more_is_better: bool,
    as_json: bool,
) -> int:
    """Run an application with exported files and without them until the result is clear, and print it.

    Arguments and errors are those of ``compared_on``. The exit code is ``FINDING`` if the files make the
    application slower.
    """
    verdict, document, target = compared_on(directory, command, launches, figure, more_is_better)
    text, path = _text(document, verdict, figure is None), target / RESULT
    print_result(write_result("verify-app", document, path), path, text, as_json)
    return ExitCode.FINDING if verdict.said is ApplicationDecision.WORSE else ExitCode.WELL


@heeded()
def compared_on(
    directory: Path, command: Sequence[str], launches: int | None, figure: str | None, more_is_better: bool
) -> tuple[ApplicationVerdict, dict[str, Any], Path]:
    """Run an application with and without exported files, and return which runs are better.

    The result is the verdict, the same as JSON values, and the directory with the output of the runs.

    Args:
        directory: Directory of the campaign.
        command: The application's command line.
        launches: Number of runs, with and without the files together; None: as in the campaign's scenario.
        figure: Regular expression with one group that matches a figure in the application's output, by which
            runs are compared; None: they are compared by their wall time.
        more_is_better: Whether a larger figure is better.

    Raises:
        UserError: no application is named, the pattern is invalid or matches nothing in the output, or the
            campaign recommends nothing that could be applied.
        StackError: no MPI was found.
        CampaignError: the application failed.
        JournalError: other users could have written the settings that would be applied.
        Interrupted: the user ended the command.
    """
    if figure is not None:
        check_pattern(figure, "--figure")
    elif more_is_better:
        raise UserError("--more-is-better needs --figure PATTERN", "of run time less is better")
    campaign = read_campaign(directory)
    check_ours(campaign.path)
    design = design_of(campaign.about, launches)
    installation = installation_of(command)
    _check_same_mpi(campaign, installation)
    recommendation, target = campaign.recommended(), new_folder(directory, "application-")
    make_empty(target)
    env = in_force(recommendation, campaign.about.space.stack, target / "files", str(campaign.path))
    words = _placed(campaign, installation, command)
    runs: list[tuple[int, bool, float]] = []
    faults: tuple[list[int], list[int]] = ([], [])
    verdict: ApplicationVerdict | None = None
    unit = " s" if figure is None else ""
    for turns in turns_of(design, len(_SIDES)):
        for turn in turns:
            check()
            side, tuned = _SIDES[turn.side], bool(turn.side)
            out = target / f"{turn.number:04d}.{side}.out"
            started, variables = (words, env) if tuned else (command, {})
            with out.open("xb") as file:
                ran = run(started, installation, variables, check, alarm(), file)
            if ran.exit_code:
                side_text = "with the files" if tuned else "without them"
                failure = f"{command[0]} ended with exit code {ran.exit_code} {side_text}"
                raise CampaignError(failure, f"see {out}; is it right by itself?")
            value = max(ran.seconds, _LEAST_S) if figure is None else _figure(figure, out)
            runs.append((turn.block, tuned, value))
            faults[turn.side].append(ran.page_faults)
            sys.stderr.write(f"run {turn.number} of at most {design.launches}  {side:8}{value:.6g}{unit}\n")
        verdict = judged(runs, more_is_better, design)
        if verdict.said is not ApplicationDecision.INCONCLUSIVE:
            break
    if verdict is None:
        raise CampaignError("nothing was compared")
    document: dict[str, Any] = {
        "campaign": campaign.about.scenario.title,
        "stamp": str(campaign.about.bench.stamp),
        "command": list(command),
        "figure": figure or "",
        "more_is_better": more_is_better,
        "environment": env,
        **asdict(verdict),
        "low": known_end(verdict.low),
        "high": known_end(verdict.high),
        "runs": {name: [value for _, side, value in runs if side == i] for i, name in enumerate(_SIDES)},
        "saved": list(verdict.saved) if figure is None else None,
        "campaign_s": sum(o.duration_s for o in campaign.history),
        "predicted": worth_text(campaign.about, campaign.recommended()),
        **(_compared(campaign, verdict, faults) if figure is None else {}),
    }
    return verdict, document, target


def _check_same_mpi(campaign: CampaignDirectory, installation: Installation) -> None:
    """Raise an error unless the application runs with the MPI library that the campaign measured.

    The exported files contain names and numbers that only this library has.
    """
    measured = dict(campaign.about.bench.findings).get("MPI", "")
    family, version = campaign.about.space.stack, re.search(r"\d+(?:\.\d+)+\S*", measured)
    other_version = version is not None and version[0] != installation.version
    if family in implementations() and (family != installation.flavour or other_version):
        raise UserError(
            f"{installation.mpirun} is {installation.flavour} {installation.version}, "
            f"the campaign was measured on {measured or family}",
            "start the application by the launcher of the MPI that was tuned, or tune this one",
        )


def _compared(
    campaign: CampaignDirectory, verdict: ApplicationVerdict, faults: tuple[Sequence[int], Sequence[int]]
) -> dict[str, Any]:
    """Return the saved shares of a run's time as JSON values: predicted, measured, and their difference.

    Files can also cost or save page faults, whose time is not spent in MPI's calls. This time is subtracted
    from the measured saving before the comparison. ``faults`` has the numbers of page faults in the runs by
    default and in those with the files.
    """
    predicted = predicted_share(campaign.about, campaign.recommended())
    if predicted is None:
        return {}
    share, runs, ranks = predicted
    memory = memory_share(faults, page_fault_s() / (ranks * verdict.default))
    value, low, high = (end - memory for end in verdict.saved_share)
    measured = value, low, high
    return {
        "predicted_share": list(share),
        "measured_share": list(verdict.saved_share),
        "page_faults": [round(median(side)) for side in faults],
        "page_faults_share": memory,
        "predicted_minus_measured": list(difference(share, measured)),
        "agreement": str(agreement(share, measured)),
        "recorded_runs": runs,
    }


def memory_share(faults: tuple[Sequence[int], Sequence[int]], cost: float) -> float:
    """Return the share of a run's time that the files save by causing fewer page faults.

    The share is negative if there are more page faults with the files than by default; it is 0 if the ranges
    of both numbers overlap, or if it is too small to matter. ``faults`` has the numbers of page faults in the
    runs by default and in those with the files; ``cost`` is the share of a run that one page fault takes.
    """
    default, tuned = faults
    separate = max(tuned) < min(default) or max(default) < min(tuned)
    share = cost * (median(default) - median(tuned))
    return share if separate and abs(share) >= BOTHER else 0.0


def page_fault_s(pages: int = 16, times: int = 400) -> float:
    """Return the CPU seconds of one page fault, the median over ``times`` mappings of ``pages`` pages."""
    spent, zeros = [], bytes(pages)
    for _ in range(times):
        begin = time.process_time()
        with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE) as fresh:
            fresh.madvise(mmap.MADV_NOHUGEPAGE)
            fresh[:: mmap.PAGESIZE] = zeros
        spent.append((time.process_time() - begin) / pages)
    return median(spent)


def in_force(recommendation: Recommendation, stack: str, folder: Path, name: str) -> dict[str, str]:
    """Write a recommendation's files for an MPI stack and return the environment variables that apply them.

    Raises:
        UserError: the recommendation, which the message calls ``name``, changes nothing.
    """
    family = recommendation.provenance.family
    formats = ("env_sh",) if family == "openmpi" else dialect(stack).formats
    env: dict[str, str] = {}
    for path in export_files(recommendation, formats, folder):
        if path.suffix != ".conf" or "env_sh" not in formats:
            env |= environment_of(path, user_text(path)) or {}
    if not env and not placed(recommendation):
        raise UserError(f"{name} recommends the stack's own defaults", "there is nothing to apply")
    return env


def _placed(campaign: CampaignDirectory, installation: Installation, command: Sequence[str]) -> list[str]:
    """Return the command, with options for the recommended placement of ranks after Open MPI's launcher."""
    words = list(command)
    if installation.flavour == "openmpi" and is_launcher(words[0]):
        words[1:1] = [w for option in placed(campaign.recommended()) for w in option.split(" ", 1)]
    return words


def _figure(pattern: str, out: Path) -> float:
    """Return the figure at the last match of a pattern in the file ``out`` with an application's output."""
    last = None
    for match in found(pattern, user_text(out, lenient=True)):
        check()  # each search may go through the whole rest of the output
        last = match
    if last is None:
        raise UserError(f"nothing in {out} matches {pattern!r}", "try the pattern on that file")
    try:
        value = float(last)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UserError(f"{out}: the figure is {last!r}", "needed: a number above 0")
    return value


def _text(document: Mapping[str, Any], verdict: ApplicationVerdict, is_time: bool) -> str:
    unit = " s" if is_time else ""
    ratio = ratio_text(verdict.speedup, (verdict.low, verdict.high))
    stamp = f"  {document['stamp']}" if document["stamp"] else ""
    lines = [
        f"with the files the application is {verdict.said}: {ratio} on {2 * verdict.runs} runs{stamp}",
        f"  median {verdict.default:.4g}{unit} by default, {verdict.tuned:.4g}{unit} with the files",
    ]
    if is_time:
        saved, low, high = verdict.saved
        lines.append(f"  a run saves {saved:.3g} s ({end_text(low)} … {high:.3g})")
        lines.append(f"  {_payback(document['campaign_s'], verdict)}")
    if document["predicted"]:
        lines.append(f"  predicted: {document['predicted']}")
    if "predicted_share" in document:
        (share, *ends), (measured, *m_ends) = document["predicted_share"], document["measured_share"]
        agreement_text = f"these {document['agreement']}"
        if document["agreement"] == Agreement.INCONCLUSIVE:
            agreement_text = "agreement inconclusive: the intervals are too wide"
        elif document["agreement"] == Agreement.DISAGREE and document["recorded_runs"] < 2:
            agreement_text += ", but one run was recorded"
        text = (
            f"  that is {share:.1%} of a run ({_span(ends)}); measured are {measured:.1%} ({_span(m_ends)})"
        )
        if memory := document["page_faults_share"]:
            faults, faults_with_files = document["page_faults"]
            text += (
                f", of which {memory:.1%} are page faults, "
                f"{faults:,} by default and {faults_with_files:,} with the files: "
                "memory of its own, which no call shows and MALLOC_TRIM_THRESHOLD_ keeps; beside them"
            )
        lines.append(f"{text}: {agreement_text}")
    return "\n".join(lines) + "\n"


def _payback(campaign_s: float, verdict: ApplicationVerdict) -> str:
    cost_text = f"the campaign took {duration_text(campaign_s)} of launches"
    if verdict.said is ApplicationDecision.WORSE:
        return f"{cost_text}: nothing pays it back"
    runs = [math.ceil(campaign_s / end) if end > 0 else math.inf for end in verdict.saved]
    if verdict.said is not ApplicationDecision.BETTER:
        earliest = f", {runs[2]} runs at the earliest" if math.isfinite(runs[2]) else ""
        return f"{cost_text}: whether it is paid back is not known{earliest}"
    return f"{cost_text}: paid back after {runs[0]} runs ({runs[2]} … {runs[1]})"


def _span(ends: Sequence[float]) -> str:
    """Return an interval in per cent; an end is −∞ if there were too few runs to bound it."""
    return " … ".join(f"{100 * end:.1f}" if math.isfinite(end) else "−∞" for end in ends)
