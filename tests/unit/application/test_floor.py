"""Default against best out of few launches."""

import math

import numpy as np
import pytest

from autotune.application.floor import FloorLaunch, gains_of
from autotune.history.trial import Cell, Estimate, Observation, Phase, Status, Subject, Trial
from autotune.space import Point

SLOT = ("allreduce", 2, 64)


def launch(number, setting, again=False, sem=0.01, heat=0, **us):
    """A launch in which each choice takes so many microseconds."""
    own = not setting and set(us) == {"default"}
    cells = [(Point() if own else Point.of({"algorithm": name}), t) for name, t in us.items()]
    estimates = tuple(Estimate(Cell(*SLOT, choice), 1e-6 * t, sem * 1e-6 * t, 20) for choice, t in cells)
    subject = Subject.UNTOUCHED if own else Subject.SWEEP
    trial = Trial(number, Phase.SEARCH, Point(), subject)
    return FloorLaunch(setting, Observation(trial, Status.OK, estimates), again, heat)


def test_what_was_chosen_is_judged_by_fresh_launches():
    made = [launch(1, "", default=10.0), launch(2, "a", ring=4.0, tree=9.0), launch(3, "b", ring=6.0)]
    again = [launch(4, "", default=10.0, again=True), launch(5, "a", ring=8.0, tree=9.0, again=True)]
    ((gain,), (words,)) = gains_of([*made, *again])
    assert (words, gain.tuned_s) == ("a, algorithm=ring", pytest.approx(8e-6))


def test_without_fresh_ones_the_luck_of_the_best_is_in_its_error():
    few, many = (
        gains_of([launch(1, "", default=10.0), *(launch(2 + k, f"s{k}", ring=8.0) for k in range(n))])[0][0]
        for n in (1, 50)
    )
    assert few.tuned_sem_s == pytest.approx(0.08e-6, rel=1e-3)
    assert many.tuned_sem_s > 1.5 * few.tuned_sem_s


def test_a_default_that_nothing_beats_is_the_best():
    ((gain,), (words,)) = gains_of([launch(1, "", default=10.0), launch(2, "a", ring=11.0)])
    assert (words, gain.ratio) == ("", 1.0)


def test_launches_of_the_default_tell_how_far_launches_differ():
    made = [launch(1, "", default=10.0), launch(2, "", default=14.0), launch(3, "a", ring=6.0)]
    ((gain,), _) = gains_of(made)
    spread = abs(math.log(14 / 10)) / math.sqrt(2)
    assert gain.tuned_sem_s == pytest.approx(6e-6 * spread, rel=1e-3)


def test_settings_that_do_nothing_promise_nothing():
    """Twenty that are as the default, launches 5 % apart: what may be won covers nothing in 19 of 20."""
    rng, held = np.random.default_rng(3), 0
    for _ in range(200):
        made = [launch(n, "", default=10.0 * math.exp(rng.normal(0, 0.05))) for n in range(3)]
        made += [launch(9 + k, f"s{k}", ring=10.0 * math.exp(rng.normal(0, 0.05))) for k in range(20)]
        best = min(made[3:], key=lambda one: next(one.seen.usable).median_s).setting
        again_us = 10.0 * np.exp(rng.normal(0, 0.05, 2))
        made += [launch(50 + k, best, ring=us, again=True) for k, us in enumerate(again_us)]
        held += gains_of(made)[0][0].saved[1] <= 0
    assert held >= 180


def test_launches_of_a_heat_are_compared_with_the_default_beside_them():
    """The second heat met a moment twice as slow, and the third one had no default to compare with."""
    made = [launch(1, "", default=10.0, heat=1), launch(2, "a", ring=8.0, heat=1)]
    made += [launch(3, "", default=20.0, heat=2), launch(4, "b", ring=12.0, heat=2)]
    made += [launch(5, "c", ring=1.0, heat=3)]
    again = [launch(6, "", default=10.0, again=True, heat=4), launch(7, "b", ring=6.0, again=True, heat=4)]
    ((gain,), (words,)) = gains_of([*made, *again])
    assert (words, gain.ratio) == ("b, algorithm=ring", pytest.approx(10 / 6))


def test_in_heats_settings_that_do_nothing_promise_nothing():
    """Moments differ by 30 %, launches of a heat by 2 %: the error is that of the ratios."""
    rng, held, errors = np.random.default_rng(4), 0, []
    for _ in range(200):
        made, moment = [], iter(10.0 * np.exp(rng.normal(0, 0.3, 99)))
        for heat in range(1, 6):
            level = next(moment)
            made.append(launch(10 * heat, "", default=level * math.exp(rng.normal(0, 0.02)), heat=heat))
            for k in range(2):
                name, us = f"s{2 * heat + k}", level * math.exp(rng.normal(0, 0.02))
                made.append(launch(10 * heat + k + 1, name, ring=us, heat=heat))
        best = gains_of(made)[1][0].partition(",")[0] or "s2"
        for heat in range(6, 9):
            default_us, us = next(moment) * np.exp(rng.normal(0, 0.02, 2))
            made.append(launch(10 * heat, "", default=default_us, again=True, heat=heat))
            made.append(launch(10 * heat + 1, best, ring=us, again=True, heat=heat))
        ((gain,), _) = gains_of(made)
        held += gain.saved[1] <= 0
        errors.append(gain.tuned_sem_s / gain.tuned_s)
    assert held >= 180
    assert np.median(errors) < 0.05
