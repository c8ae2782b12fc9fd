"""Show the tuning table of a system (the fastest choice for each call) as text, rows or a page (step 12)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any

from autotune.history.objectives import Slot, known_end
from autotune.recommend.winners import SlotWinner
from autotune.space import Point
from autotune.views.launch_line import WIDTH
from autotune.views.report.setting_plots import winners
from autotune.views.text import aligned, ratio_text, size_text, system_text

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
    for collective, entries in groupby(table, key=lambda entry: entry.slot[0]):
        fields = {(entry.slot[2], entry.nodes, entry.slot[1]): entry for entry in entries}
        parts: list[list[tuple[int, int]]] = [[]]
        for system in sorted({key[1:] for key in fields}):
            if parts[-1] and max(map(len, _lines(fields, [*parts[-1], system]))) > WIDTH:
                parts.append([])
            parts[-1].append(system)
        texts = "\n\n".join("\n".join(_lines(fields, part)) for part in parts)
        blocks.append(f"{collective}: the fastest choice at each message size\n{texts}")
    return "\n\n".join([*blocks, _LEGEND]) + "\n"


def _lines(fields: Mapping[tuple[int, int, int], Entry], systems: Sequence[tuple[int, int]]) -> list[str]:
    """Return the lines of a part, given entries by (size, nodes, ranks) and systems as (nodes, ranks)."""
    head = ("size", *(system_text(*system) for system in systems))
    sizes = sorted({size for size, *_ in fields})
    rows = [(size_text(size), *(_cell(fields.get((size, *system))) for system in systems)) for size in sizes]
    return aligned([head, *rows])


def tuning_rows(table: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return a row for each collective, communicator size and message size, with the fastest choice.

    Each parameter that is chosen by message size has a column.
    """
    names = list(dict.fromkeys(name for entry in table for name in entry.place.choice))
    return [
        {
            "nodes": entry.nodes,
            **dict(zip(("collective", "comm_size", "message_bytes"), entry.slot, strict=True)),
            **{name: entry.place.choice.get(name, "") for name in names},
            "ties": "; ".join(map(_named, entry.place.rivals)),
            **_figures(entry.place),
        }
        for entry in table
    ]


def tuning_page(table: Sequence[Entry], title: str) -> str:
    """Return a self-contained HTML page with a map of the fastest choice for each collective."""
    from plotly.io import from_json

    parts: list[str] = []
    for collective, group in groupby(table, key=lambda entry: entry.slot[0]):
        entries = list(group)
        figure = from_json(winners([entry.place for entry in entries], [entry.nodes for entry in entries]))
        drawn = figure.to_html(full_html=False, include_plotlyjs=not parts)
        parts.append(f"<h2>{escape(collective)}</h2>\n{drawn}\n")
    head = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
    return f"{head}<h1>{escape(title)}</h1>\n{''.join(parts)}</html>\n"


def _named(choice: Point) -> str:
    return " ".join(
        str(value) if name == "algorithm" else f"{name}={value}" for name, value in choice.items()
    ) or ("the stack's choice")


def _figures(place: SlotWinner) -> dict[str, float | str]:
    """Return the columns on the gain over the defaults; they are empty if they are not known."""
    if (gain := place.gain) is None:
        return dict.fromkeys(("latency_us", "default_us", "gain", "gain_low", "gain_high"), "")
    low, high = ("" if math.isnan(known_end(end)) else round(end, 4) for end in gain.interval)
    return {
        "latency_us": round(gain.tuned_s * _US, 6),
        "default_us": round(gain.default_s * _US, 6),
        "gain": round(gain.ratio, 4),
        "gain_low": low,
        "gain_high": high,
    }


def _cell(winner: Entry | None) -> str:
    """Return the text of a field: the choice, its gain, and how many other choices may be as fast."""
    if winner is None:
        return ""
    ties = f" ≈{len(winner.place.rivals)}" if winner.place.rivals else ""
    gain = f" {ratio_text(winner.place.gain.ratio)}" if winner.place.gain else ""
    return f"{_named(winner.place.choice)}{gain}{ties}"
