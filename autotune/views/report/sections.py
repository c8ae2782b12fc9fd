"""Define the input of a report, and make its sections on settings and progress (step 12 of the data flow)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from autotune.campaign.noise import Remark
from autotune.history.objectives import Envelope, Objective, Score, job_setting
from autotune.history.trial import History, Subject
from autotune.recommend.coverage import Covered
from autotune.recommend.front import Candidate, against, gains, ranked
from autotune.recommend.leads import leads, moments, random_best
from autotune.recommend.recommendation import Gain, Line, Recommendation
from autotune.recommend.summary import Step, ratio_to
from autotune.recommend.winners import winners
from autotune.screening import Effects, ScreeningResult
from autotune.space import Point, Space
from autotune.verification.one_round import VerificationRound, last_round
from autotune.views.health import Health
from autotune.views.launch_line import changes_of
from autotune.views.report import axes, progress_plots, setting_plots
from autotune.views.report.setting_plots import PlottedSetting
from autotune.views.rivals import OTHERS, chosen, rivals, why_not
from autotune.views.text import (
    calls_text,
    changed_text,
    figure_text,
    interval_text,
    ratio_text,
    size_text,
    verdict,
)


@dataclass(frozen=True, slots=True)
class ReportInput:
    """Holds the results and facts that a report shows; parts that a campaign does not have yet are empty."""

    title: str  # Name of the campaign.
    space: Space  # The parameters that are searched, and those that the machine does not have.
    objectives: Sequence[Objective]
    history: History
    recommendation: Recommendation | None = None  # None: no setting was measured completely yet.
    baseline: Envelope = field(default_factory=dict)  # The times with the MPI's own defaults.
    effects: Sequence[Effects] = ()  # The screening's analyses, one for each objective.
    screening: ScreeningResult | None = None  # The screening's decisions on its factors.
    rounds: Sequence[VerificationRound] = ()
    """The rounds of the verification; the last one verified the recommendation."""
    findings: Sequence[tuple[str, str]] = ()  # Findings on the machine, as (name, value).
    exports: Sequence[str] = ()  # Paths of the exported files.
    untried: Sequence[str] = ()  # Paths of exported files in formats that were never tried with a library.
    ending: Sequence[Line] = ()  # How the campaign stands, as lines (label, text, command).
    health: Sequence[Health] = ()  # Questions about the health of the campaign, with answers.
    use: str = ""  # The command line that applies the exported files; empty if there is no file to apply.
    use_notes: Sequence[str] = ()  # What to know about that line, such as what to replace in it.
    harmless: str = ""
    """A text on the best setting that slows down no other call, if it differs from the recommendation; empty
    if no such setting was verified."""
    idle: bool = False  # Whether the exported files set nothing.
    stamp: str = ""  # Mark such as ``SIMULATED (…)`` if no real MPI ran; otherwise empty.
    state: str = "complete"  # State of the campaign; unless it is ``complete``, the page begins with it.
    discovery: Mapping[str, Any] | None = None  # Results of a discovery, see ``views.discovery``.
    remarks: Sequence[Remark] = ()  # Remarks on the noise of the measurements.
    worth: str = ""
    """A sentence on the time that the campaign saves its application; empty if it has no application."""
    guidelines: Mapping[str, Any] | None = None
    """Performance guidelines that are violated, see ``views.guidelines``."""
    asked: Sequence[Covered] = ()  # Says for each call of a job whether the measurements cover it.
    ran: Mapping[str, Any] | None = None  # The ``run.json`` of a job that tuned itself.
    protocols: Sequence[tuple[str, str]] = ()
    """(message sizes, protocol): which protocols UCX reports for the recommended setting, by message size."""
    before: Sequence[tuple[str, str]] = ()
    """Like ``protocols``, for the defaults; empty if UCX was not used."""
    nodes: int = 1  # Number of nodes of a launch.
    running: bool = False  # Whether the page reloads itself every half a minute.
    whole: Space | None = None
    """All parameters that a launch may have set, including those of a discovery; None means ``space``."""

    @property
    def unset(self) -> Point:
        """Return the MPI's own values of all parameters that a launch may have set."""
        return (self.whole or self.space).unset


_DRAWN = 12  # Largest number of kinds of calls that are drawn; the file lists those with most time first.


def run_section(ran: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section on a run that tuned itself, given its ``run.json``."""
    settled = [cell for cell in ran["cells"] if cell["settled_at"] is not None][:_DRAWN]
    names = [
        f"{cell['collective']} {size_text(cell['lowest_bytes'])}, {cell['ranks']} ranks: {cell['algorithm']}"
        for cell in settled
    ]
    ratios = [cell["speedup"] for cell in settled]
    ends = [_ends(cell) for cell in settled]
    figure = axes.empty(120 + 28 * len(settled))
    colours = [axes.GREY if cell["algorithm"] == "default" else axes.TEAL for cell in settled]
    up = [axes.bar(high - ratio) for ratio, (_, high) in zip(ratios, ends, strict=True)]
    down = [axes.bar(ratio - low) for ratio, (low, _) in zip(ratios, ends, strict=True)]
    bars = axes.bars(up, axes.GREY, down)
    figure.add_scatter(x=ratios, y=names, error_x=bars, **axes.dots(size=10, color=colours))
    figure.add_vline(x=1, line={"color": axes.GREY, "width": 1, "dash": "dot"})
    figure.update_xaxes(title_text="default / decided algorithm, time of a call ↑")
    figure.update_yaxes(autorange="reversed")
    return {
        "sentence": f"{' '.join(ran['command'])}: calls took {ran['saved_s']:.2g} s less than by default "
        f"in a run of {ran['run_s']:.3g} s, spent {ran['spent_s']:.2g} s trying; "
        f"{len(ran['cells']) - len(settled)} other kinds of calls.",
        "figure": axes.as_json(figure, "run") if settled else "",
        "rows": [
            (name, ratio_text(ratio), interval_text(end) if ratio != 1 else "", f"{cell['saved_s']:.2g}")
            for name, ratio, end, cell in zip(names, ratios, ends, settled, strict=True)
        ],
    }


def _ends(cell: Mapping[str, Any]) -> tuple[float, float]:
    low, high = cell["speedup_95"]
    if low is None and high is None:
        return 1.0, 1.0
    return low or 0.0, math.inf if high is None else high


_SETTINGS = 150  # Largest number of the best settings that are drawn, and of the settings that failed.
_ROWS, _SLICES = 12, 6  # Largest number of parameters in the figure of lines, and of slices per objective.


def winner_maps(inputs: ReportInput, measured: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Return for each collective a map of the fastest choice by ranks and message size, with its entries."""
    places = winners(inputs.objectives, inputs.space, inputs.history, measured, inputs.recommendation)
    groups = [list(group) for _, group in groupby(places, key=lambda place: place.slot[0])]
    return [
        {"title": calls_text(group[0].slot[0], 0), "figure": setting_plots.winners(group), "places": group}
        for group in groups
    ]


def heat_map(
    inputs: ReportInput, measured: Sequence[Candidate], baseline: Sequence[Score] | None
) -> list[dict[str, Any]]:
    """Return a table of speed-ups for each collective and number of ranks: settings × message sizes.

    The recommended setting is the first row; each other row says why its setting is not chosen. The list is
    empty without a recommendation, or if nothing was measured by default.
    """
    recommendation, objectives = inputs.recommendation, inputs.objectives
    if recommendation is None or not inputs.baseline:
        return []
    space = inputs.whole or inputs.space
    recommended = chosen(space, measured, recommendation, baseline)
    fresh = {c.point: last_round(inputs.rounds, c.point) for c in measured}
    listed = rivals(objectives, measured, recommendation, recommended)
    listed += [c for c in measured if fresh[c.point]]
    listed += ranked(objectives, measured)
    others = [c for c in {c.point: c for c in listed}.values() if c.point != recommendation.point]
    rows = []
    for candidate in [*([recommended] if recommended else []), *others[:OTHERS]]:
        compared = replace(candidate, curve=candidate.curve or inputs.baseline)
        slot_gains = gains(against(space, compared, inputs.baseline), inputs.baseline)
        last = fresh.get(candidate.point)
        why = why_not(objectives, candidate, recommended, last.against if last else "")
        changes = changed_text(candidate.point, space.unset)
        text = "the stack's own defaults" if changes == "nothing" else changes
        rows.append((text, "" if candidate is recommended else why, {gain.slot: gain for gain in slot_gains}))
    return [
        {"title": calls_text(*calls), "slots": list(group), "rows": rows}
        for calls, group in groupby(sorted(inputs.baseline), key=lambda slot: slot[:2])
    ]


def heat(gain: Gain) -> str:
    """Return the background of a speed-up in the heat map; a text on it stays legible."""
    colour, times = (axes.TEAL, gain.ratio) if gain.ratio > 1 else (axes.RED, 1 / gain.ratio)
    return axes.faded(colour, 0.0 if verdict(gain) == "even" else setting_plots.strength(times) / 2)


def settings(inputs: ReportInput, measured: Sequence[Candidate]) -> dict[str, Any] | None:
    """Return figures with a line through each setting, and figures of the scores over single parameters.

    The result is None if nothing was measured or no parameter varies.
    """
    failures = _failures(inputs, measured)
    varied = _varied(inputs.space, [*(c.point for c in measured), *(s.point for s in failures)])
    if not varied or not measured:
        return None
    lines, slices = [], []
    for i, objective in enumerate(inputs.objectives):
        best = sorted(measured, key=lambda c: c.scores[i].value, reverse=objective.maximise)[:_SETTINGS]
        plotted = [PlottedSetting(c.point, c.scores[i].value, _score_text(objective, c, i)) for c in best]
        plotted += failures[:_SETTINGS]
        default = inputs.space.untouched
        lines.append(setting_plots.parallel(objective, inputs.space, varied[:_ROWS], plotted, default))
        slices += [
            setting_plots.one_slice(objective, inputs.space, name, plotted, default.get(name))
            for name in varied[:_SLICES]
        ]
    n, failed = len(measured), len(failures)
    left_out = max(0, n - _SETTINGS) + max(0, failed - _SETTINGS)
    return {"lines": lines, "slices": slices, "n": n, "failed": failed, "left_out": left_out}


def progress(
    inputs: ReportInput, launch_steps: Sequence[Step], measured: Sequence[Candidate]
) -> dict[str, Any] | None:
    """Return the section on the campaign's progress: all launches, the best so far, drift, and waiting times.

    The result is None before the first launch.
    """
    if not launch_steps:
        return None
    best, rows = [], []
    for i, objective in enumerate(inputs.objectives):
        leaders = leads(inputs.objectives, i, inputs.space, launch_steps)
        drawn_at = _first_launches(inputs, measured)
        blind = random_best([c.scores[i].value for c in measured], objective.maximise)[: len(drawn_at)]
        best.append(progress_plots.Best(leaders, blind, drawn_at))
        rows += [(objective, lead) for lead in leaders]
    times = moments([step.observation for step in launch_steps])
    spread = progress_plots.drift(launch_steps)
    return {
        "figure": progress_plots.progress(inputs.objectives, launch_steps, best),
        "failed": failed_launches(launch_steps, inputs.unset),
        "leads": rows,
        "timeline": progress_plots.timeline(inputs.objectives, times, launch_steps),
        "drift": ", ".join(
            f"{objective.name} {ratio_text(ratio)}"
            for objective, ratio in zip(inputs.objectives, spread, strict=False)
        ),
    }


def covered(inputs: ReportInput) -> list[tuple[str, int, str]]:
    """Return (collective, ranks, message sizes) of the calls for which the MPI's defaults were measured."""
    sizes: dict[tuple[str, int], list[int]] = {}
    for collective, ranks, size in sorted(inputs.baseline):
        sizes.setdefault((collective, ranks), []).append(size)
    return [
        (calls_text(collective, 0), ranks, ", ".join(map(size_text, listed)))
        for (collective, ranks), listed in sizes.items()
    ]


def launches(inputs: ReportInput, launch_steps: Sequence[Step]) -> dict[str, Any] | None:
    """Return a table with a row for every launch: time, phase, setting, and its speed-ups or how it failed.

    The result is None before the first launch.
    """
    if not launch_steps:
        return None
    rows = []
    unset = inputs.unset
    times = moments([step.observation for step in launch_steps])
    for step, moment in zip(launch_steps, times, strict=True):
        o = step.observation
        ratios = [str(o.status)] + [""] * (len(inputs.objectives) - 1)
        if step.scores is not None and step.reference is not None:
            triples = zip(inputs.objectives, step.scores, step.reference, strict=True)
            ratios = [ratio_text(ratio_to(*triple)) for triple in triples]
        changes = ", ".join(changes_of(o.trial, unset))
        rows.append([o.trial.number, o.trial.phase.value, f"{moment.from_s / 60:.1f}", *ratios, changes])
    names = ["launch", "phase", "minute", *(objective.name for objective in inputs.objectives), "set"]
    return {"names": names, "rows": rows}


def failed_launches(launch_steps: Sequence[Step], unset: Point) -> list[tuple[int, str, str, str]]:
    """Return (trial, status, reason, changes) of every failed launch; ``unset`` are the MPI's own values."""
    return [
        (o.trial.number, str(o.status).replace("_", " "), o.reason, ", ".join(changes_of(o.trial, unset)))
        for o in (step.observation for step in launch_steps)
        if not o.ok
    ]


def _failures(inputs: ReportInput, measured: Sequence[Candidate]) -> list[PlottedSetting]:
    worked = {job_setting(inputs.space, c.point) for c in measured}
    failures: dict[Point, PlottedSetting] = {}
    for o in inputs.history:
        setting = job_setting(inputs.space, o.trial.point)
        if not o.ok and o.trial.subject is Subject.SWEEP and setting not in worked:
            why = f"trial {o.trial.number} {o.status}: {o.reason}"
            failures[setting] = PlottedSetting(o.trial.point, math.nan, why)
    return list(failures.values())


def _varied(space: Space, points: Sequence[Point]) -> list[str]:
    return [p.name for p in space.job if len({point.get(p.name) for point in points}) > 1]


def _score_text(objective: Objective, candidate: Candidate, index: int) -> str:
    score = candidate.scores[index]
    launches = f" in {candidate.launches} launches" if candidate.launches > 1 else ""
    return f"{figure_text(score.value, score.sem, objective.unit)}{launches}"


def _first_launches(inputs: ReportInput, measured: Sequence[Candidate]) -> list[int]:
    settings = {job_setting(inputs.space, c.point) for c in measured}
    first: dict[Point, int] = {}
    for o in inputs.history.sweeps:
        setting = job_setting(inputs.space, o.trial.point)
        if o.ok and setting in settings:
            first.setdefault(setting, o.trial.number)
    return sorted(first.values())
