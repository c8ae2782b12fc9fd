"""The best so far, told without flattery."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from autotune.history.objectives import Objective, job_setting
from autotune.history.trial import Cell, Estimate, Observation, Phase, Status, Subject, Trial
from autotune.recommend.leads import leads, moments, random_best
from autotune.recommend.summary import steps
from autotune.space import Parameter, Point, Space

SPACE = Space("one", (Parameter("a", tuple(range(9)), 0),))
LATENCY = Objective("latency")


def launch(number, value, us, phase=Phase.SEARCH, subject=Subject.SWEEP):
    trial = Trial(number, phase, Point.of({"a": value}), subject)
    estimate = Estimate(Cell("allreduce", 2, 8), us * 1e-6, 1e-9, 9)
    return Observation(trial, Status.OK, (estimate,), duration_s=2.0, queue_s=1.0)


def led(launches):
    return leads([LATENCY], 0, SPACE, steps([LATENCY], SPACE, launches))


def test_the_expected_best_of_blind_draws_is_the_mean_over_all_of_them():
    values = [3.0, 1.0, 4.0, 1.5, 9.0, 2.6]
    for maximise, best in ((False, min), (True, max)):
        found = random_best(values, maximise)
        for k in range(1, len(values) + 1):
            expected = np.mean([best(drawn) for drawn in combinations(values, k)])
            assert found[k - 1] == pytest.approx(expected)
    assert random_best([], False) == ()
    assert random_best([2.0], True) == (2.0,)


def test_leaders_follow_each_other_and_later_launches_judge_them():
    found = led([
        launch(1, 1, 10.0),
        launch(2, 2, 8.0),
        launch(3, 3, 9.0),
        launch(4, 2, 12.0),  # the leader was lucky: pooled it is worse than 3
        launch(5, 4, 7.0),
        launch(6, 4, 7.5, Phase.VERIFY, Subject.DEPLOYED),
        launch(7, 4, 99.0, Phase.VERIFY, Subject.UNTOUCHED),
    ])  # fmt: skip
    assert [dict(lead.point)["a"] for lead in found] == [1, 2, 3, 4]
    assert [(lead.from_trial, lead.to_trial) for lead in found] == [(1, 1), (2, 3), (4, 4), (5, 5)]
    assert [lead.first_score.value for lead in found] == pytest.approx([10.0, 8.0, 9.0, 7.0])
    assert [lead.launches for lead in found] == [0, 1, 0, 1]
    assert found[1].later_score.value == pytest.approx(12.0)
    assert found[3].later_score.value == pytest.approx(7.5)  # the untouched stack's launch is not its
    assert found[0].later_score is None


def test_re_measured_leaders_are_not_flattered_by_luck():
    """All settings are alike: naively the best of many looks good, measured again it is like the others."""
    rng = np.random.default_rng(5)
    launches = [launch(i, i % 9, 10 * math.exp(rng.normal(0, 0.2))) for i in range(1, 10)]
    again = [launch(10 + i, i, 10.0) for i in range(9)]
    last = led([*launches, *again])
    assert last[-1].first_score.value < 10.0
    lucky = next(lead for lead in last if lead.from_trial <= 9 and lead.later_score)
    assert lucky.later_score.value == pytest.approx(10.0)


def test_failures_and_incomplete_curves_lead_nothing():
    failed = replace(launch(1, 1, 5.0), status=Status.CRASHED, estimates=())
    assert led([failed]) == ()
    assert led([]) == ()
    assert [dict(lead.point)["a"] for lead in led([failed, launch(2, 2, 8.0)])] == [2]


def test_time_is_that_of_waiting_and_launching():
    told = moments([launch(1, 1, 5.0), launch(2, 2, 5.0), launch(3, 3, 5.0)])
    assert [moment.from_s for moment in told] == [0.0, 3.0, 6.0]
    assert job_setting(SPACE, told[0].observation.trial.point) == Point.of({"a": 1})
