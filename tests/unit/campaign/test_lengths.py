"""How long launches of a heat measure, by histories whose variance is planted."""

from dataclasses import replace

import numpy as np
import pytest

from autotune.campaign.lengths import with_length
from autotune.history.events import trial_event, trial_of
from autotune.history.trial import (
    TIMED,
    UNINTERRUPTED_MEAN,
    UNINTERRUPTED_SEM,
    Cell,
    Estimate,
    History,
    Observation,
    Phase,
    Status,
    Subject,
    Trial,
)
from autotune.space import Point
from tests.campaigns import Memory
from tests.unit.campaign.test_heats import Moments, campaign, run

FIXED_S, MEASURED_S = 2.0, 0.5
SIZES = (8, 1024, 65536)


def history(n_heats, between, within, seed=1, **extra):
    """Heats of an untouched launch and one of a setting, after each of which one knows more."""
    rng, made = np.random.default_rng(seed), []
    for heat in range(n_heats):
        for job, point in enumerate((Point(), Point.of({"tls": "sysv"}))):
            number = 2 * heat + job + 1
            subject = Subject.SWEEP if job else Subject.UNTOUCHED
            trial = Trial(number, Phase.SEARCH, point, subject, heat=2 * heat + 1)
            launch = rng.normal(0, between)
            estimates = []
            for size in SIZES:
                seconds = 1e-6 * size * np.exp(launch + rng.normal(0, within))
                estimates.append(Estimate(Cell("allreduce", 2, size), seconds, within * seconds, 50))
            figures = {TIMED: MEASURED_S, **extra}
            made.append(
                Observation(trial, Status.OK, tuple(estimates), "", FIXED_S + MEASURED_S, extra=figures)
            )
    return History(tuple(made))


def lengths(known, phase=Phase.SEARCH, heat=99, **probe):
    scenario = campaign().campaign.scenario
    scenario = replace(scenario, probe=replace(scenario.probe, **probe))
    return {t.measured_s for t in with_length((Trial(99, phase, Point(), heat=heat),) * 2, known, scenario)}


def test_launches_are_as_long_as_two_stage_sampling_asks():
    """Ratios have twice the variances of launches, 2 · 0.02² each in 0.5 s, so that t* = √(2 · 0.5) s."""
    (found,) = lengths(history(400, 0.02, 0.02), budget_s=60.0)
    assert found == pytest.approx(1.0, rel=0.15)


def test_the_more_launches_differ_the_shorter_each_is():
    (short,), (long,) = (lengths(history(60, sd, 0.02), budget_s=60.0) for sd in (0.1, 0.01))
    assert short < long


def test_what_the_user_allows_is_the_most_and_a_discovery_the_least():
    assert lengths(history(60, 1e-4, 0.05), budget_s=1.5) == {1.5}
    (least,) = lengths(history(60, 0.5, 0.001), budget_s=60.0)
    assert least == campaign().campaign.scenario.discover.probe_s


def verified(n_heats, gains, between, within, seed=1, fixed_s=FIXED_S):
    """Heats of a verification with two launches of each side, which differ also from heat to heat.

    The arguments are ln of the gain of each size, and the deviations of its means.
    """
    rng, made = np.random.default_rng(seed), []
    for heat in range(n_heats):
        moments = rng.normal(0, 0.3, len(SIZES))
        for job, subject in enumerate((Subject.UNTOUCHED, Subject.DEPLOYED) * 2):
            trial = Trial(4 * heat + job + 1, Phase.VERIFY, Point(), subject, heat=4 * heat + 1)
            estimates = []
            for size, gain, moment, apart, error in zip(SIZES, gains, moments, between, within, strict=True):
                log = moment - gain * (job % 2) + rng.normal(0, apart) + rng.normal(0, error)
                mean_s = 1e-6 * size * np.exp(log)
                extra = {UNINTERRUPTED_MEAN: mean_s, UNINTERRUPTED_SEM: error * mean_s}
                estimates.append(Estimate(Cell("allreduce", 2, size), mean_s, mean_s, 50, extra=extra))
            figures = {TIMED: MEASURED_S}
            made.append(
                Observation(trial, Status.OK, tuple(estimates), "", fixed_s + MEASURED_S, extra=figures)
            )
    return History(tuple(made))


@pytest.mark.parametrize(("decisive", "wanted_s"), [(0, 0.39), (1, 0.77)])
def test_a_verification_measures_for_the_cell_that_needs_the_most_launches(decisive, wanted_s):
    """t* is √(0.3 s · 0.5 s) · error / deviation; the other cell gains so much that a few suffice."""
    gains, between, within = [0.6, 0.6, 0.6], [0.03, 0.02, 0.001], [0.03, 0.04, 0.001]
    gains[decisive] = 0.0
    known = verified(400, gains, between, within, fixed_s=0.3)
    (found,) = lengths(known, Phase.VERIFY, budget_s=60.0)
    assert found == pytest.approx(wanted_s, rel=0.15)


@pytest.mark.parametrize("between", [0.04, 0.3])
def test_a_launch_of_a_verification_measures_for_at_least_its_fixed_time(between):
    """Dependent samples make t* too short, here 0.5 s and less; the fixed time costs at most twice."""
    found = lengths(verified(40, [0.0] * 3, [between] * 3, [0.02] * 3), Phase.VERIFY, budget_s=60.0)
    assert found == {FIXED_S}
    assert lengths(history(2, 0.02, 0.02), Phase.VERIFY, budget_s=60.0) == {FIXED_S}
    assert lengths(history(2, 0.02, 0.02), Phase.VERIFY, budget_s=1.5) == {1.5}


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        (history(4, 0.02, 0.02), {}),
        (history(40, 0.02, 0.02, **{TIMED: 0.0}), {}),
        (history(40, 0.02, 0.02), {"heat": 0}),
    ],
    ids=["few", "untold", "alone"],
)
def test_otherwise_launches_are_as_long_as_the_scenario_says(known, asked):
    assert lengths(known, **asked) == {0.0}


@pytest.mark.parametrize("known", [History(), history(40, 0.02, 0.02)], ids=["first", "later"])
def test_the_default_measures_as_long_as_the_levels_of_a_discovery_beside_it(known):
    scenario = campaign().campaign.scenario
    default = Trial(99, Phase.BASELINE, Point(), Subject.UNTOUCHED, heat=99)
    level = Trial(100, Phase.DISCOVERY, Point.of({"tls": "sysv"}), heat=99)
    together = with_length((default, level), known, scenario)
    assert {t.measured_s for t in together} == {scenario.discover.probe_s}


class Telling(Moments):
    """Launches that tell how long their calls were timed, and how precise their means are."""

    def _at(self, moment, trial):
        seen = super()._at(moment, trial)
        figures = [{UNINTERRUPTED_MEAN: e.median_s, UNINTERRUPTED_SEM: e.sem_s} for e in seen.estimates]
        known = (replace(e, extra=extra) for e, extra in zip(seen.estimates, figures, strict=True))
        return replace(seen, estimates=tuple(known), extra={TIMED: trial.measured_s or MEASURED_S})


def test_a_campaign_learns_lengths_as_a_function_of_its_history():
    """So it goes on with the same ones, wherever it was interrupted."""
    plan = campaign()
    scenario = plan.campaign.scenario
    made = run(plan, Telling(0.05), Memory()).observations
    told = [o.trial.measured_s for o in made if o.trial.phase is not Phase.STARTS]  # which time nothing
    assert told[0] == 0.0 and told[-1] > 0.0
    for number, o in enumerate(made):
        if o.trial.number == o.trial.heat:
            (again,) = with_length((replace(o.trial, measured_s=0.0),), History(made[:number]), scenario)
            assert again == o.trial


def test_a_length_is_written_with_its_trial():
    trial = Trial(7, Phase.VERIFY, Point(), heat=7, measured_s=0.75)
    assert trial_of({k: v for k, v in trial_event(trial).items() if k != "event"}) == trial
    assert "measured_s" not in trial_event(replace(trial, measured_s=0.0))
