"""Estimators against values worked out by hand and by scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from autotune.errors import UserError
from autotune.measure.location import Estimator, design_effect, estimate, outliers
from autotune.measure.rows import Row, median_ranks

SKEWED = {
    "exponential": (lambda rng, shape: rng.exponential(1.0, shape), math.log(2)),
    "lognormal": (lambda rng, shape: rng.lognormal(0.0, 1.5, shape), 1.0),
    "pareto": (lambda rng, shape: 1.0 + rng.pareto(1.1, shape), 2 ** (1 / 1.1)),
}


def test_ranks_agree_with_the_tables_of_hollander_and_wolfe():
    assert median_ranks(6, 0.05) == (1, 1 - 2 / 64)
    assert median_ranks(10, 0.05) == (2, 1 - 22 / 1024)
    assert median_ranks(20, 0.05)[0] == 6
    assert median_ranks(25, 0.05)[0] == 8


def test_too_few_samples_say_which_coverage_they_have():
    assert median_ranks(1, 0.05) == (1, 0.0)
    assert median_ranks(5, 0.05) == (1, 0.9375)


@pytest.mark.parametrize("n", [6, 57, 999, 1000, 1001, 1500, 4000])
@pytest.mark.parametrize("alpha", [0.2, 0.05, 1e-6])
def test_ranks_are_the_widest_that_the_binomial_allows(n, alpha):
    k, coverage = median_ranks(n, alpha)
    assert coverage == pytest.approx(1 - 2 * stats.binom.cdf(k - 1, n, 0.5), abs=1e-4)
    if coverage >= 1 - alpha:
        slack = 0 if n <= 1000 else 2
        assert 2 * stats.binom.cdf(k + slack, n, 0.5) > alpha


@pytest.mark.parametrize("name", sorted(SKEWED))
@pytest.mark.parametrize("n", [6, 25, 100])
def test_interval_of_the_median_covers_on_skewed_samples(name, n):
    draw, median = SKEWED[name]
    rows = draw(np.random.default_rng(20), (2000, n))
    located = [estimate(row) for row in rows]
    covered = np.mean([e.low_s <= median <= e.high_s for e in located])
    # Below 48 samples the coverage is exact, so the count is binomial: four of its standard deviations.
    # Above, an estimated design effect can only widen the interval.
    expected = median_ranks(n, 0.05)[1] if n < 48 else 0.95
    deviation = 4 * math.sqrt(expected * (1 - expected) / 2000)
    assert expected >= 0.95
    assert covered > expected - deviation
    assert covered < (expected + deviation if n < 48 else 0.985)


def test_standard_error_of_the_median_is_that_of_repeated_medians():
    rows = np.random.default_rng(3).exponential(1.0, (3000, 101))
    claimed = np.mean([estimate(row).sem_s for row in rows])
    assert claimed == pytest.approx(np.std(np.median(rows, axis=1)), rel=0.15)


def correlated(rng, n, phi):
    """Log-normal times whose logarithms are autoregressive."""
    noise, x = rng.normal(size=n + 100), np.zeros(n + 100)
    for i in range(1, n + 100):
        x[i] = phi * x[i - 1] + noise[i]
    return np.exp(0.3 * x[100:])


@pytest.mark.parametrize("name", ["median", "mean"])
def test_samples_that_resemble_their_neighbours_count_for_less(name):
    rng = np.random.default_rng(11)
    located = [estimate(correlated(rng, 600, 0.7), name) for _ in range(300)]
    spread = np.std([e.value_s for e in located])
    assert np.mean([e.sem_s for e in located]) == pytest.approx(spread, rel=0.2)
    if name == "median":
        assert np.mean([e.low_s <= 1.0 <= e.high_s for e in located]) > 0.9
        naive = [estimate(rng.permutation(correlated(rng, 600, 0.7))) for _ in range(300)]
        assert np.mean([e.low_s <= 1.0 <= e.high_s for e in naive]) < 0.75


def test_a_drift_makes_every_sample_count_for_less():
    above = np.linspace(1.0, 2.0, 480) > 1.5
    assert design_effect(above.astype(float), np.array([480]))[0] > 16
    assert design_effect(np.tile([0.0, 1.0], 240), np.array([480]))[0] == 1
    drifting, waving = estimate(np.linspace(1.0, 2.0, 480)), estimate(np.tile([1.0, 2.0], 240))
    assert drifting.high_s - drifting.low_s > 0.3
    assert waving.high_s - waving.low_s == 1.0


def test_design_effect_of_rows_of_different_lengths():
    x = np.random.default_rng(12).normal(size=200)
    effect = design_effect(np.concatenate([x, x[:47], np.repeat(x[:12], 8)]), np.array([200, 47, 96]))
    assert effect[0] < 2.5
    assert effect[1] == 1.0
    assert effect[2] == pytest.approx(8.7, rel=0.01)  # 8 · n / (n − 1) of twelve batches


def test_mean_has_student_interval():
    x = np.array([1.0, 2.0, 3.0, 6.0])
    low, high = stats.t.interval(0.95, 3, np.mean(x), stats.sem(x))
    e = estimate(x, "mean")
    assert (e.value_s, e.sem_s) == (3.0, pytest.approx(stats.sem(x)))
    assert (e.low_s, e.high_s) == (pytest.approx(low), pytest.approx(high))


def test_minimum_bounds_the_end_of_the_distribution():
    rows = 5.0 + np.random.default_rng(4).exponential(1.0, (2000, 50))
    located = [estimate(row, "minimum") for row in rows]
    assert all(e.value_s == row.min() for e, row in zip(located, rows, strict=True))
    covered = np.mean([e.low_s <= 5.0 <= e.high_s for e in located])
    assert covered == pytest.approx(0.95, abs=0.02)


def test_one_sample_claims_nothing():
    for name in Estimator:
        e = estimate([2.0], name)
        assert (e.value_s, e.low_s, e.high_s, e.n) == (2.0, 2.0, 2.0, 1)
        assert math.isnan(e.sem_s)


def test_outliers_are_counted_and_kept():
    x = np.concatenate([np.linspace(1.0, 1.2, 99), [50.0]])
    assert np.flatnonzero(outliers(x)).tolist() == [99]
    e = estimate(x, "mean")
    assert (e.n, e.n_outliers) == (100, 1)
    assert e.value_s == pytest.approx(np.mean(x))


def test_outliers_of_a_coarse_clock():
    assert np.flatnonzero(outliers([1.0] * 9 + [8.0])).tolist() == [9]
    assert not outliers([1.0] * 10).any()


@pytest.mark.parametrize("bad", [[], [1.0, math.nan], [math.inf], np.ones((2, 0)), np.ones((1, 2, 3))])
def test_bad_samples(bad):
    with pytest.raises(ValueError, match="sample"):
        estimate(bad)


def test_unknown_names_list_what_is_allowed():
    with pytest.raises(UserError, match="allowed: median, mean, minimum"):
        estimate([1.0], "average")


@pytest.mark.parametrize("n", [1, 2, 9, 47, 48, 100, 997])
def test_a_row_has_the_median_and_the_design_effect_of_an_array(n):
    rng = np.random.default_rng(n)
    x = np.cumsum(rng.normal(size=n)).round(1) + rng.exponential(size=n).round(1)
    row = Row(x[: n // 3])
    row.extend(x[n // 3 :])
    middle = float(np.median(x))
    effect = design_effect((x > middle) + 0.5 * (x == middle), np.array([n]))[0]
    assert row.median_s == middle
    assert row.effective == math.floor(n / effect + 1e-9)
    located = estimate(x)
    if n > 47:
        assert row.interval_s(row.effective, 0.05) == (located.low_s, located.high_s)
