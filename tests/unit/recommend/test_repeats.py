"""What launches of one setting tell of each other."""

import math
from dataclasses import replace

import numpy as np
import pytest

from autotune.history.objectives import envelope
from autotune.history.trial import Cell, Estimate, Observation, Phase, Status, Subject, Trial
from autotune.measure.launch_spread import LAUNCH_SPREAD
from autotune.measure.location import usual_variance
from autotune.recommend.repeats import (
    LaunchNoise,
    launch_noise,
    optimism,
    repeated,
    two_that_differ,
)
from autotune.space import Level, Parameter, Point, Space

NAMES = ("default", "a", "b", "c", "d", "e", "f", "g", "h")
SPACE = Space("s", (Parameter("algorithm", NAMES, "default", Level.CALL, per_size=True),))
SLOTS = [("allreduce", 2, 2**k) for k in range(3, 13)]


def launch(rng, number, times, noise, subject=Subject.SWEEP):
    """A launch in which the choices take so many microseconds at each size, and cells vary by so much."""
    cells = [
        Cell(*slot, Point.of({"algorithm": name})) for slot in SLOTS for name in list(NAMES)[: len(times)]
    ]
    us = np.tile(times, len(SLOTS)) * np.exp(rng.normal(0, noise, len(cells)))
    estimates = tuple(Estimate(cell, 1e-6 * t, 1e-9, 20) for cell, t in zip(cells, us, strict=True))
    return Observation(Trial(number, Phase.SEARCH, SPACE.default, subject), Status.OK, estimates)


@pytest.mark.parametrize("noise", [0.01, 0.04])
def test_the_best_of_choices_that_are_as_good_is_lucky(noise):
    rng = np.random.default_rng(5)
    made = [launch(rng, n, np.ones(9), noise) for n in range(12)]
    lucky = [-math.log(1e6 * w.median_s) for one in made for w in envelope(SPACE, [one]).values()]
    told = optimism(SPACE, made)
    assert set(told) == set(SLOTS)
    assert np.mean(lucky) > noise
    assert 0.5 * np.mean(lucky) < np.mean(list(told.values())) < np.mean(lucky)


def test_a_best_choice_that_is_clearly_the_best_is_not():
    rng = np.random.default_rng(5)
    made = [launch(rng, n, np.array([2.0, 1.0, 3.0]), 0.02) for n in range(4)]
    assert max(optimism(SPACE, made).values()) < 1e-3


def test_a_single_choice_cannot_be():
    rng = np.random.default_rng(5)
    made = [launch(rng, n, np.ones(1), 0.03, Subject.UNTOUCHED) for n in range(4)]
    assert set(optimism(SPACE, made).values()) == {0.0}
    assert optimism(SPACE, []) == {}
    [(places, logs, _)] = repeated(made)
    assert places == [0, 1, 2, 3]
    assert logs.shape == (4, len(SLOTS))


def untouched(number, *away):
    """A launch of the defaults whose cells take a microsecond, but for so much on the log scale."""
    estimates = tuple(
        Estimate(Cell(*slot, Point()), 1e-6 * math.exp(by), 1e-9, 20)
        for slot, by in zip(SLOTS, away, strict=False)
    )
    return Observation(Trial(number, Phase.BASELINE, SPACE.default, Subject.UNTOUCHED), Status.OK, estimates)


def test_the_noise_of_repeated_launches_is_that_within_a_setting():
    launches = [untouched(n, d, 3 + d) for n, d in enumerate((0.0, 0.1, 0.2))]
    alone = launch(np.random.default_rng(5), 4, np.ones(3), 0.5)
    seen = launch_noise([*launches, alone])
    assert seen == LaunchNoise(pytest.approx(0.02), 2)
    assert launch_noise([alone]).sd == pytest.approx(0.03)  # what recorded campaigns show
    assert 0.03 < seen.sd < 0.1
    assert seen.freedom == 6


def test_each_size_has_its_own_noise():
    rng = np.random.default_rng(3)
    launches = []
    for number in range(12):
        wild = launch(rng, number, np.ones(1), 0.15)
        calm = launch(rng, number, np.ones(1), 0.005)
        estimates = (*wild.estimates[:1], *calm.estimates[1:])
        launches.append(replace(wild, estimates=estimates))
    seen = launch_noise(launches)
    of_slots = seen.sds([*SLOTS, ("bcast", 2, 8)])
    assert of_slots[0] > 3 * of_slots[1:-1].max()
    assert of_slots[1:-1].max() < LAUNCH_SPREAD.usual_sd
    assert of_slots[-1] == seen.sd  # of a slot that nothing was seen of


@pytest.mark.parametrize(("away", "wanted"), [((0.0,), False), ((0.0, 0.05), False), ((0.0, 0.2), True)])
def test_two_launches_that_lie_far_apart_need_a_third(away, wanted):
    launches = [untouched(n, by) for n, by in enumerate(away)]
    assert two_that_differ(launches) == wanted
    assert not two_that_differ([*launches, untouched(8, 0.4), untouched(9, 0.0)])


def test_a_setting_whose_launches_jump_raises_the_noise_of_no_other():
    rng = np.random.default_rng(4)
    squares = 0.02**2 * rng.chisquare(3, 9)
    freedom = np.full(10, 3)
    alone = usual_variance(squares, freedom[1:])
    assert 0.01**2 < alone < 0.03**2
    assert usual_variance(np.append(squares, 40.0), freedom) == pytest.approx(alone, rel=0.5)
    assert usual_variance(np.zeros(1), np.zeros(1, dtype=int)) == 0.0
    assert usual_variance(np.array([0.06]), np.array([3])) == pytest.approx(0.02)
