"""The repetition rule on planted cells."""

import numpy as np
import pytest

from autotune.errors import UserError
from autotune.measure.rows import Row
from autotune.measure.stopping import CellStatus, StoppingRule, interleave, shuffled
from autotune.measure.stopping import next_round as next_round_of_rows


def next_round(rule, samples, *given):
    return next_round_of_rows(rule, [Row(times) for times in samples], *given)


def steady(median, n, spread=0.1, seed=0):
    return median * np.exp(spread * np.random.default_rng(seed).gamma(1.0, 1.0, n))


def test_nothing_known_gets_one_sample_and_known_costs_the_handful():
    r = next_round(StoppingRule(budget_s=1.0), [[], []], [np.nan, 1e-6], [0, 0], 0.0)
    assert r.next_samples == (1, 10)
    assert np.isnan(r.half_width).all()


def test_precise_cells_end():
    r = next_round(StoppingRule(budget_s=1.0), [steady(1e-6, 500, 0.01)], [1e-6], [0], 0.0)
    assert list(r.status) == [CellStatus.PRECISE]
    assert not any(r.next_samples)
    assert r.half_width[0] <= 0.02


@pytest.mark.parametrize(("cost_s", "company"), [(1e-5, 1), (1.0, 0)])
def test_precise_cells_keep_others_company_where_that_is_cheap(cost_s, company):
    samples = [steady(1e-6, 40, 1.0), steady(1e-3, 40, 0.01, seed=1)]
    r = next_round(StoppingRule(budget_s=60.0), samples, [1e-6, cost_s], [0, 1], 0.0)
    assert list(r.status) == [CellStatus.ACTIVE, CellStatus.PRECISE]
    assert r.next_samples[0] == 40 and r.next_samples[1] == company


def test_a_cell_ten_times_slower_ends_after_a_handful():
    samples = [steady(1e-6, 20), steady(10e-6, 20, seed=1)]
    r = next_round(StoppingRule(budget_s=1.0), samples, [1e-6, 10e-6], [0, 0], 0.0)
    assert list(r.status) == [CellStatus.ACTIVE, CellStatus.ELIMINATED]


def test_cells_of_other_groups_do_not_compete():
    samples = [steady(1e-6, 20), steady(10e-6, 20, seed=1)]
    r = next_round(StoppingRule(budget_s=1.0), samples, [1e-6, 10e-6], [7, -3], 0.0)
    assert list(r.status) == [CellStatus.ACTIVE, CellStatus.ACTIVE]


def test_margin_keeps_what_is_near_the_best():
    samples = [steady(1e-6, 20), steady(1.8e-6, 20, seed=1)]
    kept = next_round(StoppingRule(budget_s=1.0, margin=2.5), samples, [1e-6] * 2, [0, 0], 0.0)
    gone = next_round(StoppingRule(budget_s=1.0, margin=1.1), samples, [1e-6] * 2, [0, 0], 0.0)
    assert kept.status[1] == CellStatus.ACTIVE
    assert gone.status[1] == CellStatus.ELIMINATED


def test_max_samples_ends_a_noisy_cell():
    rule = StoppingRule(budget_s=1.0, max_samples=40)
    r = next_round(rule, [steady(1e-6, 40, 2.0)], [1e-6], [0], 0.0)
    assert list(r.status) == [CellStatus.SAMPLED_OUT]


def test_nothing_is_given_when_time_is_over():
    r = next_round(StoppingRule(budget_s=1.0), [[], steady(1e-6, 10, 1.0)], [np.nan, 1e-6], [0, 0], 1.0)
    assert not any(r.next_samples)
    assert list(r.status) == [CellStatus.OUT_OF_TIME, CellStatus.OUT_OF_TIME]


def test_one_dear_cell_does_not_starve_the_cheap_ones():
    cost = [0.7] + [1e-4] * 20
    r = next_round(StoppingRule(budget_s=2.0), [[]] * 21, cost, [0] * 21, 0.0)
    assert list(r.next_samples) == [1] + [10] * 20


def test_contenders_get_more_than_doubtful_cells():
    samples = [steady(1e-3, 40, 0.5), steady(3e-3, 40, 0.5, 1)]
    r = next_round(StoppingRule(budget_s=0.05, margin=50.0), samples, [1e-3, 1e-3], [0, 0], 0.0)
    assert r.next_samples[0] > 2 * r.next_samples[1] > 0


def test_left_over_time_still_buys_single_samples():
    # Each fair share is a third of a sample; half of the time left buys one sample of one cell.
    r = next_round(StoppingRule(budget_s=1.0), [[]] * 3, [0.4, 0.3, 0.35], [0, 1, 2], 0.0)
    assert list(r.next_samples) == [0, 1, 0]


def test_a_round_is_the_same_for_the_same_data_and_leaves_it_alone():
    samples = [steady(1e-6, 30, seed=i) for i in range(12)]
    before = [s.copy() for s in samples]
    rounds = [next_round(StoppingRule(budget_s=1.0), samples, [1e-6] * 12, [0] * 12, 0.1) for _ in range(2)]
    assert rounds[0] == rounds[1]
    for sample, old in zip(samples, before, strict=True):
        np.testing.assert_array_equal(sample, old)


def test_a_clock_too_coarse_for_the_calls():
    samples = [np.zeros(30), np.tile([0.0, 1e-6], 15), steady(1e-3, 30)]
    r = next_round(StoppingRule(budget_s=1e-3, margin=1.5), samples, [1e-6] * 3, [0, 0, 0], 0.0)
    assert list(r.status) == [CellStatus.PRECISE, CellStatus.ACTIVE, CellStatus.ELIMINATED]
    assert min(r.next_samples) >= 0


def test_no_cells_at_all():
    r = next_round(StoppingRule(budget_s=1.0), [], [], [], 0.0)
    assert not any(r.next_samples)
    assert r.status == ()


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="2 rows of samples, 1 costs, 2 groups"):
        next_round(StoppingRule(budget_s=1.0), [[], []], [1.0], [0, 0], 0.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"budget_s": 0.0},
        {"budget_s": float("inf")},
        {"half_width": 0.0},
        {"confidence": 1.0},
        {"margin": 0.9},
        {"error_rate": 1.0},
        {"min_samples": 5},
        {"max_samples": 9},
    ],
)
def test_constants_out_of_range_are_named(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        StoppingRule(**({"budget_s": 1.0} | wrong))


def test_interleave_spreads_every_cell_over_the_round():
    order = interleave([100, 7, 0, 100], 10, np.random.default_rng(1))
    for cell, count in ((0, 100), (1, 7), (2, 0), (3, 100)):
        assert sum(n for c, n in order if c == cell) == count
    assert all(0 < n <= 10 for _, n in order)
    first_half = [c for c, _ in order[: len(order) // 2]]
    assert 4 <= first_half.count(0) <= 6
    assert order != sorted(order)
    assert order == interleave([100, 7, 0, 100], 10, np.random.default_rng(1))


def test_a_shuffle_keeps_everything_and_each_order_is_as_likely():
    rng = np.random.default_rng(3)
    orders = [tuple(shuffled("abc", rng)) for _ in range(600)]
    assert {"".join(sorted(order)) for order in orders} == {"abc"}
    assert len(set(orders)) == 6 and min(orders.count(order) for order in set(orders)) > 60
