"""What moves whole launches is found where it is there, seldom where it is not, and taken out."""

import math
from dataclasses import replace

import numpy as np
import pytest

from autotune.campaign.drift import corrected, drift, wants_baseline
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Subject, Trial
from autotune.space import Point

SIZES = (8, 128, 2048)


@pytest.fixture
def rng():
    return np.random.default_rng(13)


def campaign(rng, n=200, every=20, sd=0.03, moved=lambda at: 0.0, jobs=(), disturbed=None, baseline=None):
    """Launches of ever new points with the baseline at intervals; ``jobs``: (hosts, offset) in turn.

    ``disturbed``: index of a launch that took twice as long; ``baseline``: index of each of its launches → by
    how much its times are too long.
    """
    made = []
    for i in range(n):
        untouched = i in baseline if baseline else i % every == 0 or i == n - 1
        hosts, by = jobs[i // 25 % len(jobs)] if jobs else ((), 0.0)
        by += math.log(2) * (i == disturbed) + (baseline or {}).get(i, 0.0)
        level = moved(i / n) + by + rng.normal(0, sd) - (0.0 if untouched else 0.2)
        phase, subject = (Phase.BASELINE, Subject.UNTOUCHED) if untouched else (Phase.SEARCH, Subject.SWEEP)
        estimates = tuple(
            Estimate(Cell("allreduce", 4, size), 1e-6 * size * math.exp(level), 1e-9, 20) for size in SIZES
        )
        point = Point() if untouched else Point.of({"a": i})
        made.append(Observation(Trial(i + 1, phase, point, subject), Status.OK, estimates, hosts=hosts))
    return History(tuple(made))


def test_without_drift_history_stays_the_very_same_nearly_always(rng):
    found = [campaign(rng) for _ in range(60)]
    assert sum(corrected(history) is not history for history in found) <= 3


def test_a_drift_is_found_and_taken_out(rng):
    history = campaign(rng, moved=lambda at: 0.3 * at)
    found = drift(history)
    assert found.walk > 0
    assert found.hosts == 0
    assert found.offsets[200] - found.offsets[1] == pytest.approx(0.3, abs=0.08)
    logs = [math.log(o.estimates[0].median_s) for o in corrected(history) if o.trial.phase is Phase.SEARCH]
    before = [math.log(o.estimates[0].median_s) for o in history if o.trial.phase is Phase.SEARCH]
    assert np.std(logs) < 0.6 * np.std(before)
    assert abs(np.polyfit(range(len(logs)), logs, 1)[0]) < 0.3 * np.polyfit(range(len(before)), before, 1)[0]


@pytest.mark.parametrize("disturbed", [0, 20, 100, 199])
def test_a_single_launch_that_was_disturbed_is_no_drift(rng, disturbed):
    assert not any(drift(campaign(rng, disturbed=disturbed)).offsets for _ in range(5))
    assert drift(campaign(rng, moved=lambda at: 0.3 * at, disturbed=disturbed)).walk > 0


def test_allocations_that_differ_are_found_and_taken_out(rng):
    jobs = [(tuple(f"n{4 * job + k}" for k in range(4)), by) for job, by in enumerate((-0.15, 0.0, 0.15))]
    history = campaign(rng, n=300, every=10, jobs=jobs)
    found = drift(history)
    assert found.hosts > 0
    first, last = (
        [found.offsets[o.trial.number] for o in history if o.hosts == hosts]
        for hosts in (jobs[0][0], jobs[2][0])
    )
    assert np.mean(last) - np.mean(first) == pytest.approx(0.3, abs=0.08)


def test_what_is_taken_out_stays_until_the_baseline_is_launched_again(rng):
    whole = campaign(rng, moved=lambda at: 0.5 * at)
    at = [History(whole.observations[:n]) for n in (181, 185, 190)]
    assert drift(at[0]).offsets
    early, later = corrected(at[1]).observations, corrected(at[2]).observations
    assert all(a is b for a, b in zip(early, later, strict=False))


def test_verification_and_failed_launches_are_left_alone(rng):
    history = campaign(rng, moved=lambda at: 0.5 * at)
    fresh = Observation(
        Trial(201, Phase.VERIFY, Point(), Subject.UNTOUCHED), Status.OK, history.observations[0].estimates
    )
    failed = Observation(Trial(202, Phase.SEARCH, Point.of({"a": 1})), Status.CRASHED)
    after = corrected(history.plus([fresh, failed])).observations
    assert after[200] is fresh
    assert after[201].status is Status.CRASHED
    assert after[150] is not history.observations[150]


@pytest.mark.parametrize("phase", [Phase.SEARCH, Phase.VERIFY])
def test_launches_of_the_search_on_cores_far_apart_are_lost_and_those_of_a_verification_are_not(phase, rng):
    history = campaign(rng, n=30)
    fresh = [
        replace(
            history.observations[0],
            trial=Trial(31 + i, phase, Point(), Subject.UNTOUCHED),
            extra={"cores_apart": apart},
        )
        for i, apart in enumerate((1.0, 4.0, 1.3))
    ]
    after = corrected(history.plus(fresh)).observations
    moved = Status.LOST if phase is Phase.SEARCH else Status.OK
    assert [o.status for o in after[30:]] == [Status.OK, moved, Status.OK]
    assert after[:30] == history.observations


def on_a_host_that_moves(history, far):
    """The history with cores apart in some launches: small messages take three times as long."""
    made = []
    for i, o in enumerate(history):
        times = [3.0 if far(i) and e.cell.message_bytes < 1024 else 1.0 for e in o.estimates]
        each = [replace(e, median_s=e.median_s * t) for e, t in zip(o.estimates, times, strict=True)]
        extra = {"core_latency_s": 4e-7 if far(i) else 1e-7, "cores_apart": 4.0 if far(i) else 1.0}
        made.append(replace(o, estimates=tuple(each), extra=extra))
    return History(tuple(made))


@pytest.mark.parametrize("far", [lambda i: 45 <= i < 75, lambda i: i < 130, lambda i: i % 3 == 0])
def test_launches_on_cores_far_apart_are_corrected_by_the_untouched_stack_in_both_states(rng, far):
    history = campaign(rng, every=8)
    seen = corrected(on_a_host_that_moves(history, far))
    assert all(o.ok for o in seen)
    away = [
        [math.log(a.median_s / b.median_s) for a, b in zip(one.estimates, other.estimates, strict=True)]
        for one, other in zip(seen, history, strict=True)
    ]
    assert np.std(away, axis=0).max() < 0.02


def test_the_untouched_stack_is_wanted_as_soon_as_cores_lie_as_it_was_not_launched_yet(rng):
    history = on_a_host_that_moves(campaign(rng, n=50, every=20), lambda i: i >= 45)
    at = [corrected(History(history.observations[:n])) for n in (45, 46, 50)]
    assert [wants_baseline(one) for one in at] == [False, True, False]  # the last one is of the baseline
    assert at[1].observations[45].status is Status.LOST
    assert all(o.ok for o in at[2])


def test_too_few_launches_tell_nothing():
    assert drift(History()).launches == 0
    assert corrected(History()) == History()


def with_loops(rng, history, follows):
    """The history with cores that are slow by chance, and times that follow them by so much."""
    made = []
    for o in history:
        slow = float(rng.normal(0, 0.15))
        times = [replace(e, median_s=e.median_s * math.exp(follows * slow)) for e in o.estimates]
        made.append(replace(o, estimates=tuple(times), extra={"core_loop_s": 3e-5 * math.exp(slow)}))
    return History(tuple(made))


def spread(history):
    return np.std([math.log(o.estimates[0].median_s) for o in history if o.trial.phase is Phase.SEARCH])


def test_how_fast_the_cores_were_is_taken_out(rng):
    history = with_loops(rng, campaign(rng, n=60, every=8), follows=0.6)
    even = corrected(history)
    assert spread(history) > 0.08
    assert spread(even) < 0.6 * spread(history)
    assert not drift(history).offsets


def test_cores_that_times_do_not_follow_are_no_covariate(rng):
    found = [with_loops(rng, campaign(rng, n=60, every=8), follows=0.0) for _ in range(40)]
    assert sum(corrected(history) is not history for history in found) <= 4


def test_no_single_launch_makes_a_drift(rng):
    """Levels of a real baseline, the last of them slow: launches of points were moved towards it."""
    levels = {0: -0.02, 9: 0.0, 10: 0.005, 19: -0.029, 28: 0.018, 37: 0.036, 47: 0.119}
    history = campaign(rng, n=48, sd=0.0, baseline=levels)
    assert drift(history).launches == 7
    assert corrected(history) is history
