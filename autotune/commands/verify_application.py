"""``verify DIR --app -- COMMAND``: the exported files on the application itself, against none."""

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

from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.interruption import alarm, check, heeded
from autotune.commands.application import predicted_share, worth_text
from autotune.commands.verify import design_of, folder_now, in_turn, keep
from autotune.errors import CampaignError, ExitCode, UserError
from autotune.exporters.files import export_files
from autotune.exporters.launch_line import placed
from autotune.history.folder import check_ours, make_empty
from autotune.lint import environment_of
from autotune.recommend.reach import BOTHER
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.scenario.pattern import check_pattern, found
from autotune.stacks import dialect, implementations
from autotune.stacks.application import installation_of, is_launcher, run
from autotune.stacks.installation import Installation
from autotune.verification.application import (
    Agreement,
    ApplicationDecision,
    ApplicationVerdict,
    agreement,
    difference,
    judged,
)
from autotune.views.text import duration_text, ratio_text

RESULT = "application.json"  # Result in its directory.
_SIDES = ("default", "files")  # Without the files, and with them.
_LEAST_S = 1e-3  # A run that is over sooner has not begun.


def verify_application(
    directory: Path,
    command: Sequence[str],
    launches: int | None,
    figure: str | None,
    more_is_better: bool,
    as_json: bool,
) -> int:
    """Run both sides in turn until enough is known; 1 where the files make it worse.

    Raises as ``compared_on``.
    """
    verdict, document, target = compared_on(directory, command, launches, figure, more_is_better)
    keep(document, target / RESULT, _text(document, verdict, figure is None), as_json)
    return ExitCode.FINDING if verdict.said is ApplicationDecision.WORSE else ExitCode.WELL


@heeded()
def compared_on(
    directory: Path, command: Sequence[str], launches: int | None, figure: str | None, more_is_better: bool
) -> tuple[ApplicationVerdict, dict[str, Any], Path]:
    """The verdict on an application, its document, and the directory of its runs.

    Raises:
        UserError: no application, a pattern that is none or that its output lacks, or nothing to verify.
        StackError: no MPI.
        CampaignError: the application failed.
        JournalError: others could have written the settings that would be applied.
        Interrupted: the user ended it.
    """
    _check_figure(figure, more_is_better)
    campaign = read_campaign(directory)
    check_ours(campaign.path)
    design = design_of(campaign.about, launches)
    installation = installation_of(command)
    _check_same_mpi(campaign, installation)
    target = folder_now(directory, "application-")
    make_empty(target)
    env = in_force(campaign.recommended(), campaign.about.space.stack, target / "files", str(campaign.path))
    words = _placed(campaign, installation, command)
    runs: list[tuple[int, bool, float]] = []
    faults: tuple[list[int], list[int]] = ([], [])
    verdict: ApplicationVerdict | None = None
    for places in in_turn(design):
        for place in places:
            check()
            side = _SIDES[place.tuned]
            out = target / f"{place.number:04d}.{side}.out"
            with out.open("xb") as file:
                ran = run(
                    words if place.tuned else command,
                    installation,
                    env if place.tuned else {},
                    check,
                    alarm(),
                    file,
                )
            if ran.exit_code:
                which = "with the files" if place.tuned else "without them"
                raise CampaignError(
                    f"{command[0]} ended with exit code {ran.exit_code} {which}",
                    f"see {out}; is it right by itself?",
                )
            value = max(ran.seconds, _LEAST_S) if figure is None else _figure(figure, out)
            runs.append((place.block, place.tuned, value))
            faults[place.tuned].append(ran.page_faults)
            unit = " s" if figure is None else ""
            sys.stderr.write(f"run {place.number} of at most {design.launches}  {side:8}{value:.6g}{unit}\n")
        verdict = judged(runs, more_is_better, design)
        if verdict.said is not ApplicationDecision.INCONCLUSIVE:
            break
    if verdict is None:
        raise CampaignError("nothing was compared")
    spent_s = sum(o.duration_s for o in campaign.history)
    document: dict[str, Any] = {
        "campaign": campaign.about.scenario.title,
        "stamp": str(campaign.about.site.stamp),
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


def _check_same_mpi(campaign: CampaignDirectory, here: Installation) -> None:
    """Refuse another MPI than the campaign's: its files hold names and ids of that one."""
    measured = dict(campaign.about.site.findings).get("MPI", "")
    family, version = campaign.about.space.stack, re.search(r"\d+(?:\.\d+)+\S*", measured)
    other = version is not None and version[0] != here.version
    if family in implementations() and (family != here.flavour or other):
        raise UserError(
            f"{here.mpirun} is {here.flavour} {here.version}, "
            f"the campaign was measured on {measured or family}",
            "start the application by the launcher of the MPI that was tuned, or tune this one",
        )


def _compared(
    campaign: CampaignDirectory, verdict: ApplicationVerdict, faults: tuple[Sequence[int], Sequence[int]]
) -> dict[str, Any]:
    """Shares of a run's time, predicted, measured, and their difference, each with its interval.

    Page faults that the files cost or save are outside of MPI's calls, and are taken off what was measured.
    """
    predicted = predicted_share(campaign.about, campaign.recommended())
    if predicted is None:
        return {}
    share, runs, ranks = predicted
    memory = memory_share(faults, page_fault_s() / (ranks * verdict.default))
    one, low, high = (end - memory for end in verdict.saved_share)
    return {
        "predicted_share": list(share),
        "measured_share": list(verdict.saved_share),
        "page_faults": [round(median(side)) for side in faults],
        "page_faults_share": memory,
        "predicted_minus_measured": list(difference(share, (one, low, high))),
        "agreement": str(agreement(share, (one, low, high))),
        "recorded_runs": runs,
    }


def memory_share(faults: tuple[Sequence[int], Sequence[int]], cost: float) -> float:
    """Share of a run that page faults fewer than by default save, each of which costs such a share.

    0 where the runs of both sides overlap in their faults, or where nobody would see it.
    """
    default, tuned = faults
    apart = max(tuned) < min(default) or max(default) < min(tuned)
    share = cost * (median(default) - median(tuned))
    return share if apart and abs(share) >= BOTHER else 0.0


def page_fault_s(pages: int = 16, times: int = 400) -> float:
    """Seconds of CPU for each page of memory that is taken, touched and given back, 64 KiB at a time."""
    spent, zeros = [], bytes(pages)
    for _ in range(times):
        begin = time.process_time()
        with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE) as fresh:
            fresh.madvise(mmap.MADV_NOHUGEPAGE)
            fresh[:: mmap.PAGESIZE] = zeros
        spent.append((time.process_time() - begin) / pages)
    return median(spent)


def in_force(recommendation: Recommendation, stack: str, folder: Path, name: str) -> dict[str, str]:
    """Write a recommendation's files and return the variables that apply them.

    Raises:
        UserError: the recommendation, called ``name``, changes nothing.
    """
    family = recommendation.provenance.family
    formats = ("env_sh",) if family == "openmpi" else dialect(stack).formats
    env: dict[str, str] = {}
    for path in export_files(recommendation, formats, folder):
        env |= {} if path.suffix == ".conf" and "env_sh" in formats else environment_of(path, user_text(path))
    if not env and not placed(recommendation):
        raise UserError(f"{name} recommends the stack's own defaults", "there is nothing to apply")
    return env


def _placed(campaign: CampaignDirectory, installation: Installation, command: Sequence[str]) -> list[str]:
    """The command, with the placement that is recommended, where it begins with the launcher of an MPI."""
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
    last = None
    for said in found(pattern, user_text(out, lenient=True)):
        check()  # each match may look at all of the rest
        last = said
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
    """The finding in words, its saving, and when the campaign is paid back."""
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
        least = "−∞" if low == -math.inf else f"{low:.3g}"
        lines.append(f"  a run saves {saved:.3g} s ({least} … {high:.3g})")
        if verdict.said is ApplicationDecision.BETTER:
            after = document["campaign_s"] / saved
            lines.append(
                f"  the campaign took {duration_text(document['campaign_s'])} of launches: paid back after "
                f"{math.ceil(after)} runs"
            )
        else:
            lines.append("  nothing pays the campaign back")
    if document["predicted"]:
        lines.append(f"  predicted: {document['predicted']}")
    if "predicted_share" in document:
        (share, *ends), (measured, *m_ends) = document["predicted_share"], document["measured_share"]
        said = f"these {document['agreement']}"
        if document["agreement"] == Agreement.INCONCLUSIVE:
            said = "agreement inconclusive: the intervals are too wide"
        elif document["agreement"] == Agreement.DISAGREE and document["recorded_runs"] < 2:
            said += ", but one run was recorded"
        beside = ""
        if memory := document["page_faults_share"]:
            faults, now = document["page_faults"]
            beside = (
                f", of which {memory:.1%} are page faults, {faults:,} by default and {now:,} with the files: "
                "memory of its own, which no call shows and MALLOC_TRIM_THRESHOLD_ keeps; beside them"
            )
        lines.append(
            f"  that is {share:.1%} of a run ({_span(ends)}); measured are "
            f"{measured:.1%} ({_span(m_ends)}){beside}: {said}"
        )
    return "\n".join(lines) + "\n"


def _span(ends: Sequence[float]) -> str:
    """Per cent; few runs leave an end open."""
    return " … ".join(f"{100 * end:.1f}" if math.isfinite(end) else "−∞" for end in ends)
