"""From what a kernel counts to what is said of a machine."""

import pytest

from autotune.measure.machine import Counters, Disturbance, disturbance, worst


def counters(at_s, busy_s=0.0, stolen_s=0.0, throttled=0):
    return Counters(at_s, busy_s, stolen_s, cores=8, throttled=throttled)


def test_what_the_ranks_used_is_not_other_work():
    alone = disturbance(counters(0), counters(2, busy_s=8.1), own_s=8.0)
    assert alone.other_load_cores == pytest.approx(0.05)
    assert alone.words == ()
    beside = disturbance(counters(0), counters(2, busy_s=11.0), own_s=8.0)
    assert beside.words == ("other work on 1.5 of 8 cores",)


def test_every_hindrance_is_said():
    found = disturbance(counters(0), counters(1, stolen_s=0.5, throttled=3), own_s=0.2, clock_share=0.6)
    assert found.other_load_cores == 0  # clocks of two kinds differ a little
    assert found.words == (
        "0.50 cores taken by the host of this virtual machine",
        "cores slowed down 3 times for heat or power",
        "a core at 60 % of its frequency",
    )
    assert Disturbance(2, 0.0, crowded_ranks=2).words == ("2 ranks more than cores",)


def test_a_clock_that_stands_still_says_nothing():
    assert disturbance(counters(1), counters(1, busy_s=1), own_s=0).words == ()


def test_figures_come_back_as_they_went_and_others_say_nothing():
    found = Disturbance(8, 1.5, 0.1, 2, 0.9, 1)
    assert Disturbance.of(found.figures) == found
    assert Disturbance.of({"memory_bytes": 1.0}) is None


def test_of_several_machines_the_worst_of_each_is_told():
    assert worst([Disturbance(8, 1.5), Disturbance(4, 0.0, throttled=1, clock_share=0.5)]) == Disturbance(
        4, 1.5, 0.0, 1, 0.5
    )
