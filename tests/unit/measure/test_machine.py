"""From what a kernel counts to what is said of a machine."""

import pytest

from autotune.measure.machine import (
    LIMITS,
    Counters,
    Disturbance,
    UsualCore,
    UsualCores,
    disturbance,
    usual_s,
    worst,
)


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
    assert Disturbance(2, 0.0, cores_apart=4.4).words == ("cores 4.4 times as far apart as usual",)
    assert Disturbance(2, 0.0, cores_slow=1.4).words == ("cores 1.40 times as slow as usual",)
    assert Disturbance(2, 0.0, cores_apart=LIMITS.near, cores_slow=LIMITS.fast).words == ()


def test_a_clock_that_stands_still_says_nothing():
    assert disturbance(counters(1), counters(1, busy_s=1), own_s=0).words == ()


def test_figures_come_back_as_they_went_and_others_say_nothing():
    found = Disturbance(8, 1.5, 0.1, 2, 0.9, 1, 4e-7, 3e-5, 4.4, 1.2, 2.5)
    assert Disturbance.of(found.figures) == found
    assert Disturbance.of({"memory_bytes": 1.0}) is None


def test_of_several_machines_the_worst_of_each_is_told():
    assert worst([Disturbance(8, 1.5), Disturbance(4, 0.0, throttled=1, clock_share=0.5)]) == Disturbance(
        4, 1.5, 0.0, 1, 0.5
    )


def figures(latency_s, loop_s=3e-5, waited_s=0.0):
    best = {"best_core_latency_s": latency_s, "best_core_loop_s": loop_s}
    return UsualCore().figures(latency_s, loop_s, waited_s) | best


def test_what_is_usual_is_known_after_some_launches_of_the_same_placement():
    usual = UsualCores()
    for latency_s in (90e-9, 430e-9, 100e-9):
        assert usual.of(("", "core"), 10.0)[0] == UsualCore()
        usual.add(("", "core"), figures(latency_s), duration_s=1.0)
    found, _ = usual.of(("", "core"), 10.0)
    assert 90e-9 <= found.latency_s <= 100e-9
    assert found.loop_s == pytest.approx(3e-5)
    assert usual.of(("numa", "core"), 10.0)[0] == UsualCore()
    assert usual_s([90e-9] * 9 + [430e-9] * 20) == pytest.approx(90e-9)


def test_far_cores_are_waited_for_and_slow_ones_for_a_moment_as_far_as_it_is_known():
    usual = UsualCore(90e-9, 3e-5)
    assert usual.worth_s(130e-9, 3.1e-5, 10.0) == 0
    assert usual.worth_s(430e-9, 3e-5, 10.0) == 10
    assert 0 < usual.worth_s(90e-9, 3.6e-5, 10.0) < 1
    assert UsualCore(0.0, 3e-5).worth_s(1.0, 3e-5, 10.0) == 0  # no two ranks share a node
    assert UsualCore().worth_s(1.0, 1.0, 10.0) == 0
    told = usual.figures(360e-9, 3.6e-5, 0.5)
    assert (told["cores_apart"], told["cores_slow"]) == pytest.approx((4.0, 1.2))
    assert Disturbance.of({**Disturbance(2, 0.0).figures, **told}).waited_s == 0.5


def test_a_machine_that_changed_for_good_is_taken_as_it_is():
    usual = UsualCores()
    for latency_s in [90e-9] * 20 + [430e-9] * 24:
        usual.add((), figures(latency_s), duration_s=1.0)
    assert usual.of((), 10.0)[0].latency_s == pytest.approx(430e-9)


def test_a_search_waits_for_near_cores_and_a_verification_for_fast_ones():
    usual = UsualCores()
    for _ in range(4):
        usual.add((), figures(90e-9), duration_s=1.0)
    searching, proving = (usual.of((), 10.0, proving)[0] for proving in (False, True))
    assert 0 < searching.worth_s(90e-9, 5e-5, 10.0) < searching.worth_s(900e-9, 5e-5, 10.0) == 10
    assert 0 < proving.worth_s(900e-9, 5e-5, 10.0) < proving.worth_s(90e-9, 5e-5, 10.0) < 10


def test_waiting_takes_a_share_of_the_time_that_launches_take():
    usual, waited_s = UsualCores(), 0.0
    for _ in range(200):
        _, patience_s = usual.of((), 10.0)
        usual.add((), figures(1e-7, waited_s=patience_s), duration_s=1.0 + patience_s)
        waited_s += patience_s
    assert 10 < waited_s < 430
    assert usual.of((), 0.0)[1] == 0


def test_what_a_discovery_did_not_wait_is_not_spent_by_the_first_launches_after_it():
    usual, waited_s = UsualCores(), 0.0
    for _ in range(200):
        usual.add((), figures(1e-7), duration_s=1.0)
    for _ in range(12):
        _, patience_s = usual.of((), 5.0, proving=True)
        usual.add((), figures(1e-7, waited_s=patience_s), duration_s=1.0 + patience_s)
        waited_s += patience_s
    assert 12 * 1.0 < waited_s < 12 * 1.0 + 2 * 5.0


def test_waits_in_vain_are_halved_and_grow_again_once_they_help():
    usual, waits = UsualCores(), []
    for _ in range(8):
        waits.append(usual.of((), 5.0, proving=True)[1])
        usual.add((), figures(1e-7, waited_s=waits[-1]) | {"waited_in_vain": 1.0}, duration_s=1.0 + waits[-1])
    assert waits[0] == 5.0
    assert sum(waits) < 2 * 5.0
    for _ in range(10):
        usual.add((), figures(1e-7), duration_s=1.0)
    assert usual.of((), 5.0, proving=True)[1] == 5.0
