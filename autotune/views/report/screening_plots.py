"""The report's figures on the screening (which parameters have an effect), as plotly's JSON."""

import math
from collections.abc import Sequence

from autotune.history.objectives import Objective
from autotune.screening import Effect, Effects
from autotune.views.report import axes
from autotune.views.report.axes import AMBER, BLUE, GREY, RED, TEAL
from autotune.views.text import p_text


def effects(objective: Objective, analysis: Effects) -> str:
    """Return a figure of the main effects on one objective with 95 % intervals, the largest effect on top."""
    ratios = analysis.scale == "log"
    ordered = sorted(analysis.effects, key=lambda e: abs(e.effect) if math.isfinite(e.effect) else -1.0)
    ends = [effect.interval() for effect in ordered]
    values = [axes.scaled(effect.effect, ratios) for effect in ordered]
    figure = axes.empty(120 + 34 * len(ordered))
    up = [axes.bar(axes.scaled(high, ratios) - x) for x, (_, high) in zip(values, ends, strict=True)]
    down = [axes.bar(x - axes.scaled(low, ratios)) for x, (low, _) in zip(values, ends, strict=True)]
    figure.add_scatter(
        x=values,
        y=[effect.factor for effect in ordered],
        error_x=axes.bars(up, GREY, down),
        showlegend=False,
        **axes.dots(size=11, color=_colours(objective, ordered)),
        text=_levels(analysis, ordered),
        hovertemplate="%{y}<br>%{text}<extra></extra>",
    )
    figure.add_vline(x=1 if ratios else 0, line={"color": GREY, "width": 1, "dash": "dash"})
    title = f"{objective.name} at high {'/' if ratios else '−'} at low"
    figure.update_xaxes(title_text=title, **(axes.ratio_axis(values) if ratios else {}))
    return axes.as_json(figure, f"effects-{objective.name}")


def half_normal(objective: Objective, analysis: Effects) -> str:
    """Return the half-normal plot of the effects, with Lenth's margin of error.

    A factor is active if its point lies above the line through the other points.
    """
    finite = [e for e in analysis.effects if math.isfinite(e.half_normal) and math.isfinite(e.effect)]
    figure = axes.empty(320)
    figure.add_scatter(
        x=[e.half_normal for e in finite],
        y=[abs(e.effect) for e in finite],
        mode="markers+text",
        showlegend=False,
        text=[e.factor if e.active else "" for e in finite],
        textposition="middle left",
        customdata=[e.factor for e in finite],
        hovertemplate="%{customdata}<br>%{y:.3g}<extra></extra>",
        marker={"size": 9, "color": [BLUE if e.active else GREY for e in finite]},
        cliponaxis=False,
    )
    if math.isfinite(analysis.lenth.margin):
        figure.add_hline(y=analysis.lenth.margin, line={"color": AMBER, "width": 1.5, "dash": "dot"})
    scale = "|ln(high / low)|" if analysis.scale == "log" else "|high − low|"
    figure.update_yaxes(title_text=f"{objective.name}, {scale}", rangemode="tozero")
    figure.update_xaxes(title_text="half-normal score", rangemode="tozero")
    return axes.as_json(figure, f"half-normal-{objective.name}")


def _colours(objective: Objective, effects: Sequence[Effect]) -> list[str]:
    """Return a colour for each effect: teal if the high level is better, red if worse, grey if inactive."""
    return [(TEAL, RED)[(e.effect > 0) != objective.maximise] if e.active else GREY for e in effects]


def _levels(analysis: Effects, effects: Sequence[Effect]) -> list[str]:
    return [f"{e.low} → {e.high}: {analysis.text(e)}, p {p_text(e.p_value)}" for e in effects]
