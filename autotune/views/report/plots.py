"""Draw the report's figures of gains, Pareto front, verification and screening, as plotly's JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autotune.history.objectives import Z95, Objective, Score, Slot, ratio_of
from autotune.recommend.front import Candidate
from autotune.recommend.recommendation import Gain
from autotune.screening import Effect, Effects
from autotune.space import Point
from autotune.verification.blocks import Block
from autotune.verification.comparison import Comparison
from autotune.views.report import axes
from autotune.views.report.axes import AMBER, BLUE, GREY, RED, TEAL
from autotune.views.text import changed_text, figure_text, p_text, ratio_text, size_text, verdict

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_VERDICTS = {"faster": TEAL, "even": GREY, "slower": RED}
_US = 1e6
_MOST = 500  # If more settings than these are not on the Pareto front, only every n-th of them is drawn.


def curves(gains: Sequence[Gain], at_least: Mapping[Slot, float] | None = None) -> str:
    """Return a figure for one collective and communicator size: default and tuned times, and the speed-up.

    The interval of the speed-up is a ribbon. ``at_least`` are lower bounds of the ratio of mean times; the
    losses below them are shaded, because fresh launches exclude them. An outlier is drawn at the end of the
    axis, with its value.
    """
    figure = axes.empty(560, 2, row_heights=[0.5, 0.5], vertical_spacing=0.07)
    sizes = [size_text(gain.slot[2]) for gain in gains]
    for name, colour, symbol, times, sems in (
        ("default", GREY, "diamond", [g.default_s for g in gains], [g.default_sem_s for g in gains]),
        ("tuned", TEAL, "circle", [g.tuned_s for g in gains], [g.tuned_sem_s for g in gains]),
    ):
        texts = [figure_text(t * _US, s * _US, "µs") for t, s in zip(times, sems, strict=True)]
        figure.add_scatter(
            x=sizes,
            y=[t * _US for t in times],
            error_y=axes.bars([Z95 * s * _US for s in sems], colour),
            mode="lines+markers",
            name=name,
            line={"color": colour, "width": 2},
            marker={"color": colour, "symbol": symbol, "size": 7},
            text=texts,
            hovertemplate="%{text}",
            **axes.at(1),
        )
    ends = bottom, _ = axes.ratio_ends(gains, bool(at_least))
    shown = [axes.within(ends, gain.ratio, 1.0) for gain in gains]
    low, high = ([axes.within(ends, gain.interval[i], gain.ratio) for gain in gains] for i in (0, 1))
    up, down = ([abs(end - y) for end, y in zip(side, shown, strict=True)] for side in (high, low))
    outliers = [ratio_text(g.ratio) if g.ratio != y else "" for g, y in zip(gains, shown, strict=True)]
    figure.add_scatter(
        x=sizes,
        y=shown,
        error_y=axes.bars(up, GREY, down),
        name="speed-up",
        showlegend=False,
        mode="lines+markers",
        line={"color": TEAL, "width": 1},
        marker={
            "color": [_VERDICTS[verdict(gain)] for gain in gains],
            "size": 9,
            "symbol": ["diamond-open" if text else "circle" for text in outliers],
        },
        **axes.hover(f"{ratio_text(g.ratio, g.interval)}, {verdict(g)}" for g in gains),
        **axes.at(2),
    )
    if any(outliers):
        where = ["top center" if y == bottom else "bottom center" for y in shown]
        style = {"mode": "text", "textposition": where, "showlegend": False, "hoverinfo": "skip"}
        figure.add_scatter(x=sizes, y=shown, name="outliers", text=outliers, **style, **axes.at(2))
    figure.add_scatter(name="95 % interval", **axes.band(sizes, low, high, TEAL), **axes.at(2))
    if at_least:
        excluded = [min(axes.within(ends, at_least.get(gain.slot, bottom), bottom), 1.0) for gain in gains]
        floor = [bottom] * len(gains)
        figure.add_scatter(name="loss excluded", **axes.band(sizes, floor, excluded, RED), **axes.at(2))
    figure.add_hline(y=1, line={"color": GREY, "width": 1, "dash": "dash"}, row=2, col=1)
    times_us = [t * _US for gain in gains for t in (gain.tuned_s, gain.default_s)]
    figure.update_yaxes(title_text="time [µs]", **axes.log_axis(times_us), row=1, col=1)
    figure.update_yaxes(title_text="speed-up", **axes.ratio_range(*ends), row=2, col=1)
    figure.update_xaxes(type="category", showticklabels=False, row=1, col=1)
    figure.update_xaxes(type="category", title_text="message size", matches="x", row=2, col=1)
    figure.update_layout(hovermode="x unified", margin={"b": 64})
    return axes.as_json(figure, f"curves-{gains[0].slot[0]}-{gains[0].slot[1]}")


def front(
    objectives: Sequence[Objective],
    candidates: Sequence[Candidate],
    best: Sequence[Candidate],
    recommended: Candidate | None,
    default: Point,
    baseline: Sequence[Score] | None,
) -> str:
    """Return a figure of all measured settings, by their first two objectives, with the Pareto front.

    ``best`` is the front; ``baseline`` are the scores of the MPI's own defaults, None if they are not known.
    """
    figure = axes.empty(430)
    first, second = objectives[:2]

    def add(name: str, group: Sequence[Candidate], **style: Any) -> None:
        scores = [c.scores for c in group]
        words = [
            f"{changed_text(c.point, default)}<br>{_pair(objectives, c.scores)}<br>launches: {c.launches}"
            for c in group
        ]
        _plane(figure, name, scores, words, **style)

    off_front = [c for c in candidates if c not in best]
    drawn = off_front[:: 1 + len(off_front) // _MOST]
    name = "tried" if drawn == off_front else f"tried ({len(drawn)} of {len(off_front)})"
    add(name, drawn, **axes.dots(color=BLUE, size=7, opacity=0.45))
    steps = {"color": TEAL, "width": 2, "shape": "hv" if second.maximise != first.maximise else "vh"}
    add("Pareto front", best, mode="lines+markers", line=steps, marker={"color": TEAL, "size": 9})
    if recommended is not None:
        mark = {"color": "rgba(0,0,0,0)", "size": 18, "line": {"color": RED, "width": 2.5}}
        add("recommended", [recommended], mode="markers", marker=mark)
    if baseline is not None:
        words = [f"the stack's own defaults<br>{_pair(objectives, baseline)}"]
        mark = {"color": GREY, "size": 11, "symbol": "diamond"}
        _plane(figure, "default", [baseline], words, mode="markers", marker=mark)
    all_scores = [c.scores for c in candidates] + ([tuple(baseline)] if baseline is not None else [])
    figure.update_xaxes(**axes.axis(first, [s[0].value for s in all_scores]))
    figure.update_yaxes(**axes.axis(second, [s[1].value for s in all_scores]))
    return axes.as_json(figure, "front")


def verification(compared: Sequence[Comparison], blocks: Sequence[Block], searched: Sequence[Gain]) -> str:
    """Return a figure of the verification's speed-ups by message size.

    The figure shows the speed-ups of single fresh launches within their blocks, of all fresh launches
    together, and of the search. Outliers of the latter two are drawn at the end of the axis.
    """
    figure = axes.empty(360)
    labels = {c.slot: size_text(c.slot[2]) for c in compared}
    dots = [(labels[c.slot], ratio_of(d)) for block in blocks for c in compared for d in block.gains(c.slot)]
    figure.add_scatter(
        x=[label for label, _ in dots],
        y=[ratio for _, ratio in dots],
        name="one launch",
        hovertemplate="%{y:.2f}×<extra></extra>",
        **axes.dots(color=GREY, size=6, opacity=0.5),
    )
    promised = [gain for gain in searched if gain.slot in labels]
    ratios = [ratio_of(c.gain) for c in compared]
    ends = least, most = axes.limits([*ratios, *(gain.ratio for gain in promised)])
    shown = [axes.within(ends, ratio, 1.0) for ratio in ratios]
    figure.add_scatter(
        x=[labels[gain.slot] for gain in promised],
        y=[axes.within(ends, gain.ratio, 1.0) for gain in promised],
        name="in the search",
        **axes.hover(f"{ratio_text(gain.ratio)} in the search" for gain in promised),
        **axes.dots(color=AMBER, size=10, symbol="diamond-open", line={"width": 2}),
    )
    figure.add_scatter(
        x=list(labels.values()),
        y=shown,
        error_y=axes.bars(
            [axes.bar(max(axes.scaled(c.high, True) - y, 0.0)) for c, y in zip(compared, shown, strict=True)],
            TEAL,
            [axes.bar(max(y - axes.scaled(c.low, True), 0.0)) for c, y in zip(compared, shown, strict=True)],
        ),
        name="fresh launches",
        **axes.dots(color=TEAL, size=10),
        **axes.hover(f"{ratio_text(r)}, {c.decision}" for c, r in zip(compared, ratios, strict=True)),
    )
    figure.add_hline(y=1, line={"color": GREY, "width": 1, "dash": "dash"})
    margin = 0.15 * (most - least) or 0.1
    figure.update_yaxes(title_text="speed-up", range=[least - margin, most + margin])
    order = {"categoryorder": "array", "categoryarray": list(labels.values())}
    figure.update_xaxes(type="category", title_text="message size", **order)
    return axes.as_json(figure, "verification")


def _plane(
    figure: Figure, name: str, scores: Sequence[Sequence[Score]], words: Sequence[str], **style: Any
) -> None:
    colour = style.get("line", style["marker"]).get("color", GREY)
    errors = ([Z95 * s[i].sem for s in scores] for i in (0, 1))
    bars = {f"error_{axis}": axes.bars(lengths, colour) for axis, lengths in zip("xy", errors, strict=True)}
    figure.add_scatter(
        x=[s[0].value for s in scores],
        y=[s[1].value for s in scores],
        name=name,
        **axes.hover(words),
        **({} if name == "recommended" else bars),
        **style,
    )


def _pair(objectives: Sequence[Objective], scores: Sequence[Score]) -> str:
    pairs = zip(objectives, scores, strict=True)
    return "<br>".join(f"{o.name} {figure_text(s.value, s.sem, o.unit)}" for o, s in pairs)


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
