"""Calls that other work interrupted, and those that a setting slows itself."""

import numpy as np
import pytest

from autotune.campaign.observing import observation
from autotune.history.trial import Phase, Status, Subject, Trial
from autotune.probe.protocol import TIMED_S, CellSamples, ProbeResult
from autotune.space import Point
from autotune.stacks.ports import LaunchOutcome
from autotune.verification.blocks import blocks_of
from autotune.verification.comparison import compare
from autotune.verification.interruptions import chance, interrupted_more
from autotune.verification.sequential import SequentialDesign

CALLS, CALL_S = 4000, 2e-6
SLOT = ("allreduce", 2, 8)


def launch(number, tuned, rng, rate, slow=(0.0, 1.0), faster=1.0):
    """A launch in which other work takes a core for 4 ms so many times a second, and some calls are slow."""
    share, times = slow
    call_s = CALL_S / faster
    samples = np.full(CALLS, call_s) * rng.normal(1, 0.02, CALLS)
    samples[rng.random(CALLS) < share] *= times
    measured_s = 2 * CALLS * call_s
    samples[rng.integers(0, CALLS, rng.poisson(rate * measured_s))] += 4e-3
    extra = {TIMED_S: measured_s + float(samples[samples > 1e-3].sum())}
    cell = CellSamples(*SLOT, {}, samples, extra=extra)
    subject = Subject.DEPLOYED if tuned else Subject.UNTOUCHED
    trial = Trial(number, Phase.VERIFY, Point(), subject, block=1 + (number - 1) // 4 * 4, each=2)
    return observation(
        trial, LaunchOutcome(Status.OK, result=ProbeResult("ok", cells=(cell,)), duration_s=1.0)
    )


def sides(seed=1, heats=8, rates=(100, 100), **setting):
    rng = np.random.default_rng(seed)
    made = [
        launch(4 * h + i + 1, i % 2 == 1, rng, rates[i % 2], **(setting if i % 2 else {}))
        for h in range(heats)
        for i in range(4)
    ]
    return [o for o in made if o.trial.subject is Subject.UNTOUCHED], [
        o for o in made if o.trial.subject is Subject.DEPLOYED
    ]


def at_least(reference, tuned):
    [found] = compare(blocks_of(reference, tuned), SequentialDesign(16, heats=True))
    return found.at_least


@pytest.mark.parametrize("faster", [1.0, 1.3])
def test_interruptions_of_both_sides_widen_no_bound(faster):
    reference, tuned = sides(faster=faster)
    assert not interrupted_more(reference, tuned)
    assert at_least(reference, tuned) == pytest.approx(np.log(faster), abs=0.01)
    plain = np.log([o.estimates[0].mean_s for o in (*reference, *tuned)])
    assert np.std(plain) > 0.1  # as a program beside that work waits


def test_a_setting_that_is_interrupted_more_often_is_judged_by_all_of_its_calls():
    reference, tuned = sides(rates=(100, 1500))
    assert interrupted_more(reference, tuned) == {SLOT}
    assert at_least(reference, tuned) < -0.5


@pytest.mark.parametrize("slow", [(0.02, 50.0), (0.002, 200.0)])
def test_slow_calls_of_a_setting_are_no_interruptions(slow):
    reference, tuned = sides(slow=slow)
    assert not interrupted_more(reference, tuned)
    assert at_least(reference, tuned) < -0.25


def test_a_call_that_takes_long_by_itself_is_not_interrupted_by_its_own_noise():
    rng = np.random.default_rng(2)
    samples = 10e-3 * rng.normal(1, 0.1, 200)
    cell = CellSamples(*SLOT, {}, samples)
    made = observation(
        Trial(1, Phase.VERIFY, Point(), block=1),
        LaunchOutcome(Status.OK, result=ProbeResult("ok", cells=(cell,)), duration_s=1.0),
    )
    [estimate] = made.estimates
    assert estimate.extra["interruptions"] == 0
    assert estimate.uninterrupted_mean_s == estimate.mean_s == pytest.approx(samples.mean())


def test_interruptions_that_come_in_clusters_are_no_evidence_however_often_one_looks():
    """A process computes for a second: eight slices of one launch, none of the next, whichever side it is."""
    rng = np.random.default_rng(7)
    wrong = 0
    for _ in range(200):
        rates = {
            side: {
                h: [float(rng.poisson(8) if rng.random() < 0.2 else 0) for _ in range(2)] for h in range(16)
            }
            for side in ("own", "others")
        }
        looks = (
            chance(*({h: rates[side][h] for h in range(k)} for side in ("own", "others")))
            <= 0.05 / (k * (k + 1))
            for k in range(1, 17)
        )
        wrong += any(looks)
    assert wrong <= 20  # 5 % of 200 and three standard deviations


def test_the_chance_is_that_of_the_draw():
    assert chance({1: [5.0, 4.0]}, {1: [1.0, 0.0]}) == pytest.approx(1 / 6)
    assert chance({1: [5.0, 4.0], 5: [2.0, 2.0]}, {1: [1.0, 0.0], 5: [0.0, 0.0]}) == pytest.approx(1 / 36)
    assert chance({1: [0.0, 0.0]}, {1: [0.0, 0.0]}) == pytest.approx(1.0)
    assert chance({1: [5.0]}, {2: [0.0]}) == pytest.approx(1.0)  # no block has both
