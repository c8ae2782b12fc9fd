"""Draw the order in which the launches of a block are made, in the verification and all other comparisons.

In a block each side has as many launches as the others, in an order that is drawn at random: comparisons rest
on that draw alone (see ``planned``). Verification takes its orders from here, and so does ``campaign.turns``,
which launches the sides of all other comparisons.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

_T = TypeVar("_T")


def drawn(sides: Sequence[_T], each: int, rng: np.random.Generator) -> tuple[_T, ...]:
    """Draw the order of a block, in which each side occurs ``each`` times; all orders are equally likely."""
    launches = tuple(sides) * each
    return tuple(launches[i] for i in rng.permutation(len(launches)))


def drawn_blocks(
    sides: Sequence[_T], widths: Sequence[int], rng: np.random.Generator
) -> tuple[tuple[_T, ...], ...]:
    """Draw the orders of several blocks; ``widths`` is the number of launches of each side in each block."""
    return tuple(drawn(sides, width, rng) for width in widths)
