"""Draw the report's figures as PNG and SVG for papers: matplotlib draws what plotly's JSON describes.

Plotly itself can only write files by starting a browser (Kaleido), which login nodes do not have. The figures
of this package use a small part of plotly: lines, points and bars on linear, log and category axes,
in panels one above the other. This module draws that part with matplotlib, so that each figure is defined
only once.
"""

from __future__ import annotations

import html
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autotune.views.report.axes import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INCH_PX = 96.0
_WIDTH_PX = 680.0
_DASHES = {"solid": "-", "dash": "--", "dot": ":"}
_SYMBOLS = {"circle": "o", "diamond": "D", "diamond-open": "D", "square": "s"}
_SYMBOLS |= {"x": "x", "line-ew": "_"}
_STEPS = {"hv": "steps-post", "vh": "steps-pre"}
_RGBA = re.compile(r"rgba\((\d+),(\d+),(\d+),([\d.]+)\)")


def drawings(figures: Iterable[str]) -> dict[str, bytes]:
    """Draw figures that are given as plotly's JSON, and return the contents of the files by file name.

    Each figure gives a PNG file with 200 dots per inch and an SVG file.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    written: dict[str, bytes] = {}
    # Every run writes the same bytes: files contain no date, and names in an SVG depend only on its content.
    style: Any = {"svg.hashsalt": "autotune", "font.size": 9, "font.family": "DejaVu Sans"}
    style["text.parse_math"] = False
    for text in figures:
        document = json.loads(text)
        name = _free(_file_name(document["layout"]["meta"]["name"]), written)
        with mpl.rc_context(style):
            height = document["layout"]["height"] / _INCH_PX
            figure = Figure(figsize=(_WIDTH_PX / _INCH_PX, height))
            FigureCanvasAgg(figure)
            _draw(figure, document)
            for ending, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
                out = io.BytesIO()
                figure.savefig(out, format=ending, dpi=200, bbox_inches="tight", metadata=metadata)
                written[f"{name}.{ending}"] = out.getvalue()
    return written


def _file_name(name: str) -> str:
    """Return a name in which characters that are special in a path or a shell are replaced."""
    return re.sub(r"[^\w.=-]+", "_", name).strip("._") or "figure"


def _free(name: str, written: Mapping[str, bytes]) -> str:
    used = {file.rpartition(".")[0] for file in written}
    return next(n for n in (name, *(f"{name}-{k}" for k in range(2, 10_000))) if n not in used)


def _draw(figure: Figure, document: Mapping[str, Any]) -> None:
    layout, traces = document["layout"], document["data"]
    suffixes = sorted({str(trace.get("yaxis", "y"))[1:] for trace in traces} | {""})
    panels: dict[str, Axes] = {}
    for suffix in suffixes:
        xaxis, yaxis = layout.get(f"xaxis{suffix}", {}), layout.get(f"yaxis{suffix}", {})
        left, right = xaxis.get("domain", (0, 1))
        low, high = yaxis.get("domain", (0, 1))
        panel = figure.add_axes((left, low, right - left, high - low))
        panel.set_axisbelow(True)
        panel.grid(visible=True, color="0.9", linewidth=0.6)
        for side in panel.spines.values():
            side.set_visible(False)
        panels[suffix] = panel
    places = {s: _categories(layout.get(f"xaxis{s}", {}), traces, "x", s) for s in suffixes}
    heights = {s: _categories(layout.get(f"yaxis{s}", {}), traces, "y", s) for s in suffixes}
    for order, trace in enumerate(traces, start=3):
        suffix = str(trace.get("yaxis", "y"))[1:]
        draw = _bars if trace["type"] == "bar" else _points
        draw(panels[suffix], trace, places[suffix], heights[suffix], order)
    for suffix, panel in panels.items():
        _axis(panel, "x", layout.get(f"xaxis{suffix}", {}), places[suffix])
        _axis(panel, "y", layout.get(f"yaxis{suffix}", {}), heights[suffix])
    for shape in layout.get("shapes", ()):
        line = shape["line"]
        style = {"color": line["color"], "linewidth": line["width"], "linestyle": _DASHES[line["dash"]]}
        if shape["x0"] == shape["x1"] and str(shape["yref"]).endswith("domain"):
            panels[shape["xref"][1:]].axvline(shape["x0"], zorder=2, **style)
        else:
            panels[shape["yref"][1:]].axhline(shape["y0"], zorder=2, **style)
    top = panels[""]
    handles, labels = top.get_legend_handles_labels()
    if labels:
        placement: Any = {"loc": "lower left", "bbox_to_anchor": (0, 1.0)}
        top.legend(handles, labels, ncols=4, frameon=False, fontsize=8, **placement)


def _categories(axis: Mapping[str, Any], traces: Sequence[Any], which: str, suffix: str) -> dict[str, int]:
    panel_traces = [t for t in traces if str(t.get("yaxis", "y"))[1:] == suffix]
    words = dict.fromkeys(v for t in panel_traces for v in (t.get(which) or ()) if isinstance(v, str))
    ordered = axis.get("categoryarray") or ()
    return {str(word): i for i, word in enumerate(dict.fromkeys([*ordered, *words]))} if words else {}


def _numbers(values: Sequence[Any] | None, places: Mapping[str, int]) -> list[float]:
    return [math.nan if v is None else float(places.get(v, v)) for v in values or ()]


def _axis(panel: Axes, which: str, axis: Mapping[str, Any], places: Mapping[str, int]) -> None:
    log = axis.get("type") == "log"
    if log:
        getattr(panel, f"set_{which}scale")("log")
        getattr(panel, f"{which}axis").minorticks_off()
    ticks = (axis.get("tickvals"), axis.get("ticktext")) if axis.get("tickvals") else None
    if places and not ticks:
        ticks = (list(places.values()), list(places))
    set_ticks = getattr(panel, f"set_{which}ticks")
    if ticks and axis.get("showticklabels", True):
        set_ticks(ticks[0], [_plain(text) for text in ticks[1] or ()])
    elif axis.get("showticklabels") is False or axis.get("visible") is False:
        set_ticks(ticks[0] if ticks else [], [])
    if axis.get("visible") is False:
        set_ticks([])
    if axis.get("range"):
        low, high = axis["range"]
        getattr(panel, f"set_{which}lim")(*((10**low, 10**high) if log else (low, high)))
    elif axis.get("rangemode") == "tozero":
        getattr(panel, f"set_{which}lim")(**{"left" if which == "x" else "bottom": 0})
    panel.tick_params(axis=which, length=0)  # type: ignore[arg-type] # "x" or "y"
    getattr(panel, f"set_{which}label")(_plain(axis.get("title", {}).get("text", "")))


def _points(
    panel: Axes, trace: Mapping[str, Any], xs: Mapping[str, int], ys: Mapping[str, int], order: int
) -> None:
    """Draw lines, points, error bars and texts; ``xs`` and ``ys`` are positions of categories."""
    x, y = _numbers(trace.get("x"), xs), _numbers(trace.get("y"), ys)
    mode, marker, line = trace.get("mode", "lines"), trace.get("marker", {}), trace.get("line", {})
    label = trace.get("name") if trace.get("showlegend", True) and x else None
    faint = float(trace.get("opacity", 1.0)) * float(marker.get("opacity", 1.0))
    style: dict[str, Any] = {"zorder": order, "alpha": faint}
    if trace.get("fill") == "toself":
        panel.fill(x, y, color=_colour(trace["fillcolor"]), linewidth=0, zorder=order)
    if "lines" in mode:
        panel.plot(
            x,
            y,
            label=label,
            color=_colour(line.get("color", GREY)),
            linewidth=line.get("width", 1.5),
            linestyle=_DASHES[line.get("dash", "solid")],
            drawstyle=_STEPS.get(line.get("shape", ""), "default"),
            **style,
        )
        label = None
    for axis in ("x", "y"):
        errors = trace.get(f"error_{axis}", {})
        if errors.get("array"):
            up = [v or 0.0 for v in errors["array"]]
            error: Any = [errors.get("arrayminus") or up, up]
            bars: dict[str, Any] = {"ecolor": errors["color"], "elinewidth": 0.9, "capsize": 2}
            bars["zorder"] = order - 0.5
            bars[f"{axis}err"] = error
            panel.errorbar(x, y, fmt="none", alpha=faint, **bars)
    if "markers" in mode:
        _markers(panel, x, y, marker, label, style)
    if "text" in mode:
        words = [trace["text"]] * len(x) if isinstance(trace["text"], str) else trace["text"]
        vertical, _, horizontal = trace.get("textposition", "middle center").partition(" ")
        alignment: dict[str, Any] = {
            "ha": {"left": "right", "right": "left"}.get(horizontal, "center"),
            "va": {"top": "bottom", "bottom": "top"}.get(vertical, "center"),
        }
        for across, height, word in zip(x, y, words, strict=True):
            weight = "bold" if word.startswith("<b>") else "normal"
            panel.text(across, height, _plain(word), fontsize=7, weight=weight, zorder=order + 9, **alignment)


def _markers(
    panel: Axes, x: list[float], y: list[float], marker: Mapping[str, Any], label: str | None, style: Any
) -> None:
    symbols = marker.get("symbol", "circle")
    each = symbols if isinstance(symbols, list) else [symbols] * len(x)
    colours = marker.get("color", GREY)
    for symbol in dict.fromkeys(each) or ():
        indices = [i for i, point_symbol in enumerate(each) if point_symbol == symbol]
        picked = [colours[i] for i in indices] if isinstance(colours, list) else colours
        size = (0.75 * float(marker.get("size", 6))) ** 2
        edge = marker.get("line", {})
        hollow = symbol.endswith("-open") or picked == "rgba(0,0,0,0)"
        face: dict[str, Any]
        if hollow:
            colour = edge.get("color", _colour(str(picked)))
            face = {"facecolors": "none", "edgecolors": colour, "linewidths": 1.5}
        else:
            face = {"c": [_colour(str(c)) for c in (picked if isinstance(picked, list) else [picked])]}
            face |= {"linewidths": edge.get("width", 0.8)}
        across, up = [x[i] for i in indices], [y[i] for i in indices]
        panel.scatter(across, up, s=size, marker=_SYMBOLS.get(symbol, "o"), label=label, **face, **style)
        label = None


def _bars(
    panel: Axes, trace: Mapping[str, Any], xs: Mapping[str, int], ys: Mapping[str, int], order: int
) -> None:
    x, y, marker = _numbers(trace["x"], xs), _numbers(trace["y"], ys), trace["marker"]
    label = trace["name"]
    for i, (across, high) in enumerate(zip(x, y, strict=True)):
        style = {"facecolor": _colour(marker["color"][i]), "edgecolor": marker["line"]["color"]}
        style |= {"zorder": order, "linewidth": 0.8}
        hatch = "///" if marker["pattern"]["shape"][i] else None
        width, bottom = trace["width"], trace["base"][i]
        panel.bar(across, high, width=width, bottom=bottom, hatch=hatch, label=label, **style)
        label = None


def _colour(colour: str) -> Any:
    match = _RGBA.fullmatch(colour)
    return (*(int(v) / 255 for v in match.groups()[:3]), float(match[4])) if match else colour


def _plain(text: str) -> str:
    return html.unescape(re.sub(r"</?b>", "", text)).replace("<br>", "\n")
