"""Where heats turn out to be impossible, launches are made one after the other, and only there."""

import pytest

from autotune.campaign.apart import HeatsHere, why_apart
from autotune.campaign.heats import _explained
from autotune.history.trial import Observation, Phase, Status, Trial
from autotune.probe.protocol import NO_HEAT, ProbeResult, TakenOut
from autotune.space import Point
from autotune.stacks.ports import LaunchOutcome

OK, CRASHED, INVALID = Status.OK, Status.CRASHED, Status.INVALID
NEVER = f"{NO_HEAT}: cn2: /dev/shm/autotune-heat-1: No space left on device"
BUSY = "exit code 1: device: busy"
KILLED = "exit code 137 (SIGKILL, which the kernel also sends for want of memory): it printed nothing"


def seen(number, status=OK, reason=""):
    return Observation(Trial(number, Phase.VERIFY, Point(), heat=True), status, (), reason)


class Place:
    """Launches whose ends are given, at once and alone."""

    def __init__(self, *heats, alone=()):
        self.here, self.heats, self.alone, self.made = HeatsHere(), list(heats), dict(alone), []

    def observed(self, numbers=(1, 2)):
        return self.here.observed(numbers, self._at_once, self._alone)

    def _at_once(self, numbers):
        self.made.append(tuple(numbers))
        ends = self.heats.pop(0)
        return [seen(number, *ends.get(number, ())) for number in numbers]

    def _alone(self, number):
        self.made.append(number)
        return seen(number, *self.alone.get(number, ()))


def test_a_heat_that_is_whole_is_as_it_was():
    place = Place({})
    assert [why_apart(o) for o in place.observed()] == ["", ""]
    assert place.made == [(1, 2)]


def test_a_heat_that_finds_no_place_is_made_apart_and_is_the_last():
    place = Place({1: (INVALID, NEVER), 2: (INVALID, NEVER)})
    for _ in range(2):
        observations = place.observed()
        assert [o.status for o in observations] == [OK, OK]
        assert [why_apart(o) for o in observations] == [NEVER, NEVER]
    assert place.made == [(1, 2), 1, 2, 1, 2]


def test_launches_that_fail_in_two_heats_and_end_well_apart_are_no_third_time_at_once():
    place = Place({2: (CRASHED, BUSY)}, {1: (CRASHED, BUSY)})
    for _ in range(3):
        assert [why_apart(o) for o in place.observed()] == [BUSY, BUSY]
    assert place.made == [(1, 2), 1, 2, (1, 2), 1, 2, 1, 2]


def test_a_setting_that_fails_apart_too_fails_by_itself():
    place = Place({2: (CRASHED, BUSY)}, alone={2: (CRASHED, BUSY)})
    observations = place.observed()
    assert [o.status for o in observations] == [OK, CRASHED]
    assert not any(map(why_apart, observations))


@pytest.mark.parametrize(("reason", "apart"), [(BUSY, False), (KILLED, True)])
def test_after_a_whole_heat_only_want_of_memory_is_no_setting_s_own(reason, apart):
    place = Place({}, {2: (CRASHED, reason)})
    place.observed()
    assert [bool(why_apart(o)) for o in place.observed()] == [apart, apart]


def test_a_setting_that_was_not_applied_says_nothing_of_heats():
    place = Place({2: (Status.NOT_APPLIED, "no such variable")})
    assert place.observed()[1].status is Status.NOT_APPLIED
    assert place.made == [(1, 2)]


def test_launches_that_did_without_each_other_were_not_alive_at_once():
    """As where the steps of a job wait for each other: each is well, and was alone."""
    out = TakenOut.DIED

    def well(**taken_out):
        gone = {number.removeprefix("job_"): why for number, why in taken_out.items()}
        return LaunchOutcome(OK, result=ProbeResult("ok", taken_out=gone))

    explained = _explained([well(job_1=out), well(job_0=out)], 30.0)
    assert [o.status for o in explained] == [INVALID, INVALID]
    assert all(o.reason.startswith(NO_HEAT) for o in explained)
    crashed = LaunchOutcome(CRASHED, BUSY)
    assert _explained([well(job_1=out), crashed], 30.0) == [well(job_1=out), crashed]
