"""What ``run`` decides inside a job: the C itself, driven without MPI."""

import ctypes
from collections import Counter

import numpy as np
import pytest

from autotune.verification.evidence import Drawn, log_evidence
from autotune.verification.sequential import EACH, SequentialDesign
from benchmarks.online import (
    BLOCK,
    CALLS,
    PIECES,
    SETTLED,
    TRY,
    Cell,
    Process,
    jobs,
    library,
    simulate,
    wrong,
)

GAIN = -SequentialDesign().least  # -ln 0.99


@pytest.fixture(scope="module")
def decide(tmp_path_factory):
    return library(tmp_path_factory.mktemp("decide"))


def bits(pattern: int) -> list[bool]:
    return [bool(pattern >> i & 1) for i in range(PIECES)]


def ordered(decide, cell: Cell, process: Process, made: int = ~0):
    return decide.next_order(
        ctypes.byref(cell), ctypes.byref(process), ctypes.c_uint32(made), ctypes.c_uint64(7)
    )


def told(decide, cell: Cell, process: Process, order, costs) -> int:
    values = (ctypes.c_double * len(costs))(*costs)
    return decide.told(ctypes.byref(cell), ctypes.byref(process), order, values, ctypes.c_double(0))


def begun(decide, settings: int, of: int = ~0) -> tuple[Cell, Process]:
    cell = Cell()
    decide.begin(ctypes.byref(cell), settings, ctypes.c_uint32(of))
    return cell, Process(alpha=0.05, share=0.005, elapsed_s=1e6, look_s=1e-5, make_s=1e-3)


def test_the_evidence_is_that_of_verification(decide):
    rng = np.random.default_rng(1)
    cell, drawn, best = Cell(), [], 0.0
    for block in range(6):
        tuned = rng.permutation([True] * EACH + [False] * EACH)
        y = rng.standard_t(4, PIECES) * 0.03 - 0.08 * tuned
        cell.y[block * PIECES : (block + 1) * PIECES] = y.tolist()
        cell.patterns[block], cell.blocks = sum(1 << i for i in range(PIECES) if tuned[i]), block + 1
        drawn.append(Drawn(y[:, None], tuned))
        best = max(best, decide.evidence(ctypes.byref(cell)))
        # Python takes δ off the gain, so that S > 0 where the setting gains more than it.
        assert best == pytest.approx(max(log_evidence(drawn, GAIN)[0], 0), abs=1e-9)
    assert best > 3


def test_every_order_of_a_block_is_drawn_with_the_same_chance(decide):
    drawn = Counter(decide.drawn(ctypes.c_uint64(seed * 0x9E3779B97F4A7C15 % 2**64)) for seed in range(7000))
    assert {pattern.bit_count() for pattern in drawn} == {EACH}
    assert len(drawn) == 70
    # Pearson's statistic has 69 degrees of freedom: above 111 in one of a thousand samples.
    assert sum((n - 100) ** 2 / 100 for n in drawn.values()) < 111


def test_where_all_settings_are_the_default_no_rule_is_claimed_in_38_of_40_jobs(decide):
    job = jobs("null", 64)
    assert sum(any(simulate(decide, job, 20_000, seed).chosen) for seed in range(40)) <= 2


@pytest.mark.parametrize("ranks", [64, 512, 4096])
def test_a_planted_bad_default_is_repaired_in_10_of_10_jobs_within_the_budget(decide, ranks):
    job = jobs("planted", ranks)
    for seed in range(10):
        outcome = simulate(decide, job, 40_000, seed)
        assert not wrong(job, outcome)
        assert all(outcome.chosen)
        assert outcome.harm <= 0.005


def test_what_is_awful_is_tried_for_one_trial_and_never_again(decide):
    cell, process = begun(decide, 4)
    asked = Counter()
    while cell.state != SETTLED:
        order = ordered(decide, cell, process)
        assert order.what == TRY
        asked[order.setting] += 1
        told(decide, cell, process, order, [3.1 if order.setting else 1.0] * order.calls)
    assert asked == {0: 2, 1: 1, 2: 1, 3: 1}
    assert cell.best == 0


def test_one_slow_call_of_a_short_trial_drops_nobody(decide):
    cell, process = begun(decide, 2)
    for costs in ([1.0] * 5, [9.0, 9.0, 0.5]):
        told(decide, cell, process, ordered(decide, cell, process), costs)
    assert not cell.out & 2


def test_nothing_is_tried_that_may_cost_more_than_what_is_left_of_the_budget(decide):
    cell, process = begun(decide, 3)
    told(decide, cell, process, ordered(decide, cell, process), [1.0] * 5)
    process.elapsed_s = 1100.0  # a half percent of it is 5.5 s; a candidate three times as slow costs 6
    rests = [ordered(decide, cell, process) for _ in range(12)]
    assert {(one.what, one.setting) for one in rests} == {(CALLS, 0)}
    assert [one.calls for one in rests[:3]] == [64, 128, 256]
    assert rests[-1].calls == 65536
    cell.period_s = 0.5  # what is tried may cost 6 s: a half percent of 1,200.002
    assert ordered(decide, cell, process).calls == 200
    process.elapsed_s = 1195.0
    assert ordered(decide, cell, process).calls == 10  # of slow calls no more are made than it takes
    process.elapsed_s = 1300.0
    assert ordered(decide, cell, process).what == TRY
    process.elapsed_s, process.make_s = 1300.0, 1.0  # its communicator is not there yet
    assert ordered(decide, cell, process, made=1).what == CALLS


def test_a_test_that_has_spent_its_blocks_ends_and_each_test_has_its_part_of_the_error_rate(decide):
    cell, process = begun(decide, 2)
    alphas = []
    while cell.state != SETTLED:
        order = ordered(decide, cell, process)
        if order.what == BLOCK:
            alphas.append(cell.alpha)
            pieces = [0.985 + 0.05 * (i % 2) if one else 1.0 for i, one in enumerate(bits(order.pattern))]
            told(decide, cell, process, order, np.repeat(pieces, order.calls).tolist())
        else:
            told(decide, cell, process, order, [1.0] * order.calls)
    assert cell.best == 0
    assert 2 <= len(alphas) <= 12
    assert set(alphas) == {0.025}
    assert process.tests == 1


def test_what_a_former_run_decided_is_checked_and_nothing_else_is_tried(decide):
    cell, process = begun(decide, 6, of=1 << 4)
    asked = set()
    while cell.state != SETTLED:
        order = ordered(decide, cell, process)
        asked.add(order.setting)
        pieces = [order.setting] if order.what == TRY else [4 * one for one in bits(order.pattern)]
        costs = np.repeat([0.5 if one else 1.0 for one in pieces], order.calls)
        told(decide, cell, process, order, costs.tolist())
    assert asked == {0, 4}
    assert cell.best == 4


def test_another_phase_is_one_in_which_half_of_the_calls_are_others(decide):
    def other(then: list[float], since: list[float]) -> bool:
        lists = [(ctypes.c_double * len(one))(*one) for one in (then, since)]
        return bool(decide.other_mix(*lists, len(then)))

    assert not other([90, 10], [80, 30])
    assert other([90, 10], [10, 90])
    assert not other([0, 0], [10, 90])
