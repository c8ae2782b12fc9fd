"""Provide the common parts of the report's figures: colours, an empty figure, error bars and axes.

Colours of data are mid-tones that are legible on white and on black; everything else (text, grid) is coloured
by the page's style sheet, so that one figure serves light windows, dark windows and paper.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from autotune.history.objectives import Objective
from autotune.recommend.recommendation import Gain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

GREY, TEAL, RED, BLUE, AMBER = "#8792a0", "#159a86", "#d9534f", "#4a8fe0", "#d3912b"
VIOLET, PINK, GREEN, BROWN, CYAN = "#9b72cf", "#cf6fa6", "#6fa63a", "#a5795a", "#2f9fb8"

_LONG = re.compile(r"(?<=[\[,:])-?\d+\.\d{7,}(?:e[+-]?\d+)?(?=[\],}])")
"""Matches numbers in JSON with more digits than a figure can show; plotly writes no spaces around numbers."""

_LOG_FROM = 5.0  # Ratio of the largest to the smallest value beyond which an axis is logarithmic.
_OUTLIER = 3.0  # Factor from the median beyond which a speed-up is an outlier, which does not widen an axis.


def empty(height: int, rows: int = 1, columns: int = 1, **layout: Any) -> Figure:
    """Return a figure in the page's style that contains no data yet.

    ``height`` is in pixels, ``rows`` and ``columns`` are the numbers of panels, and ``layout`` is passed to
    plotly.
    """
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=rows, cols=columns, **layout)
    figure.update_layout(
        template="none",
        height=height,
        autosize=True,
        dragmode=False,  # A finger that scrolls the page must not zoom the plot.
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13},
        margin={"l": 64, "r": 16, "t": 16, "b": 56},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "xanchor": "left"},
        hoverlabel={"font": {"size": 13}},
    )
    figure.update_xaxes(zeroline=False, ticks="", automargin=True, title_standoff=8)
    figure.update_yaxes(zeroline=False, ticks="", automargin=True, title_standoff=8)
    return figure


def at(row: int) -> dict[str, int]:
    """Return the arguments that put a trace (a series of data) into the panel of a row."""
    return {"row": row, "col": 1}


def dots(**marker: Any) -> dict[str, Any]:
    """Return the arguments that draw a trace as points."""
    return {"mode": "markers", "marker": marker}


def line(**style: Any) -> dict[str, Any]:
    """Return the arguments that draw a trace as lines, without a text when the mouse is over a line."""
    return {"mode": "lines", "line": style, "hoverinfo": "skip"}


def hover(texts: Iterable[str]) -> dict[str, Any]:
    """Return the arguments with which a trace shows one of these texts when the mouse is over a point."""
    return {"text": list(texts), "hovertemplate": "%{text}<extra></extra>"}


def legend(name: str, visible: bool, group: str = "") -> dict[str, Any]:
    """Return the arguments of a trace's entry in the legend; all traces of a group share one entry."""
    return {"name": name, "legendgroup": group or name, "showlegend": visible}


def as_json(figure: Figure, name: str) -> str:
    """Return a figure as JSON, which also contains the name for files that show this figure.

    plotly escapes every ``<`` in the JSON, so that it can be inside a script element.
    """
    figure.update_layout(meta={"name": name})
    return _LONG.sub(lambda digits: f"{float(digits[0]):.7g}", str(figure.to_json()))


def rounded(value: float) -> float:
    """Round to five digits: no figure shows more, and numbers make up half of a page's size."""
    return float(f"{value:.5g}")


def bars(up: Iterable[float], colour: str, down: Iterable[float] | None = None) -> dict[str, Any]:
    """Return error bars of length ``up`` above the points and ``down`` below; None means ``up`` for both."""
    symmetric = {"array": list(up), "color": colour, "thickness": 1.2, "width": 3}
    return symmetric if down is None else {**symmetric, "symmetric": False, "arrayminus": list(down)}


def axis(objective: Objective, values: Sequence[float]) -> dict[str, Any]:
    """Return an axis for an objective on which every value is visible; long error bars may be cut off."""
    arrow = "↑" if objective.maximise else "↓"
    title = {"title_text": f"{objective.name} [{objective.unit}] {arrow}"}
    low, high = min(values, default=1.0), max(values, default=1.0)
    if low > 0 and high / low > _LOG_FROM:
        return {**title, **log_axis(values)}
    margin = 0.12 * (high - low) or 0.1 * abs(high)
    return {**title, "range": [low - margin, high + margin]}


def log_axis(values: Sequence[float]) -> dict[str, Any]:
    """Return a log axis that shows all positive values, with ticks at 1, 2, 5 (over many decades only 1)."""
    positive = [v for v in values if v > 0] or [1.0]
    decades = range(math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive))) + 1)
    digits = (1, 2, 5) if len(decades) <= 4 else (1,)
    ticks = [digit * 10.0**decade for decade in decades for digit in digits]
    ends = [math.log10(min(positive)), math.log10(max(positive))]
    margin = 0.08 * (ends[1] - ends[0]) or 0.1
    return {
        "type": "log",
        "tickvals": ticks,
        "ticktext": [f"{tick:,.12g}" for tick in ticks],
        "range": [ends[0] - margin, ends[1] + margin],
    }


def scaled(effect: float, ratios: bool) -> float:
    """Return the value to draw for an effect; with ``ratios`` an effect is the logarithm of this value."""
    if not math.isfinite(effect):
        return effect if effect > 0 or not ratios else 0.0
    return math.exp(min(effect, 50.0)) if ratios else effect


def faded(colour: str, opacity: float) -> str:
    """Return a colour (``#rrggbb``) with an opacity."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:.2f})"


def band(x: Sequence[Any], low: Iterable[float], high: Iterable[float], colour: str) -> dict[str, Any]:
    """Return the arguments that draw a filled band between two curves."""
    y = [rounded(value) for value in (*high, *list(low)[::-1])]
    filled = {"fill": "toself", "fillcolor": faded(colour, 0.2)}
    return {"x": [*x, *x[::-1]], "y": y, **filled, **line(width=0, color=colour)}


def bar(length: float) -> float:
    """Return the length of an error bar, or 0 if the length is infinite."""
    return length if math.isfinite(length) else 0.0


def limits(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the smallest and the largest ratio, with 1, that are no outliers."""
    middle = median(ratios)
    low, high = max(min(ratios), middle / _OUTLIER), min(max(ratios), middle * _OUTLIER)
    return min(low, 1.0), max(high, 1.0)


def ratio_ends(gains: Sequence[Gain], losses: bool = False) -> tuple[float, float]:
    """Return the ends of an axis for speed-ups: intervals may be cut off, and outliers are drawn at the end.

    With ``losses`` there is room below 1, also if nothing is slower.
    """
    least, most = limits([gain.ratio for gain in gains])
    lows, highs = ([g.interval[i] for g in gains if not math.isnan(g.interval[i])] for i in (0, 1))
    low, high = max(min(lows, default=least), 0.8 * least), min(max(highs, default=most), 1.2 * most)
    return 0.8 * least if losses else min(low, 0.95), max(high, 1.05)


def within(ends: tuple[float, float], value: float, otherwise: float) -> float:
    """Return a value, or the end of an axis beyond which it is; ``otherwise`` replaces an undefined value."""
    return min(max(otherwise if math.isnan(value) else value, ends[0]), ends[1])


def ratio_range(low: float, high: float) -> dict[str, Any]:
    """Return an axis for speed-ups between two ends."""
    if high / low > _LOG_FROM:
        return log_axis([low, high])
    margin = 0.05 * (high - low)
    return {"range": [low - margin, high + margin]}


def ratio_axis(ratios: Sequence[float]) -> dict[str, Any]:
    """Return a log axis with ticks at round ratios, such as ×0.5, ×1, ×2."""
    finite = [abs(math.log(r)) for r in ratios if math.isfinite(r) and r > 0]
    reach = math.exp(max(finite, default=0.1))
    round_ratios = (1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100)
    far = max((r for r in round_ratios if r <= reach * 1.3), default=round_ratios[0])
    middle = min(round_ratios, key=lambda r: abs(math.log(r) - math.log(far) / 2))
    ticks = sorted({1.0, far, middle, 1 / far, 1 / middle})
    labels = [f"×{tick:.2g}" for tick in ticks]
    return {"type": "log", "tickvals": ticks, "ticktext": labels, "tickangle": 0}
