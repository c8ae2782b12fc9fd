"""Draw the report's figures of all launched settings, as plotly's JSON.

A setting is a line through its values, or a point over the value of one parameter; a map shows the fastest
choice (the winner) for each message size and communicator size.
"""

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
from autotune.views.text import (
    changed_text,
    figure_text,
    ratio_text,
    size_text,
    system_text,
    value_text,
    verdict,
)

_ALGORITHMS = (BLUE, TEAL, AMBER, VIOLET, PINK, GREEN, BROWN, CYAN, RED)
_UNDECIDED = ("", "default")  # Names of choices that leave the decision to the MPI.
_FAINTEST, _FULL_GAIN = 0.22, 2.0
"""Opacity of a field without gain in the map of winners, and the gain (default / tuned) from which on the
opacity is the largest."""
_SHARE_OF_BEST = 0.1  # Share of all settings that are drawn in the colour of the best.


@dataclass(frozen=True, slots=True)
class PlottedSetting:
    """Describes one setting as the figures of an objective draw it."""

    point: Point  # The job-wide values of the setting.
    value: float  # Score of the setting in the objective; NaN if its launches failed.
    text: str  # The result in words, or the reason why the launches failed.


def winners(places: Sequence[SlotWinner], nodes: Sequence[int] = ()) -> str:
    """Return a map of message sizes and communicator sizes, coloured by the choice that is fastest in each.

    The opacity of a colour shows the gain; a field is hatched if other choices may be as fast. Each row of
    the map is for a number of ranks; if the ``nodes`` of each place are given, for a number of nodes and
    ranks.
    """
    sizes = sorted({place.slot[2] for place in places})
    rows = [(n, place.slot[1]) for n, place in zip(nodes or [0] * len(places), places, strict=True)]
    systems = sorted(set(rows))
    names = list(dict.fromkeys(_name(place.choice) for place in places))
    decided = [name for name in names if name not in _UNDECIDED]
    colours = {name: _ALGORITHMS[i % len(_ALGORITHMS)] for i, name in enumerate(decided)}
    figure = axes.empty(110 + 46 * len(systems))
    for name in names:
        won = [place for place in places if _name(place.choice) == name]
        colour = colours.get(name, GREY)
        faded = [_faded(colour, place) for place in won]
        hatch = {"fgcolor": colour, "bgcolor": faded, "fillmode": "replace", "size": 7, "solidity": 0.25}
        figure.add_bar(
            x=[sizes.index(place.slot[2]) for place in won],
            y=[0.94] * len(won),
            base=[
                systems.index(row) - 0.47
                for row, place in zip(rows, places, strict=True)
                if _name(place.choice) == name
            ],
            width=0.96,
            name=name or "left to the stack",
            marker={
                "color": faded,
                "line": {"color": colour, "width": 1},
                "pattern": {"shape": ["/" if place.tied else "" for place in won], **hatch},
            },
            textposition="none",
            **axes.hover(_place_text(place) for place in won),
        )
    figure.update_layout(barmode="overlay", bargap=0, margin={"b": 64})
    for update, title, labels in (
        (figure.update_xaxes, "message size", [size_text(size) for size in sizes]),
        (figure.update_yaxes, "" if nodes else "ranks", [system_text(n, ranks) for n, ranks in systems]),
    ):
        positions, ends = list(range(len(labels))), [-0.5, len(labels) - 0.5]
        ticks = {"tickmode": "array", "tickvals": positions, "ticktext": labels, "showgrid": False}
        update(title_text=title, range=ends, **ticks)
    return axes.as_json(figure, f"winners-{places[0].slot[0]}")


def strength(gain: float) -> float:
    """Return how strong the colour of a gain is: from 0 without gain to 1 from the largest shown gain on."""
    return min(max(math.log(gain), 0.0) / math.log(_FULL_GAIN), 1.0) if gain > 0 else 0.0


def choice_text(choice: Point) -> str:
    """Return the choice made for a message size, in a few words; ``default`` if the MPI decides."""
    return _name(choice) or "default"


def parallel(
    objective: Objective,
    space: Space,
    names: Sequence[str],
    settings: Sequence[PlottedSetting],
    default: Point,
) -> str:
    """Return a figure with a row for each parameter, and for each setting a line through its values.

    The last row shows the score in the objective; ``names`` are the parameters in the order of the rows.
    """
    finite = [setting for setting in settings if math.isfinite(setting.value)]
    scored = sorted(finite, key=lambda setting: setting.value, reverse=objective.maximise)
    failed = [setting for setting in settings if not math.isfinite(setting.value)]
    n_best = max(1, round(_SHARE_OF_BEST * len(scored)))
    scales = {name: _places(space, name, [*scored, *failed]) for name in names}
    low = math.log(min((setting.value for setting in scored), default=1.0))
    high = math.log(max((setting.value for setting in scored), default=1.0))
    rows = len(names)
    figure = axes.empty(90 + 62 * (rows + 1))
    worse = -1.0 if objective.maximise else 1.0  # Better scores are further left.

    def score_at(setting: PlottedSetting) -> float:
        if not math.isfinite(setting.value):
            return 1.12
        share = (math.log(setting.value) - low) / (high - low) if high > low else 0.5
        return share if worse > 0 else 1 - share

    for name, colour, width, group, dash, opacity in (
        ("others", GREY, 1.0, scored[n_best:][::-1], "solid", 0.45),
        ("failed", RED, 1.2, failed, "dot", 0.7),
        (f"best {n_best}", TEAL, 2.0, scored[:n_best][::-1], "solid", 0.9),
    ):
        x: list[float | None] = []
        y: list[float | None] = []
        text: list[str] = []
        for k, setting in enumerate(group):
            shift = 0.018 * (2 * (k % 7) / 6 - 1)  # Keeps lines with the same values from overlapping.
            line = [scales[n].get(setting.point.get(n), -0.06) + shift for n in names] + [score_at(setting)]
            x += [*(axes.rounded(place) for place in line), None]
            y += [*range(rows, -1, -1), None]
            text += [f"{changed_text(setting.point, default)}<br>{setting.text}"] * (len(line) + 1)
        figure.add_scatter(
            x=x,
            y=y,
            mode="lines+markers",
            name=name,
            showlegend=bool(group),
            opacity=opacity,
            line={"color": colour, "width": width, "dash": dash},
            marker={"color": colour, "size": 4},
            hoverlabel={"namelength": 0},
            **axes.hover(text),
        )
    scaled = [(rows - i, scales[n]) for i, n in enumerate(names)]
    labels = [(place, row, value_text(v)) for row, scale in scaled for v, place in scale.items()]
    ends = [(0.0, low if worse > 0 else high), (1.0, high if worse > 0 else low)]
    labels += [(place, 0, figure_text(math.exp(log), unit=objective.unit)) for place, log in ends if scored]
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
    objective: Objective, space: Space, name: str, settings: Sequence[PlottedSetting], default: Value | None
) -> str:
    """Return a figure of the scores of all settings against the values of one parameter.

    Settings that failed are drawn at a level that is worse than all scores.
    """
    scale = _places(space, name, settings)
    values = list(scale)
    scored = [setting for setting in settings if math.isfinite(setting.value)]
    failed = [setting for setting in settings if not math.isfinite(setting.value)]
    scores = [setting.value for setting in scored] or [1.0]
    failure_level = min(scores) / 1.1 if objective.maximise else max(scores) * 1.1
    figure = axes.empty(270)
    for label, colour, symbol, group in (("tried", BLUE, "circle", scored), ("failed", RED, "x", failed)):
        spread = [0.18 * (2 * (k % 9) / 8 - 1) for k in range(len(group))]
        figure.add_scatter(
            x=[values.index(s.point.get(name)) + shift for s, shift in zip(group, spread, strict=True)],
            y=[axes.rounded(s.value) if math.isfinite(s.value) else failure_level for s in group],
            name=label,
            showlegend=False,
            **axes.dots(color=colour, size=6, symbol=symbol, opacity=0.6),
            **axes.hover(s.text for s in group),
        )
    best = [
        min(at_value) if not objective.maximise else max(at_value)
        for value in values
        if (at_value := [s.value for s in scored if s.point.get(name) == value] or [math.nan])
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
    levels = scores + ([failure_level] if failed else [])
    figure.update_yaxes(**axes.axis(objective, levels))
    figure.update_layout(margin={"l": 56, "r": 8, "t": 8, "b": 48})
    return axes.as_json(figure, f"slice-{objective.name}-{name}")


def _places(space: Space, name: str, settings: Sequence[PlottedSetting]) -> Mapping[Value | None, float]:
    """Return the position, from 0 to 1, of each launched value of a parameter, in the order of the space."""
    launched = {setting.point.get(name) for setting in settings}
    values: list[Value | None] = [value for value in space[name].values if value in launched]
    # A discovery may have removed values from the space that earlier launches had.
    values += sorted(launched - set(values), key=str)
    return {value: i / max(1, len(values) - 1) for i, value in enumerate(values)}


def _name(choice: Point) -> str:
    return " ".join(str(value) for value in dict(choice).values())


def _faded(colour: str, place: SlotWinner) -> str:
    share = strength(place.gain.ratio if place.gain else 1.0)
    return axes.faded(colour, _FAINTEST + (0.9 - _FAINTEST) * share)


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
