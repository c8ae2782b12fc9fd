"""How long a launch waits for its cores."""

import pytest

from autotune.measure.machine import UsualCore
from autotune.probe.steadiness import Steadiness

NEAR_S, APART_S, FAST_S, SLOW_S = 80e-9, 400e-9, 16e-6, 24e-6


@pytest.mark.parametrize("moment_s", [0.0, 0.5, 5.0])
def test_slow_cores_are_waited_for_as_long_as_the_launch_was_told(moment_s):
    steadiness = Steadiness(UsualCore(NEAR_S, FAST_S, moment_s), 20.0)
    assert steadiness.goes_on(NEAR_S, FAST_S)
    assert steadiness.goes_on(NEAR_S, SLOW_S) == (moment_s == 0)
    steadiness.lost_s = moment_s
    assert steadiness.goes_on(NEAR_S, SLOW_S)
    assert not steadiness.goes_on(APART_S, FAST_S)


def test_what_earlier_launches_did_not_tell_the_best_of_this_one_says():
    steadiness = Steadiness(UsualCore(moment_s=1.0), 20.0)
    assert steadiness.goes_on(NEAR_S, FAST_S)
    assert not steadiness.goes_on(NEAR_S, SLOW_S)
    assert steadiness.figures == {}
    steadiness.keep((NEAR_S, FAST_S), (NEAR_S, SLOW_S))
    assert steadiness.figures["core_loop_s"] == pytest.approx((FAST_S + SLOW_S) / 2)
    assert steadiness.figures["best_core_loop_s"] == FAST_S


def test_without_patience_nothing_is_waited_for():
    assert Steadiness(UsualCore(NEAR_S, FAST_S, 5.0), 0.0).goes_on(APART_S, SLOW_S)


def test_a_launch_tells_that_it_waited_in_vain():
    steadiness = Steadiness(UsualCore(NEAR_S, FAST_S, 1.0), 20.0)
    steadiness.keep((NEAR_S, FAST_S))
    assert not steadiness.goes_on(NEAR_S, SLOW_S)
    assert steadiness.figures["waited_in_vain"] == 0
    steadiness.lost_s = 1.0
    assert steadiness.goes_on(NEAR_S, SLOW_S)
    assert steadiness.figures["waited_in_vain"] == 1
