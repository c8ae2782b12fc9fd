"""Launches in blocks whose order is drawn."""

import math

import pytest

from autotune.history.trial import Cell, Estimate, Observation, Phase, Status, Subject, Trial
from autotune.space import Point
from autotune.verification.blocks import blocks_of

SLOT = ("allreduce", 2, 1024)


def launch(number, subject, block, seconds, status=Status.OK):
    estimates = tuple(Estimate(Cell("allreduce", 2, size), t, 0.01 * t, 20) for size, t in seconds.items())
    return Observation(Trial(number, Phase.VERIFY, Point(), subject, block), status, estimates)


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
