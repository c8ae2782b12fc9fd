"""What failing settings have in common is suspected in others, until their own launches excuse them."""

import numpy as np
import pytest

from autotune.history.objectives import Objective
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Subject, Trial
from autotune.space import Level, Parameter, Point, Space
from autotune.verification.failed import Failures
from autotune.verification.rounds import Verifier
from autotune.verification.sequential import SequentialDesign
from autotune.verification.shared_failures import FailingSetting, levels_of, suspicions

HUNG = Status.TIMEOUT
SPACE = Space(
    "shared",
    (
        Parameter("A", ("default", "x", "y"), "default"),
        Parameter("B", ("default", "u", "v"), "default"),
        Parameter("algorithm", ("default", "ring"), "default", Level.CALL, per_size=True),
    ),
)


def levels(**values):
    return levels_of(SPACE, SPACE.complete(values), ())


def setting(failed, launches, **values):
    return FailingSetting(levels(**values), Failures((HUNG,) * failed, launches, (), 48))


def concerned(found, own, **values):
    return any(one.concerns(levels(**values), own) for one in found)


def test_a_twin_shares_the_fault_until_enough_of_its_own_launches_ended_well():
    """Five of 24 hung: (19/24)^12 = 0.061 is more than one in twenty, the thirteenth launch excludes it."""
    found = suspicions([setting(5, 24, A="x", B="u")])
    assert concerned(found, Failures((), 12, (), 48), A="x", B="v")
    assert not concerned(found, Failures((), 13, (), 48), A="x", B="v")
    assert not concerned(found, Failures(), A="y", B="v")
    assert found[0].text(levels(A="x", B="v")) == "shares A=x with what failed in 5 of 24 launches"


def test_what_all_failing_settings_have_in_common_is_suspected_alone():
    found = suspicions([setting(5, 24, A="x", B="u"), setting(6, 24, A="x", B="v"), setting(0, 24, B="u")])
    assert concerned(found, Failures((), 4, (), 48), A="x")
    assert not concerned(found, Failures((), 4, (), 48), B="u")


def test_two_faults_without_a_common_level_are_suspected_each():
    found = suspicions([setting(5, 24, A="x"), setting(6, 24, B="v")])
    assert concerned(found, Failures((), 4, (), 48), A="x", B="u")
    assert concerned(found, Failures((), 4, (), 48), A="y", B="v")


def test_failures_of_its_own_excuse_a_setting_later():
    found = suspicions([setting(8, 24, A="x")])
    assert concerned(found, Failures((HUNG,), 12, (), 48), A="x", B="u")
    assert not concerned(found, Failures((HUNG,), 24, (), 48), A="x", B="u")


@pytest.mark.parametrize(("failed", "launches"), [(0, 24), (1, 1), (1, 24)])
def test_no_failures_and_single_ones_suspect_nothing(failed, launches):
    assert suspicions([setting(failed, launches, A="x")]) == ()


def test_what_fails_always_is_excused_by_one_launch_that_ends_well():
    found = suspicions([setting(8, 8, A="x", B="u")])
    assert not concerned(found, Failures((), 1, (), 48), A="x", B="v")


def test_a_wrong_result_is_its_settings_own():
    wrong = Failures((Status.WRONG_RESULT,) * 5, 24, (), 48)
    assert suspicions([FailingSetting(levels(A="x"), wrong)]) == ()


def test_values_of_the_stack_are_no_levels():
    assert levels() == frozenset()
    assert levels(A="x") == {("A", "x")}


class HangingMachine:
    """A=x is faster, and faster still with B=u, where a fifth of its launches hang."""

    def __init__(self):
        self.rng, self.made = np.random.default_rng(5), 0

    def observe(self, trial):
        point = SPACE.default if trial.subject is Subject.UNTOUCHED else trial.point
        both = point["A"] == "x" and point["B"] == "u"
        if both and trial.phase is Phase.VERIFY:
            self.made += 1
            if self.made % 5 == 0:
                return Observation(trial, Status.TIMEOUT, reason="planted")
        speed = (1.5 if point["A"] == "x" else 1.0) * (1.1 if point["B"] == "u" else 1.0)
        swept = trial.subject is Subject.SWEEP
        estimates = []
        for size in (16, 1024, 65536):
            for choice in ("default", "ring") if swept else (None,):
                slower = 2.0 if choice == "ring" else 1.0
                seconds = 1e-6 * slower / speed * np.exp(0.01 * self.rng.normal())
                cell = Cell("allreduce", 2, size, Point.of({"algorithm": choice}) if swept else Point())
                estimates.append(Estimate(cell, float(seconds), float(0.001 * seconds), 20))
        return Observation(trial, Status.OK, tuple(estimates))


def test_the_clean_twin_of_a_setting_that_hangs_has_more_launches_before_it_is_handed_over():
    machine = HangingMachine()
    points = [SPACE.complete({"A": "x"}), SPACE.complete({"A": "x", "B": "u"})]
    trials = [Trial(n, Phase.BASELINE, SPACE.default, Subject.UNTOUCHED) for n in (1, 2, 3)]
    trials += [Trial(n, Phase.SEARCH, point) for n, point in enumerate(points, start=4)]
    history = History().plus(machine.observe(trial) for trial in trials)
    verifier = Verifier(SPACE, (Objective("latency"),), SequentialDesign(), seed=3)
    while (trial := verifier.next_trial(history)) is not None:
        history = history.plus([machine.observe(trial)])
    verdict = verifier.verdict(history)
    rounds = {r.setting.point: r for r in verdict.rounds}
    hanging, twin = (rounds[point].failures for point in reversed(points))
    assert hanging.doubtful
    assert verdict.recommendation.point == points[0]
    rate = len(hanging.deployed) / hanging.n_deployed
    assert (1 - rate) ** 12 > 0.05 >= (1 - rate) ** twin.n_deployed
