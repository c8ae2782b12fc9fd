"""Whatever runs there are, a screening ends with numbers that make sense or a message."""

import math

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autotune.errors import UserError
from autotune.screening import Factor, analyse, foldover, plackett_burman, screened


@st.composite
def experiments(draw):
    n = draw(st.integers(1, 9))
    factors = [
        Factor(f"x{i}", 0, 2, 1 if draw(st.booleans()) else None, whole_plot=draw(st.integers(0, 5)) == 0)
        for i in range(n)
    ]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    centre = draw(st.integers(0, 3)) if any(f.centre is not None for f in factors) else 0
    design = plackett_burman(
        factors,
        rng,
        blocks=draw(st.integers(1, 3)),
        centre_points=centre,
        min_runs=draw(st.sampled_from([4, 8, 12])),
    )
    if draw(st.booleans()):
        design = design.followed_by(foldover(design, rng))
    kept = draw(st.lists(st.booleans(), min_size=design.n_runs, max_size=design.n_runs))
    values = draw(
        st.sampled_from(
            [
                np.ones(design.n_runs),
                np.round(rng.normal(5, 1, design.n_runs)),
                np.exp(rng.normal(0, 3, design.n_runs)),
                1e-9 * rng.uniform(1, 2, design.n_runs),
                1e9 + design.coded[:, 0],
            ]
        )
    )
    y = np.where(kept, values, math.nan) if draw(st.booleans()) else values
    sem = draw(
        st.sampled_from(
            [
                None,
                np.zeros(design.n_runs),
                np.abs(values) * 0.01,
                np.abs(values) * rng.choice([1e-6, 1, math.nan], design.n_runs),
            ]
        )
    )
    return design, y, sem


@given(experiment=experiments(), scale=st.sampled_from(["linear", "log"]))
@settings(max_examples=80)
def test_numbers_make_sense_or_a_message_says_why(experiment, scale):
    design, y, sem = experiment
    try:
        found = analyse(design, y, scale=scale, sem=sem)
    except UserError as error:
        assert "runs have a result" in str(error) or "positive" in str(error)
        return
    assert [effect.factor for effect in found.effects] == list(design.names)
    for effect in found.effects:
        if math.isfinite(effect.std_err):
            low, high = effect.interval()
            assert low <= effect.effect <= high
            assert 0 <= effect.p_value <= 1
            assert effect.std_err >= 0
            assert (effect.p_value < 0.05) == effect.active
        else:
            assert not effect.active
        assert not math.isfinite(effect.contribution) or -1e-6 <= effect.contribution <= 100 + 1e-6
    assert 0 <= found.efficiency.g <= 100 + 1e-6
    decided = screened(design.factors, [found], {"response": "min"})
    assert set(decided.active).isdisjoint(decided.fixed)
    assert {*decided.active, *decided.fixed} == set(design.names)
    for effect in found.effects:
        if effect.factor in decided.fixed:
            assert min(effect.n_low, effect.n_high) >= 3


@given(experiment=experiments())
@settings(max_examples=50)
def test_the_order_of_runs_and_factors_does_not_matter(experiment):
    design, y, sem = experiment
    assume(np.sum(np.isfinite(y)) >= 3)
    assume(not any(factor.whole_plot for factor in design.factors))
    one = analyse(design, y, scale="linear", sem=sem)
    runs = np.random.default_rng(0).permutation(design.n_runs)
    other = analyse(
        design.subset(runs.tolist()), y[runs], scale="linear", sem=None if sem is None else sem[runs]
    )
    for a, b in zip(one.effects, other.effects, strict=True):
        assert (
            a.effect == b.effect
            or math.isclose(a.effect, b.effect, rel_tol=1e-6, abs_tol=1e-6 * abs(one.mean))
            or math.isnan(a.effect)
        )
