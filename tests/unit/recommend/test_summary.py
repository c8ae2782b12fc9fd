"""What is known after each launch, and the per-size table at the measured sizes."""

import math
from dataclasses import replace

import pytest

from autotune.history.objectives import Objective, Score
from autotune.history.trial import Cell, Estimate, Observation, Phase, Rule, Status, Subject, Trial
from autotune.recommend.recommendation import Gain, Recommendation
from autotune.recommend.summary import Tally, ratio_to, size_rows, speedup_interval, steps
from autotune.space import Parameter, Point, Space

LATENCY, BANDWIDTH = Objective("latency", max_bytes=8), Objective("bandwidth", min_bytes=1024)
SPACE = Space("s", (Parameter("tls", ("all", "sysv", "tcp"), "all"),))


def launch(number, tls, small_us, large_us, subject=Subject.SWEEP, status=Status.OK):
    point = Point.of({"tls": tls}) if tls else Point()
    times = [(8, small_us), (1024, large_us)]
    estimates = [
        Estimate(Cell("bcast", 2, size), us * 1e-6, us * 1e-8, 9) for size, us in times if us is not None
    ]
    return Observation(Trial(number, Phase.SEARCH, point, subject), status, tuple(estimates))


def values(scores):
    return None if scores is None else tuple(round(score.value, 6) for score in scores)


def test_the_best_so_far_is_one_setting_and_never_worse_than_the_defaults():
    found = steps(
        (LATENCY, BANDWIDTH),
        SPACE,
        [
            launch(1, "", 2.0, 10.24, Subject.UNTOUCHED),
            launch(2, "all", 4.0, 10.24),
            launch(3, "sysv", 3.0, 5.12),
            launch(4, "tcp", None, None, status=Status.CRASHED),
            launch(5, "", 3.0, 10.24, Subject.UNTOUCHED),
            launch(6, "all", 1.0, 5.12),
        ],
    )
    assert [values(step.baseline) for step in found] == [(2.0, 0.1)] * 4 + [(2.449490, 0.1)] * 2
    scored = [(2.0, 0.1), (4.0, 0.1), (3.0, 0.2), None, (3.0, 0.1), (1.0, 0.2)]
    assert [values(step.scores) for step in found] == scored
    third = (3.0, 0.2)  # 0.67 times the defaults' latency, twice their bandwidth
    assert [values(step.best) for step in found][:5] == [(2.0, 0.1), (2.0, 0.1), third, third, third]
    assert [step.leads for step in found] == [False, False, True, False, False, True]


def test_a_launch_of_a_heat_is_compared_with_the_defaults_of_its_heat():
    """A verification's heats are made at other moments than the search, here twice and four times as slow."""

    def verifying(number, tls, us, subject, heat):
        made = launch(number, tls, us, 9.0, subject)
        return replace(made, trial=replace(made.trial, phase=Phase.VERIFY, heat=heat))

    found = steps(
        (LATENCY,),
        SPACE,
        [
            launch(1, "", 2.0, 9.0, Subject.UNTOUCHED),
            launch(2, "all", 1.6, 9.0),
            verifying(3, "all", 3.2, Subject.DEPLOYED, 3),
            verifying(4, "", 4.0, Subject.UNTOUCHED, 3),
            verifying(5, "", 8.0, Subject.UNTOUCHED, 5),
            verifying(6, "all", 6.4, Subject.DEPLOYED, 5),
        ],
    )
    assert [values(step.reference) for step in found] == [(2.0,), (2.0,), (4.0,), (4.0,), (8.0,), (8.0,)]
    assert [values(step.scores) for step in found] == [(2.0,), (1.6,), (3.2,), (4.0,), (8.0,), (6.4,)]
    assert [values(step.baseline) for step in found] == [(2.0,)] * 6
    assert [values(step.best) for step in found] == [(2.0,)] + [(1.6,)] * 5
    resumed = Tally((LATENCY,), SPACE)
    resumed.add(step.observation for step in found[:4])
    assert resumed.add(step.observation for step in found[4:]) == found[4:]


def test_the_best_pools_the_launches_of_a_setting_and_a_step_shows_its_own():
    found = steps((LATENCY,), SPACE, [launch(1, "all", 2.0, 9.0), launch(2, "all", 0.5, 9.0)])
    assert [values(step.scores) for step in found] == [(2.0,), (0.5,)]
    assert [values(step.best) for step in found] == [(2.0,), (1.0,)]


def test_a_best_setting_that_was_only_lucky_falls_behind_when_it_is_launched_again():
    launches = [launch(1, "", 2.0, 9.0, Subject.UNTOUCHED), launch(2, "all", 1.0, 9.0)]
    found = steps((LATENCY,), SPACE, [*launches, launch(3, "all", 16.0, 9.0)])
    assert [values(step.best) for step in found] == [(2.0,), (1.0,), (2.0,)]


def test_an_incomplete_curve_has_no_scores():
    found = steps((LATENCY, BANDWIDTH), SPACE, [launch(1, "all", 1.0, 9.0), launch(2, "tcp", 1.0, None)])
    assert found[1].scores is None
    assert found[1].best == found[0].best


def test_each_measured_size_has_the_choice_of_the_rule_that_covers_it():
    ring, linear = Point.of({"algorithm": "ring"}), Point.of({"algorithm": "linear"})
    rules = (Rule("bcast", 2, 0, linear), Rule("bcast", 2, 1024, ring), Rule("bcast", 4, 0, ring))
    gains = tuple(Gain(slot, 1.0, 0.0, 2.0, 0.0) for slot in [
        ("bcast", 2, 8), ("bcast", 2, 1024), ("bcast", 2, 4096), ("bcast", 4, 8), ("reduce", 2, 8)
    ])  # fmt: skip
    rows = size_rows(Recommendation(Point(), rules, gains))
    assert [row.choice for row in rows] == [linear, ring, ring, ring, Point()]
    assert [row.gain for row in rows] == list(gains)


def test_the_interval_of_the_mean_speed_up_shrinks_with_the_number_of_sizes():
    def interval(n_sizes):
        gains = [Gain(("bcast", 2, 8 << i), 1e-6, 3e-8, 2e-6, 8e-8) for i in range(n_sizes)]
        return speedup_interval(Recommendation(Point(), (), tuple(gains)))

    low, high = interval(1)
    spread = 1.96 * 0.05  # 3 % and 4 %, independent
    assert (low, high) == pytest.approx((2 * math.exp(-spread), 2 * math.exp(spread)))
    assert interval(4) == pytest.approx((2 * math.exp(-spread / 2), 2 * math.exp(spread / 2)))
    assert all(map(math.isnan, speedup_interval(Recommendation(Point(), ()))))


@pytest.mark.parametrize(("objective", "ratio"), [(LATENCY, 2.0), (BANDWIDTH, 0.5)])
def test_better_is_above_one(objective, ratio):
    assert ratio_to(objective, Score(5.0, 0.1), Score(10.0, 0.1)) == pytest.approx(ratio)
