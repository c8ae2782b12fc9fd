"""Draw the order in which the launches of a block are made (step 11 of the flow, and every other comparison).

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
    """Draw the orders of several blocks; ``widths`` holds the launches of each side in each of them."""
    return tuple(drawn(sides, width, rng) for width in widths)
