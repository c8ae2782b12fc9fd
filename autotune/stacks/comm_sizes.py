"""For which communicators a per-size table holds (part of step 12).

Files choose by communicator size too, but a campaign measures only a few. A table holds within a factor of
two of the size that it was measured on; beyond, nothing is known and the stack decides. Where the reaches of
two tables meet, the smaller one holds up to the size that the larger one was measured on.
"""

from collections.abc import Collection, Sequence


def reaches(measured: Sequence[int], exact: Collection[int] = ()) -> list[tuple[int, int]]:
    """(first communicator size, measured size whose table holds from there; 0: the stack decides), ascending.

    Args:
        measured: Communicator sizes with a table, ascending, distinct.
        exact: Those whose table must not be used by a larger communicator.
    """
    starts: dict[int, int] = {}
    end = 2  # the smallest communicator that no table covers yet
    for size in measured:
        low = size // 2 + 1
        if low > end:
            starts[end] = 0
        starts[low if low >= end else size] = size
        end = size + 1 if size in exact else 2 * size
    starts[end] = 0
    return sorted(starts.items())
