"""Sections of the page beside the recommendation: settings, model, course (step 12 of the flow)."""

import math
from collections.abc import Sequence
from typing import Any

from autotune.history.objectives import Objective, job_setting
from autotune.history.trial import Subject
from autotune.recommend.course import leads, moments, random_best
from autotune.recommend.coverage import Cover
from autotune.recommend.front import Candidate
from autotune.recommend.importance import Learnt, learnt
from autotune.recommend.summary import Step, ratio_to
from autotune.recommend.winners import winners
from autotune.space import Point, Space
from autotune.views.launch_line import changes_of
from autotune.views.report import course_plots, model_plots, setting_plots
from autotune.views.report.inputs import ReportInput
from autotune.views.report.setting_plots import Tried, choice_text
from autotune.views.text import calls_text, figure_text, ratio_text, size_text, verdict

_SETTINGS = 150
"""Settings that are drawn: so many of the best ones, and of those that failed."""
_ROWS, _SLICES = 12, 6
"""Parameters of the lines, and of the slices of each objective."""


def winner_maps(inputs: ReportInput, judged: Sequence[Candidate]) -> list[dict[str, Any]]:
    """A map of winners and its rows for each collective."""
    places = winners(inputs.objectives, inputs.space, inputs.history, judged, inputs.recommendation)
    return [
        {
            "title": calls_text(collective, 0),
            "figure": setting_plots.winners(mine),
            "rows": [
                {
                    "ranks": place.slot[1],
                    "size": size_text(place.slot[2]),
                    "winner": choice_text(place.choice),
                    "gain": ratio_text(place.gain.ratio, place.gain.interval) if place.gain else "—",
                    "style": verdict(place.gain) if place.gain else "even",
                    "rivals": ", ".join(choice_text(rival) for rival in place.rivals),
                    "behind": ratio_text(place.behind),
                }
                for place in mine
            ],
        }
        for collective, mine in setting_plots.by_collective(places)
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
        "said": [
            f"{objective.name}: R² = {its.explained:.2f} for settings left out ({len(its.left_out)} settings)"
            for objective, _, its in modelled
        ],
        "rows": [
            (objective.name, one.parameter, f"{100 * one.share:.1f} %", ratio_text(one.ratio))
            for objective, _, its in modelled
            for one in its.importances
        ],
    }


def course(inputs: ReportInput, made: Sequence[Step], judged: Sequence[Candidate]) -> dict[str, Any] | None:
    """How the campaign went: every launch, three tellings of the best so far, drift and waiting."""
    if not made:
        return None
    best, rows = [], []
    for i, objective in enumerate(inputs.objectives):
        found = leads(inputs.objectives, i, inputs.space, made)
        drawn_at = _first_launches(inputs, judged)
        blind = random_best([c.scores[i].value for c in judged], objective.maximise)[: len(drawn_at)]
        best.append(course_plots.Best(found, blind, drawn_at))
        rows += [
            (
                objective.name,
                f"{lead.from_trial} … {lead.to_trial}",
                figure_text(lead.then.value, lead.then.sem, objective.unit),
                figure_text(lead.again.value, lead.again.sem, objective.unit) if lead.again else "not again",
                lead.launches,
            )
            for lead in found
        ]
    when = moments([step.observation for step in made])
    spread = course_plots.drift(when, made)
    return {
        "figure": course_plots.progress(inputs.objectives, made, best),
        "failed": failed_launches(made, inputs.unset),
        "leads": rows,
        "timeline": course_plots.timeline(inputs.objectives, when, made),
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


def asked(inputs: ReportInput) -> list[tuple[str, int, int, str, str, str, str]]:
    """(collective, ranks, nodes, size, seconds, verdict, its style) of the calls that were asked for."""
    styles = {Cover.MEASURED: "faster", Cover.WITHIN: "even", Cover.NOT: "slower"}
    return [
        (
            calls_text(one.slot[0], 0),
            one.slot[1],
            one.nodes,
            size_text(one.slot[2]),
            "" if one.seconds is None else f"{one.seconds:.3g}",
            f"{one.cover}: {one.why}" if one.why else str(one.cover),
            styles[one.cover],
        )
        for one in inputs.asked
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
    """Settings of which no launch worked, with the cause of the last."""
    worked = {job_setting(inputs.space, c.point) for c in judged}
    found: dict[Point, Tried] = {}
    for o in inputs.history:
        setting = job_setting(inputs.space, o.trial.point)
        if not o.ok and o.trial.subject is Subject.SWEEP and setting not in worked:
            why = f"trial {o.trial.number} {o.status}: {o.reason}"
            found[setting] = Tried(o.trial.point, math.nan, why)
    return list(found.values())


def _varied(space: Space, points: Sequence[Point]) -> list[str]:
    """The job-wide parameters that did not always have the same value."""
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
