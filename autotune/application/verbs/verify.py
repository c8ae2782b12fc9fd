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
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.interruption import alarm, check, heeded
from autotune.campaign.turns import turns_of
from autotune.commands.companions import environment_of
from autotune.commands.verify import design_of, new_folder, write_result
from autotune.errors import CampaignError, ExitCode, UserError
from autotune.exporters.files import export_files
from autotune.exporters.launch_line import placed
from autotune.history.folder import check_ours, make_empty
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.scenario.pattern import check_pattern, found
from autotune.stacks import dialect, implementations
from autotune.stacks.application import installation_of, is_launcher, run
from autotune.stacks.installation import Installation
from autotune.views.text import duration_text, ratio_text

RESULT = "application.json"  # Name of the file with the result, in the directory of a verification.
_SIDES = ("default", "files")  # Names of the runs without the exported files, and with them.
_LEAST_S = 1e-3  # Shorter runs count as this many seconds, so that no time is zero.


def verify_application(
    directory: Path,
    command: Sequence[str],
    launches: int | None,
    figure: str | None,
    more_is_better: bool,
    as_json: bool,
) -> int:
    """Run an application with exported files and without them until the result is clear, and print it.

    Args:
        directory: Directory of the campaign.
        command: The application's command line.
        launches: Number of runs, with and without the files together; None: as in the campaign's scenario.
        figure: Regular expression with one group that matches a figure in the application's output, by which
            runs are compared; None: they are compared by their wall time.
        more_is_better: Whether a larger figure is better.
        as_json: Whether to print JSON.

    Returns:
        The exit code: ``FINDING`` if the files make the application slower, else ``WELL``.

    Raises:
        AutotuneError: as ``compared_on`` raises it.
    """
    verdict, document, target = compared_on(directory, command, launches, figure, more_is_better)
    write_result(document, target / RESULT, _text(document, verdict, figure is None), as_json)
    return ExitCode.FINDING if verdict.said is ApplicationDecision.WORSE else ExitCode.WELL


@heeded()
def compared_on(
    directory: Path, command: Sequence[str], launches: int | None, figure: str | None, more_is_better: bool
) -> tuple[ApplicationVerdict, dict[str, Any], Path]:
    """Return whether an application runs better with exported files, as a verdict and as JSON values.

    The third result is the directory with the output of the application's runs.

    The arguments are those of ``verify_application``.

    Raises:
        UserError: no application is named, the pattern is invalid or matches nothing in the output, or the
            campaign recommends nothing that could be applied.
        StackError: no MPI was found.
        CampaignError: the application failed.
        JournalError: other users could have written the settings that would be applied.
        Interrupted: the user ended the command.
    """
    _check_figure(figure, more_is_better)
    campaign = read_campaign(directory)
    check_ours(campaign.path)
    design = design_of(campaign.about, launches)
    installation = installation_of(command)
    _check_same_mpi(campaign, installation)
    target = new_folder(directory, "application-")
    make_empty(target)
    env = in_force(campaign.recommended(), campaign.about.space.stack, target / "files", str(campaign.path))
    words = _placed(campaign, installation, command)
    runs: list[tuple[int, bool, float]] = []
    faults: tuple[list[int], list[int]] = ([], [])
    verdict: ApplicationVerdict | None = None
    for turns in turns_of(design, len(_SIDES)):
        for turn in turns:
            check()
            side, tuned = _SIDES[turn.side], bool(turn.side)
            out = target / f"{turn.number:04d}.{side}.out"
            with out.open("xb") as file:
                ran = run(
                    words if tuned else command,
                    installation,
                    env if tuned else {},
                    check,
                    alarm(),
                    file,
                )
            if ran.exit_code:
                side_text = "with the files" if tuned else "without them"
                raise CampaignError(
                    f"{command[0]} ended with exit code {ran.exit_code} {side_text}",
                    f"see {out}; is it right by itself?",
                )
            value = max(ran.seconds, _LEAST_S) if figure is None else _figure(figure, out)
            runs.append((turn.block, tuned, value))
            faults[turn.side].append(ran.page_faults)
            unit = " s" if figure is None else ""
            sys.stderr.write(f"run {turn.number} of at most {design.launches}  {side:8}{value:.6g}{unit}\n")
        verdict = judged(runs, more_is_better, design)
        if verdict.said is not ApplicationDecision.INCONCLUSIVE:
            break
    if verdict is None:
        raise CampaignError("nothing was compared")
    spent_s = sum(o.duration_s for o in campaign.history)
    document: dict[str, Any] = {
        "campaign": campaign.about.scenario.title,
        "stamp": str(campaign.about.bench.stamp),
        "command": list(command),
        "figure": figure or "",
        "more_is_better": more_is_better,
        "environment": env,
        "runs": {
            name: [value for _, side, value in runs if side == tuned] for tuned, name in enumerate(_SIDES)
        },
        **asdict(verdict),
        "saved": list(verdict.saved) if figure is None else None,
        "campaign_s": spent_s,
        "predicted": worth_text(campaign.about, campaign.recommended()),
        **(_compared(campaign, verdict, faults) if figure is None else {}),
    }
    return verdict, document, target


def _check_same_mpi(campaign: CampaignDirectory, installation: Installation) -> None:
    """Raise an error unless the application runs with the MPI library that the campaign measured.

    The exported files contain names and numbers that only this library has.

    Raises:
        UserError: the application runs with another MPI library, or with another version.
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

    Each share has its interval. The time of page faults that the files cost or save is not spent in MPI's
    calls, so it is subtracted from the measured saving before the comparison. The document is empty if there
    is no prediction.

    Args:
        campaign: The campaign.
        verdict: The comparison of the runs.
        faults: Number of page faults of each run by default, and of each run with the files.
    """
    predicted = predicted_share(campaign.about, campaign.recommended())
    if predicted is None:
        return {}
    share, runs, ranks = predicted
    memory = memory_share(faults, page_fault_s() / (ranks * verdict.default))
    measured, low, high = (end - memory for end in verdict.saved_share)
    return {
        "predicted_share": list(share),
        "measured_share": list(verdict.saved_share),
        "page_faults": [round(median(side)) for side in faults],
        "page_faults_share": memory,
        "predicted_minus_measured": list(difference(share, (measured, low, high))),
        "agreement": str(agreement(share, (measured, low, high))),
        "recorded_runs": runs,
    }


def memory_share(faults: tuple[Sequence[int], Sequence[int]], cost: float) -> float:
    """Return the share of a run that the files save by fewer page faults.

    Args:
        faults: Number of page faults of each run by default, and of each run with the files.
        cost: Share of a run that a page fault costs.

    Returns:
        The share, negative if there are more page faults with the files; 0 if the ranges of both numbers
        overlap, or if the share is too small to matter.
    """
    default, tuned = faults
    separate = max(tuned) < min(default) or max(default) < min(tuned)
    share = cost * (median(default) - median(tuned))
    return share if separate and abs(share) >= BOTHER else 0.0


def page_fault_s(pages: int = 16, times: int = 400) -> float:
    """Return the CPU seconds of one page fault, measured by mapping, touching and unmapping memory.

    Args:
        pages: Number of pages that are mapped at a time; 16 pages are 64 KiB.
        times: Number of repetitions; the result is their median.
    """
    spent, zeros = [], bytes(pages)
    for _ in range(times):
        begin = time.process_time()
        with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE) as fresh:
            fresh.madvise(mmap.MADV_NOHUGEPAGE)
            fresh[:: mmap.PAGESIZE] = zeros
        spent.append((time.process_time() - begin) / pages)
    return median(spent)


def in_force(recommendation: Recommendation, stack: str, folder: Path, name: str) -> dict[str, str]:
    """Write a recommendation's files and return the environment variables that apply them.

    Args:
        recommendation: The recommendation.
        stack: Name of the MPI stack.
        folder: Directory for the files.
        name: Name of the recommendation in an error's message.

    Raises:
        UserError: the recommendation changes nothing.
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
    """Return the command, with options for the recommended placement of ranks after Open MPI's launcher.

    A command that begins with another word is returned unchanged.
    """
    words = list(command)
    if installation.flavour == "openmpi" and is_launcher(words[0]):
        words[1:1] = [w for option in placed(campaign.recommended()) for w in option.split(" ", 1)]
    return words


def _check_figure(figure: str | None, more_is_better: bool) -> None:
    if figure is not None:
        check_pattern(figure, "--figure")
    elif more_is_better:
        raise UserError("--more-is-better needs --figure PATTERN", "of run time less is better")


def _figure(pattern: str, out: Path) -> float:
    """Return the figure at the last match of a pattern in the file ``out`` with an application's output.

    Raises:
        UserError: nothing matches, or the figure is no number above 0.
    """
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
    """Return the result in words, with the saving and the number of runs that pay back the campaign."""
    runs = 2 * verdict.runs
    unit = " s" if is_time else ""
    ratio = ratio_text(verdict.speedup, (verdict.low, verdict.high))
    stamp = f"  {document['stamp']}" if document["stamp"] else ""
    lines = [
        f"with the files the application is {verdict.said}: {ratio} on {runs} runs{stamp}",
        f"  median {verdict.default:.4g}{unit} by default, {verdict.tuned:.4g}{unit} with the files",
    ]
    if is_time:
        saved, low, high = verdict.saved
        lowest = "−∞" if low == -math.inf else f"{low:.3g}"
        lines.append(f"  a run saves {saved:.3g} s ({lowest} … {high:.3g})")
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
        page_fault_text = ""
        if memory := document["page_faults_share"]:
            faults, faults_with_files = document["page_faults"]
            page_fault_text = (
                f", of which {memory:.1%} are page faults, "
                f"{faults:,} by default and {faults_with_files:,} with the files: "
                "memory of its own, which no call shows and MALLOC_TRIM_THRESHOLD_ keeps; beside them"
            )
        lines.append(
            f"  that is {share:.1%} of a run ({_span(ends)}); measured are "
            f"{measured:.1%} ({_span(m_ends)}){page_fault_text}: {agreement_text}"
        )
    return "\n".join(lines) + "\n"


def _payback(campaign_s: float, verdict: ApplicationVerdict) -> str:
    """Return a text on the number of runs that save as much time as the campaign took, if it is known."""
    cost_text = f"the campaign took {duration_text(campaign_s)} of launches"
    if verdict.said is ApplicationDecision.WORSE:
        return f"{cost_text}: nothing pays it back"
    runs = [math.ceil(campaign_s / end) if end > 0 else math.inf for end in verdict.saved]
    if verdict.said is not ApplicationDecision.BETTER:
        return f"{cost_text}: whether it is paid back is not known" + (
            f", {runs[2]} runs at the earliest" if math.isfinite(runs[2]) else ""
        )
    return f"{cost_text}: paid back after {runs[0]} runs ({runs[2]} … {runs[1]})"


def _span(ends: Sequence[float]) -> str:
    """Return an interval in per cent; an end is −∞ if there were too few runs to bound it."""
    return " … ".join(f"{100 * end:.1f}" if math.isfinite(end) else "−∞" for end in ends)
