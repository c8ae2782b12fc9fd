"""Savings of an application, by hand."""

import math

import pytest

from autotune.application.profiles import CallProfile, Calls
from autotune.application.worth import worth
from autotune.errors import TableError, UserError
from autotune.recommend.recommendation import Gain


def gain(size, tuned_us, default_us, sem=0.0, collective="allreduce"):
    tuned, default = tuned_us * 1e-6, default_us * 1e-6
    return Gain((collective, 8, size), tuned, sem * tuned, default, 0.0)


def profile(*calls, application_s=3600.0):
    return CallProfile("p.csv", tuple(Calls(*c) for c in calls), application_s)


def test_counts_times_what_a_call_saves():
    calls = profile((8, 1e6, "allreduce"), (1024, 1e5, "allreduce"))
    found = worth(calls, [gain(8, 3, 5), gain(1024, 10, 20)], 60.0)
    assert found.calls == pytest.approx(1.1e6)
    assert found.saved_s == pytest.approx(1e6 * 2e-6 + 1e5 * 10e-6)
    assert found.saved_per_hour_s == pytest.approx(3.0)
    assert found.paid_back_after_s == pytest.approx(60.0 * 3600 / 3.0)


def test_the_interval_follows_that_of_each_size():
    found = worth(profile((8, 1e6, "allreduce")), [gain(8, 4, 5, sem=0.05)], 1.0)
    assert found.low_s < found.saved_s < found.high_s
    least = 1.25 * math.exp(-1.96 * 0.05)
    assert found.low_s == pytest.approx(1e6 * 5e-6 * (1 - 1 / least))


def test_what_was_not_tuned_is_told_apart():
    found = worth(profile((8, 10.0, "allreduce"), (8, 30.0, "bcast")), [gain(8, 3, 5)], 1.0)
    assert (found.calls, found.other_calls) == (10.0, 30.0)


@pytest.mark.parametrize(
    ("size", "comm_size", "met"),
    [
        (8192, 8, True), (4096, None, True), (16384, 8, True), (4095, 8, False), (16385, 8, False),
        (8, 8, False), (20, None, False), (1 << 30, 8, False),
        (8192, 5, True), (8192, 15, True), (8192, 4, False), (8192, 16, False), (8192, 1024, False),
    ],
)  # fmt: skip
def test_calls_beyond_a_factor_of_two_of_what_was_measured_save_nothing(size, comm_size, met):
    here, there = ("allreduce", 8), ("allreduce", comm_size)
    found = worth(profile((8192, 10.0, *here), (size, 1e6, *there)), [gain(8192, 3, 5)], 1.0)
    covered = 10.0 + (1e6 if met else 0.0)
    assert (found.calls, found.other_calls) == (covered, 1e6 + 10.0 - covered)
    assert found.saved_s == pytest.approx(covered * 2e-6)


def test_a_profile_all_of_whose_calls_lie_beyond_is_refused_with_what_was_measured():
    with pytest.raises(TableError, match="nothing of what was measured") as refused:
        worth(profile((8, 1e6, "allreduce"), (20, 1e6, "allreduce")), [gain(8192, 3, 5)], 1.0)
    assert "8192" in refused.value.hint


def test_calls_on_other_communicators_than_the_measured_are_named():
    calls = profile((8, 10.0, "allreduce", 8), (8, 5.0, "allreduce", 64), (8, 5.0, "bcast", 3))
    assert worth(calls, [gain(8, 3, 5)], 1.0).other_sizes == (64,)


def test_when_it_is_paid_back_has_an_interval_open_to_never():
    calls = profile((8, 1e6, "allreduce"))
    sure, unsure = (worth(calls, [gain(8, 4, 5, sem=sem)], 1.0) for sem in (0.05, 0.2))
    early, late = sure.paid_back_interval_s
    assert early < sure.paid_back_after_s < late < math.inf
    assert early == pytest.approx(3600.0 / sure.high_s)
    assert unsure.low_s < 0 < unsure.saved_s
    assert unsure.paid_back_interval_s[1] == math.inf


def test_calls_that_a_run_has_no_time_for_are_refused():
    """It said that 20 s were saved of a run of 6 s."""
    with pytest.raises(TableError, match="1e\\+06 calls take 50 s by default, a run 6 s"):
        worth(profile((8, 1e6, "allreduce"), application_s=6.0), [gain(8, 30, 50)], 1.0)


def test_where_nothing_is_saved_nothing_pays_back():
    assert worth(profile((8, 1e6, "allreduce")), [gain(8, 5, 5)], 1.0).paid_back_after_s == math.inf


def test_the_time_of_a_run_must_be_known():
    calls = profile((8, 1.0, "allreduce"), application_s=None)
    with pytest.raises(UserError, match="how long a run takes"):
        worth(calls, [gain(8, 3, 5)], 1.0)
    assert worth(calls, [gain(8, 3, 5)], 1.0, application_s=10.0).application_s == 10.0
    for nonsense in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(UserError, match="a run of"):
            worth(calls, [gain(8, 3, 5)], 1.0, application_s=nonsense)


def test_a_profile_of_something_else_is_refused():
    with pytest.raises(TableError):
        worth(profile((8, 1.0, "bcast")), [gain(8, 3, 5)], 1.0)
    with pytest.raises(UserError, match="gains nothing"):
        worth(profile((8, 1.0, "bcast")), [], 1.0)
