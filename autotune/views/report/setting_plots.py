"""The report's figures of all settings that were tried, as plotly's JSON: a line through each, and slices."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.history.objectives import Objective
from autotune.recommend.winners import SlotWinner
from autotune.space import Point, Space, Value
from autotune.views.report import axes
from autotune.views.report.axes import AMBER, BLUE, BROWN, CYAN, GREEN, GREY, PINK, RED, TEAL, VIOLET
from autotune.views.text import changed_text, figure_text, ratio_text, size_text, value_text, verdict

_ALGORITHMS = (BLUE, TEAL, AMBER, VIOLET, PINK, GREEN, BROWN, CYAN, RED)
_UNDECIDED = ("", "default")  # Choices that leave it to the stack.
_FAINTEST, _FULL_GAIN = 0.22, 2.0
"""Opacity of a place without gain, and the gain that is drawn in full strength."""
_SHARE_OF_BEST = 0.1  # So many of the settings are drawn as the best.


@dataclass(frozen=True, slots=True)
class Tried:
    """One setting in the figures."""

    point: Point  # Its job-wide values.
    value: float  # Its score in the objective; NaN where its launches failed.
    text: str  # Its result, or why it failed.


def winners(places: Sequence[SlotWinner]) -> str:
    """Message sizes by communicator sizes: the winner's colour, its gain as strength, ties hatched."""
    sizes = sorted({place.slot[2] for place in places})
    ranks = sorted({place.slot[1] for place in places})
    names = list(dict.fromkeys(_name(place.choice) for place in places))
    named = [name for name in names if name not in _UNDECIDED]
    colours = {name: _ALGORITHMS[i % len(_ALGORITHMS)] for i, name in enumerate(named)}
    figure = axes.empty(110 + 46 * len(ranks))
    for name in names:
        mine = [place for place in places if _name(place.choice) == name]
        colour = colours.get(name, GREY)
        faded = [_faded(colour, place) for place in mine]
        hatch = {"fgcolor": colour, "bgcolor": faded, "fillmode": "replace", "size": 7, "solidity": 0.25}
        figure.add_bar(
            x=[sizes.index(place.slot[2]) for place in mine],
            y=[0.94] * len(mine),
            base=[ranks.index(place.slot[1]) - 0.47 for place in mine],
            width=0.96,
            name=name or "left to the stack",
            marker={
                "color": faded,
                "line": {"color": colour, "width": 1},
                "pattern": {"shape": ["/" if place.tied else "" for place in mine], **hatch},
            },
            textposition="none",
            **axes.told(_place_text(place) for place in mine),
        )
    figure.update_layout(barmode="overlay", bargap=0, margin={"b": 64})
    for update, title, labels in (
        (figure.update_xaxes, "message size", [size_text(size) for size in sizes]),
        (figure.update_yaxes, "ranks", [str(n) for n in ranks]),
    ):
        places_at, ends = list(range(len(labels))), [-0.5, len(labels) - 0.5]
        ticks = {"tickmode": "array", "tickvals": places_at, "ticktext": labels, "showgrid": False}
        update(title_text=title, range=ends, **ticks)
    return axes.as_json(figure, f"winners-{places[0].slot[0]}")


def choice_text(choice: Point) -> str:
    """A per-size choice in a few words; ``default`` where the stack decides."""
    return _name(choice) or "default"


def parallel(
    objective: Objective, space: Space, names: Sequence[str], tried: Sequence[Tried], default: Point
) -> str:
    """A line through the values of each setting, a row for each parameter, the score in the last one."""
    finite = [one for one in tried if math.isfinite(one.value)]
    known = sorted(finite, key=lambda its: its.value, reverse=objective.maximise)
    failed = [one for one in tried if not math.isfinite(one.value)]
    n_best = max(1, round(_SHARE_OF_BEST * len(known)))
    scales = {name: _places(space, name, [*known, *failed]) for name in names}
    low = math.log(min((one.value for one in known), default=1.0))
    high = math.log(max((one.value for one in known), default=1.0))
    rows = len(names)
    figure = axes.empty(90 + 62 * (rows + 1))
    worse = -1.0 if objective.maximise else 1.0  # the better, the further left

    def score_at(one: Tried) -> float:
        if not math.isfinite(one.value):
            return 1.12
        share = (math.log(one.value) - low) / (high - low) if high > low else 0.5
        return share if worse > 0 else 1 - share

    for name, colour, width, chosen, dash, opacity in (
        ("others", GREY, 1.0, known[n_best:][::-1], "solid", 0.45),
        ("failed", RED, 1.2, failed, "dot", 0.7),
        (f"best {n_best}", TEAL, 2.0, known[:n_best][::-1], "solid", 0.9),
    ):
        x: list[float | None] = []
        y: list[float | None] = []
        text: list[str] = []
        for k, one in enumerate(chosen):
            shift = 0.018 * (2 * (k % 7) / 6 - 1)  # lines through the same values beside each other
            line = [scales[n].get(one.point.get(n), -0.06) + shift for n in names] + [score_at(one)]
            x += [*(axes.rounded(place) for place in line), None]
            y += [*range(rows, -1, -1), None]
            text += [f"{changed_text(one.point, default)}<br>{one.text}"] * (len(line) + 1)
        figure.add_scatter(
            x=x,
            y=y,
            mode="lines+markers",
            name=name,
            showlegend=bool(chosen),
            opacity=opacity,
            line={"color": colour, "width": width, "dash": dash},
            marker={"color": colour, "size": 4},
            hoverlabel={"namelength": 0},
            **axes.told(text),
        )
    scaled = [(rows - i, scales[n]) for i, n in enumerate(names)]
    labels = [(place, row, value_text(v)) for row, scale in scaled for v, place in scale.items()]
    ends = [(0.0, low if worse > 0 else high), (1.0, high if worse > 0 else low)]
    labels += [(place, 0, figure_text(math.exp(log), unit=objective.unit)) for place, log in ends if known]
    labels += [(1.12, 0, "failed")] if failed else []
    words = {"mode": "text", "showlegend": False, "hoverinfo": "skip", "cliponaxis": False}
    figure.add_scatter(
        x=[place for place, _, _ in labels],
        y=[row for _, row, _ in labels],
        text=[text for _, _, text in labels],
        textposition="bottom center",
        textfont={"size": 11},
        **words,
    )
    rules = list(range(rows, -1, -1))
    figure.add_scatter(
        x=[-0.06] * (rows + 1),
        y=rules,
        text=[f"<b>{html.escape(name)}</b>" for name in (*names, objective.name)],
        textposition="top right",
        textfont={"size": 12},
        **words,
    )
    figure.update_xaxes(visible=False, range=[-0.07, 1.2 if failed else 1.07])
    figure.update_yaxes(tickvals=rules, showticklabels=False, range=[-0.6, rows + 0.5])
    figure.update_layout(margin={"l": 16})
    return axes.as_json(figure, f"settings-{objective.name}")


def one_slice(
    objective: Objective, space: Space, name: str, tried: Sequence[Tried], default: Value | None
) -> str:
    """Every setting's score over the values of one parameter; those that failed above or below all others."""
    scale = _places(space, name, tried)
    values = list(scale)
    known = [one for one in tried if math.isfinite(one.value)]
    failed = [one for one in tried if not math.isfinite(one.value)]
    scores = [one.value for one in known] or [1.0]
    aside = min(scores) / 1.1 if objective.maximise else max(scores) * 1.1
    figure = axes.empty(270)
    for label, colour, symbol, shown in (("tried", BLUE, "circle", known), ("failed", RED, "x", failed)):
        spread = [0.18 * (2 * (k % 9) / 8 - 1) for k in range(len(shown))]
        figure.add_scatter(
            x=[values.index(one.point.get(name)) + by for one, by in zip(shown, spread, strict=True)],
            y=[axes.rounded(one.value) if math.isfinite(one.value) else aside for one in shown],
            name=label,
            showlegend=False,
            **axes.dots(color=colour, size=6, symbol=symbol, opacity=0.6),
            **axes.told(one.text for one in shown),
        )
    best = [
        min(mine) if not objective.maximise else max(mine)
        for value in values
        if (mine := [one.value for one in known if one.point.get(name) == value] or [math.nan])
    ]
    figure.add_scatter(
        x=list(range(len(values))),
        y=[axes.rounded(value) if math.isfinite(value) else None for value in best],
        mode="lines+markers" if scale and len(space[name].scale) > 1 else "markers",
        name="best",
        showlegend=False,
        line={"color": TEAL, "width": 1.5},
        marker={"color": TEAL, "size": 10, "symbol": "line-ew", "line": {"color": TEAL, "width": 2.5}},
        hoverinfo="skip",
    )
    marks = [f"{value_text(value)} ●" if value == default else value_text(value) for value in values]
    figure.update_xaxes(title_text=name, tickvals=list(range(len(values))), ticktext=marks,
                        range=[-0.5, len(values) - 0.5])  # fmt: skip
    shown_scores = scores + ([aside] if failed else [])
    figure.update_yaxes(**axes.axis(objective, shown_scores))
    figure.update_layout(margin={"l": 56, "r": 8, "t": 8, "b": 48})
    return axes.as_json(figure, f"slice-{objective.name}-{name}")


def _places(space: Space, name: str, tried: Sequence[Tried]) -> Mapping[Value | None, float]:
    """Where the values that were tried stand on a row, in the order of the space, from 0 to 1."""
    seen = {one.point.get(name) for one in tried}
    values: list[Value | None] = [value for value in space[name].values if value in seen]
    values += sorted(seen - set(values), key=str)  # of the whole space, where this one holds values
    return {value: i / max(1, len(values) - 1) for i, value in enumerate(values)}


def _name(choice: Point) -> str:
    return " ".join(str(value) for value in dict(choice).values())


def _faded(colour: str, place: SlotWinner) -> str:
    """The colour as strong as the gain is large."""
    gain = place.gain.ratio if place.gain else 1.0
    share = min(max(math.log(gain), 0.0) / math.log(_FULL_GAIN), 1.0) if gain > 0 else 0.0
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{_FAINTEST + (0.9 - _FAINTEST) * share:.2f})"


def _place_text(place: SlotWinner) -> str:
    _, ranks, size = place.slot
    lines = [f"{size_text(size)} on {ranks} ranks: {choice_text(place.choice)}"]
    if place.gain:
        lines.append(f"{ratio_text(place.gain.ratio, place.gain.interval)}, {verdict(place.gain)}")
    if place.tied:
        rivals = ", ".join(choice_text(rival) for rival in place.rivals[:4])
        lines.append(f"not significantly faster than {rivals}")
    elif math.isfinite(place.behind):
        lines.append(f"the next best takes {ratio_text(place.behind)} its time")
    return "<br>".join(lines)
