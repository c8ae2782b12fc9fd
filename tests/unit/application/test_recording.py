"""Files of ranks, as the recorder writes them, become one recording; and the document is read as it was."""

import json
import math
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from autotune.application import rank_file as of_rank
from autotune.application import rank_files as rec
from autotune.application.profiles import read_profile
from autotune.application.rank_files import _started, joined
from autotune.application.recording import RecordedCalls, Recording, mean_of, read_recording
from autotune.errors import TableError

ONE = RecordedCalls("allreduce", "blocking", 4, 64.0, 400, 100.0, 2.0, 0.5)
RUN = Recording(("mpirun", "./app"), 10.0, 9.0, 4, 1, "finalized", "Open MPI", "2026-01-01", 0.0, 0, (ONE,))


TICK_S = 2e-10  # Of the ranks' counters.


def rank_file(
    rank, ranks, *, begin, took, ahead=0.0, name=b"allreduce", root=-1,
    ended=1, weights=(1,) * 8, longest=(), run=None, outside=None,
):  # fmt: skip
    """The file of a rank that kept all of its calls of 64 bytes."""
    calls, head = 8, np.zeros(1, of_rank.HEAD)
    given = {"magic": b"autorec5", "rank": rank, "size": ranks, "ended": ended, "nodes": 1, "compact": 1}
    given |= {"job": 7, "cells": 1, "streams": 1, "end_s": 100.0, "end": 100 / TICK_S, "tick_s": TICK_S}
    given |= {"ahead_s": ahead, "ahead_end_s": ahead, "host": b"node", "library": b"Open MPI v5"}
    for key, value in given.items():
        head[key] = value
    seconds = took.values() if isinstance(took, dict) else took
    cells = np.zeros(1, of_rank.CELL)
    its = {"name": name, "bin": 7, "ranks": ranks, "calls": calls, "timed": calls, "all": calls}
    for key, value in (its | {"bytes": 64.0 * calls, "ticks": round(sum(seconds) / TICK_S)}).items():
        cells[key] = value
    runs = np.zeros(of_rank._RUNS, of_rank._RUN)
    if run is not None:
        runs[0] = run
    streams = np.zeros(1, of_rank._STREAM)
    streams[0] = (name, 99, 7, ranks, calls, len(longest), calls, 0, 2**64 - 1)
    samples = np.zeros(calls + len(longest), of_rank._TICKS)
    for i, call in enumerate([*range(calls), *longest]):
        times = round((begin[call] + ahead) / TICK_S), round((begin[call] + took[call] + ahead) / TICK_S)
        busy = -1 if outside is None else round(outside[call] / TICK_S)
        samples[i] = (call, *times, root, weights[call], busy)
    return BytesIO(b"".join(part.tobytes() for part in (head, runs, cells, streams, samples)))


def early_and_late(late=None, early=None, wait_s=1.0, **both):
    """The recording of a run in which rank 1 comes ``wait_s`` later to each of eight calls than rank 0."""
    begin, took = [10.0 * i for i in range(8)], [0.5 + wait_s] * 8
    first = rank_file(0, 2, begin=begin, took=took, **both, **(early or {}))
    second = rank_file(1, 2, begin=[t + wait_s for t in begin], took=[0.5] * 8, **both, **(late or {}))
    (found,) = joined([first, second], ["app"], 100.0, "2026-01-01")
    return found


def test_waiting_is_until_the_last_has_come_on_one_clock():
    """The clock of the late rank is an hour ahead."""
    found = early_and_late({"ahead": 3600.0})
    (calls,) = found.calls
    assert (calls.calls, calls.calls_per_rank, calls.message_bytes) == (16, 8.0, 64.0)
    assert calls.seconds == pytest.approx((8 * 1.5 + 8 * 0.5) / 2)
    assert calls.waiting_s == pytest.approx(8 * 1.0 / 2)
    assert (found.ranks, found.nodes, found.ended) == (2, 1, "finalized")


@pytest.mark.parametrize(("name", "waited"), [(b"bcast", 0.0), (b"reduce", 8 * 1.0 / 2)])
def test_the_root_waits_for_others_only_where_it_gets_something(name, waited):
    """The root is early: that of a broadcast goes on, that of a reduction waits."""
    assert early_and_late(name=name, root=0).waiting_s == pytest.approx(waited)


def test_a_killed_rank_makes_the_run_killed_and_none_makes_none():
    files = [rank_file(r, 2, begin=[float(i) for i in range(8)], took=[0.1] * 8, ended=r) for r in range(2)]
    cut = files[0].getvalue()[:-1]
    assert joined(files, ["app"], 5.0, "")[0].ended == "killed"
    assert joined([], ["app"], 5.0, "") == []
    with pytest.raises(TableError, match="another version"):
        joined([BytesIO(cut)], ["app"], 5.0, "")


def test_calls_that_a_killed_rank_had_not_settled_are_counted():
    """Eight calls are in the cell; three more stood in a run when the rank ended."""
    file = rank_file(0, 1, begin=range(8), took=[0.25] * 8, ended=0, run=(3, 64.0, 0, 0))
    (calls,) = joined([file], ["app"], 5.0, "")[0].calls
    assert (calls.calls, calls.message_bytes, calls.timed) == (11, 64.0, 8)
    assert calls.seconds == pytest.approx(11 * 0.25)


def test_the_standard_error_is_that_of_repeated_draws():
    """One of each block of 8 is drawn: the errors of many such draws are as large as is said."""
    rng = np.random.default_rng(1)
    all_s = rng.exponential(1e-6, 8 * 200)
    errors, said = [], []
    for _ in range(400):
        drawn = all_s.reshape(-1, 8)[np.arange(200), rng.integers(0, 8, 200)]
        cell = np.zeros(1, of_rank.CELL)
        cell["calls"], cell["weight"], cell["weighted"] = all_s.size, 8 * 200, 8 * drawn.sum()
        cell["spread"] = [8 * 7 * (drawn**i).sum() for i in range(3)]
        seconds, error_s = rec._sums(cell, 1.0, 0.0)[0, [rec._SECONDS, rec._SE]]
        errors.append(seconds - all_s.sum())
        said.append(error_s)
    assert np.mean(errors) == pytest.approx(0.0, abs=4 * np.std(errors) / 20)
    assert np.mean(said) == pytest.approx(np.std(errors), rel=0.2)


def test_the_interval_holds_what_wrappers_and_a_programs_clock_add():
    """Of 400 calls 100 went through the wrapper, 50 were timed, 1 µs each; once a core was lost for 1 ms."""
    cell = np.zeros(1, of_rank.CELL)
    cell["calls"], cell["timed"], cell["all"], cell["counted"] = 400, 50, 50, 100
    cell["ticks"], cell["added"] = 50_000, 50  # µs
    clock_s, wtime_s, tick_s = 1e-8, 2e-8, 1e-9
    row = rec._sums(cell, 1e-6, clock_s, wtime_s, tick_s)[0]
    assert row[rec._SECONDS] == pytest.approx(0.4)
    assert row[rec._LOW] == pytest.approx(0.4 - 400 * 1.1e-8)
    assert row[rec._HIGH] == pytest.approx(0.4 + 2 * 100e-6 + 400 * (1.1e-8 + 2e-8))
    job = rec._RecordedJob(added_s=1e-3, squares=1e-6)
    rows = {("allreduce", 0, 2, 4, 0, 0): row.copy(), ("isend", 0, 0, 4, 1, 3): row.copy()}
    waits = row.copy()
    rows["isend", 0, 0, 4, 1, 3][rec._WAIT] = 0.1
    rows["wait", 0, 0, 0, rec._COMPLETION, 0] = waits
    rec._widen(rows, [job])
    wider = 1.96 * math.sqrt(100e-6 * 1e-3)
    assert waits[rec._HIGH] - row[rec._HIGH] == pytest.approx(wider, rel=1e-3)
    isend = rows["isend", 0, 0, 4, 1, 3]
    quarter = (waits[rec._HIGH] - waits[rec._SECONDS]) / 4
    assert isend[rec._HIGH] - waits[rec._HIGH] == pytest.approx(quarter)
    assert row[rec._LOW] - isend[rec._LOW] == pytest.approx((row[rec._SECONDS] - row[rec._LOW]) / 4)


def test_ranks_are_thinned_as_they_are_read_where_they_are_many(monkeypatch):
    """Of each call three ranks wait a second for the last: so they do of those that are left."""
    monkeypatch.setattr(rec, "_MOST_SAMPLES", 12)
    job = rec._RecordedJob()
    for rank in range(4):
        late = float(rank == 3)
        begin = [10.0 * i + late for i in range(8)]
        file = rank_file(rank, 4, begin=begin, took=[1.5 - late] * 8, longest=(2, 5))
        job.add(of_rank.read_rank(file))
        assert job.n_kept <= 12
    assert not job.kept  # the stream is whole: of its samples the waiting is left
    (found,) = job.waits["allreduce", 7, 4]
    of_all = (found.of_long_s + found.share * (5.0 - found.long_s)) / 5.0
    assert of_all == pytest.approx(3 * 1.0 / 5.0, abs=0.15)


def test_calls_are_hashed_as_the_recorder_does():
    """The first of splitmix64 from the seeds 0 and 1234567, as its authors publish them."""
    assert of_rank.hashed(np.array([0, 1234567])).tolist() == [0xE220A8397B1DCDAF, 6457827717110365317]


def test_waiting_is_weighted_by_what_each_kept_call_was_drawn_of():
    """Four calls without waiting stand for themselves, four late ones for a thousand each."""
    weights = [1] * 4 + [1000] * 4
    late = [0.0] * 4 + [1.0] * 4
    early = rank_file(0, 2, begin=[10.0 * i for i in range(8)], took=[2.0] * 8, weights=weights)
    begin, took = [10.0 * i + late[i] for i in range(8)], [2.0 - s for s in late]
    tardy = rank_file(1, 2, begin=begin, took=took, weights=weights)
    (calls,) = joined([early, tardy], ["app"], 100.0, "")[0].calls
    assert calls.waiting_s / calls.seconds == pytest.approx(1.0 / 3.0, rel=0.01)


def test_a_rare_long_wait_is_known_though_the_late_rank_noticed_nothing():
    """Of 1,000 short calls eight were drawn; one long one, for which rank 1 was late, is kept too."""
    begin, took = {i: float(i) for i in range(8)} | {500: 50.0}, dict.fromkeys(range(8), 1e-06) | {500: 2.0}
    weights = dict.fromkeys(range(8), 125) | {500: 1}
    files = []
    for rank, long in enumerate(([500], [])):
        its = took if rank == 0 else took | {500: 1e-6}
        files.append(rank_file(rank, 2, begin=begin, took=its, weights=weights, longest=long))
    (calls,) = joined(files, ["app"], 100.0, "")[0].calls
    assert calls.waiting_s == pytest.approx(1.0, rel=1e-3)  # two seconds of one of two ranks
    assert (calls.lateness.ranks[0].rank, calls.lateness.ranks[0].last) == (1, 1.0)
    assert calls.lateness.ranks[0].caused_s == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(
    ("busy", "expected"),
    [
        ([0.3] * 8, 0.0),  # as long as the other rank: MPI has made it late
        ([1.3] * 8, 1.0),
        ([0.8] * 8, 0.5),
        ([1.3] * 2 + [0.3] * 6, 0.25),  # in two of eight calls
        ([9.0] * 8, 1.0),  # longer than was waited for it
        (None, None),
    ],
)
@pytest.mark.parametrize("longest", [(), (0, 1, 2, 3, 4, 5, 6, 7)])
def test_late_ranks_are_told_from_those_that_mpi_made_late(busy, expected, longest):
    """Rank 0 was outside of MPI for 0.3 s before each call, rank 1, which comes a second later, as given."""
    (calls,) = early_and_late({"outside": busy}, {"outside": [0.3] * 8}, longest=longest).calls
    assert calls.lateness.outside == (None if expected is None else pytest.approx(expected))


FEWER = replace(ONE, calls=300, calls_per_rank=75.0, seconds=1.6, waiting_s=0.3, timed=200, seconds_se=0.4)
BCAST = replace(ONE, collective="bcast", seconds=0.2, waiting_s=0.0)
RUNS = (
    replace(RUN, calls=(replace(ONE, timed=300, seconds_se=0.3),)),
    replace(RUN, run_s=12.0, date="2026-01-02", calls=(BCAST, replace(FEWER, message_bytes=100.0))),
)


def test_runs_become_their_mean_and_each_is_kept():
    found = mean_of(RUNS)
    assert (found.run_s, found.collectives_s, found.ended) == (11.0, pytest.approx(1.9), "finalized")
    allreduce, bcast = found.calls
    assert (allreduce.calls, allreduce.calls_per_rank, allreduce.timed) == (350, 87.5, 250)
    assert allreduce.message_bytes == pytest.approx((400 * 64 + 300 * 100) / 700)  # both of 64 … 127 bytes
    assert allreduce.seconds_se == pytest.approx(0.25)  # of a mean of two
    assert [r.calls for r in bcast.runs] == [0, 400]  # none in the first
    assert found.collectives_runs_s == pytest.approx((2.0, 1.8))
    assert found.differing == found.calls
    assert read_recording(json.dumps(found.document()), "calls.json") == found
    assert mean_of(RUNS[:1]) == RUNS[0]


def test_a_run_that_ended_badly_makes_the_mean_so():
    assert mean_of((RUN, replace(RUN, ended="killed"))).ended == "killed"


def test_runs_on_different_numbers_of_ranks_are_not_of_one_application():
    with pytest.raises(TableError, match="runs on 4 and 8 ranks"):
        mean_of((RUN, replace(RUN, ranks=8)))


@pytest.mark.parametrize(
    "change",
    [
        {"runs": [{"run_s": 10.0, "mpi_s": 9.0, "ended": "finalized", "date": ""}]},
        {"runs": [{"run_s": 10.0, "mpi_s": 9.0, "ended": "finalized", "date": ""}] * 2},
        {"runs": [{"run_s": 10.0}]},
        {"runs": 2},
        {"format": "other"},
        {"ranks": 0},
        {"run_s": "soon"},
        {"run_s": -1},
        {"ended": "well"},
        {"calls": [{"collective": "allreduce"}]},
        {"calls": [{**json.loads(json.dumps(RUN.document()))["calls"][0], "seconds": float("nan")}]},
        {"calls": 3},
        {"other": [{"operation": "send"}]},
        {"other": [{"family": "psychic"}]},
        {"timeline": {"slice_s": 0, "seconds": {}}},
        {"timeline": {"slice_s": 1, "seconds": {"files": [1.0], "setup": []}}},
        {"started": 3},
    ],
)
def test_a_damaged_document_is_one_message(change):
    with pytest.raises(TableError, match=r"calls\.json( is no|: a damaged) recording|NaN is no number"):
        read_recording(json.dumps({**RUN.document(), **change}), "calls.json")


def test_a_profile_has_what_can_be_tuned_with_its_time():
    others = (
        replace(ONE, kind="non-blocking"),
        replace(ONE, comm_size=1),
        replace(ONE, collective="alltoallw"),
        replace(ONE, collective="bcast", message_bytes=8.0, seconds=0.5, waiting_s=0.0),
    )
    text = json.dumps(replace(RUN, calls=(ONE, *others)).document())
    profile = read_profile(text, "calls.json")
    assert [(c.collective, c.comm_size, c.count, c.seconds) for c in profile.calls] == [
        ("allreduce", 4, 100.0, 1.5),
        ("iallreduce", 4, 100.0, 1.5),
        ("bcast", 4, 100.0, 0.5),
    ]
    assert profile.application_s == 10.0
    slots = [("allreduce", 4, 64), ("bcast", 4, 8)]
    # Shares of the recorded time, whatever time the slots are said to take.
    assert profile.weights(slots, dict.fromkeys(slots, 1.0)) == pytest.approx(
        {slots[0]: 0.75, slots[1]: 0.25}
    )


def test_an_example_of_today_is_read_as_it_was_written():
    text = (Path(__file__).parents[2] / "data" / "recordings" / "calls.json").read_text()
    found = read_recording(text, "calls.json")
    assert json.loads(json.dumps(found.document())) == json.loads(text)
    # Waits for requests stand in the rows of what began them, and are not counted twice.
    assert found.families_s["point-to-point"] == pytest.approx(2.85)
    assert found.families_s["completion"] == pytest.approx(0.01)
    twice = mean_of([found, replace(found, other=found.other[:1])])
    assert [one.calls for one in twice.other if one.operation == "waitall"] == [2000]
    assert twice.families_s["files"] == pytest.approx(0.15)


def test_a_recording_holds_no_secret_of_its_command_or_variables():
    command = ("mpirun", "-x", "API_TOKEN=hunter2", "--mca", "my_password", "hunter2", "./a")
    started = _started(command, "UCX_X_TOKEN=hunter2\0OMPI_MCA_my_password=hunter2\0UCX_TLS=sm\0")
    assert "hunter2" not in str(started)
    assert started.environment["UCX_TLS"] == "sm"
