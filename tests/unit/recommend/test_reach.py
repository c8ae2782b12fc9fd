"""What a recorded run saves, and what it could at best."""

import pytest

from autotune.importers.recording import RecordedCalls, Recording
from autotune.recommend.front import Gain
from autotune.recommend.reach import reachable_s, saved_s


def run(*calls):
    return Recording(("app",), 100.0, 99.0, 4, 1, "finalized", "", "", 0.0, 0, calls)


def calls(collective="allreduce", size=64.0, n=1000.0, seconds=1.2, waiting=0.2, kind="blocking"):
    return RecordedCalls(collective, kind, 4, size, 4000, n, seconds, waiting)


GAIN = Gain(("allreduce", 4, 64), 0.5e-3, 0.0, 1e-3, 0.0)
"""Twice as fast, exactly."""


def test_a_run_saves_the_share_of_its_time_without_waiting():
    assert saved_s(run(calls()), [GAIN]) == pytest.approx((0.5, 0.5, 0.5))


def test_calls_that_files_do_not_reach_save_nothing():
    others = (calls(kind="persistent"), calls(collective="bcast"), calls(collective="alltoallw"))
    assert saved_s(run(*others), [GAIN]) == (0.0, 0.0, 0.0)


def test_an_uncertain_gain_has_an_interval_around_it():
    gain = Gain(GAIN.slot, 0.5e-3, 0.05e-3, 1e-3, 0.0)
    saved, low, high = saved_s(run(calls()), [gain])
    assert low < saved < high


def test_reach_is_what_the_fastest_would_leave():
    reached, covered = reachable_s(run(calls(), calls("bcast", seconds=1.2)), [GAIN])
    assert reached == pytest.approx(1.0 - 1000 * 0.5e-3)
    assert covered == pytest.approx(0.5)
