"""Draw the map of a site's gains as an HTML page, with a table of message sizes × nodes per collective."""

import math
from collections.abc import Iterable, Sequence
from html import escape

from autotune.views.text import size_text

_STRONGEST = 2.0  # Speed-up (default / tuned time) that is drawn in full colour.
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 2rem 1.5rem 0;display:inline-table;vertical-align:top}
caption{text-align:left;font-weight:600}td,th{border:1px solid #ccc;padding:.2rem .6rem;text-align:right}
.key{display:inline-block;width:1.6rem;height:1rem;border:1px solid #ccc;vertical-align:middle}"""

Mapped = tuple[str, int, int, int, float, bool]
"""(Collective, nodes, ranks on a node, bytes, default time / tuned time, whether predicted). A ratio of 1
means that the choice is left to the library."""
Gain = tuple[float, bool]  # (Default time / tuned time, whether predicted).


def site_page(title: str, remarks: Sequence[str], cells: Iterable[Mapped]) -> str:
    """Return the page: remarks on the site, then a table for each collective and number of ranks a node."""
    maps: dict[tuple[str, int], dict[tuple[int, int], Gain]] = {}
    for collective, nodes, ppn, size, gain, predicted in cells:
        maps.setdefault((collective, ppn), {})[size, nodes] = gain, predicted
    tables = "".join(_table(*key, by_place) for key, by_place in sorted(maps.items()))
    keys = (
        f'<p><span class="key" style="{_paint(_STRONGEST, False)}"></span> faster, measured; '
        f'<span class="key" style="{_paint(_STRONGEST, True)}"></span> predicted, not measured; '
        '<span class="key"></span> the library decides. Full colour: twice as fast or more.</p>'
    )
    lines = "".join(f"<li>{escape(line)}</li>" for line in remarks)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1><ul>{lines}</ul>{keys}{tables}</html>\n"
    )


def _table(collective: str, ppn: int, cells: dict[tuple[int, int], Gain]) -> str:
    """Return the table of a collective as HTML; the keys of ``cells`` are (bytes, nodes)."""
    nodes, rows = sorted({n for _, n in cells}), ""
    for size in sorted({b for b, _ in cells}):
        row = "".join(_cell(cells.get((size, n))) for n in nodes)
        rows += f"<tr><th>{size_text(size)}</th>{row}</tr>"
    head = "".join(f"<th>{n}</th>" for n in nodes)
    caption = f"{escape(collective)}, {ppn} ranks a node: bytes by nodes"
    return f"<table><caption>{caption}</caption><tr><th></th>{head}</tr>{rows}</table>"


def _cell(cell: Gain | None) -> str:
    """Return a table cell as HTML; empty where the choice is left to the library, or nothing is known."""
    if cell is None or cell[0] == 1:
        return "<td></td>"
    return f'<td style="{_paint(*cell)}">{cell[0]:.2f}×</td>'


def _paint(gain: float, predicted: bool) -> str:
    """Return the CSS of a table cell: green for a gain, red for a loss, striped where it was predicted."""
    strength = min(abs(math.log(gain)) / math.log(_STRONGEST), 1.0)
    colour = f"rgba({'30,140,110' if gain > 1 else '200,60,50'},{0.15 + 0.6 * strength:.2f})"
    if not predicted:
        return f"background:{colour}"
    return f"background:repeating-linear-gradient(45deg,{colour} 0 6px,transparent 6px 10px)"
