"""What the order of launches says: never too much, however often one looks, and most of what there is."""

import math
from itertools import combinations

import numpy as np
import pytest

from autotune.verification.evidence import Drawn, bound, estimate, log_evidence, statistic

N_SLOTS = 3


def permuted(rng, each=4):
    return rng.permutation([True, False] * each)


def campaign(rng, noise, gain=0.0, blocks=8, each=4):
    """Blocks of launches; ``noise`` gives ln t of so many launches after so many others."""
    made = []
    for block in range(blocks):
        tuned = permuted(rng, each)
        y = noise(rng, 2 * each * block, 2 * each)
        made.append(Drawn(y - np.outer(tuned, np.full(N_SLOTS, gain)), tuned))
    return made


def tails(rng, before, n):
    """Student's t with 3 degrees of freedom, most of it common to the slots of a launch."""
    return 0.05 * (rng.standard_t(3, (n, 1)) + 0.3 * rng.standard_t(3, (n, N_SLOTS)))


def alternating(rng, before, n):
    """The machine is 5 % faster in two launches of four."""
    wave = np.where(np.arange(before, before + n) // 2 % 2, 0.05, 0.0)
    return wave[:, None] + 0.01 * rng.normal(size=(n, N_SLOTS))


def drifting(rng, before, n):
    """It becomes slower by half, with a jump in the middle."""
    at = np.arange(before, before + n)
    return (0.006 * at + 0.3 * (at > 30))[:, None] + 0.02 * rng.normal(size=(n, N_SLOTS))


def outlying(rng, before, n):
    """A fifth of its launches are three times as slow."""
    return np.where(rng.random((n, 1)) < 0.2, math.log(3), 0.0) + 0.02 * rng.normal(size=(n, N_SLOTS))


@pytest.mark.parametrize("noise", [tails, alternating, drifting, outlying])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_without_an_effect_it_is_rarely_large_at_any_look(noise, sign):
    """1/α is ever reached by a share of at most α of campaigns; 200 of them may show 1.8 times as many."""
    rng = np.random.default_rng(5)
    reached = sum((log_evidence(campaign(rng, noise), sign=sign) >= math.log(10)).sum() for _ in range(200))
    assert reached <= 1.8 * 0.1 * 200 * N_SLOTS


def test_its_mean_over_the_orders_of_a_block_is_at_most_one():
    y = np.random.default_rng(1).normal(size=(6, N_SLOTS))
    found = []
    for chosen in combinations(range(6), 3):
        block = Drawn(y, np.isin(np.arange(6), chosen))
        found.append(np.exp(log_evidence([block], -0.0)) * (statistic([block], 0.0) != 0.0))
    above = np.where(np.array(found) > 1.0, found, 0.0)  # it is kept at its highest: one before any block
    assert (above.mean(axis=0) > 0.5).all()
    assert (above.mean(axis=0) <= 1.0).all()


@pytest.mark.parametrize(("gain", "blocks"), [(0.3, 2), (0.1, 4), (0.05, 8)])
def test_what_there_is_is_found(gain, blocks):
    rng = np.random.default_rng(6)
    told = [log_evidence(campaign(rng, lambda r, b, n: 0.03 * r.normal(size=(n, N_SLOTS)), gain, blocks))
            for _ in range(40)]  # fmt: skip
    assert np.mean(np.array(told) > math.log(20)) > 0.8


def test_the_estimate_is_the_gain_and_the_bounds_are_around_it():
    rng, held = np.random.default_rng(7), []
    for _ in range(40):
        blocks = campaign(rng, tails, 0.2, 6)
        low, high, found = bound(blocks, 0.05), bound(blocks, 0.05, -1.0), estimate(blocks)
        assert (low < found).all()
        assert (found < high).all()
        held.append((low < 0.2) & (high > 0.2))
    assert np.mean(held) > 0.93


def test_one_wild_launch_changes_little():
    rng = np.random.default_rng(8)
    blocks = campaign(rng, lambda r, b, n: 0.01 * r.normal(size=(n, N_SLOTS)), 0.3, 4)
    before = estimate(blocks)
    blocks[0].y[3] += 5.0
    assert estimate(blocks) == pytest.approx(before, abs=0.02)
    assert (log_evidence(blocks) > math.log(100)).all()


def test_launches_that_are_not_known_are_left_out_of_the_order():
    rng = np.random.default_rng(9)
    blocks = campaign(rng, tails, 0.5, 4)
    for block in blocks:
        block.y[rng.random(8) < 0.4] = math.nan
    assert np.isfinite(estimate(blocks)).all()
    assert (log_evidence(blocks) > 0).all()
    blocks[0].y[:, 1] = blocks[1].y[:, 1] = blocks[2].y[:, 1] = blocks[3].y[:, 1] = math.nan
    assert np.isnan(estimate(blocks)).tolist() == [False, True, False]
    assert bound(blocks, 0.05)[1] == -math.inf
    assert log_evidence(blocks)[1] == 0.0


def test_without_any_noise_all_is_clear():
    blocks = campaign(np.random.default_rng(3), lambda r, b, n: np.zeros((n, N_SLOTS)), 0.1, 4)
    assert estimate(blocks) == pytest.approx(0.1, abs=1e-4)
    assert (log_evidence(blocks) > math.log(1000)).all()
    same = campaign(np.random.default_rng(3), lambda r, b, n: np.zeros((n, N_SLOTS)), 0.0, 4)
    assert (log_evidence(same) == 0.0).all()
    assert (log_evidence(same, math.log(0.9)) > math.log(1000)).all()
