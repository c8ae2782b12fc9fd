import math

import numpy as np
import pytest
import statsmodels.api as sm

from autotune.errors import UserError
from autotune.screening import Factor, analyse, foldover, plackett_burman, screened
from autotune.screening.noise import half_normal_scores, lenth
from tests.unit.screening.cases import (
    CAST_FATIGUE_CODES,
    CAST_FATIGUE_FACTORS,
    CAST_FATIGUE_LIFE,
    coded,
    n_reboots,
)


def _cast_fatigue():
    factors = [Factor(name, "low", "high") for name in CAST_FATIGUE_FACTORS]
    return coded(CAST_FATIGUE_CODES, factors=factors)


def _named(n):
    return [Factor(f"x{i}", -1, 1) for i in range(n)]


def test_published_effects_of_the_cast_fatigue_experiment():
    effects = analyse(_cast_fatigue(), CAST_FATIGUE_LIFE, scale="linear", alpha=0.1)
    # Wu & Hamada (2000), Experiments, table 8.2; F (polish) is the one clear main effect.
    expected = {"A": 0.326, "B": 0.294, "C": -0.246, "D": -0.516, "E": 0.150, "F": 0.915, "G": 0.183}
    assert {e.factor: round(e.effect, 3) for e in effects.effects} == pytest.approx(expected, abs=1.1e-3)
    assert [e.factor for e in effects.effects if e.active] == ["F"]


def test_a_factor_with_a_famous_interaction_is_not_fixed():
    """Hamada & Wu (1992) found that F×G explains the cast fatigue data, though G alone does nothing."""
    design = _cast_fatigue()
    effects = analyse(design, CAST_FATIGUE_LIFE, scale="linear")
    assert [suspicion.factors for suspicion in effects.suspicions] == [("F", "G")]
    decided = screened(design.factors, [effects], {"response": "max"})
    assert {"F", "G"} <= set(decided.active)
    assert "F×G" in decided.reasons["G"]
    assert set(decided.fixed) == {"A", "B", "C", "E"}


def test_agrees_with_statsmodels():
    design, y = _cast_fatigue(), CAST_FATIGUE_LIFE
    reference = sm.OLS(y, sm.add_constant(design.coded)).fit()
    effects = analyse(design, y, scale="linear")
    assert [e.effect for e in effects.effects] == pytest.approx(2 * reference.params[1:])
    assert [e.std_err for e in effects.effects] == pytest.approx(2 * reference.bse[1:])
    assert [e.p_value for e in effects.effects] == pytest.approx(reference.pvalues[1:])
    assert [e.interval() for e in effects.effects] == [
        pytest.approx(2 * row) for row in reference.conf_int()[1:]
    ]
    assert effects.r_squared == pytest.approx(reference.rsquared)
    assert sum(e.contribution for e in effects.effects) == pytest.approx(100 * reference.rsquared)
    assert (effects.noise.source, effects.noise.df) == ("residual", 4)


def test_agrees_with_statsmodels_on_an_unbalanced_table_with_blocks():
    rng = np.random.default_rng(1)
    codes = rng.choice([-1.0, -0.2, 1.0], size=(17, 3))
    blocks = ["mon"] * 5 + ["tue"] * 7 + ["wed"] * 5
    y = 3 + codes @ [1.0, 0.0, -0.5] + rng.normal(0, 1, 17)
    y[4] = math.nan
    keep = np.arange(17) != 4
    dummies = np.column_stack([[b == "tue" for b in blocks], [b == "wed" for b in blocks]]).astype(float)
    matrix = sm.add_constant(np.hstack([codes, dummies]))[keep]
    reference = sm.OLS(y[keep], matrix).fit()
    effects = analyse(coded(codes, blocks), y, scale="linear")
    assert [e.effect for e in effects.effects] == pytest.approx(2 * reference.params[1:4])
    assert [e.std_err for e in effects.effects] == pytest.approx(2 * reference.bse[1:4])
    assert (effects.n_runs, effects.n_missing) == (16, 1)
    by_name = {b.block: b.effect for b in effects.blocks}
    assert by_name["tue"] - by_name["mon"] == pytest.approx(reference.params[4])
    assert sum(by_name.values()) == pytest.approx(0)


def test_log_scale_compares_ratios():
    design = plackett_burman(_named(4), np.random.default_rng(0))
    y = 100 * np.where(design.coded[:, 1] > 0, 2.0, 1.0)
    effects = analyse(design, y, scale="log")
    assert effects["x1"].effect == pytest.approx(math.log(2))
    assert effects["x1"].active
    assert not any(effects[name].active for name in ("x0", "x2", "x3"))


def test_lenth_of_a_known_set():
    # Lenth (1989), table 1 has 15 contrasts; here ones whose medians can be read off by eye.
    contrasts = np.array([1.0, -2.0, 3.0, -4.0, 5.0, 6.0, 100.0])
    # s0 = 1.5·4 = 6; below 2.5·6 = 15 lie the first six, median 3.5; PSE = 5.25
    yardstick = lenth(contrasts)
    assert yardstick.pse == pytest.approx(5.25)
    assert yardstick.df == pytest.approx(7 / 3)
    # t(0.975; 7/3 = 2.33) = 3.764 (Lenth's table of margins, m = 7)
    assert yardstick.margin / yardstick.pse == pytest.approx(3.764, abs=2e-3)
    assert yardstick.simultaneous_margin / yardstick.pse == pytest.approx(9.008, abs=1e-2)


def test_half_normal_scores_rise_with_the_size_of_the_effect():
    scores = half_normal_scores(np.array([-3.0, 0.5, math.nan, 1.0]))
    assert np.isnan(scores[2])
    assert scores[0] > scores[3] > scores[1] > 0
    assert scores[3] == pytest.approx(0.6744898)  # Φ⁻¹(0.75): the middle one of three


def test_saturated_design_falls_back_on_lenth():
    design = plackett_burman(_named(11), np.random.default_rng(0))
    y = design.coded[:, 3] * 2 + np.random.default_rng(1).normal(0, 0.1, 12)
    effects = analyse(design, y, scale="linear")
    assert effects.noise.source == "lenth"
    assert [e.factor for e in effects.effects if e.active] == ["x3"]
    assert effects["x0"].std_err == pytest.approx(effects.lenth.pse)
    assert any("Lenth" in note for note in effects.notes)


def test_saturated_design_survives_a_failed_run():
    design = plackett_burman(_named(11), np.random.default_rng(0))
    y = design.coded[:, 3] * 2 + np.random.default_rng(1).normal(0, 0.1, 12)
    y[7] = math.nan
    effects = analyse(design, y, scale="linear")
    assert effects["x3"].active
    high, low = (np.nanmean(y[design.coded[:, 0] == side]) for side in (1, -1))
    assert effects["x0"].effect == pytest.approx(high - low)
    assert any(alias.interaction == ("x3",) for alias in effects.aliases if alias.factor == "x0")
    assert any("too few runs" in note for note in effects.notes)


def test_a_factor_that_lost_a_level_is_named_and_not_judged():
    design = plackett_burman(_named(4), np.random.default_rng(0))
    y = np.where(design.coded[:, 2] > 0, math.nan, 5.0 + design.coded[:, 1])
    effects = analyse(design, y, scale="linear")
    assert math.isnan(effects["x2"].effect)
    assert math.isnan(effects["x2"].p_value)
    assert not effects["x2"].active
    assert any(note.startswith("x2:") and "same level" in note for note in effects.notes)
    assert "x2" in screened(design.factors, [effects], {"response": "min"}).active


def test_factors_that_change_together_are_named_and_the_others_judged():
    codes = plackett_burman(_named(6), np.random.default_rng(0), min_runs=12).coded
    codes = np.column_stack([codes, -codes[:, 1]])
    y = codes[:, 0] + np.random.default_rng(1).normal(0, 0.1, 12)
    effects = analyse(coded(codes), y, scale="linear")
    reference = sm.OLS(y, sm.add_constant(codes[:, :6])).fit()
    for column in (0, 2, 3, 4, 5):
        assert effects.effects[column].effect == pytest.approx(2 * reference.params[1 + column])
        assert effects.effects[column].std_err == pytest.approx(2 * reference.bse[1 + column])
    assert math.isnan(effects["x1"].effect)
    assert math.isnan(effects["x6"].effect)
    assert any(note.startswith("x1, x6: they change together") for note in effects.notes)


def test_interactions_are_aliases_and_never_findings():
    design = plackett_burman(_named(8), np.random.default_rng(0))
    effects = analyse(design, np.arange(12.0) + 1)
    assert {e.factor for e in effects.effects} == set(design.names)
    of_first = [alias for alias in effects.aliases if alias.factor == "x0"]
    assert len(of_first) == 7 * 6 / 2
    assert {abs(round(alias.coefficient, 12)) for alias in of_first} == {round(1 / 3, 12)}
    assert all("x0" not in alias.interaction for alias in of_first)


def test_the_alias_coefficient_says_how_much_leaks():
    design = plackett_burman(_named(8), np.random.default_rng(0))
    y = 3.0 * design.coded[:, 1] * design.coded[:, 4]
    effects = analyse(design, y, scale="linear")
    leaks = {a.factor: a.coefficient for a in effects.aliases if a.interaction == ("x1", "x4")}
    assert set(leaks) == set(design.names) - {"x1", "x4"}
    for name, coefficient in leaks.items():
        assert effects[name].effect == pytest.approx(coefficient * 6.0)


def test_foldover_removes_the_leak():
    rng = np.random.default_rng(0)
    design = plackett_burman(_named(8), rng)
    design = design.followed_by(foldover(design, rng))
    effects = analyse(design, 3.0 * design.coded[:, 1] * design.coded[:, 4], scale="linear")
    assert effects.aliases == ()
    assert [e.effect for e in effects.effects] == pytest.approx([0.0] * 8, abs=1e-12)


def test_misfit_shown_by_replicates_widens_the_errors():
    design = plackett_burman(_named(8), np.random.default_rng(0), blocks=2)
    rng = np.random.default_rng(1)
    y = design.coded[:, 0] + 0.5 * design.coded[:, 0] * design.coded[:, 1] + rng.normal(0, 0.02, 24)
    effects = analyse(design, y, scale="linear")
    assert effects.noise.source == "lack of fit"
    assert any("interactions or curvature" in note for note in effects.notes)
    assert [e.factor for e in effects.effects if e.active] == ["x0"]


@pytest.mark.parametrize(
    ("noise", "sem", "expected"), [(1e-4, 0.3, 2 * 0.3 / math.sqrt(12)), (1.0, 0.01, None)]
)
def test_errors_of_the_runs_bound_the_standard_errors_from_below_and_small_ones_change_nothing(
    noise, sem, expected
):
    design = plackett_burman(_named(5), np.random.default_rng(0), min_runs=12)
    y = 5 + design.coded[:, 0] + np.random.default_rng(1).normal(0, noise, 12)
    plain, given = (analyse(design, y, scale="linear", sem=e) for e in (None, np.full(12, sem)))
    assert given["x1"].std_err == pytest.approx(expected or plain["x1"].std_err)
    assert given["x1"].std_err > 100 * plain["x1"].std_err or expected is None


def test_a_noisy_run_counts_for_little():
    design = plackett_burman(_named(4), np.random.default_rng(0), blocks=2)
    y = 10 + design.coded[:, 0] + np.random.default_rng(1).normal(0, 0.05, 16)
    y[3] += 30.0
    sem = np.full(16, 0.05)
    sem[3] = 30.0
    effects = analyse(design, y, scale="linear", sem=sem)
    assert effects["x0"].effect == pytest.approx(2, abs=0.2)
    assert effects["x0"].active


def test_centre_points_show_curvature_and_do_not_disturb_the_effects():
    factors = [Factor(f"x{i}", 0, 2, 1) for i in range(5)]
    design = plackett_burman(factors, np.random.default_rng(0), centre_points=3, min_runs=12)
    noise = np.random.default_rng(1).normal(0, 0.05, 15)
    y = 5 + design.coded[:, 0] - np.where(np.array(design.centre), 2.0, 0.0) + noise
    effects = analyse(design, y, scale="linear")
    assert effects.curvature is not None
    assert effects.curvature.effect == pytest.approx(-2, abs=0.2)
    assert effects.curvature.active
    assert effects["x0"].effect == pytest.approx(2, abs=0.2)
    verdicts = {d.factor: d for d in screened(factors, [effects], {"response": "min"}).decisions}
    assert all(decision.verdict != "inert" for decision in verdicts.values())
    assert "centre" in " ".join(decision.reason for decision in verdicts.values())


def test_reboots_that_differ_make_a_whole_plot_effect_uncertain():
    factors = [Factor("nps", 1, 4, whole_plot=True), *_named(4)]
    design = plackett_burman(factors, np.random.default_rng(0), blocks=4)
    rng = np.random.default_rng(2)
    boot = rng.normal(0, 1, n_reboots(design) + 1)
    y = 10 + boot[list(design.whole_plots)] + design.coded[:, 1] + rng.normal(0, 0.05, design.n_runs)
    effects = analyse(design, y, scale="linear")
    assert effects["nps"].std_err > 5 * effects["x0"].std_err
    assert not effects["nps"].active
    assert effects["x0"].active


def test_one_reboot_is_said_to_be_too_few():
    factors = [Factor("nps", 1, 4, whole_plot=True), *_named(3)]
    design = plackett_burman(factors, np.random.default_rng(0), min_runs=12)
    effects = analyse(design, np.random.default_rng(1).normal(9, 1, 12))
    assert any(note.startswith("nps: too few reboots") for note in effects.notes)


def test_efficiency_is_full_for_an_orthogonal_design_and_falls_with_a_lost_run():
    design = plackett_burman(_named(7), np.random.default_rng(0), min_runs=12)
    y = np.arange(12.0) + 1
    full = analyse(design, y).efficiency
    assert (full.d, full.a, full.g) == pytest.approx((100, 100, 100))
    y[5] = math.nan
    less = analyse(design, y).efficiency
    assert 30 < less.g < less.a < less.d < 100


def test_efficiency_agrees_with_its_definition():
    codes = np.random.default_rng(4).choice([-1.0, 1.0], size=(9, 3))
    matrix = np.column_stack([np.ones(9), codes])
    inverse = np.linalg.inv(matrix.T @ matrix)
    corners = np.array([[1, a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
    worst = max(corner @ inverse @ corner for corner in corners)
    its = analyse(coded(codes), np.arange(9.0) + 1).efficiency
    assert its.d == pytest.approx(100 * np.linalg.det(matrix.T @ matrix) ** (1 / 4) / 9)
    assert its.a == pytest.approx(100 * 4 / (9 * np.trace(inverse)))
    assert its.g == pytest.approx(100 * 4 / (9 * worst))


@pytest.mark.parametrize(
    ("response", "options", "word"),
    [
        ([1.0] * 7, {}, "7 responses for 8 runs"),
        ([1.0] * 7 + [0.0], {"scale": "log"}, "run 7 has 0"),
        ([1.0] * 7 + [math.inf], {}, "run 7 is infinite"),
        ([1.0, 2.0] + [math.nan] * 6, {}, "2 of 8 runs"),
        ([1.0] * 8, {"sem": [0.1]}, "1 standard errors for 8 runs"),
        ([1.0] * 8, {"sem": [-0.1] * 8}, "negative"),
    ],
)
def test_responses_that_cannot_be_analysed_are_named(response, options, word):
    with pytest.raises(UserError, match=word):
        analyse(plackett_burman(_named(3), np.random.default_rng(0)), response, **options)


def test_constant_responses_have_no_effects():
    effects = analyse(plackett_burman(_named(3), np.random.default_rng(0)), [3.0] * 8)
    assert all(e.effect == pytest.approx(0) and not e.active and e.contribution == 0 for e in effects.effects)


def test_effects_in_words_are_per_cent_on_a_log_scale_only():
    design = plackett_burman([Factor("a", 1, 2), Factor("b", 1, 2)], np.random.default_rng(0))
    response = [10 * 2 ** float(code) for code in design.coded[:, 0]]
    ratios = analyse(design, response, scale="log")
    assert ratios.text(ratios["a"]).startswith("+300.0 ± ")
    assert ratios.text(ratios["a"]).endswith(" %")
    differences = analyse(design, [-y for y in response], scale="linear")
    assert differences.text(differences["a"]).startswith("-15 ± ")
