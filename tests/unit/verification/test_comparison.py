"""What is said of slots, alone and together."""

import math
from dataclasses import replace

import numpy as np
import pytest

from autotune.errors import ScenarioError
from autotune.verification.blocks import Block
from autotune.verification.comparison import (
    SlotDecision,
    claims,
    compare,
    decided,
    overall,
)
from autotune.verification.sequential import SequentialDesign

DESIGN = SequentialDesign(alpha=0.05)
SIZES = (16, 1024, 65536)


def slot(size):
    return ("allreduce", 2, size)


def blocks(gains, noise=0.01, n=4, seed=0, slow=0.0):
    """Of a machine on which each size gains so much; ``slow``: share of the setting's launches that are."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(n):
        tuned = tuple(bool(side) for side in rng.permutation([True, False] * 4))
        logs = []
        for side in tuned:
            y = noise * rng.normal(size=len(gains)) - side * np.array(gains)
            y = y + math.log(3) * (side and rng.random() < slow)
            logs.append(tuple((slot(size), float(t)) for size, t in zip(SIZES, y, strict=False)))
        made.append(Block(tuned, tuple(logs)))
    return tuple(made)


@pytest.mark.parametrize("bad", [{"setting_launches": 0}, {"alpha": 0.0}, {"max_loss": 1.0}, {"margin": 0.0}])
def test_a_design_that_cannot_be_is_refused(bad):
    with pytest.raises(ScenarioError):
        SequentialDesign(**bad)


@pytest.mark.parametrize(
    ("gain", "noise", "decision", "loses"),
    [
        (0.3, 0.01, SlotDecision.STILL_BETTER, False),
        (0.0, 0.001, SlotDecision.NO_LONGER, False),
        (-0.3, 0.01, SlotDecision.NO_LONGER, True),
        (-0.003, 0.0005, SlotDecision.NO_LONGER, False),
        (0.1, 0.6, SlotDecision.INCONCLUSIVE, False),
    ],
)
def test_decisions(gain, noise, decision, loses):
    judged = compare(blocks([gain] * 3, noise), DESIGN)
    assert {(c.decision, c.loses) for c in judged} == {(decision, loses)}
    assert decided(judged) is (decision is not SlotDecision.INCONCLUSIVE)


def test_one_slower_size_is_named_and_nothing_else():
    told = claims(blocks([0.2, -0.15, 0.2], 0.02), DESIGN)
    assert told.gains
    assert told.loses == told.doubtful == told.open == {slot(1024)}
    assert told.wins == {slot(16), slot(65536)}


def test_the_mean_of_the_times_counts_slow_launches_that_the_bulk_hides():
    """A fifth of the setting's launches are three times as slow, the others 20 % faster."""
    few = blocks([math.log(1.2)] * 3, 0.02, n=8, slow=0.2)
    judged = compare(few, DESIGN)
    assert all(c.low > 0.0 for c in judged)
    assert all(c.at_least < DESIGN.hidden for c in judged)
    assert claims(few, DESIGN).open == {slot(size) for size in SIZES}
    assert not claims(blocks([math.log(1.2)] * 3, 0.02, n=8), DESIGN).open


def test_the_mean_of_the_calls_counts_those_that_their_median_hides():
    """A fifth of the calls in each of the setting's launches are three times as slow."""
    fast = blocks([math.log(1.2)] * 3, 0.02)
    hiding = []
    for block in fast:
        each = zip(block.logs, block.tuned, strict=True)
        means = tuple(tuple((s, y + side * math.log(1.4)) for s, y in one) for one, side in each)
        hiding.append(replace(block, means=means))
    hiding = tuple(hiding)
    assert not claims(fast, DESIGN).open
    assert claims(hiding, DESIGN).open == {slot(size) for size in SIZES}
    assert all(c.at_least < DESIGN.hidden < c.low for c in compare(hiding, DESIGN))


def test_slots_of_the_same_calls_share_one_test_of_overhead():
    same = frozenset({slot(16), slot(1024)})
    level = compare(blocks([-0.03, 0.03, 0.3]), DESIGN, same)
    assert [c.decision is SlotDecision.SAME_CALLS for c in level] == [True, True, False]
    assert not any(c.loses or c.doubtful for c in level)
    slow = compare(blocks([-0.1, -0.1, 0.3]), DESIGN, same)
    assert [c.loses for c in slow] == [True, True, False]
    assert slow[0].at_least == slow[1].at_least


def test_nothing_is_claimed_of_slots_that_do_not_differ_beyond_the_error_rate():
    design, claimed = SequentialDesign(alpha=0.2, max_loss=0.0), 0
    for seed in range(150):
        told = claims(blocks([0.0] * 3, 0.05, n=6, seed=seed), design)
        claimed += bool(told.gains or told.loses)
    assert claimed <= 0.2 * 150


def test_gains_are_drawn_to_their_mean_by_as_much_as_they_are_uncertain():
    noisy = compare(blocks([0.2] * 3, 0.3, n=2, seed=4), DESIGN)
    best = max(noisy, key=lambda c: c.gain)
    assert abs(best.shrunk - 0.2) < abs(best.gain - 0.2)
    exact = compare(blocks([0.1, 0.2, 0.3], 0.001), DESIGN)
    assert [c.shrunk for c in exact] == pytest.approx([c.gain for c in exact], abs=0.002)


def test_the_whole_is_the_mean_over_the_slots():
    total = overall(blocks([0.1, 0.2, 0.3]))
    assert total.gain == pytest.approx(0.2, abs=0.01)
    assert total.low < total.gain < total.high
    assert total.launches == 16
    assert overall(blocks([0.1, 0.2, 0.3]), frozenset([slot(65536)])).gain == pytest.approx(0.3, abs=0.01)
    assert overall(()).decision is SlotDecision.INCONCLUSIVE


def test_a_slot_that_one_side_alone_has_is_not_judged():
    (block,) = blocks([0.1] * 3, n=1)
    logs = tuple(
        tuple(y for y in one if not (side and y[0] == slot(16)))
        for one, side in zip(block.logs, block.tuned, strict=True)
    )
    half = (Block(block.tuned, logs),)
    assert {c.slot for c in compare(half, DESIGN)} == {slot(1024), slot(65536)}
    assert slot(16) in claims(half, DESIGN).open
