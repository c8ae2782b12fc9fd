"""Draw the report's figures of a campaign's progress, as plotly's JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from autotune.history.objectives import Z95, Objective
from autotune.history.trial import Phase, Subject
from autotune.recommend.leads import Lead, Moment
from autotune.recommend.summary import Step
from autotune.views.report import axes
from autotune.views.report.axes import AMBER, BLUE, GREY, RED, TEAL, VIOLET
from autotune.views.text import duration_text, figure_text, ratio_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_PHASES = {Phase.SCREENING: AMBER, Phase.SEARCH: BLUE, Phase.VERIFY: TEAL}
_SYMBOLS = {Subject.SWEEP: "circle", Subject.UNTOUCHED: "diamond", Subject.DEPLOYED: "square"}
_MINUTE_S = 60.0
_WORDS = 600
"""Number of launches up to which each point is labelled with its score and error; if there are more launches,
labels contain only the score, so that pages stay small."""


@dataclass(frozen=True, slots=True)
class Best:
    """Holds two corrections of the best score so far in one objective, which is partly the best by luck.

    One is the score of the best setting in its later launches; the other is the best score to be expected if
    the settings had been tried in random order.
    """

    leads: Sequence[Lead] = ()  # The settings that were the best ones in turn, with scores of later launches.
    blind: Sequence[float] = ()
    """The expected best score after 1, 2, … settings, if the measured settings were tried in random order."""
    drawn_at: Sequence[int] = ()  # Numbers of the trials (launches) at which ``blind`` is drawn.


def progress(objectives: Sequence[Objective], steps: Sequence[Step], best: Sequence[Best]) -> str:
    """Return a figure of the scores of all launches, the failed launches, and the best score so far.

    The best score is drawn as measured, as measured again by later launches of the same setting, and as
    expected if the settings had been tried in random order.
    """
    figure = axes.empty(90 + 230 * len(objectives), len(objectives), shared_xaxes=True, vertical_spacing=0.06)
    failed = [s.observation for s in steps if not s.observation.ok]
    few = len(steps) <= _WORDS
    for row, objective in enumerate(objectives, start=1):
        i, values = row - 1, list[float]()
        for phase, colour in ((None, GREY), *_PHASES.items()):
            scored = [(s, s.scores[i]) for s in steps if s.scores is not None and _coloured(s) == phase]
            values += [score.value for _, score in scored]
            texts = [figure_text(score.value, score.sem, objective.unit) for _, score in scored]
            figure.add_scatter(
                x=[s.observation.trial.number for s, _ in scored],
                y=[score.value for _, score in scored],
                error_y=axes.bars([Z95 * score.sem for _, score in scored], colour),
                text=texts if few else None,
                hovertemplate=f"trial %{{x}}: %{{{'text' if few else 'y'}}}<extra></extra>",
                **axes.dots(
                    color=colour, size=7, symbol=[_SYMBOLS[s.observation.trial.subject] for s, _ in scored]
                ),
                **axes.legend(str(phase or "default"), row == 1 and bool(scored)),
                **axes.at(row),
            )
        best_scores = [(s.observation.trial.number, s.best[i].value) for s in steps if s.best is not None]
        figure.add_scatter(
            x=[number for number, _ in best_scores],
            y=[value for _, value in best_scores],
            **axes.line(color=TEAL, width=2, shape="hv"),
            **axes.legend("best so far", row == 1),
            **axes.at(row),
        )
        values += _unbiased(figure, row, best[i], objective)
        baseline = next((s.baseline for s in reversed(steps) if s.baseline is not None), None)
        if baseline is not None:
            style = {"color": GREY, "width": 1, "dash": "dash"}
            figure.add_hline(y=baseline[i].value, line=style, row=row, col=1)
            values.append(baseline[i].value)
        floor = min(values, default=1.0) * 0.93  # Failed launches have no score; they are drawn lowest.
        values += [floor] if failed else []
        figure.add_scatter(
            x=[o.trial.number for o in failed],
            y=[floor] * len(failed),
            text=[f"{o.status}: {o.reason}" for o in failed],
            hovertemplate="trial %{x}: %{text}<extra></extra>",
            **axes.dots(color=RED, symbol="x", size=8),
            **axes.legend("failed", row == 1 and bool(failed)),
            **axes.at(row),
        )
        figure.update_yaxes(**axes.axis(objective, values), row=row, col=1)
    figure.update_xaxes(title_text="trial", row=len(objectives), col=1)
    return axes.as_json(figure, "progress")


def _coloured(step: Step) -> Phase | None:
    trial = step.observation.trial
    return None if trial.subject is Subject.UNTOUCHED or trial.phase not in _PHASES else trial.phase


def _unbiased(figure: Figure, row: int, best: Best, objective: Objective) -> list[float]:
    """Draw the two corrections of the best score (see ``Best``), and return all values that were drawn."""
    rescored = [(lead, lead.later_score) for lead in best.leads if lead.later_score is not None]
    x: list[int | None] = []
    y: list[float | None] = []
    for lead, score in rescored:
        x += [lead.from_trial, lead.to_trial, None]
        y += [axes.rounded(score.value)] * 2 + [None]
    texts = [
        f"taken for {figure_text(lead.first_score.value, lead.first_score.sem, objective.unit)}, "
        f"measured again {figure_text(score.value, score.sem, objective.unit)} in {lead.launches} launches"
        for lead, score in rescored
        for _ in range(3)
    ]
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines+markers",
        line={"color": RED, "width": 2},
        marker={"color": RED, "size": 6},
        **axes.hover(texts),
        **axes.legend("leader, measured again", row == 1 and bool(rescored), "again"),
        **axes.at(row),
    )
    figure.add_scatter(
        x=list(best.drawn_at),
        y=[axes.rounded(value) for value in best.blind],
        **axes.line(color=VIOLET, width=1.5, dash="dot"),
        **axes.legend("random order (expected)", row == 1 and bool(best.blind), "blind"),
        **axes.at(row),
    )
    return [score.value for _, score in rescored] + list(best.blind)


def timeline(objectives: Sequence[Objective], times: Sequence[Moment], steps: Sequence[Step]) -> str:
    """Return a figure of the drift of the MPI's own defaults, and of each launch's waiting time and duration.

    The drift is the ratio of each launch of the defaults to their median; ``times`` says when each launch of
    ``steps`` was requested.
    """
    default = [
        (moment.from_s / _MINUTE_S, step.scores)
        for moment, step in zip(times, steps, strict=True)
        if step.scores is not None and step.observation.trial.subject is Subject.UNTOUCHED
    ]
    waits = any(moment.observation.queue_s > 0 for moment in times)
    figure = axes.empty(420, 2, shared_xaxes=True, vertical_spacing=0.08)
    for i, (objective, colour) in enumerate(zip(objectives, (TEAL, BLUE, AMBER, VIOLET), strict=False)):
        middle = median([scores[i].value for _, scores in default]) if default else 1.0
        figure.add_scatter(
            x=[axes.rounded(minute) for minute, _ in default],
            y=[axes.rounded(scores[i].value / middle) for _, scores in default],
            error_y=axes.bars([Z95 * scores[i].sem / middle for _, scores in default], colour),
            mode="lines+markers",
            name=f"default, {objective.name}",
            line={"color": colour, "width": 1, "dash": "dot"},
            marker={"color": colour, "symbol": "diamond", "size": 7},
            **axes.hover(
                f"{figure_text(scores[i].value, scores[i].sem, objective.unit)}, "
                f"{ratio_text(scores[i].value / middle)} their median"
                for _, scores in default
            ),
            **axes.at(1),
        )
    figure.add_hline(y=1, line={"color": GREY, "width": 1, "dash": "dash"}, row=1, col=1)
    for name, colour, seconds in (
        ("waiting", AMBER, [m.observation.queue_s for m in times] if waits else []),
        ("launch", GREY, [m.observation.duration_s for m in times]),
    ):
        launched = list(zip(times, seconds, strict=False))
        figure.add_scatter(
            x=[axes.rounded(m.from_s / _MINUTE_S) for m, _ in launched],
            y=[axes.rounded(s) for _, s in launched],
            name=name,
            showlegend=bool(launched),
            text=[f"trial {m.observation.trial.number}: {duration_text(s)}" for m, s in launched],
            hovertemplate="%{text}<extra>" + name + "</extra>",
            **axes.dots(color=colour, size=5),
            **axes.at(2),
        )
    spent = [s for m in times for s in (m.observation.queue_s, m.observation.duration_s) if s > 0]
    figure.update_yaxes(title_text="default / median", row=1, col=1)
    figure.update_yaxes(title_text="time [s]", **axes.log_axis(spent), row=2, col=1)
    figure.update_xaxes(title_text="minutes of launches and waiting", row=2, col=1)
    return axes.as_json(figure, "timeline")


def drift(steps: Sequence[Step]) -> list[float]:
    """Return the largest ratio between consecutive launches of the defaults, in each objective."""
    default = [s.scores for s in steps if s.scores and s.observation.trial.subject is Subject.UNTOUCHED]
    worst = [1.0] * len(default[0]) if default else []
    for earlier, later in pairwise(default):
        for i, (a, b) in enumerate(zip(earlier, later, strict=True)):
            worst[i] = max(worst[i], a.value / b.value, b.value / a.value)
    return worst
