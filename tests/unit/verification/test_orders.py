"""The order of a block is drawn by one rule, which every comparison of launches uses."""

from collections import Counter

import numpy as np
import pytest

from autotune.verification.orders import drawn, drawn_blocks
from autotune.verification.sequential import SequentialDesign


@pytest.mark.parametrize(
    ("n_sides", "heats", "n_each", "widths"),
    [
        (2, False, 1, (1,)),
        (2, False, 4, (4,)),
        (2, False, 8, (5, 3)),
        (2, False, 16, (5, 4, 4, 3)),
        (3, False, 10, (4, 4, 2)),
        (2, True, 5, (2, 2, 1)),
    ],
)
def test_every_block_has_as_many_launches_of_each_side(n_sides, heats, n_each, widths):
    assert SequentialDesign(n_each, heats=heats).widths(n_sides) == widths
    for width, block in zip(
        widths, drawn_blocks(range(n_sides), widths, np.random.default_rng(1)), strict=True
    ):
        assert Counter(block) == dict.fromkeys(range(n_sides), width)


def test_all_orders_of_a_block_are_drawn_alike():
    rng = np.random.default_rng(2)
    seen = Counter(drawn((True, False), 2, rng) for _ in range(600))
    assert len(seen) == 6
    assert max(seen.values()) < 140


def test_the_order_of_a_block_is_that_of_its_seed():
    orders = [drawn((None, "a", "b"), 4, np.random.default_rng(seed)) for seed in range(60)]
    assert len(set(orders)) == 60
    assert orders == [drawn((None, "a", "b"), 4, np.random.default_rng(seed)) for seed in range(60)]
