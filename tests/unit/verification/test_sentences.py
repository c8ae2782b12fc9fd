"""Every number in a verdict is what it is said to be, by rounds with planted launches."""

import math
from dataclasses import replace

import numpy as np
import pytest

from autotune.history.objectives import place_text
from autotune.history.trial import Cell, Estimate, Observation, Phase, Status, Subject, Trial
from autotune.recommend.recommendation import Checked, Gain, Recommendation
from autotune.space import Point
from autotune.verification.blocks import blocks_of
from autotune.verification.comparison import claims, compare
from autotune.verification.failed import Failures
from autotune.verification.one_round import VerificationRound
from autotune.verification.sequential import SequentialDesign
from autotune.verification.verdict import Verdict

DESIGN = SequentialDesign()
SIZES = (16, 1024)
FAST, OTHER = (Point.of({"UCX_TLS": tls}) for tls in ("self,posix", "self,tcp"))


def launches(point, gain, n=12, first=1, spread=0.01, tail=1.0, failed=0):
    """Launches of both sides in blocks; ``tail``: plain mean over typical time of the setting."""
    rng, made = np.random.default_rng(first), []
    for block in range(n // 4):
        for side in rng.permutation([True, False] * 4):
            number = first + len(made)
            subject = Subject.DEPLOYED if side else Subject.UNTOUCHED
            trial = Trial(number, Phase.VERIFY, point if side else Point(), subject, block=first + 8 * block)
            if side and failed:
                failed -= 1
                made.append(Observation(trial, Status.TIMEOUT))
                continue
            estimates = []
            for size in SIZES:
                seconds = 1e-6 * math.exp(spread * rng.normal() - side * gain)
                mean = {"plain_mean_s": seconds * (tail if side else 1.0)}
                estimates.append(
                    Estimate(Cell("allreduce", 2, size, Point()), seconds, 1e-9, 200, extra=mean)
                )
            made.append(Observation(trial, Status.OK, tuple(estimates)))
    return made


def a_round(point, made, **changes):
    """A round as a course leaves it."""
    sides = [[o for o in made if o.trial.subject is side] for side in (Subject.UNTOUCHED, Subject.DEPLOYED)]
    blocks = blocks_of(*sides)
    told = claims(blocks, DESIGN)
    judged = VerificationRound(
        Recommendation(point, ()),
        tuple(made),
        blocks,
        comparisons=compare(blocks, DESIGN),
        gains=told.gains,
        lost=told.loses,
        open=told.open,
        doubtful=told.doubtful,
        failures=Failures.of(made),
        complete=True,
    )
    return replace(judged, **changes)


def holds(rounds):
    """The verdict by which the setting of the last round holds."""
    last = rounds[-1]
    gains = tuple(
        Gain(c.slot, 1e-6, 1e-9, 1e-6, 1e-9, None, (math.exp(c.gain), math.exp(c.low), math.exp(c.high)))
        for c in last.comparisons
    )
    total = last.total
    average = tuple(map(math.exp, (total.gain, total.low, total.high)))
    setting = replace(last.setting, gains=gains, average=average)
    return Verdict(setting, tuple(rounds), True, 0.02, DESIGN)


def refused(*rounds):
    """The verdict by which none of the settings holds."""
    return Verdict(Recommendation(Point(), ()), rounds, True, design=DESIGN)


@pytest.mark.parametrize("complete", [True, False])
def test_a_gain_without_a_bound_is_no_verified_setting(complete):
    """Its text would have to name the loss that is excluded, and there is none."""
    verdict = replace(holds([a_round(FAST, launches(FAST, 0.3, 12))]), hidden=math.nan, complete=complete)
    assert verdict.checked is (Checked.REFUSED if complete else Checked.UNFINISHED)
    assert "nan" not in verdict.text
    assert verdict.lines == ()


def test_a_gain_rests_on_the_launches_of_its_setting_alone():
    rounds = [a_round(OTHER, launches(OTHER, 0.0, 24, 1)), a_round(FAST, launches(FAST, 0.3, 12, 101))]
    text = holds(rounds).text
    assert " on 24 fresh launches; " in text
    assert "72" not in text


@pytest.mark.parametrize("n", [12, 16, 36])
def test_how_rare_a_slowdown_must_be_to_escape_is_always_said(n):
    text = holds([a_round(FAST, launches(FAST, 0.3, n))]).text
    rare = 100 * (1 - 0.05 ** (1 / n))
    assert (
        f"a failure or slowdown in less than {rare:.0f} % of launches would not show on {n} of them" in text
    )


def test_a_gain_of_typical_times_alone_is_called_so():
    text = holds([a_round(FAST, launches(FAST, 0.3, tail=1.35))]).text
    assert text.startswith("verified: 1.3")
    assert " in typical times, 1.00× in plain means, on 24 fresh launches" in text
    assert "plain means" not in holds([a_round(FAST, launches(FAST, 0.3))]).text


def test_two_per_cent_of_calls_fifty_times_as_slow_leave_a_loss_open():
    made = a_round(FAST, launches(FAST, 0.3, tail=1.98))
    assert made.open == {("allreduce", 2, size) for size in SIZES}
    text = refused(made).text
    assert "may be slower at" in text
    assert "in mean times" in text


def test_what_is_not_excluded_is_the_bound_itself_and_no_upper_end_is_made_of_it():
    made = a_round(FAST, launches(FAST, 0.3, tail=1.98))
    worst = min(made.comparisons, key=lambda c: c.at_least)
    text = refused(made).text
    assert (
        f"{math.exp(worst.mean_gain):.2f}× in mean times, and {math.exp(worst.at_least):.2f}× is not" in text
    )
    assert " … " not in text.partition("may be slower")[2]


def test_a_number_of_launches_is_said_only_where_it_would_do():
    """Seen 10 % slower than may stay hidden, no number would; else it is that of a power of 0.8."""
    assert "verify.launches" not in refused(a_round(FAST, launches(FAST, 0.3, tail=1.98))).text
    wild = a_round(FAST, launches(FAST, 0.0, spread=0.25, n=24))
    assert wild.open
    worst = min((c for c in wild.comparisons if c.slot in wild.open), key=lambda c: c.at_least)
    spread = worst.mean_sem * math.sqrt(24)
    needed = ((1.6449 + 0.8416) * spread / (worst.mean_gain - math.log(0.9))) ** 2
    text = refused(replace(wild, gains=True)).text
    if needed <= DESIGN.most:
        assert f"it takes verify.launches={max(math.ceil(needed), 25)} at least" in text
    else:
        assert "verify.launches" not in text


def test_what_was_left_while_it_gained_is_not_called_no_better():
    left = a_round(FAST, launches(FAST, 0.12, 4, spread=0.05), gains=False, complete=False)
    text = refused(left).text
    assert "nothing was better" not in text
    assert "nothing was shown to be better" in text
    assert "overall was left after 4 launches of its own" in text


def test_a_suspect_is_named_with_what_it_shares():
    suspect = "shares UCX_TLS=self,posix with what failed in 5 of 24 launches"
    text = refused(a_round(FAST, launches(FAST, 0.3), suspect=suspect)).text
    assert f"overall {suspect}, which 12 launches of its own do not exclude of it" in text


def test_failures_that_may_be_chance_are_told_as_such():
    text = refused(a_round(FAST, launches(FAST, 0.3, failed=2))).text
    assert "may fail more often than the untouched stack" in text
    assert " fails more often" not in text


def test_a_place_has_a_size_where_the_name_is_a_collective():
    assert place_text(("allreduce", 2, 16)) == "16 B of allreduce"
    assert place_text(("t64k", 1, 1)) == "t64k"


def test_the_mean_is_the_location_where_a_launch_did_not_store_it():
    estimate = Estimate(Cell("allreduce", 2, 16, Point()), 1e-6, 1e-9, 200)
    assert estimate.mean_s == 1e-6
    assert replace(estimate, extra={"plain_mean_s": 3e-6}).mean_s == 3e-6


def test_a_speed_up_on_too_few_launches_for_an_interval_says_so():
    assert holds([a_round(FAST, launches(FAST, 0.3, 4))]).text.startswith(
        "verified: 1.35× (too few launches for an interval) on 8 fresh launches"
    )
    assert "too few" not in holds([a_round(FAST, launches(FAST, 0.3, 8))]).text
