"""Launches in blocks whose order is drawn."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from autotune.history.trial import Cell, Estimate, Observation, Phase, Status, Subject, Trial
from autotune.space import Point
from autotune.verification.blocks import blocks_of, order

SLOT = ("allreduce", 2, 1024)


def launch(number, subject, block, seconds, status=Status.OK):
    estimates = tuple(Estimate(Cell("allreduce", 2, size), t, 0.01 * t, 20) for size, t in seconds.items())
    return Observation(Trial(number, Phase.VERIFY, Point(), subject, block), status, estimates)


def cores(latency_s, usual_s):
    return {"core_latency_s": latency_s, "cores_apart": latency_s / usual_s}


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


@pytest.mark.parametrize("usual_s", [90e-9, 400e-9])
def test_launches_on_cores_far_apart_are_compared_among_themselves(usual_s):
    near, apart = (
        replace(launch(n, Subject.UNTOUCHED, 7, {1024: t}), extra=cores(latency_s, usual_s))
        for n, t, latency_s in ((1, 2.0, 95e-9), (2, 6.0, 390e-9))
    )
    tuned = replace(launch(3, Subject.DEPLOYED, 7, {1024: 3.0}), extra=cores(410e-9, usual_s))
    (block,) = blocks_of([near, apart], [tuned])
    assert block.states == (0, 1, 1)
    assert block.gains(SLOT) == pytest.approx([math.log(2)])


def test_a_setting_that_moves_its_ranks_apart_itself_is_compared_as_it_is():
    near = [replace(launch(n, Subject.UNTOUCHED, 7, {1024: 2.0}), extra=cores(95e-9, 9e-8)) for n in range(4)]
    far = replace(launch(4, Subject.UNTOUCHED, 7, {1024: 6.0}), extra=cores(390e-9, 9e-8))
    mine = [
        replace(launch(n, Subject.DEPLOYED, 7, {1024: 6.0}), extra=cores(41e-8, 9e-8)) for n in range(5, 10)
    ]
    (block,) = blocks_of([*near, far], mine)
    assert set(block.states) == {0}
    (block,) = blocks_of([near[0], far], mine[:1])  # so few say nothing
    assert block.states == (0, 1, 1)
