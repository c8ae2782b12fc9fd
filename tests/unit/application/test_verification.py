"""Runs of an application with files and without: what is said, and how often wrongly."""

import numpy as np
import pytest

from autotune.application.reach import predicted
from autotune.application.verification import Agreement, ApplicationDecision, agreement, difference, judged
from autotune.verification.orders import drawn_blocks
from autotune.verification.sequential import SequentialDesign

DESIGN = SequentialDesign.of(16, 0.05, 0.01, 0.1)


def ended(rng, ratio, noise, more_is_better=False):
    """What a comparison comes to, look by look."""
    runs = []
    for number, block in enumerate(drawn_blocks((True, False), DESIGN.widths(2), rng)):
        times = ((tuned, 10.0 / (ratio if tuned else 1.0) * np.exp(noise * rng.normal())) for tuned in block)
        runs += [(number, tuned, seconds) for tuned, seconds in times]
        verdict = judged(runs, more_is_better, DESIGN)
        if verdict.said is not ApplicationDecision.INCONCLUSIVE:
            break
    return verdict


@pytest.mark.parametrize(
    ("ratio", "more_is_better", "said"),
    [
        (1.3, False, ApplicationDecision.BETTER),
        (1.3, True, ApplicationDecision.WORSE),
        (0.8, False, ApplicationDecision.WORSE),
        (0.8, True, ApplicationDecision.BETTER),
    ],
)
def test_what_is_clear_is_said(ratio, more_is_better, said):
    verdict = ended(np.random.default_rng(1), ratio, 0.01, more_is_better)
    assert verdict.said is said
    assert verdict.low < (1 / ratio if more_is_better else ratio) < verdict.high


def test_no_difference_within_what_matters():
    assert ended(np.random.default_rng(2), 1.0, 0.001).said is ApplicationDecision.SAME


def test_without_a_difference_little_is_claimed():
    """At most 5 % over all looks; of 75 comparisons more than 12 are seen once in 10,000 such tests."""
    rng = np.random.default_rng(3)
    different = (ApplicationDecision.BETTER, ApplicationDecision.WORSE)
    assert sum(ended(rng, 1.0, 0.05).said in different for _ in range(75)) <= 12


def test_what_a_run_saves_is_in_seconds_of_the_default():
    times = ((0, True, 8.0), (0, False, 10.0), (0, False, 10.1), (0, True, 8.1), (0, True, 7.9))
    verdict = judged([*times, (0, False, 9.9), (0, True, 8.0), (0, False, 10.0)], False, DESIGN)
    saved, low, high = verdict.saved
    assert low < saved < high
    assert saved == pytest.approx(2.0, abs=0.05)


def test_two_pairs_of_runs_leave_the_lower_end_open():
    verdict = judged(((0, True, 8.0), (0, False, 10.0)), False, DESIGN)
    assert verdict.saved_share[1:] == (-np.inf, pytest.approx(1.0))
    assert verdict.saved[1] == -np.inf


def sure(values):
    """What runs save, as if the campaign had measured it without error."""
    return [(value, value, value) for value in values]


@pytest.mark.parametrize("runs", [2, 4, 5, 10])
def test_the_interval_of_several_runs_holds_what_they_save_as_often_as_it_says(runs):
    rng, held = np.random.default_rng(1), 0
    for _ in range(1000):
        _, low, high = predicted(sure(0.2 * (1.0 + 0.1 * rng.standard_normal(runs))), 0.0)
        held += low <= 0.2 <= high
    assert 0.93 < held / 1000 < 0.98


def test_one_disturbed_run_of_five_changes_little():
    quiet = [0.221, 0.226, 0.217, 0.225, 0.233]
    saved, low, high = predicted(sure([*quiet[:4], 0.485]), 0.0)
    assert saved == pytest.approx(np.mean(quiet), abs=0.005)
    assert low <= np.mean(quiet) <= high
    assert high < 0.3


def test_the_error_of_runs_and_that_of_the_campaign_are_added_as_squares():
    both = predicted([(1.0, 0.7, 1.2), (1.4, 1.1, 1.6)], 0.0)
    of_runs = predicted(sure([1.0, 1.4]), 0.0)
    assert both[0] - both[1] == pytest.approx(np.hypot(0.3, of_runs[0] - of_runs[1]))
    assert both[2] - both[0] == pytest.approx(np.hypot(0.2, of_runs[2] - of_runs[0]))


def test_of_one_run_only_the_draw_is_known():
    assert predicted([(0.2, 0.2, 0.2)], 0.01) == pytest.approx((0.2, 0.1804, 0.2196), abs=1e-5)


def test_a_difference_has_the_errors_of_both():
    found = difference((0.24, 0.21, 0.28), (0.20, 0.16, 0.24))
    assert found == pytest.approx((0.04, -0.01, 0.04 + 0.04 * 2**0.5))


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ((0.346, 0.012, 0.679), (0.482, -10.89, 0.977), Agreement.INCONCLUSIVE),
        ((0.224, 0.212, 0.237), (0.235, 0.207, 0.261), Agreement.AGREE),
        ((0.224, 0.212, 0.237), (0.10, 0.08, 0.12), Agreement.DISAGREE),
        ((0.20, 0.19, 0.21), (0.23, 0.22, 0.24), Agreement.AGREE),
        ((0.20, 0.19, 0.21), (0.25, 0.23, 0.27), Agreement.DISAGREE),
        ((0.20, 0.15, 0.25), (0.23, 0.18, 0.28), Agreement.INCONCLUSIVE),
        ((0.227, 0.217, 0.237), (0.251, 0.0, 0.438), Agreement.INCONCLUSIVE),
        ((0.001, 0.0, 0.002), (0.004, -0.003, 0.007), Agreement.AGREE),
    ],
)
def test_wide_intervals_do_not_agree(one, other, said):
    assert agreement(one, other) is said
    assert agreement(other, one) is said
