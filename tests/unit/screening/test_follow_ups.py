"""Desirability, power and response surfaces."""

import math

import numpy as np
import pytest
import statsmodels.api as sm
from statsmodels.stats.power import TTestIndPower

from autotune.doe.by_hand import detectable_effect, power
from autotune.doe.follow_up import Desire, desirability
from autotune.doe.surface import response_surface
from autotune.errors import UserError
from autotune.screening import Factor, analyse, plackett_burman


def _named(n, centre=None):
    return [Factor(f"x{i}", "low", "high", centre) for i in range(n)]


# Derringer & Suich (1980), tire tread compound: at the optimum that they report abrasion is 129.5 (wanted
# 170, unacceptable 120) and the modulus 1300 (1300, 1000), with the d's 0.189 and 1.
TIRE = {"abrasion": Desire(120, 170), "modulus": Desire(1000, 1300)}
TIRE_OPTIMUM = {"abrasion": 129.5, "modulus": 1300.0}


def test_desirability_of_the_published_example():
    each = {name: TIRE[name].of(value) for name, value in TIRE_OPTIMUM.items()}
    assert each == pytest.approx({"abrasion": 0.189, "modulus": 1.0}, abs=2e-3)
    assert desirability(TIRE, TIRE_OPTIMUM) == pytest.approx(math.sqrt(0.189), abs=3e-3)


def test_one_unacceptable_response_spoils_everything():
    assert desirability(TIRE, {"abrasion": 119.0, "modulus": 1300.0}) == 0
    assert desirability(TIRE, {"abrasion": 500.0, "modulus": 1300.0}) == 1


def test_weights_and_what_is_less_the_better():
    less = Desire(worst=3.0, best=1.0)
    assert [less.of(value) for value in (0.5, 1.0, 2.0, 3.0, 9.0)] == pytest.approx([1, 1, 0.5, 0, 0])
    desires = {"a": Desire(0, 1), "b": Desire(0, 1, weight=3)}
    assert desirability(desires, {"a": 0.2, "b": 0.8}) == pytest.approx((0.2 * 0.8**3) ** 0.25)


def test_power_agrees_with_the_two_sample_t_test():
    # One factor in two halves of 12 is a t-test of two samples of 12.
    design = plackett_burman(_named(1), np.random.default_rng(0), min_runs=24)
    reference = TTestIndPower().power(effect_size=1.2, nobs1=12, alpha=0.05)
    assert power(design, 1.2, 1.0, np.random.default_rng(0))["x0"] == pytest.approx(reference, abs=1e-6)


@pytest.mark.parametrize(("n_factors", "min_runs"), [(5, 12), (11, 12)])
def test_power_is_how_often_the_analysis_calls_it_active(n_factors, min_runs):
    rng = np.random.default_rng(3)
    factors = _named(n_factors)
    design = plackett_burman(factors, rng, min_runs=min_runs)
    foretold = power(design, 0.8, 0.3, rng)["x2"]
    hits = [
        analyse(design, 0.4 * design.coded[:, 2] + rng.normal(0, 0.3, 12), scale="linear")["x2"].active
        for _ in range(120)
    ]
    assert np.mean(hits) == pytest.approx(foretold, abs=3.3 * 0.5 / math.sqrt(120))
    assert 0.2 < foretold < 0.999


def test_replicates_and_the_detectable_effect():
    rng = np.random.default_rng(0)
    one = plackett_burman(_named(5), rng, min_runs=12)
    two = plackett_burman(_named(5), rng, min_runs=12, blocks=2)
    first, second = (detectable_effect(design, 0.1, rng)["x0"] for design in (one, two))
    assert second < first / math.sqrt(2)
    assert power(one, first, 0.1, rng)["x0"] == pytest.approx(0.8, abs=1e-3)


def test_power_of_designs_that_cannot_be_analysed_is_refused():
    rng = np.random.default_rng(0)
    design = plackett_burman(_named(7), rng)
    with pytest.raises(UserError, match="positive"):
        power(design, 1, 0, rng)
    with pytest.raises(UserError, match="cannot separate 7 factors"):
        power(design.subset(range(6)), 1, 1, rng)
    with pytest.raises(UserError, match="positive"):
        detectable_effect(design, 0, rng)


def _bowl(x, rng, noise=0.05):
    return 3 + 2 * (x[:, 0] - 0.3) ** 2 + (x[:, 1] + 0.5) ** 2 + rng.normal(0, noise, len(x))


def test_surface_finds_a_planted_optimum():
    rng = np.random.default_rng(0)
    grid = np.array([(a, b) for a in (-1, -0.5, 0, 0.5, 1) for b in (-1, 0, 1)], dtype=float)
    surface = response_surface(["a", "b"], grid, _bowl(grid, rng), rng)
    assert surface.shape == "minimum"
    assert surface.curvature == pytest.approx([1, 2], abs=0.2)
    assert surface.r_squared > 0.98
    assert surface.predicted_r_squared < surface.adjusted_r_squared < surface.r_squared
    assert surface.optimum.codes == pytest.approx({"a": 0.3, "b": -0.5}, abs=0.1)
    assert surface.optimum.at_edge == ()
    for name, planted in (("a", 0.3), ("b", -0.5)):
        low, high = surface.optimum.intervals[name]
        assert planted - 0.2 < low <= surface.optimum.codes[name] <= high < planted + 0.2
    assert surface.optimum.interval[0] < surface.optimum.value < surface.optimum.interval[1]
    assert surface.optimum.value == pytest.approx(3, abs=0.1)


def test_surface_agrees_with_statsmodels():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(20, 2))
    y = _bowl(x, rng)
    reference = sm.OLS(
        y, np.column_stack([np.ones(20), x, x[:, 0] ** 2, x[:, 1] ** 2, x[:, 0] * x[:, 1]])
    ).fit()
    surface = response_surface(["a", "b"], x, y, rng)
    assert [c.factors for c in surface.coefficients] == [
        (),
        ("a",),
        ("b",),
        ("a", "a"),
        ("b", "b"),
        ("a", "b"),
    ]
    assert [c.value for c in surface.coefficients] == pytest.approx(reference.params)
    assert [c.std_err for c in surface.coefficients] == pytest.approx(reference.bse)
    assert [c.p_value for c in surface.coefficients] == pytest.approx(reference.pvalues)
    assert surface.r_squared == pytest.approx(reference.rsquared)
    assert surface.adjusted_r_squared == pytest.approx(reference.rsquared_adj)


def test_intervals_of_the_optimum_cover_it():
    rng = np.random.default_rng(2)
    grid = np.array([(a, b) for a in (-1, -0.5, 0, 0.5, 1) for b in (-1, 0, 1)], dtype=float)
    covered = []
    for _ in range(200):
        optimum = response_surface(["a", "b"], grid, _bowl(grid, rng), rng).optimum
        (a_low, a_high), (b_low, b_high) = optimum.intervals["a"], optimum.intervals["b"]
        low, high = optimum.interval
        covered.append([a_low <= 0.3 <= a_high, b_low <= -0.5 <= b_high, low <= 3 <= high])
    assert np.all(np.mean(covered, axis=0) > 0.95 - 3.1 * math.sqrt(0.05 * 0.95 / 200))


def test_surface_with_a_plane_goes_to_the_edge_and_says_so():
    rng = np.random.default_rng(0)
    grid = np.array([(a, b) for a in (-1, 0, 1) for b in (-1, 1)] * 2, dtype=float)
    surface = response_surface(["a", "b"], grid, 5 - 2 * grid[:, 0] + 3 * grid[:, 1], rng, goal="max")
    assert surface.shape == "plane"
    assert surface.optimum.codes == pytest.approx({"a": -1, "b": 1})
    assert surface.optimum.at_edge == ("a", "b")
    assert surface.optimum.value == pytest.approx(10)
    assert ("b", "b") not in [c.factors for c in surface.coefficients]


def test_saddles_and_ridges_are_told_apart():
    rng = np.random.default_rng(0)
    grid = np.array([(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)], dtype=float)
    a, b = grid.T
    assert response_surface(["a", "b"], grid, a**2 - b**2, rng).shape == "saddle"
    assert response_surface(["a", "b"], grid, a**2 + 0.1 * b, rng).shape == "ridge"
    assert response_surface(["a", "b"], grid, -(a**2) - b**2, rng).shape == "maximum"


def test_terms_that_the_runs_cannot_tell_are_left_out():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(9, 3))
    surface = response_surface(["a", "b", "c"], x, x[:, 0], rng)
    assert len(surface.coefficients) == 9 - 3
    assert surface.left_out == (("c", "c"), ("a", "b"), ("a", "c"), ("b", "c"))
    with pytest.raises(UserError, match="at least 7"):
        response_surface(["a", "b", "c"], x[:6], x[:6, 0], rng)
