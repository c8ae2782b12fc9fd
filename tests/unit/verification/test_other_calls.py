"""Effects of a verified setting on calls that it was not tuned for."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_rel

from autotune.history.trial import Observation, Phase, Status, Subject, Trial
from autotune.recommend.other_calls import OtherDecision, scope_text, slower, unresolved
from autotune.space import Point
from autotune.verification.other_calls import other_calls
from autotune.verification.sequential import SequentialDesign

DESIGN = SequentialDesign(max_loss=0.01, margin=0.1)
TUNED = ("allreduce",)


def launches(ratios, heats=6, each=2, spread=0.01, moment=0.0, seed=1):
    """Heats of both sides, in which each call is so many times as fast under the setting.

    ``spread``: of launches, on the log scale; ``moment``: of heats, whose launches it slows down alike.
    """
    rng, found = np.random.default_rng(seed), []
    for heat in range(heats):
        common = moment * rng.standard_normal()
        for side in rng.permutation([True, False] * each):
            seconds = {
                f"beside {name}": 1e-6
                * np.exp(common + spread * rng.standard_normal())
                / (ratio if side else 1)
                for name, ratio in ratios.items()
            }
            subject = Subject.DEPLOYED if side else Subject.UNTOUCHED
            trial = Trial(len(found) + 1, Phase.VERIFY, Point(), subject, block=1 + 2 * each * heat)
            found.append(Observation(trial, Status.OK, extra=seconds))
    return found


def judged(made, design=DESIGN):
    return {(c.name, c.message_bytes, c.tight): c for c in other_calls(made, design)}


def test_a_setting_that_slows_messages_down_is_told_with_its_price_and_chance_is_not():
    found = judged(launches({"pingpong 8": 1.0, "halo 8192": 0.5, "barrier 0": 1.3}))
    slow, same, fast = found["halo", 8192, False], found["pingpong", 8, False], found["barrier", 0, False]
    assert slow.decision is OtherDecision.SLOWER
    assert slow.low < 0.5 < slow.high < 0.6
    assert slow.tuned_s / slow.default_s == pytest.approx(2.0, rel=0.03)
    assert same.decision is fast.decision is OtherDecision.NOT_SLOWER
    text = scope_text(tuple(found.values()), TUNED)
    assert text.startswith("for programs that mostly call allreduce: it makes other calls slower, 0.5")
    assert "at 8192 B of halo" in text
    assert "pingpong" not in text
    assert "barrier" not in text


def test_what_all_launches_of_a_heat_met_is_no_noise():
    """Heats that differ by half say as much as heats that are alike: ratios are within them."""
    quiet, loud = (
        judged(launches({"pingpong 8192": 0.9}, moment=moment))["pingpong", 8192, False]
        for moment in (0.0, 0.5)
    )
    assert loud.ratio == pytest.approx(quiet.ratio)
    assert loud.error == pytest.approx(quiet.error)
    assert loud.decision is OtherDecision.SLOWER


def test_of_one_launch_of_each_side_in_a_heat_the_interval_is_that_of_the_paired_t_test():
    made = launches({"pingpong 8": 0.9}, heats=8, each=1, spread=0.1, moment=0.3)
    (one,) = other_calls(made, DESIGN)
    sides = [
        [np.log(o.extra["beside pingpong 8"]) for o in made if o.trial.subject is subject]
        for subject in (Subject.UNTOUCHED, Subject.DEPLOYED)
    ]
    expected = ttest_rel(*sides).confidence_interval(0.95)
    assert np.log([one.low, one.high]) == pytest.approx([expected.low, expected.high])


@pytest.mark.parametrize("ratio", [0.5, 0.98, 1.0])
def test_what_was_measured_too_little_says_so(ratio):
    calls = other_calls(launches({"alltoall 8192": ratio}, heats=2, spread=1.0), DESIGN)
    assert not slower(calls)
    assert [c.name for c in unresolved(calls)] == ["alltoall"]
    assert scope_text(calls, TUNED) == "too few launches to say whether alltoall is slower"


def test_a_loss_that_does_not_matter_is_none():
    calls = launches({"bcast 8": 0.97}, spread=0.001)
    assert slower(other_calls(calls, DESIGN))
    assert not slower(other_calls(calls, replace(DESIGN, max_loss=0.05)))


def test_both_loops_are_told_apart():
    ratios = {"pingpong 8192": 0.5, "pingpong 8192 tight": 0.98, "halo 8": 1.0, "halo 8 tight": 1.0}
    calls = other_calls(launches(ratios, spread=0.001), DESIGN)
    assert [c.tight for c in slower(calls)] == [False, True]
    assert scope_text(calls, TUNED).endswith(" at 8192 B of pingpong back to back")


def test_where_nothing_is_slower_the_worst_that_is_possible_is_told():
    text = scope_text(other_calls(launches({"pingpong 8": 1.3, "halo 8192": 1.0}), DESIGN), TUNED)
    assert text in {f"other calls (halo, pingpong) at most {n} % slower (95 %)" for n in range(5)}


def test_intervals_hold_together():
    """Where nothing changes eight calls, one is claimed slower in at most 2.5 % of verifications."""
    same = {f"halo {2**k}": 1.0 for k in range(8)}
    claims = [
        bool(
            slower(other_calls(launches(same, spread=0.2, moment=0.3, seed=k), replace(DESIGN, max_loss=0.0)))
        )
        for k in range(300)
    ]
    assert sum(claims) <= 16  # 7.5 expected; more in one of 300 runs


def test_a_loss_of_more_than_the_margin_is_called_none_in_one_verification_of_twenty():
    wrong = [
        c.decision is OtherDecision.NOT_SLOWER
        for k in range(400)
        for c in other_calls(launches({"halo 8": 0.89}, spread=0.04, seed=k), DESIGN)
    ]
    assert sum(wrong) <= 0.05 * len(wrong) + 2 * (0.05 * len(wrong)) ** 0.5


@pytest.mark.parametrize("made", [[], launches({}), launches({"pingpong 8": 0.1}, heats=1, each=1)])
def test_too_few_launches_or_none_that_looked_say_nothing(made):
    assert other_calls(made, DESIGN) == ()
    assert scope_text((), TUNED) == ""


def test_figures_without_any_spread_have_an_interval_without_width():
    (one,) = other_calls(launches({"pingpong 8": 0.5}, spread=0.0), DESIGN)
    assert one.low == pytest.approx(one.high) == pytest.approx(0.5)
