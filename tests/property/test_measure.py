"""Laws of the statistics: equivariance, error rate of eliminations, budget."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from autotune.measure.location import Estimator, estimate, outliers
from autotune.measure.rows import Row
from autotune.measure.stopping import CellStatus, StoppingRule, interleave, next_round

times = hnp.arrays(np.float64, st.integers(1, 60), elements=st.integers(1, 10**6).map(float))
FIELDS = ("value_s", "low_s", "high_s")


@pytest.mark.parametrize("name", list(Estimator))
@given(x=times, power=st.integers(-20, 20), shift=st.integers(0, 10**6))
def test_scaled_and_shifted_samples_give_the_scaled_and_shifted_estimate(name, x, power, shift):
    scale = 2.0**power  # a power of two, so that scaling itself does not round
    plain, moved = estimate(x, name), estimate(scale * (x + shift), name)
    for field in FIELDS:
        expected = scale * (getattr(plain, field) + shift)
        assert getattr(moved, field) == pytest.approx(expected, rel=1e-9, abs=1e-6 * scale)
    assert moved.sem_s == pytest.approx(scale * plain.sem_s, rel=1e-6, abs=1e-6 * scale, nan_ok=True)
    assert (moved.n, moved.n_outliers) == (plain.n, plain.n_outliers)


@pytest.mark.parametrize("name", list(Estimator))
@given(x=times, seed=st.integers(0, 2**32 - 1))
def test_order_of_samples_does_not_matter(name, x, seed):
    rng = np.random.default_rng(seed)
    a, b = estimate(x, name), estimate(rng.permutation(x), name)
    assert b.value_s == pytest.approx(a.value_s, rel=1e-12)
    assert (b.n, b.n_outliers) == (a.n, a.n_outliers)
    assert a.low_s <= a.value_s <= a.high_s


@given(x=times)
def test_at_most_half_are_outliers(x):
    assert np.count_nonzero(outliers(x)) <= x.size / 2


def launch(rng, medians, group, rule, *, spread=0.3, cost=None):
    """A whole launch on planted medians: (last round, samples, time used).

    Without a cost a sample costs its own time, which the rule only learns by taking some.
    """
    samples = [Row() for _ in medians]
    spent = np.zeros(medians.size)
    known = np.full(medians.size, np.nan) if cost is None else cost
    while True:
        r = next_round(rule, samples, known, group, float(spent.sum()))
        if not any(r.next_samples):
            return r, samples, float(spent.sum())
        for cell, n in interleave(r.next_samples, 20, rng):
            x = medians[cell] * 2.0**-spread * np.exp(spread * rng.exponential(1.0, n))
            x *= np.where(rng.random(n) < 0.02, 10.0, 1.0)
            samples[cell].extend(x)
            spent[cell] += x.sum() if cost is None else n * cost[cell]
        if cost is None:
            known = spent / np.maximum(1, list(map(len, samples)))


def test_the_best_is_eliminated_no_more_often_than_the_error_rate():
    rng = np.random.default_rng(7)
    # Margin 1 and eleven equal best: the hardest case, losing any of them is an error.
    medians = np.array([1.0] * 11 + [4.0])
    rule = StoppingRule(budget_s=1e5, margin=1.0, error_rate=0.1, max_samples=600)
    last = [launch(rng, medians, np.zeros(12), rule)[0] for _ in range(100)]
    gone = np.array([[state is CellStatus.ELIMINATED for state in r.status] for r in last])
    assert np.mean(gone[:, :-1].any(axis=1)) <= 0.1
    assert gone[:, -1].all()


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_cells=st.integers(1, 30),
    n_groups=st.integers(1, 5),
    log_budget=st.floats(-3, 2),
    spread=st.floats(0.01, 1.0),
)
def test_the_budget_is_respected_and_used(seed, n_cells, n_groups, log_budget, spread):
    rng = np.random.default_rng(seed)
    medians = 10.0 ** rng.uniform(-6, -2, n_cells)
    cost = medians * rng.uniform(0.5, 3.0, n_cells)
    rule = StoppingRule(budget_s=10.0**log_budget)
    r, samples, used = launch(
        rng, medians, rng.integers(0, n_groups, n_cells), rule, spread=spread, cost=cost
    )
    assert used <= rule.budget_s * (1 + 1e-9)
    assert all(len(s) <= rule.max_samples for s in samples)
    assert CellStatus.ACTIVE not in r.status
    refused = cost[np.array(r.status) == CellStatus.OUT_OF_TIME]
    assert (refused >= (rule.budget_s - used) * (1 - 1e-9)).all()


def test_a_launch_of_216_cells_makes_contenders_precise_within_its_budget():
    rng = np.random.default_rng(8)
    best = 0.3e-6 + 2.0 ** np.linspace(3, 20, 12) / 4e9
    factor = np.concatenate([np.ones((12, 1)), rng.choice([1.05, 1.2, 1.4, 2, 3, 5, 10], (12, 17))], axis=1)
    medians, group = (best[:, None] * factor).ravel(), np.repeat(np.arange(12), 18)
    rule = StoppingRule(budget_s=3.0)
    r, samples, used = launch(rng, medians, group, rule, spread=0.1)
    near, far = (factor <= 1.5).ravel(), (factor >= 5).ravel()
    assert used <= rule.budget_s
    assert np.mean(np.array(r.half_width)[near] <= 0.03) >= 0.9
    assert np.median([len(s) for s, slow in zip(samples, far, strict=True) if slow]) <= 2 * rule.min_samples
