"""From what a kernel counts to what is said of a machine."""

import numpy as np
import pytest

from autotune.measure.machine import (
    LIMITS,
    Counters,
    Disturbance,
    UsualCore,
    UsualCores,
    core_states,
    disturbance,
    far_apart,
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


@pytest.mark.parametrize("first", ["near", "far"])
def test_two_states_of_a_host_are_told_whichever_was_usual_before(first):
    """Launches of a verification that began while the host had its cores apart, and had had them so long."""
    rng = np.random.default_rng(1)
    usual_s = {"near": 90e-9, "far": 390e-9}[first]
    centre = np.repeat([90e-9, 390e-9], 6)
    latencies = rng.permutation(centre) * np.exp(rng.normal(0, 0.1, 12))
    made = [UsualCore(usual_s, 3e-5).figures(latency_s, 3e-5, 0.0) for latency_s in latencies]
    assert core_states(made) == tuple(int(latency_s > 200e-9) for latency_s in latencies)


def test_cores_that_are_alike_or_unknown_are_in_one_state():
    rng = np.random.default_rng(2)
    alike = [UsualCore().figures(s, 3e-5, 0.0) for s in 100e-9 * np.exp(rng.normal(0, 0.15, 12))]
    assert core_states(alike) == (0,) * 12
    assert core_states([{}, {"cores_apart": 4.0}, *alike[:1]]) == (0, 0, 0)
    assert core_states([]) == ()


def test_three_distances_are_three_states():
    made = [figures(s) for s in (40e-9, 100e-9, 400e-9, 42e-9, 104e-9, 410e-9)]
    assert core_states(made) == (0, 1, 2, 0, 1, 2)


def test_a_core_that_was_shared_at_times_is_as_far_as_the_best_look_at_it():
    def shared(best_s):
        mean = UsualCore(90e-9, 3e-5).figures(147e-6, 3e-5, 0.0)
        return {**mean, "best_core_latency_s": best_s}

    assert core_states([shared(340e-9), shared(90e-9), figures(400e-9), figures(95e-9)]) == (1, 0, 1, 0)
    assert far_apart(shared(340e-9))
    assert not far_apart(shared(90e-9))
