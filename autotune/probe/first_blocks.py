"""Decide in which order cells are timed for the first time, and which cells are too slow to be timed at all.

A *cell* is one message size with one choice, such as an algorithm. Small messages are timed first, and at
each size the choices in the order of their times at the next smaller size. A larger message takes at least as
long as a smaller one. So a choice is not timed at a size if at a smaller size it took more than ``MARGIN``
times as long as the best choice takes at this size. Choices are not assumed to keep their order from size to
size: that a choice is slow relative to others at one size shows nothing about the next size.
"""

import math
from collections.abc import Sequence

from autotune.measure.stopping import MARGIN
from autotune.probe.swept import OK, SweptCell

NOT_SWEPT = "not swept, since smaller messages take longer"
"""Reason given for a cell without samples whose choice was too slow at a smaller message size."""


def pending_cells(cells: Sequence[SweptCell]) -> list[int]:
    """Return the indices of the cells that can be timed but were not timed yet."""
    return [index for index, cell in enumerate(cells) if cell.verdict == OK and not cell.started]


def next_first(cells: Sequence[SweptCell]) -> tuple[int, str]:
    """Return the index of the cell to time next, or of a cell that is too slow to be timed, with the reason.

    The reason is empty if the cell is to be timed. Before a cell is given up, the cell with a smaller message
    that shows it to be too slow is timed once more: a disturbance seldom makes a call longer twice.
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
    return 0.0 if index is None else cells[index].fastest_s


def _below(cells: Sequence[SweptCell], cell: SweptCell) -> int | None:
    """Return the index of the same choice's cell at the next smaller timed size; None if there is none."""
    smaller = [
        index
        for index, candidate in enumerate(cells)
        if candidate.choice is cell.choice
        and candidate.message_bytes < cell.message_bytes
        and candidate.fastest_s < math.inf
    ]
    return max(smaller, key=lambda index: cells[index].message_bytes, default=None)
