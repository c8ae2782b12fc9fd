"""What a recorded run saves, and what it could at best."""

from dataclasses import replace

import pytest

from autotune.application.reach import reachable_s, savings
from autotune.application.recording import RecordedCalls, Recording, mean_of
from autotune.recommend.recommendation import Gain


def run(*calls):
    return Recording(("app",), 100.0, 99.0, 4, 1, "finalized", "", "", 0.0, 0, calls)


def calls(collective="allreduce", size=64.0, n=1000.0, seconds=1.2, waiting=0.2, kind="blocking"):
    return RecordedCalls(collective, kind, 4, size, 4000, n, seconds, waiting)


GAIN = Gain(("allreduce", 4, 64), 0.5e-3, 0.0, 1e-3, 0.0)
"""Twice as fast, exactly."""


def test_a_run_saves_the_share_of_its_time_without_waiting():
    assert savings(run(calls()), [GAIN]).seconds == (pytest.approx((0.5, 0.5, 0.5)),)


def test_calls_that_files_do_not_reach_save_nothing():
    others = (calls(kind="persistent"), calls(collective="bcast"), calls(collective="alltoallw"))
    assert savings(run(*others), [GAIN]).seconds == ((0.0, 0.0, 0.0),)


def test_an_uncertain_gain_has_an_interval_around_it():
    gain = Gain(GAIN.slot, 0.5e-3, 0.05e-3, 1e-3, 0.0)
    ((saved, low, high),) = savings(run(calls()), [gain]).seconds
    assert low < saved < high


def test_reach_is_what_the_fastest_would_leave():
    reached, covered = reachable_s(run(calls(), calls("bcast", seconds=1.2)), [GAIN])
    assert reached == pytest.approx(1.0 - 1000 * 0.5e-3)
    assert covered == pytest.approx(0.5)


@pytest.mark.parametrize(("size", "met"), [(32.0, 1), (128.0, 1), (31.0, 0), (129.0, 0), (8.0, 0), (1e6, 0)])
def test_calls_beyond_a_factor_of_two_of_what_was_measured_are_not_covered(size, met):
    recorded = run(calls(size=size))
    assert savings(recorded, [GAIN]).seconds == (pytest.approx((0.5 * met,) * 3),)
    reached, covered = reachable_s(recorded, [GAIN])
    assert (reached > 0, covered) == (bool(met), met)


def test_each_run_saves_of_its_own_time():
    found = savings(mean_of([run(calls()), run(calls(seconds=2.2))]), [GAIN])
    assert [s for s, _, _ in found.seconds] == pytest.approx([0.5, 1.0])
    assert [s for s, _, _ in found.shares] == pytest.approx([0.005, 0.01])
    assert found.draw_s == 0.0


def test_the_draw_of_what_was_timed_is_an_error_of_one_run():
    drawn = replace(calls(), seconds_se=0.03, waiting_se=0.04)
    assert savings(run(drawn), [GAIN]).draw_s == pytest.approx(0.05 / 2)


def test_nothing_is_promised_of_calls_that_take_a_hundred_times_what_was_measured():
    """A hundred seconds of calls that take one alone: half of that one is saved."""
    found = savings(run(calls(seconds=100.2)), [GAIN])
    assert found.seconds == (pytest.approx((0.5, 0.5, 0.5)),)
    assert found.unlike_s == pytest.approx(99.0)
    ((_, times),) = found.unlike
    assert times == pytest.approx(100.0)
