"""Common parts of all figures of the report: colours, an empty figure, error bars and axes.

Colours of data are mid-tones that can be read on white and on black; everything else (text, grid) is coloured
by the page's style sheet, so that one figure serves light, dark and paper.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from autotune.history.objectives import Objective
from autotune.recommend.recommendation import Gain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

GREY, TEAL, RED, BLUE, AMBER = "#8792a0", "#159a86", "#d9534f", "#4a8fe0", "#d3912b"
VIOLET, PINK, GREEN, BROWN, CYAN = "#9b72cf", "#cf6fa6", "#6fa63a", "#a5795a", "#2f9fb8"

_LONG = re.compile(r"(?<=[\[,:])-?\d+\.\d{7,}(?:e[+-]?\d+)?(?=[\],}])")
"""Numbers of JSON with more digits than anybody sees; those of plotly have no space around them."""

_LOG_FROM = 5.0  # Axes become logarithmic where the largest value is so many times the smallest.


def empty(height: int, rows: int = 1, columns: int = 1, **layout: Any) -> Figure:
    """A figure without traces, in the page's style."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=rows, cols=columns, **layout)
    figure.update_layout(
        template="none",
        height=height,
        autosize=True,
        dragmode=False,  # a finger that scrolls the page must not zoom the plot
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
    """Where a trace is drawn: the row of panels."""
    return {"row": row, "col": 1}


def dots(**marker: Any) -> dict[str, Any]:
    """A trace of points."""
    return {"mode": "markers", "marker": marker}


def line(**style: Any) -> dict[str, Any]:
    """A trace of lines without a word of their own."""
    return {"mode": "lines", "line": style, "hoverinfo": "skip"}


def told(texts: Iterable[str]) -> dict[str, Any]:
    """The words that a trace shows under the pointer, and nothing else."""
    return {"text": list(texts), "hovertemplate": "%{text}<extra></extra>"}


def named(name: str, shown: bool, group: str = "") -> dict[str, Any]:
    """A trace's name, once in the legend for all that have it."""
    return {"name": name, "legendgroup": group or name, "showlegend": shown}


def as_json(figure: Figure, name: str) -> str:
    """Plotly's JSON with a name for files, in which no ``<`` is left: a script element can hold it."""
    figure.update_layout(meta={"name": name})
    return _LONG.sub(lambda digits: f"{float(digits[0]):.7g}", str(figure.to_json()))


def rounded(value: float) -> float:
    """Five digits, which no figure shows more of: they are half of a page's size."""
    return float(f"{value:.5g}")


def bars(up: Iterable[float], colour: str, down: Iterable[float] | None = None) -> dict[str, Any]:
    """Error bars of these lengths; as long below where nothing else is said."""
    both = {"array": list(up), "color": colour, "thickness": 1.2, "width": 3}
    return both if down is None else {**both, "symmetric": False, "arrayminus": list(down)}


def axis(objective: Objective, values: Sequence[float]) -> dict[str, Any]:
    """An axis that shows every value, and of an interval that reaches far beyond them only a part."""
    arrow = "↑" if objective.maximise else "↓"
    title = {"title_text": f"{objective.name} [{objective.unit}] {arrow}"}
    low, high = min(values, default=1.0), max(values, default=1.0)
    if low > 0 and high / low > _LOG_FROM:
        return {**title, **log_axis(values)}
    margin = 0.12 * (high - low) or 0.1 * abs(high)
    return {**title, "range": [low - margin, high + margin]}


def log_axis(values: Sequence[float]) -> dict[str, Any]:
    """A log axis that shows these values, with ticks at 1, 2, 5, or at the decades where there are many."""
    known = [v for v in values if v > 0] or [1.0]
    decades = range(math.floor(math.log10(min(known))), math.ceil(math.log10(max(known))) + 1)
    digits = (1, 2, 5) if len(decades) <= 4 else (1,)
    ticks = [digit * 10.0**decade for decade in decades for digit in digits]
    ends = [math.log10(min(known)), math.log10(max(known))]
    margin = 0.08 * (ends[1] - ends[0]) or 0.1
    return {
        "type": "log",
        "tickvals": ticks,
        "ticktext": [f"{tick:,.12g}" for tick in ticks],
        "range": [ends[0] - margin, ends[1] + margin],
    }


def scaled(effect: float, ratios: bool) -> float:
    """An effect as it is drawn: a ratio where logarithms were compared."""
    if not math.isfinite(effect):
        return effect if effect > 0 or not ratios else 0.0
    return math.exp(min(effect, 50.0)) if ratios else effect


def bar(length: float) -> float:
    """Length of an error bar; none where the interval has no end."""
    return length if math.isfinite(length) else 0.0


def ratio_range(gains: Sequence[Gain]) -> dict[str, Any]:
    """An axis that shows every speed-up, and of an interval that reaches far beyond them only a part."""
    ratios = [1.0, *(gain.ratio for gain in gains)]
    low = max(min(gain.interval[0] for gain in gains), 0.8 * min(ratios))
    high = min(max(gain.interval[1] for gain in gains), 1.2 * max(ratios))
    low, high = min(low, 0.95), max(high, 1.05)
    if high / low > _LOG_FROM:
        return log_axis([low, high])
    margin = 0.05 * (high - low)
    return {"range": [low - margin, high + margin]}


def ratio_axis(ratios: Sequence[float]) -> dict[str, Any]:
    """Ticks at round ratios, so that a log axis reads ×0.5, ×1, ×2."""
    finite = [abs(math.log(r)) for r in ratios if math.isfinite(r) and r > 0]
    reach = math.exp(max(finite, default=0.1))
    round_ones = (1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100)
    far = max((r for r in round_ones if r <= reach * 1.3), default=round_ones[0])
    middle = min(round_ones, key=lambda r: abs(math.log(r) - math.log(far) / 2))
    ticks = sorted({1.0, far, middle, 1 / far, 1 / middle})
    labels = [f"×{tick:.2g}" for tick in ticks]
    return {"type": "log", "tickvals": ticks, "ticktext": labels, "tickangle": 0}
