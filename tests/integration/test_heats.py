"""Heats under a real Open MPI 5: launches that are alive at once, in turns, and what ends early in them."""

import json
import os
import secrets
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from autotune.probe.protocol import Heat, TakenOut
from autotune.probe.turns import order
from tests.asking import probe_request
from tests.integration.mpirun import SHARED, UCX, Launched, compiled, probe, run

pytestmark = pytest.mark.mpi

ENDS = """
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    static int calls;
    if (++calls > 40) {
        if (getenv("HANGS"))
            for (;;)
                pause();
        raise(SIGKILL);
    }
    return PMPI_Allreduce(send, recv, count, type, op, comm);
}
"""


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory) -> str:
    """A library whose allreduce ends the process, or hangs, after some hundred calls."""
    return str(compiled(ENDS, tmp_path_factory.mktemp("ends") / "ends.so", *SHARED))


LONG = {"seconds": 3.0}
"""A heat that is long enough for the fatal call to be made in a turn, beside other work too."""


def heat(directory: Path, *jobs, timing="native", missing=0, **changes) -> list[Launched]:
    """Launch jobs at once, each with its words for ``mpirun``; ``missing``: so many more never come."""
    token = secrets.token_hex(16)
    wanted = {"seconds": 0.4, "seed": 5, "join_s": 60.0, **changes}

    def launched(job: int) -> Launched:
        place = Heat(str(directory), token, job, len(jobs) + missing, **wanted)
        request = probe_request(("allreduce",), (8, 8192), ranks=2, timing=timing, seed=job, heat=place)
        more = {"other_loop": "tight", "beside": ("pingpong", "alltoall", "barrier")}
        try:
            return probe(directory / str(job), replace(request, **more), *jobs[job])
        finally:
            place.ended(job).touch()

    for job in range(len(jobs), len(jobs) + missing):
        (directory / f"ended-{job}").touch()
    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(launched, range(len(jobs))))


def left() -> list[Path]:
    return list(Path("/dev/shm").glob("autotune-heat-*"))  # noqa: S108 - where they are


@pytest.mark.parametrize("timing", ["native", "python"])
def test_launches_in_turns_measure_the_same_cells_in_the_same_rounds(tmp_path, timing):
    launches = heat(tmp_path, (), UCX, (), timing=timing)
    results = [launched.result for launched in launches]
    assert [result.status for result in results] == ["ok"] * 3, [result.reason for result in results]
    assert not any(result.taken_out for result in results)
    for cells in zip(*(result.cells for result in results), strict=True):
        for cell in cells:
            assert cell.status == "ok"
            assert len(cell.samples_s) == len(cell.rounds) > 0
            assert (np.diff(cell.rounds) >= 0).all()
            assert cell.extra["other_loop_s"] > 0
        rounds = [set(cell.rounds.tolist()) for cell in cells]
        assert len(set.intersection(*rounds)) >= len(set.union(*rounds)) - 2
    # A heat ends by its clock, but not before three visits. Other calls come in the second, and tight in the
    # eighth, which is one of the first 24 rounds.
    others = {"pingpong 8", "alltoall 8192", "barrier 0"}
    if all(cell.rounds.max() > 24 for result in results for cell in result.cells):
        others |= {f"{call} tight" for call in others}
    assert all(others <= set(result.beside) for result in results)
    assert not left()


def test_one_at_a_time_calls(tmp_path):
    """Ranks of one job call between two of its turns' ends alone: nobody else's calls fall between them."""
    log = tmp_path / "log"
    log.mkdir()
    source = """
        #include <mpi.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <time.h>
        #include <unistd.h>
        enum { NS = 1000000000L };
        int MPI_Allreduce(const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c)
        {
            static FILE *log;
            char name[4096];
            struct timespec b, e;
            clock_gettime(CLOCK_MONOTONIC, &b);
            int code = PMPI_Allreduce(s, r, n, t, o, c);
            clock_gettime(CLOCK_MONOTONIC, &e);
            if (!log) {
                snprintf(name, sizeof name, "%s/%s-%d", getenv("WHEN"), getenv("JOB"), getpid());
                log = fopen(name, "w");
            }
            if (n == 2)  /* the 8 bytes that are timed */
                fprintf(log, "%ld %ld\\n", b.tv_sec * NS + b.tv_nsec, e.tv_sec * NS + e.tv_nsec);
            return code;
        }
        """
    compiled(source, tmp_path / "when.so", *SHARED)
    traced = ("-x", f"LD_PRELOAD={tmp_path / 'when.so'}", "-x", f"WHEN={log}")
    heat(tmp_path, *((*traced, "-x", f"JOB={job}") for job in range(3)))
    calls = []
    for path in log.iterdir():
        for line in path.read_text().splitlines()[:-1]:
            begin, end = map(int, line.split())
            calls.append((begin, end, path.name[0]))
    assert {job for *_, job in calls} == {"0", "1", "2"}
    calls.sort()
    overlapping = [(one, other) for one, other in pairwise(calls) if other[0] < one[1] and one[2] != other[2]]
    assert not overlapping


@pytest.mark.parametrize("timing", ["native", "python"])
def test_a_launch_that_dies_in_its_turn_leaves_the_others_going(tmp_path, preloaded, timing):
    dies = ("-x", f"LD_PRELOAD={preloaded}")
    first, second, third = heat(tmp_path, (), dies, (), timing=timing, **LONG)
    assert second.result is None
    for launched in (first, third):
        assert launched.result.status == "ok", launched.result.reason
        assert launched.result.taken_out == {"1": TakenOut.DIED}
        assert all(len(cell.samples_s) for cell in launched.result.cells)
    assert not left()


def test_a_launch_that_hangs_in_its_turn_is_ended_by_the_others(tmp_path, preloaded):
    hangs = ("-x", f"LD_PRELOAD={preloaded}", "-x", "HANGS=1")
    hung, other = heat(tmp_path, hangs, (), turn_limit_s=10.0, **LONG)
    assert hung.result is None
    assert hung.code != 0
    assert other.result.status == "ok", other.result.reason
    assert other.result.taken_out == {"0": TakenOut.STUCK}


@pytest.mark.parametrize("loop", ["tight", "interleaved"])
@pytest.mark.parametrize("cold", [0, 4, 150])
def test_calls_at_the_beginning_of_a_turn_that_find_cold_caches_do_not_count(tmp_path, loop, cold):
    """A slice has 1000 calls at 8 B; 250 at 4 KiB, too few for 150 cold ones; 8 at 128 KiB, too few for 4."""
    sizes = (8, 4096, 131072) if cold < 150 else (8, 4096)
    place = Heat(str(tmp_path), secrets.token_hex(16), 0, 1, 0.1, seed=2)
    timing = "native" if cold else "python"  # of the turns alone
    request = probe_request(("allreduce",), sizes, ranks=2, timing=timing, heat=place)
    other = {"tight": "interleaved", "interleaved": "tight"}[loop]
    (tmp_path / "request.json").write_text(replace(request, loop=loop, other_loop=other).to_json())
    cells, _ = scripted(tmp_path, cold, 40)
    assert len(cells) == len(sizes)
    for size, (samples, other_loop) in zip(sizes, cells, strict=True):
        warm = max(1.0, size / 1024)
        assert np.median(samples) == pytest.approx(warm)
        assert other_loop == pytest.approx(warm)
        if loop == "tight":
            assert samples == pytest.approx([warm] * len(samples))


def scripted(tmp_path, cold, rounds):
    """What a scripted rank prints of ``request.json`` there."""
    script = Path(__file__).with_name("scripted_turns.py")
    done = run([sys.executable, str(script), str(tmp_path / "request.json"), str(cold), str(rounds)])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("loop", ["tight", "interleaved"])
def test_calls_that_take_longer_than_any_slice_are_made_once_a_turn(tmp_path, loop):
    """16 ms: their check, another call that is warm, and one in each turn."""
    large, turns = 16 << 20, 6
    place = Heat(str(tmp_path), secrets.token_hex(16), 0, 1, 0.1, seed=2)
    request = probe_request(("allreduce",), (8, large), ranks=2, timing="python", heat=place)
    other = {"tight": "interleaved", "interleaved": "tight"}[loop]
    (tmp_path / "request.json").write_text(replace(request, loop=loop, other_loop=other).to_json())
    (_, (samples, other_loop)), called = scripted(tmp_path, 0, turns)
    assert samples == pytest.approx([16384.0] * len(samples))
    assert other_loop == pytest.approx(16384.0)
    assert len(samples) >= 2
    assert called[str(large)] <= 2 + turns


def test_a_launch_that_never_comes_is_not_waited_for(tmp_path):
    begun = time.monotonic()
    (alone,) = heat(tmp_path, (), missing=1, join_s=1e4)
    assert alone.result.status == "ok", alone.result.reason
    assert alone.result.taken_out == {"1": TakenOut.DIED}
    assert time.monotonic() - begun < 1e3


def test_a_launch_that_fails_before_its_turns_is_not_waited_for(tmp_path):
    refused, other = heat(tmp_path, ("-x", "MPI4PY_LIBMPI=/nonexistent.so"), (), join_s=1e4)
    assert refused.result is None
    assert other.result.status == "ok", other.result.reason


def test_a_foreign_file_in_the_place_of_the_turns_is_no_heat(tmp_path):
    """Nobody can know the token; a file that others can write is refused all the same."""
    token = "0" * 32
    places = ("/dev/shm", tempfile.gettempdir())  # noqa: S108 - where it is looked for
    host = "".join(c if c.isalnum() else "_" for c in os.uname().nodename)
    paths = [Path(place) / f"autotune-heat-{token}-native-{host}" for place in places]
    held = ExitStack()
    try:
        for path in paths:
            held.enter_context(path.open("w"))  # what nobody has open is swept after any launch
            path.chmod(0o666)
        place = Heat(str(tmp_path), token, 0, 1, 0.1, join_s=30.0)
        launched = probe(tmp_path / "0", probe_request(("allreduce",), (8,), ranks=2, heat=place))
        assert launched.result is not None, launched.stderr
        assert launched.result.status == "invalid"
        assert "not this user's alone" in launched.result.reason
        assert all(path.read_text() == "" for path in paths)
    finally:
        held.close()
        for path in paths:
            path.unlink(missing_ok=True)


def test_each_job_has_one_turn_a_round_and_the_order_is_drawn():
    place = Heat("/nowhere", "a", 1, 3, 1.0, seed=4)
    turns = order(place)
    rounds = [tuple(turns[i : i + 3]) for i in range(0, len(turns), 3)]
    assert all(sorted(one) == [0, 1, 2] for one in rounds)
    assert len(set(rounds)) > 1
    assert turns == order(replace(place, job=2))
    assert turns != order(replace(place, seed=5))
