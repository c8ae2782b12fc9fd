"""The report's figures of the screening, as plotly's JSON: pure functions of its analyses."""

import math
from collections.abc import Sequence

import numpy as np

from autotune.history.objectives import Objective
from autotune.recommend.contours import Contours
from autotune.screening import Effect, Effects
from autotune.views.report import axes
from autotune.views.report.axes import AMBER, BLUE, GREY, RED, TEAL
from autotune.views.text import figure_text, p_text

_GRID = 41  # Points of the contours on each side.
_LINES = 12  # Contours between the lowest and the highest score.


def effects(objective: Objective, analysis: Effects) -> str:
    """Main effects on one objective with 95 % intervals, the largest on top."""
    ratios = analysis.scale == "log"
    shown = sorted(analysis.effects, key=lambda e: abs(e.effect) if math.isfinite(e.effect) else -1.0)
    ends = [effect.interval() for effect in shown]
    at = [axes.scaled(effect.effect, ratios) for effect in shown]
    figure = axes.empty(120 + 34 * len(shown))
    up = [axes.bar(axes.scaled(high, ratios) - x) for x, (_, high) in zip(at, ends, strict=True)]
    down = [axes.bar(x - axes.scaled(low, ratios)) for x, (low, _) in zip(at, ends, strict=True)]
    figure.add_scatter(
        x=at,
        y=[effect.factor for effect in shown],
        error_x=axes.bars(up, GREY, down),
        showlegend=False,
        **axes.dots(size=11, color=_colours(objective, shown)),
        text=_levels(analysis, shown),
        hovertemplate="%{y}<br>%{text}<extra></extra>",
    )
    figure.add_vline(x=1 if ratios else 0, line={"color": GREY, "width": 1, "dash": "dash"})
    title = f"{objective.name} at high {'/' if ratios else '−'} at low"
    figure.update_xaxes(title_text=title, **(axes.ratio_axis(at) if ratios else {}))
    return axes.as_json(figure, f"effects-{objective.name}")


def half_normal(objective: Objective, analysis: Effects) -> str:
    """Half-normal plot with Lenth's margin of error: what stands above the line of the rest is active."""
    known = [e for e in analysis.effects if math.isfinite(e.half_normal) and math.isfinite(e.effect)]
    figure = axes.empty(320)
    figure.add_scatter(
        x=[e.half_normal for e in known],
        y=[abs(e.effect) for e in known],
        mode="markers+text",
        showlegend=False,
        text=[e.factor if e.active else "" for e in known],
        textposition="middle left",
        customdata=[e.factor for e in known],
        hovertemplate="%{customdata}<br>%{y:.3g}<extra></extra>",
        marker={"size": 9, "color": [BLUE if e.active else GREY for e in known]},
        cliponaxis=False,
    )
    if math.isfinite(analysis.lenth.margin):
        figure.add_hline(y=analysis.lenth.margin, line={"color": AMBER, "width": 1.5, "dash": "dot"})
    scale = "|ln(high / low)|" if analysis.scale == "log" else "|high − low|"
    figure.update_yaxes(title_text=f"{objective.name}, {scale}", rangemode="tozero")
    figure.update_xaxes(title_text="half-normal score", rangemode="tozero")
    return axes.as_json(figure, f"half-normal-{objective.name}")


def pareto(objective: Objective, analysis: Effects) -> str:
    """Effects in standard errors, the largest on top, with the line beyond which they are significant."""
    known = [e for e in analysis.effects if math.isfinite(e.effect) and e.std_err > 0]
    shown = sorted((e for e in known if math.isfinite(e.std_err)), key=lambda e: abs(e.effect) / e.std_err)
    lines = {(e.interval()[1] - e.effect) / e.std_err for e in shown}
    figure = axes.empty(120 + 26 * len(shown))
    figure.add_bar(
        x=[abs(e.effect) / e.std_err for e in shown],
        y=[e.factor for e in shown],
        orientation="h",
        showlegend=False,
        marker={"color": _colours(objective, shown)},
        text=_levels(analysis, shown),
        textposition="none",
        hovertemplate="%{y}<br>%{text}<extra></extra>",
    )
    for line in {round(line, 6) for line in lines}:  # factors of whole plots have their own
        figure.add_vline(x=line, line={"color": AMBER, "width": 1.5, "dash": "dot"})
    figure.update_xaxes(title_text=f"{objective.name}: |effect| / standard error", rangemode="tozero")
    figure.update_yaxes(type="category")
    return axes.as_json(figure, f"pareto-{objective.name}")


def _colours(objective: Objective, shown: Sequence[Effect]) -> list[str]:
    return [(TEAL, RED)[(e.effect > 0) != objective.maximise] if e.active else GREY for e in shown]


def _levels(analysis: Effects, shown: Sequence[Effect]) -> list[str]:
    return [f"{e.low} → {e.high}: {analysis.text(e)}, p {p_text(e.p_value)}" for e in shown]


def surface(objective: Objective, drawn: Contours) -> str:
    """The quadratic through the launches as contours, with every launch on top."""
    x, y = drawn.parameters
    grid = np.linspace(-1, 1, _GRID)
    corners = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    heights = np.exp(drawn.surface.predict(corners)).reshape(_GRID, _GRID)
    colours = [[0, AMBER], [1, TEAL]] if objective.maximise else [[0, TEAL], [1, AMBER]]
    low = min(float(heights.min()), float(drawn.measured.min()))
    high = max(float(heights.max()), float(drawn.measured.max()), low * (1 + 1e-6))
    figure, scale = axes.empty(430), {"size": 10, "cmin": low, "cmax": high, "colorscale": colours}
    # Contours and points of one coloraxis keep plotly 7 busy without end, so each gets the same scale.
    figure.add_contour(
        x=grid.tolist(),
        y=grid.tolist(),
        z=heights.tolist(),
        zmin=low,
        zmax=high,
        colorscale=colours,
        contours={"start": low, "end": high, "size": (high - low) / _LINES},
        colorbar={"title": {"text": f"{objective.name} [{objective.unit}]"}},
        opacity=0.6,
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=drawn.codes[:, 0].tolist(),
        y=drawn.codes[:, 1].tolist(),
        showlegend=False,
        cliponaxis=False,
        **axes.dots(**scale, color=drawn.measured.tolist(), line={"color": GREY, "width": 1}),
        **axes.told(figure_text(value, unit=objective.unit) for value in drawn.measured),
    )
    best = drawn.surface.optimum
    figure.add_scatter(
        x=[best.codes[x.name]],
        y=[best.codes[y.name]],
        name="predicted best",
        cliponaxis=False,
        **axes.dots(size=14, color=RED, symbol="star"),
        **axes.told([f"predicted best: {figure_text(math.exp(best.value), unit=objective.unit)}"]),
    )
    for update, parameter in ((figure.update_xaxes, x), (figure.update_yaxes, y)):
        places = {str(value): 2 * at - 1 for value, at in parameter.positions().items()}
        ticks = {"tickvals": list(places.values()), "ticktext": list(places)}
        update(title_text=parameter.name, range=[-1.08, 1.08], **ticks)
    return axes.as_json(figure, f"surface-{objective.name}")
