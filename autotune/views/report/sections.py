"""Sections of the page beside the recommendation: settings, model, progress (step 12 of the flow)."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from autotune.history.objectives import Objective, job_setting
from autotune.history.trial import Subject
from autotune.recommend.front import Candidate
from autotune.recommend.importance import Learnt, learnt
from autotune.recommend.leads import leads, moments, random_best
from autotune.recommend.summary import Step, ratio_to
from autotune.recommend.winners import winners
from autotune.space import Point, Space
from autotune.views.launch_line import changes_of
from autotune.views.report import axes, model_plots, progress_plots, setting_plots
from autotune.views.report.inputs import ReportInput
from autotune.views.report.setting_plots import Tried
from autotune.views.text import calls_text, figure_text, interval_text, ratio_text, size_text

_DRAWN = 12  # Kinds of calls: those with most of the time come first in the file.


def run_section(ran: Mapping[str, Any]) -> dict[str, Any]:
    """Default / decided algorithm in a ``run.json``, with 95 % intervals, and what it saved and spent."""
    settled = [cell for cell in ran["cells"] if cell["settled_at"] is not None][:_DRAWN]
    names = [
        f"{one['collective']} {size_text(one['lowest_bytes'])}, {one['ranks']} ranks: {one['algorithm']}"
        for one in settled
    ]
    ratios = [one["speedup"] for one in settled]
    ends = [_ends(one) for one in settled]
    figure = axes.empty(120 + 28 * len(settled))
    colours = [axes.GREY if one["algorithm"] == "default" else axes.TEAL for one in settled]
    up = [axes.bar(high - at) for at, (_, high) in zip(ratios, ends, strict=True)]
    down = [axes.bar(at - low) for at, (low, _) in zip(ratios, ends, strict=True)]
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
            (name, ratio_text(at), interval_text(end) if at != 1 else "", f"{one['saved_s']:.2g}")
            for name, at, end, one in zip(names, ratios, ends, settled, strict=True)
        ],
    }


def _ends(cell: Mapping[str, Any]) -> tuple[float, float]:
    """The interval of a cell; of one that stays with the default the ratio alone."""
    low, high = cell["speedup_95"]
    if low is None and high is None:
        return 1.0, 1.0
    return low or 0.0, math.inf if high is None else high


_SETTINGS = 150  # Settings that are drawn: so many of the best ones, and of those that failed.
_ROWS, _SLICES = 12, 6  # Parameters of the lines, and of the slices of each objective.


def winner_maps(inputs: ReportInput, judged: Sequence[Candidate]) -> list[dict[str, Any]]:
    """A map of winners and its places for each collective."""
    found = winners(inputs.objectives, inputs.space, inputs.history, judged, inputs.recommendation)
    groups = [list(group) for _, group in groupby(found, key=lambda place: place.slot[0])]
    return [
        {"title": calls_text(mine[0].slot[0], 0), "figure": setting_plots.winners(mine), "places": mine}
        for mine in groups
    ]


def settings(
    inputs: ReportInput, judged: Sequence[Candidate], models: Sequence[Learnt | None]
) -> dict[str, Any] | None:
    """Lines through all settings, and slices over the parameters that the model finds important."""
    failures = _failures(inputs, judged)
    varied = _varied(inputs.space, [*(c.point for c in judged), *(one.point for one in failures)])
    if not varied or not judged:
        return None
    lines, slices = [], []
    for i, (objective, model) in enumerate(zip(inputs.objectives, models, strict=True)):
        best = sorted(judged, key=lambda c: c.scores[i].value, reverse=objective.maximise)[:_SETTINGS]
        tried = [Tried(c.point, c.scores[i].value, _score_text(objective, c, i)) for c in best]
        tried += failures[:_SETTINGS]
        order = {its.parameter: k for k, its in enumerate(model.importances)} if model else {}
        names = sorted(varied, key=lambda name: (order.get(name, len(order)), varied.index(name)))
        default = inputs.space.untouched
        lines.append(setting_plots.parallel(objective, inputs.space, names[:_ROWS], tried, default))
        slices += [
            setting_plots.one_slice(objective, inputs.space, name, tried, default.get(name))
            for name in names[:_SLICES]
        ]
    left_out = max(0, len(judged) - _SETTINGS) + max(0, len(failures) - _SETTINGS)
    return {"lines": lines, "slices": slices, "n": len(judged), "failed": len(failures), "left_out": left_out}


def models(inputs: ReportInput, judged: Sequence[Candidate]) -> list[Learnt | None]:
    """The model of each objective, fitted by the judge of recommendations."""
    return [learnt(objective, i, inputs.space, judged) for i, objective in enumerate(inputs.objectives)]


def model_section(inputs: ReportInput, known: Sequence[Learnt | None]) -> dict[str, Any] | None:
    """Importance of parameters, and how well settings are predicted that the model was not shown."""
    modelled = [
        (objective, i, its)
        for i, (objective, its) in enumerate(zip(inputs.objectives, known, strict=True))
        if its is not None and its.explained > 0  # worse than the mean: what it holds important is no finding
    ]
    if not modelled:
        return None
    return {
        "importance": [model_plots.importance(objective, its) for objective, _, its in modelled],
        "predicted": [model_plots.predicted(objective, i, its) for objective, i, its in modelled],
        "learnt": [(objective, its) for objective, _, its in modelled],
    }


def progress(inputs: ReportInput, made: Sequence[Step], judged: Sequence[Candidate]) -> dict[str, Any] | None:
    """How the campaign went: every launch, three tellings of the best so far, drift and waiting."""
    if not made:
        return None
    best, rows = [], []
    for i, objective in enumerate(inputs.objectives):
        found = leads(inputs.objectives, i, inputs.space, made)
        drawn_at = _first_launches(inputs, judged)
        blind = random_best([c.scores[i].value for c in judged], objective.maximise)[: len(drawn_at)]
        best.append(progress_plots.Best(found, blind, drawn_at))
        rows += [(objective, lead) for lead in found]
    when = moments([step.observation for step in made])
    spread = progress_plots.drift(when, made)
    return {
        "figure": progress_plots.progress(inputs.objectives, made, best),
        "failed": failed_launches(made, inputs.unset),
        "leads": rows,
        "timeline": progress_plots.timeline(inputs.objectives, when, made),
        "drift": ", ".join(
            f"{objective.name} {ratio_text(ratio)}"
            for objective, ratio in zip(inputs.objectives, spread, strict=False)
        ),
    }


def covered(inputs: ReportInput) -> list[tuple[str, int, str]]:
    """(collective, ranks, message sizes) of what the stack's own defaults were measured at."""
    sizes: dict[tuple[str, int], list[int]] = {}
    for collective, ranks, size in sorted(inputs.baseline):
        sizes.setdefault((collective, ranks), []).append(size)
    return [
        (calls_text(collective, 0), ranks, ", ".join(map(size_text, listed)))
        for (collective, ranks), listed in sizes.items()
    ]


def launches(inputs: ReportInput, made: Sequence[Step]) -> dict[str, Any] | None:
    """Every launch as a row: when, why, what was set, and its speed-up or how it failed."""
    if not made:
        return None
    rows = []
    unset = inputs.unset
    when = moments([step.observation for step in made])
    for step, moment in zip(made, when, strict=True):
        o = step.observation
        ratios = [str(o.status)] + [""] * (len(inputs.objectives) - 1)
        if step.scores is not None and step.baseline is not None:
            judged = zip(inputs.objectives, step.scores, step.baseline, strict=True)
            ratios = [ratio_text(ratio_to(*one)) for one in judged]
        what = ", ".join(changes_of(o.trial, unset))
        rows.append([o.trial.number, o.trial.phase.value, f"{moment.from_s / 60:.1f}", *ratios, what])
    names = ["launch", "phase", "minute", *(objective.name for objective in inputs.objectives), "set"]
    return {"names": names, "rows": rows}


def failed_launches(made: Sequence[Step], unset: Point) -> list[tuple[int, str, str, str]]:
    """(trial, status, reason, what was set) of every failed launch; ``unset``: the stack's own values."""
    return [
        (o.trial.number, str(o.status).replace("_", " "), o.reason, ", ".join(changes_of(o.trial, unset)))
        for o in (step.observation for step in made)
        if not o.ok
    ]


def _failures(inputs: ReportInput, judged: Sequence[Candidate]) -> list[Tried]:
    worked = {job_setting(inputs.space, c.point) for c in judged}
    found: dict[Point, Tried] = {}
    for o in inputs.history:
        setting = job_setting(inputs.space, o.trial.point)
        if not o.ok and o.trial.subject is Subject.SWEEP and setting not in worked:
            why = f"trial {o.trial.number} {o.status}: {o.reason}"
            found[setting] = Tried(o.trial.point, math.nan, why)
    return list(found.values())


def _varied(space: Space, points: Sequence[Point]) -> list[str]:
    return [p.name for p in space.job if len({point.get(p.name) for point in points}) > 1]


def _score_text(objective: Objective, candidate: Candidate, index: int) -> str:
    score = candidate.scores[index]
    launches = f" in {candidate.launches} launches" if candidate.launches > 1 else ""
    return f"{figure_text(score.value, score.sem, objective.unit)}{launches}"


def _first_launches(inputs: ReportInput, judged: Sequence[Candidate]) -> list[int]:
    """The trials that launched the settings for the first time."""
    wanted = {job_setting(inputs.space, c.point) for c in judged}
    first: dict[Point, int] = {}
    for o in inputs.history.sweeps:
        setting = job_setting(inputs.space, o.trial.point)
        if o.ok and setting in wanted:
            first.setdefault(setting, o.trial.number)
    return sorted(first.values())
