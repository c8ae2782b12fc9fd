"""The bound of a ratio of plain means, in closed cases and by its coverage."""

import math

import numpy as np
import pytest

from autotune.verification.mean_ratio import bound, log_ratio

ALPHA = 0.05


def launches(rng, shape, share=0.0, times=1.0):
    """Launches 4 % apart, a share of them so many times as slow."""
    return np.exp(0.04 * rng.normal(size=shape)) * np.where(rng.random(shape) < share, times, 1.0)


def test_launches_that_do_not_differ_leave_nothing_open():
    tuned, others = np.full((4, 1), 2.0), np.full((4, 1), 3.0)
    assert bound(tuned, others, ALPHA) == pytest.approx([math.log(1.5)], abs=1e-6)


@pytest.mark.parametrize("known", [0, 1])
def test_too_few_launches_exclude_nothing(known):
    tuned = np.array([[1.0]] * known + [[math.nan]] * (3 - known))
    assert bound(tuned, np.ones((3, 1)), ALPHA) == [-math.inf]
    assert bound(np.ones((3, 1)), tuned, ALPHA) == [-math.inf]


def test_pairs_of_which_a_launch_is_unknown_are_left_out():
    rng = np.random.default_rng(3)
    tuned, others = launches(rng, (8, 1)), launches(rng, (8, 1))
    unknown, known = np.full((2, 1), math.nan), launches(rng, (2, 1))
    gaps = np.vstack([tuned, unknown, known]), np.vstack([others, known, unknown])
    assert bound(*gaps, ALPHA) == bound(tuned, others, ALPHA)


def test_what_both_launches_of_a_pair_meet_leaves_the_bound_as_it_was():
    """Moments that differ by 30 % widen an interval of launches that met each its own, and none of pairs."""
    rng = np.random.default_rng(8)
    tuned, others = launches(rng, (16, 40)), launches(rng, (16, 40))
    moments = np.exp(0.3 * rng.normal(size=(16, 40)))
    still = bound(tuned, others, ALPHA)
    shared = bound(tuned * moments, others * moments, ALPHA)
    assert np.median(shared) == pytest.approx(np.median(still), abs=0.005)
    assert np.median(bound(tuned * rng.permutation(moments), others, ALPHA)) < np.median(still) - 0.05


def test_the_bound_does_not_depend_on_the_unit():
    rng = np.random.default_rng(4)
    tuned, others = launches(rng, (12, 3), 0.2, 3.0), launches(rng, (12, 3))
    assert bound(1e-6 * tuned, 1e-6 * others, ALPHA) == pytest.approx(bound(tuned, others, ALPHA), abs=1e-6)


@pytest.mark.parametrize(("share", "times"), [(0.0, 1.0), (1 / 3, 10.0), (1 / 3, 3.25)])
def test_of_many_comparisons_so_many_miss_as_may(share, times):
    """Also where a third of the setting's launches are ten times as slow, or a quarter of their calls."""
    rng, n = np.random.default_rng(5), 2000
    tuned, others = launches(rng, (24, n), share, times), launches(rng, (24, n))
    truth = -math.log(1 + share * (times - 1))
    missed = np.mean(bound(tuned, others, ALPHA) > truth)
    assert missed <= ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / n)


def test_rare_slow_launches_miss_less_often_than_by_the_interval_of_student():
    """A tenth of the setting's launches take twice as long: Student's interval misses in one of eight."""
    rng, n = np.random.default_rng(6), 2000
    tuned, others = launches(rng, (36, n), 0.1, 2.0), launches(rng, (36, n))
    gain, error = log_ratio(tuned, others)
    student = gain - 1.667 * error
    truth = -math.log(1.1)
    assert np.mean(student > truth) > 2 * ALPHA
    assert np.mean(bound(tuned, others, ALPHA) > truth) <= ALPHA


def test_a_slow_launch_of_the_reference_does_not_widen_the_bound_and_one_of_the_setting_does():
    rng = np.random.default_rng(9)
    tuned, others = launches(rng, (24, 100)), launches(rng, (24, 100))
    still = bound(tuned, others, ALPHA)
    hit = np.where(np.arange(24)[:, None] == 7, 10.0, 1.0)
    assert (bound(tuned, others * hit, ALPHA) > still - 0.005).all()
    assert (bound(tuned * hit, others, ALPHA) < still - 0.2).all()


def test_two_per_cent_of_calls_fifty_times_as_slow_are_a_loss():
    rng = np.random.default_rng(7)
    tails = 1 + 49 * rng.binomial(200, 0.02, (24, 100)) / 200
    tuned, others = launches(rng, (24, 100)) * tails, launches(rng, (24, 100))
    assert (bound(tuned, others, ALPHA) < -0.5).all()
