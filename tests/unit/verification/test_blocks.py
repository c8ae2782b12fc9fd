"""Launches in blocks whose order is drawn."""

import math
from collections import Counter

import numpy as np
import pytest

from autotune.history.trial import Cell, Estimate, Observation, Phase, Status, Subject, Trial
from autotune.space import Point
from autotune.verification.blocks import blocks_of, order

SLOT = ("allreduce", 2, 1024)


def launch(number, subject, block, seconds, status=Status.OK):
    estimates = tuple(Estimate(Cell("allreduce", 2, size), t, 0.01 * t, 20) for size, t in seconds.items())
    return Observation(Trial(number, Phase.VERIFY, Point(), subject, block), status, estimates)


@pytest.mark.parametrize(("n_each", "widths"), [(1, [1]), (4, [4]), (8, [5, 3]), (16, [5, 4, 4, 3])])
def test_every_block_has_as_many_launches_of_each_side(n_each, widths):
    launches = order(n_each, np.random.default_rng(1))
    made = Counter(launches)
    assert [made[block, True] for block in range(len(widths))] == widths
    assert [made[block, False] for block in range(len(widths))] == widths


def test_all_orders_of_a_block_are_drawn_alike():
    rng = np.random.default_rng(2)
    seen = Counter(tuple(tuned for _, tuned in order(2, rng)) for _ in range(600))
    assert len(seen) == 6
    assert max(seen.values()) < 140


def test_a_block_has_its_launches_in_order_and_nothing_of_one_that_failed():
    untouched = [launch(1, Subject.UNTOUCHED, 7, {1024: 2.0}), launch(4, Subject.UNTOUCHED, 7, {1024: 4.0})]
    tuned = [
        launch(3, Subject.DEPLOYED, 7, {1024: 1.0}),
        launch(2, Subject.DEPLOYED, 7, {}, Status.CRASHED),
    ]
    (block,) = blocks_of(untouched, tuned)
    assert block.tuned == (False, True, True, False)
    assert block.logs == (((SLOT, math.log(2)),), (), ((SLOT, 0.0),), ((SLOT, math.log(4)),))
    assert block.gains(SLOT) == pytest.approx([math.log(2) * 1.5])
    assert block.within([]).logs == ((),) * 4
