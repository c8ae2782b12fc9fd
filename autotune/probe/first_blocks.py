"""The order in which the cells of a sweep are timed for the first time, and which ones are not swept at all.

Small messages come first, and for each size the choices in the order of their times at the size below. A
larger message takes at least as long as a smaller one. So a choice that took more than ``MARGIN`` times as
long at a smaller size as the best takes at this one is not swept here. Choices are not assumed to keep their
order from size to size: being slow at one size alone says nothing about the next one.
"""

import math
from collections.abc import Sequence

from autotune.measure.stopping import MARGIN
from autotune.probe.swept import OK, SweptCell

NOT_SWEPT = "not swept, since smaller messages take longer"
"""Reason why a cell of a slow choice has no sample."""


def pending_cells(cells: Sequence[SweptCell]) -> list[int]:
    """Return the indices of the cells that can be timed and were not yet."""
    return [index for index, cell in enumerate(cells) if cell.verdict == OK and not cell.started]


def next_first(cells: Sequence[SweptCell]) -> tuple[int, str]:
    """Return the pending cell that is timed next, and the reason why it is not swept; empty: it is swept.

    A cell that was timed before is returned once more where it decides that another one is not swept: a
    disturbance makes a call longer, and seldom hits it twice.
    """
    size = min(cells[index].message_bytes for index in pending_cells(cells))
    of_size = [index for index in pending_cells(cells) if cells[index].message_bytes == size]
    below = {index: _below(cells, cells[index]) for index in of_size}
    index = min(of_size, key=lambda i: (_fastest_s(cells, below[i]), i))
    best_s = min(cell.fastest_s for cell in cells if cell.message_bytes == size)
    smaller = below[index]
    if smaller is None or cells[smaller].fastest_s <= MARGIN * best_s:
        return index, ""
    if not cells[smaller].timed_again:
        cells[smaller].timed_again = True
        return smaller, ""
    slow = f"{1e6 * cells[smaller].fastest_s:.3g} µs at {cells[smaller].message_bytes} bytes"
    return index, f"{NOT_SWEPT}: {slow}, where the best at {size} bytes takes {1e6 * best_s:.3g} µs"


def _fastest_s(cells: Sequence[SweptCell], index: int | None) -> float:
    """Return a cell's fastest call in seconds; 0 without a cell, so that it comes first."""
    return 0.0 if index is None else cells[index].fastest_s


def _below(cells: Sequence[SweptCell], cell: SweptCell) -> int | None:
    """Return the cell of the same choice at the largest smaller size where it was timed."""
    smaller = [
        index
        for index, candidate in enumerate(cells)
        if candidate.choice is cell.choice
        and candidate.message_bytes < cell.message_bytes
        and candidate.fastest_s < math.inf
    ]
    return max(smaller, key=lambda index: cells[index].message_bytes, default=None)
