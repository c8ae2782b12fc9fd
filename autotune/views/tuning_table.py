"""The tuning table of a system, the fastest choice for each call, as text, as rows, and drawn (step 12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from autotune.history.objectives import Slot
from autotune.recommend.winners import SlotWinner
from autotune.space import Point
from autotune.views.launch_line import WIDTH
from autotune.views.report.axes import AMBER, BLUE, GREY, RED, TEAL
from autotune.views.text import aligned, ratio_text, size_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_COLOURS = (BLUE, AMBER, TEAL, RED, "#8f6fc9", "#6aa84f", "#c27ba0", GREY, "#a0743c", "#3fa7c4")
_FAINTEST = 0.3
_STRONGEST = 2.0  # Gain (default / tuned) from which on the colour has full opacity.
_US = 1e6
_LEGEND = """1.25×: 1.25 times as fast as the stack's own defaults, in the search.
≈2: two other choices are not significantly slower (--json names them).
the stack's choice: no rule is better there."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Says which choice is fastest in a slot (collective, communicator size, message size) on some nodes."""

    nodes: int  # Number of nodes of the campaign.
    place: SlotWinner  # The slot, and the fastest choice in this slot.

    @property
    def slot(self) -> Slot:
        """Return collective, communicator size and message size."""
        return self.place.slot


def tuning_text(table: Sequence[Entry]) -> str:
    """Return the table as text, with a block for each collective.

    A block has a row for each message size and a column for each number of nodes and ranks; a block that is
    wider than 80 characters is split.
    """
    blocks = []
    for collective, entries in groupby(table, key=lambda w: w.slot[0]):
        winners = {(w.slot[2], w.nodes, w.slot[1]): w for w in entries}
        systems = sorted({key[1:] for key in winners})
        sizes = sorted({key[0] for key in winners})
        blocks.append(f"{collective}: the fastest choice at each message size")
        part: list[tuple[int, int]] = []
        for system in systems:
            if part and max(map(len, _lines(winners, sizes, [*part, system]))) > WIDTH:
                blocks[-1] += "\n" + "\n".join(_lines(winners, sizes, part)) + "\n"
                part = []
            part.append(system)
        blocks[-1] += "\n" + "\n".join(_lines(winners, sizes, part))
    return "\n\n".join([*blocks, _LEGEND]) + "\n"


def _lines(
    winners: Mapping[tuple[int, int, int], Entry], sizes: Sequence[int], systems: Sequence[tuple[int, int]]
) -> list[str]:
    """Return the lines of a block, given winners by (size, nodes, ranks) and systems as (nodes, ranks)."""
    head = ("size", *(_system(*system) for system in systems))
    rows = [(size_text(size), *(_cell(winners.get((size, *system))) for system in systems)) for size in sizes]
    return aligned([head, *rows])


def tuning_rows(table: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return a row for each collective, communicator size and message size, with the fastest choice.

    Each parameter that is chosen by message size has a column.
    """
    winners = list(table)
    names = list(dict.fromkeys(name for w in winners for name in w.place.choice))
    return [
        {
            "nodes": w.nodes,
            **dict(zip(("collective", "comm_size", "message_bytes"), w.slot, strict=True)),
            **{name: w.place.choice.get(name, "") for name in names},
            "ties": "; ".join(map(name_of, w.place.rivals)),
            **_figures(w.place),
        }
        for w in winners
    ]


def tuning_page(table: Sequence[Entry], title: str) -> str:
    """Return a self-contained HTML page with a map of the fastest choice by message size and ranks.

    The colour shows the choice and its opacity the gain; a field is hatched if other choices may be as fast.
    """
    from plotly.subplots import make_subplots

    panels = [(collective, list(entries)) for collective, entries in groupby(table, key=lambda w: w.slot[0])]
    titles, n = [collective for collective, _ in panels], len(panels)
    figure: Figure = make_subplots(rows=n, cols=1, subplot_titles=titles, vertical_spacing=0.3 / n)
    names = list(dict.fromkeys(name_of(w.place.choice) for w in table))
    in_legend: set[str] = set()
    for row, (_, winners) in enumerate(panels, start=1):
        sizes = sorted({w.slot[2] for w in winners})
        systems = sorted({(w.nodes, w.slot[1]) for w in winners})
        for name in names:
            won = [w for w in winners if name_of(w.place.choice) == name]
            if not won:
                continue
            figure.add_bar(
                x=[size_text(w.slot[2]) for w in won],
                y=[1] * len(won),
                base=[systems.index((w.nodes, w.slot[1])) - 0.5 for w in won],
                width=1,
                name=escape(name),
                legendgroup=name,
                showlegend=name not in in_legend,
                marker={
                    "color": _COLOURS[names.index(name) % len(_COLOURS)],
                    "opacity": [_strength(w) for w in won],
                    "pattern": {"shape": ["/" if w.place.rivals else "" for w in won], "solidity": 0.2},
                    "line": {"color": "white", "width": 1},
                },
                hovertext=[escape(_hover(w)) for w in won],
                hoverinfo="text",
                row=row,
                col=1,
            )
            in_legend.add(name)
        figure.update_xaxes(
            categoryorder="array", categoryarray=[size_text(m) for m in sizes], title_text="message", row=row
        )
        figure.update_yaxes(
            tickvals=list(range(len(systems))), ticktext=[_system(*system) for system in systems], row=row
        )
    figure.update_layout(
        template="plotly_white", barmode="overlay", bargap=0, height=120 + 260 * n, title=escape(title)
    )
    page: str = figure.to_html(include_plotlyjs=True, full_html=True)
    return page


def name_of(choice: Point) -> str:
    """Return a choice in words: its values, or that the stack decides."""
    return " ".join(
        str(value) if name == "algorithm" else f"{name}={value}" for name, value in choice.items()
    ) or ("the stack's choice")


def _figures(place: SlotWinner) -> dict[str, float | str]:
    """Return the columns on the gain over the defaults; they are empty if the defaults were not measured."""
    if (gain := place.gain) is None:
        return dict.fromkeys(("latency_us", "default_us", "gain", "gain_low", "gain_high"), "")
    low, high = gain.interval
    return {
        "latency_us": round(gain.tuned_s * _US, 6),
        "default_us": round(gain.default_s * _US, 6),
        "gain": round(gain.ratio, 4),
        "gain_low": round(low, 4),
        "gain_high": round(high, 4),
    }


def _system(nodes: int, ranks: int) -> str:
    """Return a number of nodes and ranks in words."""
    return f"{nodes} node{'s' if nodes > 1 else ''}, {ranks} ranks"


def _cell(winner: Entry | None) -> str:
    """Return a field of the text table: the choice, its gain, and how many others may be as fast."""
    if winner is None:
        return ""
    ties = f" ≈{len(winner.place.rivals)}" if winner.place.rivals else ""
    gain = f" {ratio_text(winner.place.gain.ratio)}" if winner.place.gain else ""
    return f"{name_of(winner.place.choice)}{gain}{ties}"


def _hover(winner: Entry) -> str:
    """Return the text for the mouse over a field of the map: the fastest choice, its gain, and its ties."""
    collective, ranks, size = winner.slot
    ties = f"; ties with {', '.join(map(name_of, winner.place.rivals))}" if winner.place.rivals else ""
    gain = winner.place.gain
    gain_text = ratio_text(gain.ratio, gain.interval) if gain else "gain unknown"
    slot_text = f"{collective}, {_system(winner.nodes, ranks)}, {size_text(size)}"
    return f"{slot_text}: {name_of(winner.place.choice)}, {gain_text}{ties}"


def _strength(winner: Entry) -> float:
    """Return the opacity of a field of the map, which grows with the gain over the default."""
    share = (winner.place.gain.ratio - 1) / (_STRONGEST - 1) if winner.place.gain else 0.0
    return _FAINTEST + (1 - _FAINTEST) * min(max(share, 0.0), 1.0)
