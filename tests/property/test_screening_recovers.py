"""A screening finds what was planted, within its own intervals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from autotune.screening import Factor, analyse, foldover, plackett_burman, screened
from benchmarks.screening_coverage import SCENARIOS, outcome


def _factors(n, centre=None):
    return [Factor(f"x{i}", "low", "high", centre) for i in range(n)]


@given(
    effects=st.lists(st.floats(-2, 2), min_size=1, max_size=13),
    blocks=st.integers(1, 3),
    drifts=st.lists(st.floats(-50, 50), min_size=3, max_size=3),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_without_noise_every_effect_is_found_exactly_whatever_the_blocks(effects, blocks, drifts, seed):
    design = plackett_burman(_factors(len(effects)), np.random.default_rng(seed), blocks=blocks)
    y = design.coded @ np.array(effects) / 2 + np.array(drifts)[list(design.blocks)]
    found = analyse(design, y, scale="linear")
    assert [e.effect for e in found.effects] == pytest.approx(effects, abs=1e-9)


@given(
    effects=st.lists(st.floats(-1, 1), min_size=4, max_size=4),
    missing=st.sets(st.integers(0, 15), max_size=11),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_without_noise_missing_runs_change_nothing_that_can_still_be_told(effects, missing, seed):
    design = plackett_burman(_factors(4), np.random.default_rng(seed), min_runs=16)
    y = design.coded @ np.array(effects) / 2
    y[list(missing)] = math.nan
    found = analyse(design, y, scale="linear")
    for effect, planted in zip(found.effects, effects, strict=True):
        assert math.isnan(effect.effect) or effect.effect == pytest.approx(planted, abs=1e-9)


@given(
    pair=st.tuples(st.integers(0, 10), st.integers(0, 10)).filter(lambda pair: pair[0] != pair[1]),
    size=st.floats(0.1, 5),
    n_factors=st.integers(3, 11),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_foldover_recovers_main_effects_under_any_interaction(pair, size, n_factors, seed):
    rng = np.random.default_rng(seed)
    design = plackett_burman(_factors(n_factors), rng)
    design = design.followed_by(foldover(design, rng))
    a, b = pair[0] % n_factors, pair[1] % n_factors
    if a == b:
        b = (b + 1) % n_factors
    planted = np.linspace(-1, 1, n_factors)
    y = design.coded @ planted / 2 + size / 2 * design.coded[:, a] * design.coded[:, b]
    found = analyse(design, y, scale="linear")
    assert not found.aliases
    assert [e.effect for e in found.effects] == pytest.approx(planted, abs=1e-9)


@given(scale=st.floats(1e-6, 1e6), shift=st.floats(-1e3, 1e3), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_units_do_not_matter(scale, shift, seed):
    rng = np.random.default_rng(seed)
    design = plackett_burman(_factors(6), rng, min_runs=12)
    y = design.coded[:, 0] + rng.normal(0, 0.3, 12)
    one = analyse(design, y, scale="linear")
    other = analyse(design, scale * (y + shift), scale="linear")
    for a, b in zip(one.effects, other.effects, strict=True):
        assert b.effect == pytest.approx(scale * a.effect, rel=1e-6, abs=1e-9 * scale)
        assert b.p_value == pytest.approx(a.p_value, rel=1e-4)
        assert b.active == a.active or abs(a.p_value - 0.05) < 1e-4


N_EXPERIMENTS = 150


@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=lambda number: SCENARIOS[number].name)
def test_intervals_cover_what_was_planted(number):
    """95 % intervals cover at least 95 %, as far as the number of experiments can tell (normal, 1 ‰)."""
    found = outcome(SCENARIOS[number], N_EXPERIMENTS, seed=20240817)
    # Effects of one experiment share their noise, so experiments are counted, not effects.
    standard_error = max(float(np.std(found.covered)), 0.02) / math.sqrt(N_EXPERIMENTS)
    assert np.mean(found.covered) > 0.95 + stats.norm.ppf(0.001) * standard_error
    large, small, none = found.active.mean(axis=0)
    assert large > 0.8
    assert none < 0.07
    large, small, none = found.fixed.mean(axis=0)
    assert large < 0.02
    # A factor that matters through an interaction alone cannot always be seen.
    assert small < (0.02 if SCENARIOS[number].small else 0.15)


def test_noise_alone_is_rarely_called_active():
    rng = np.random.default_rng(7)
    factors = _factors(7)
    calls = [
        e.active
        for _ in range(150)
        for e in analyse(
            plackett_burman(factors, rng, min_runs=12), rng.normal(5, 1, 12), scale="linear"
        ).effects
    ]
    assert 0.03 < np.mean(calls) < 0.07  # 5 % each; 1050 effects: ± 0.7 %


def test_one_wild_run_does_not_get_active_factors_fixed():
    rng = np.random.default_rng(11)
    factors = _factors(6)
    lost = 0
    for _ in range(100):
        design = plackett_burman(factors, rng, min_runs=12)
        y = 5 + design.coded[:, 0] / 2 + design.coded[:, 1] / 4 + rng.normal(0, 0.05, 12)
        y[int(rng.integers(12))] *= 1.8
        decided = screened(factors, [analyse(design, y, scale="log")], {"response": "min"})
        lost += not {"x0", "x1"} <= set(decided.active)
    assert lost <= 2
