"""The figures of the report, as plotly's JSON: pure functions of the campaign's data.

Colours of data are mid-tones that can be read on white and on black; everything else (text, grid) is coloured
by the page's style sheet, so that one figure serves light, dark and paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from autotune.history.objectives import Objective, Score
from autotune.history.trial import Phase, Subject
from autotune.recommend.front import Candidate, Gain
from autotune.recommend.summary import Step
from autotune.views.text import changed_text, figure_text, p_text, ratio_text, size_text, verdict

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from autotune.screening import Effects
    from autotune.space import Point
    from autotune.verification.paired_test import Comparison, Pair

GREY, TEAL, RED, BLUE, AMBER = "#8792a0", "#159a86", "#d9534f", "#4a8fe0", "#d3912b"

_VERDICTS = {"faster": TEAL, "even": GREY, "slower": RED}
_PHASES = {Phase.SCREENING: AMBER, Phase.SEARCH: BLUE, Phase.VERIFY: TEAL}
_SYMBOLS = {Subject.SWEEP: "circle", Subject.UNTOUCHED: "diamond", Subject.DEPLOYED: "square"}
_US = 1e6
_Z95 = 1.96
_LOG_FROM = 5.0  # axes become logarithmic where the largest value is so many times the smallest


def curves(gains: Sequence[Gain]) -> str:
    """Default against tuned for one collective and communicator size: times above, speed-up below."""
    figure = _figure(520, 2, row_heights=[0.62, 0.38], vertical_spacing=0.07)
    sizes = [size_text(gain.slot[2]) for gain in gains]
    for name, colour, symbol, times, sems in (
        ("default", GREY, "diamond", [g.default_s for g in gains], [g.default_sem_s for g in gains]),
        ("tuned", TEAL, "circle", [g.tuned_s for g in gains], [g.tuned_sem_s for g in gains]),
    ):
        shown = [figure_text(t * _US, s * _US, "µs") for t, s in zip(times, sems, strict=True)]
        figure.add_scatter(
            x=sizes,
            y=[t * _US for t in times],
            error_y=_bars([_Z95 * s * _US for s in sems], colour),
            mode="lines+markers",
            name=name,
            line={"color": colour, "width": 2},
            marker={"color": colour, "symbol": symbol, "size": 7},
            text=shown,
            hovertemplate="%{text}",
            row=1,
            col=1,
        )
    intervals = [gain.interval for gain in gains]
    figure.add_scatter(
        x=sizes,
        y=[gain.ratio for gain in gains],
        error_y=_bars(
            [high - gain.ratio for gain, (_, high) in zip(gains, intervals, strict=True)],
            GREY,
            [gain.ratio - low for gain, (low, _) in zip(gains, intervals, strict=True)],
        ),
        mode="markers",
        name="speed-up",
        showlegend=False,
        marker={"color": [_VERDICTS[verdict(gain)] for gain in gains], "size": 9},
        text=[f"{ratio_text(g.ratio, g.interval)}, {verdict(g)}" for g in gains],
        hovertemplate="%{text}<extra></extra>",
        row=2,
        col=1,
    )
    figure.add_hline(y=1, line={"color": GREY, "width": 1, "dash": "dash"}, row=2, col=1)
    times_us = [t * _US for gain in gains for t in (gain.tuned_s, gain.default_s)]
    figure.update_yaxes(title_text="time [µs]", **_log_axis(times_us), row=1, col=1)
    figure.update_yaxes(title_text="speed-up", **_ratio_range(gains), row=2, col=1)
    figure.update_xaxes(type="category", showticklabels=False, row=1, col=1)
    figure.update_xaxes(type="category", title_text="message size", matches="x", row=2, col=1)
    figure.update_layout(hovermode="x unified", margin={"b": 64})
    return _json(figure)


def front(
    objectives: Sequence[Objective],
    judged: Sequence[Candidate],
    best: Sequence[Candidate],
    recommended: Candidate | None,
    default: Point,
    baseline: Sequence[Score] | None,
) -> str:
    """All settings that were tried in the plane of the first two objectives, the front among them."""
    figure = _figure(430)
    first, second = objectives[:2]

    def add(name: str, chosen: Sequence[Candidate], **style: Any) -> None:
        scores = [c.scores for c in chosen]
        words = [
            f"{changed_text(c.point, default)}<br>{_pair(objectives, c.scores)}<br>launches: {c.launches}"
            for c in chosen
        ]
        _plane(figure, name, scores, words, **style)

    others = [c for c in judged if c not in best]
    add("tried", others, mode="markers", marker={"color": BLUE, "size": 7, "opacity": 0.45})
    add(
        "Pareto front",
        best,
        mode="lines+markers",
        line={"color": TEAL, "width": 2, "shape": "hv" if second.maximise != first.maximise else "vh"},
        marker={"color": TEAL, "size": 9},
    )
    if recommended is not None:
        mark = {"color": "rgba(0,0,0,0)", "size": 18, "line": {"color": RED, "width": 2.5}}
        add("recommended", [recommended], mode="markers", marker=mark)
    if baseline is not None:
        words = [f"the stack's own defaults<br>{_pair(objectives, baseline)}"]
        mark = {"color": GREY, "size": 11, "symbol": "diamond"}
        _plane(figure, "default", [baseline], words, mode="markers", marker=mark)
    every = [c.scores for c in judged] + ([tuple(baseline)] if baseline is not None else [])
    figure.update_xaxes(**_axis(first, [s[0].value for s in every]))
    figure.update_yaxes(**_axis(second, [s[1].value for s in every]))
    return _json(figure)


def effects(objective: Objective, analysis: Effects) -> str:
    """Main effects on one objective with 95 % intervals, the largest on top."""
    ratios = analysis.scale == "log"
    shown = sorted(analysis.effects, key=lambda e: abs(e.effect) if math.isfinite(e.effect) else -1.0)
    ends = [effect.interval() for effect in shown]
    at = [_scaled(effect.effect, ratios) for effect in shown]
    good = TEAL, RED
    figure = _figure(120 + 34 * len(shown))
    figure.add_scatter(
        x=at,
        y=[effect.factor for effect in shown],
        error_x=_bars(
            [_reach(_scaled(high, ratios) - x) for x, (_, high) in zip(at, ends, strict=True)],
            GREY,
            [_reach(x - _scaled(low, ratios)) for x, (low, _) in zip(at, ends, strict=True)],
        ),
        mode="markers",
        showlegend=False,
        marker={
            "size": 11,
            "color": [good[(e.effect > 0) != objective.maximise] if e.active else GREY for e in shown],
        },
        text=[f"{e.low} → {e.high}: {analysis.text(e)}, p {p_text(e.p_value)}" for e in shown],
        hovertemplate="%{y}<br>%{text}<extra></extra>",
    )
    figure.add_vline(x=1 if ratios else 0, line={"color": GREY, "width": 1, "dash": "dash"})
    title = f"{objective.name} at high {'/' if ratios else '−'} at low"
    figure.update_xaxes(title_text=title, **(_ratio_axis(at) if ratios else {}))
    return _json(figure)


def half_normal(objective: Objective, analysis: Effects) -> str:
    """Half-normal plot with Lenth's margin of error: what stands above the line of the rest is active."""
    known = [e for e in analysis.effects if math.isfinite(e.half_normal) and math.isfinite(e.effect)]
    figure = _figure(320)
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
    return _json(figure)


def verification(judged: Sequence[Comparison], found: Sequence[Pair], searched: Sequence[Gain]) -> str:
    """Every pair of fresh launches, what they say together, and what the search had promised."""
    figure = _figure(360)
    labels = {c.slot: size_text(c.slot[2]) for c in judged}
    dots = [(labels[slot], math.exp(d)) for pair in found for slot, d in pair.items() if slot in labels]
    figure.add_scatter(
        x=[label for label, _ in dots],
        y=[ratio for _, ratio in dots],
        mode="markers",
        name="one pair of launches",
        marker={"color": GREY, "size": 6, "opacity": 0.5},
        hovertemplate="%{y:.2f}×<extra></extra>",
    )
    promised = [gain for gain in searched if gain.slot in labels]
    figure.add_scatter(
        x=[labels[gain.slot] for gain in promised],
        y=[gain.ratio for gain in promised],
        mode="markers",
        name="in the search",
        marker={"color": AMBER, "size": 10, "symbol": "diamond-open", "line": {"width": 2}},
        hovertemplate="%{y:.2f}×<extra>in the search</extra>",
    )
    ratios = [math.exp(c.gain) for c in judged]
    figure.add_scatter(
        x=list(labels.values()),
        y=ratios,
        error_y=_bars(
            [_reach(_scaled(c.high, True) - ratio) for c, ratio in zip(judged, ratios, strict=True)],
            TEAL,
            [_reach(ratio - _scaled(c.low, True)) for c, ratio in zip(judged, ratios, strict=True)],
        ),
        mode="markers",
        name="fresh launches",
        marker={"color": TEAL, "size": 10},
        text=[f"{ratio_text(r)}, {c.decision}" for c, r in zip(judged, ratios, strict=True)],
        hovertemplate="%{text}<extra></extra>",
    )
    figure.add_hline(y=1, line={"color": GREY, "width": 1, "dash": "dash"})
    shown = [1.0, *ratios, *(gain.ratio for gain in promised)]
    margin = 0.15 * (max(shown) - min(shown)) or 0.1
    figure.update_yaxes(title_text="speed-up", range=[min(shown) - margin, max(shown) + margin])
    order = {"categoryorder": "array", "categoryarray": list(labels.values())}
    figure.update_xaxes(type="category", title_text="message size", **order)
    return _json(figure)


def progress(objectives: Sequence[Objective], steps: Sequence[Step]) -> str:
    """Every launch's scores with the best so far, and the launches that failed."""
    figure = _figure(90 + 230 * len(objectives), len(objectives), shared_xaxes=True, vertical_spacing=0.06)
    failed = [s.observation for s in steps if not s.observation.ok]
    for row, objective in enumerate(objectives, start=1):
        i = row - 1
        values: list[float] = []
        for phase, colour in ((None, GREY), *_PHASES.items()):
            mine = [s for s in steps if s.scores is not None and _coloured(s) == phase]
            values += [s.scores[i].value for s in mine if s.scores is not None]
            figure.add_scatter(
                x=[s.observation.trial.number for s in mine],
                y=[s.scores[i].value for s in mine if s.scores is not None],
                error_y=_bars([_Z95 * s.scores[i].sem for s in mine if s.scores is not None], colour),
                mode="markers",
                name=str(phase or "default"),
                legendgroup=str(phase or "default"),
                showlegend=row == 1 and bool(mine),
                marker={"color": colour, "size": 7, "symbol": [_SYMBOLS[_subject(s)] for s in mine]},
                text=[
                    figure_text(s.scores[i].value, s.scores[i].sem, objective.unit) for s in mine if s.scores
                ],
                hovertemplate="trial %{x}: %{text}<extra></extra>",
                row=row,
                col=1,
            )  # fmt: skip
        known = [s for s in steps if s.best is not None]
        figure.add_scatter(
            x=[s.observation.trial.number for s in known],
            y=[s.best[i].value for s in known if s.best is not None],
            mode="lines",
            name="best so far",
            legendgroup="best so far",
            showlegend=row == 1,
            line={"color": TEAL, "width": 2, "shape": "hv"},
            hoverinfo="skip",
            row=row,
            col=1,
        )
        baseline = next((s.baseline for s in reversed(steps) if s.baseline is not None), None)
        if baseline is not None:
            line = {"color": GREY, "width": 1, "dash": "dash"}
            figure.add_hline(y=baseline[i].value, line=line, row=row, col=1)
            values.append(baseline[i].value)
        floor = min(values, default=1.0) * 0.93  # failed launches have no score: below all that have
        values += [floor] if failed else []
        figure.add_scatter(
            x=[o.trial.number for o in failed],
            y=[floor] * len(failed),
            mode="markers",
            name="failed",
            legendgroup="failed",
            showlegend=row == 1 and bool(failed),
            marker={"color": RED, "symbol": "x", "size": 8},
            text=[f"{o.status}: {o.reason}" for o in failed],
            hovertemplate="trial %{x}: %{text}<extra></extra>",
            row=row,
            col=1,
        )
        figure.update_yaxes(**_axis(objective, values), row=row, col=1)
    figure.update_xaxes(title_text="trial", row=len(objectives), col=1)
    return _json(figure)


def _coloured(step: Step) -> Phase | None:
    """The phase whose colour a launch has; None for the stack's own defaults, whenever they ran."""
    trial = step.observation.trial
    return None if trial.subject is Subject.UNTOUCHED or trial.phase not in _PHASES else trial.phase


def _subject(step: Step) -> Subject:
    return step.observation.trial.subject


def _figure(height: int, rows: int = 1, columns: int = 1, **layout: Any) -> Figure:
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


def _json(figure: Figure) -> str:
    """Plotly's JSON, in which no ``<`` is left, so that it can stand in a script element as it is."""
    return str(figure.to_json())


def _plane(
    figure: Figure, name: str, scores: Sequence[Sequence[Score]], words: Sequence[str], **style: Any
) -> None:
    colour = style.get("line", style["marker"]).get("color", GREY)
    bars = {
        "error_x": _bars([_Z95 * s[0].sem for s in scores], colour),
        "error_y": _bars([_Z95 * s[1].sem for s in scores], colour),
    }
    figure.add_scatter(
        x=[s[0].value for s in scores],
        y=[s[1].value for s in scores],
        name=name,
        text=list(words),
        hovertemplate="%{text}<extra></extra>",
        **({} if name == "recommended" else bars),
        **style,
    )


def _pair(objectives: Sequence[Objective], scores: Sequence[Score]) -> str:
    pairs = zip(objectives, scores, strict=True)
    return "<br>".join(f"{o.name} {figure_text(s.value, s.sem, o.unit)}" for o, s in pairs)


def _bars(up: Iterable[float], colour: str, down: Iterable[float] | None = None) -> dict[str, Any]:
    both = {"array": list(up), "color": colour, "thickness": 1.2, "width": 3}
    return both if down is None else {**both, "symmetric": False, "arrayminus": list(down)}


def _axis(objective: Objective, values: Sequence[float]) -> dict[str, Any]:
    """An axis that shows every value, and of an interval that reaches far beyond them only a part."""
    arrow = "↑" if objective.maximise else "↓"
    title = {"title_text": f"{objective.name} [{objective.unit}] {arrow}"}
    low, high = min(values, default=1.0), max(values, default=1.0)
    if low > 0 and high / low > _LOG_FROM:
        return {**title, **_log_axis(values)}
    margin = 0.12 * (high - low) or 0.1 * abs(high)
    return {**title, "range": [low - margin, high + margin]}


def _log_axis(values: Sequence[float]) -> dict[str, Any]:
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


def _scaled(effect: float, ratios: bool) -> float:
    return math.exp(min(effect, 50.0)) if ratios else effect


def _reach(length: float) -> float:
    """Length of an error bar; none where the interval has no end."""
    return length if math.isfinite(length) else 0.0


def _ratio_range(gains: Sequence[Gain]) -> dict[str, Any]:
    """An axis that shows every speed-up, and of an interval that reaches far beyond them only a part."""
    ratios = [1.0, *(gain.ratio for gain in gains)]
    low = max(min(gain.interval[0] for gain in gains), 0.8 * min(ratios))
    high = min(max(gain.interval[1] for gain in gains), 1.2 * max(ratios))
    low, high = min(low, 0.95), max(high, 1.05)
    if high / low > _LOG_FROM:
        return _log_axis([low, high])
    margin = 0.05 * (high - low)
    return {"range": [low - margin, high + margin]}


def _ratio_axis(ratios: Sequence[float]) -> dict[str, Any]:
    """Ticks at round ratios, so that a log axis reads ×0.5, ×1, ×2."""
    finite = [abs(math.log(r)) for r in ratios if math.isfinite(r) and r > 0]
    reach = math.exp(max(finite, default=0.1))
    round_ones = (1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100)
    far = max((r for r in round_ones if r <= reach * 1.3), default=round_ones[0])
    middle = min(round_ones, key=lambda r: abs(math.log(r) - math.log(far) / 2))
    ticks = sorted({1.0, far, middle, 1 / far, 1 / middle})
    labels = [f"×{tick:.2g}" for tick in ticks]
    return {"type": "log", "tickvals": ticks, "ticktext": labels, "tickangle": 0}
