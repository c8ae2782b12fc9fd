"""The switcher alone, without its verb: under analysers, with short-lived communicators, and long plans."""

import os
import re
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotune.stacks import application
from autotune.stacks.application import RUN_FOLDER, installation_of, preload, recording
from autotune.stacks.switched import offers, plan, unlocked
from tests.integration.mpirun import CROWDED, ROOT, SHARED, YIELDING, compiled, launcher, python_of
from tests.program import ran
from tests.suites import ON_EACH

SOURCE = Path(__file__).with_name("switched_calls.c")
SWITCHER = Path(__file__).parents[2] / "autotune/probe/switcher/switcher.c"
TOOL = r"""
#include <mpi.h>
#include <stdio.h>
static int begun, freed, broadcasts, nested, reductions;
int MPI_Init_thread(int *n, char ***words, int wanted, int *got) {
    return begun++, PMPI_Init_thread(n, words, wanted, got);
}
int MPI_Bcast(void *x, int n, MPI_Datatype t, int root, MPI_Comm c) {
    int size;
    MPI_Comm_size(c, &size);
    if (broadcasts++ % 50 == 49) nested++, MPI_Barrier(c); /* which is none of the program's */
    return PMPI_Bcast(x, n, t, root, c);
}
int MPI_Allreduce(const void *x, void *y, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c) {
    return reductions++, PMPI_Allreduce(x, y, n, t, o, c);
}
int MPI_Comm_free(MPI_Comm *c) { return freed++, PMPI_Comm_free(c); }
int MPI_Finalize(void) {
    printf("tool: %d %d, calls %d %d\n", begun, freed, broadcasts, reductions);
    return PMPI_Finalize();
}
"""
"""Another tool between the program and its MPI."""
VALGRIND = ("valgrind", "--quiet", "--leak-check=full", "--show-leak-kinds=definite,indirect")


@dataclass(frozen=True)
class Ended:
    """How a run of the program ended."""

    said: str
    events: list[list[str]]
    """Words of the lines of all processes."""
    seconds: float

    def of(self, kind: str) -> list[list[str]]:
        return [words[1:] for words in self.events if words[0] == kind]


@pytest.fixture
def switched(tmp_path, monkeypatch):
    """Run the program with the switcher."""

    def run(*words, name="", share=100.0, learned=(), flags=(), under=(), preloaded="") -> Ended:
        python = python_of(name)
        mpirun, program, folder = launcher(python), tmp_path / "program", tmp_path / "run"
        for one in (program, folder):
            shutil.rmtree(one) if one.is_dir() else one.unlink(missing_ok=True)
        folder.mkdir()
        installation = installation_of([mpirun])
        has = {"": ["-DREVOKE"], "MPICH": ["-DLARGE"]}.get(name, [])
        mpicc = Path(mpirun).with_name("mpicc")
        subprocess.run([mpicc, "-O1", "-g", *has, SOURCE, "-o", program, "-lpthread"], check=True)
        monkeypatch.setattr(application, "_FLAGS", (*application._FLAGS, *flags))
        library = preload(installation, tmp_path, "switcher")
        text = plan(offers(installation), share, False, False, learned)
        (folder / "plan").write_text(text)
        environment = {
            **os.environ,
            **ROOT,
            **YIELDING,
            **unlocked(installation),
            **recording(library, folder, RUN_FOLDER),
        }
        # Of an analyser first, and in the ranks alone.
        load = environment.pop("LD_PRELOAD")
        launched = ["env", f"LD_PRELOAD={preloaded} {load}", *under, program, *words]
        begin = time.monotonic()
        argv = [mpirun, "-n", "2", *(() if name == "MPICH" else CROWDED), *launched]
        done = subprocess.run(
            argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        said = done.stdout.decode(errors="replace")
        assert done.returncode == 0, said
        assert "all calls were right" in said
        lines = "".join(path.read_text() for path in folder.glob("*.run")).splitlines()
        return Ended(said, [line.split() for line in lines], time.monotonic() - begin)

    return run


@pytest.mark.mpi
def test_communicators_that_are_freed_soon_have_no_hidden_one_before_the_budget_allows_it(switched):
    """The first is thought to take a millisecond: with this share that is after 11 days, on any machine."""
    ended = switched("short", "300", share=1e-9)
    assert ended.of("end")[0][0] == "finalized"
    assert ended.of("cell") == []


@ON_EACH
def test_calls_in_place_by_threads_in_turn_and_of_sessions_stay_right(name, switched):
    ended = switched("plain", "300", name=name)
    assert {"allreduce", "allgather", "alltoall", "bcast", "gather", "scatter", "reduce", "barrier"} == {
        words[1] for words in ended.of("cell")
    }
    assert sum(words[1] != "0" for words in ended.of("try")) > 20
    assert ended.of("end")[0][0] == "finalized"
    waits = [float(words[1]) * float(words[3]) for words in ended.of("calls")]
    assert 0 < max(waits) < ended.seconds
    switched("serialized", "500", name=name)
    if name != "OPENMPI41":
        switched("session", "500", name=name)


@pytest.mark.mpi
def test_a_duplicate_that_was_begun_on_one_rank_alone_blocks_nobody(switched):
    """Open MPI 5.0.11 would make no hidden communicator before that one."""
    ended = switched("idup", "30")
    assert ended.of("end")[0][0] == "finalized"


@ON_EACH
def test_what_the_program_sets_or_revokes_stays_so(name, switched):
    assert len(switched("variable", "150", name=name).of("try")) > 2
    if not name:  # 4.1 cannot revoke, MPICH 5.0.2 without fault tolerance ends by an assertion of its own
        assert len(switched("revoke", "150").of("try")) > 2


@pytest.mark.mpi
def test_a_program_that_is_to_outlive_its_processes_is_passed_through(switched, monkeypatch):
    monkeypatch.setenv("OMPI_MCA_mpi_ft_enable", "true")
    ended = switched("plain", "150")
    assert (ended.of("job")[0][2], ended.of("try")) == ("tolerant", [])


@ON_EACH
def test_another_tool_sees_calls_where_mpi_begins_and_communicators_that_go(
    name, switched, tmp_path, monkeypatch
):
    tool = compiled(TOOL, tmp_path / "tool.so", *SHARED, python=python_of(name))
    monkeypatch.setenv("LD_PRELOAD", str(tool))
    ended = switched("plain", "150", name=name)
    assert len(ended.of("try")) > 20
    assert ended.said.count("tool: 1 7,") == 2, ended.said  # and none of those that are hidden
    calls = re.findall(r"calls (\d+) (\d+)", ended.said)
    assert len(calls) == 2
    crowded = () if name == "MPICH" else CROWDED
    program = [tmp_path / "program", "plain", "150"]
    argv = [launcher(python_of(name)), "-n", "2", *crowded, "env", f"LD_PRELOAD={tool}", *program]
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | ROOT | YIELDING
    alone = ran(argv, env=environment, check=True).stdout
    assert re.findall(r"calls (\d+) (\d+)", alone) == calls


@pytest.mark.mpi
def test_of_many_communicators_that_take_turns_no_more_are_hidden_than_its_limit(switched, monkeypatch):
    """Open MPI numbers them in order."""
    monkeypatch.setenv("AUTOTUNE_RUN_MODE", "random")
    own, limit = 128 + 5, int(re.search(r"(?m)^#define HIDDEN (\d+)", SWITCHER.read_text())[1])
    (number,) = map(int, re.findall(r"next: (\d+)", switched("many", "40").said))
    assert own + limit / 2 < number <= own + limit


@pytest.mark.mpi
def test_the_wait_for_a_late_rank_is_no_cost_of_a_call(switched):
    ended = switched("late", "80")
    (costs_s, waits_s) = zip(*[map(float, words[2:4]) for words in ended.of("calls")], strict=True)
    assert 0 < costs_s[-1] < waits_s[-1] / 2
    assert waits_s[-1] > 0.05  # the other sleeps for 100 ms at least


@pytest.mark.mpi
def test_an_error_is_raised_once_and_on_the_program_s_own_communicator(switched):
    assert len(switched("errors", "30000").of("try")) > 2


@pytest.mark.mpi
def test_of_a_long_file_of_former_decisions_those_for_these_ranks_are_taken(switched):
    others = [("bcast", 5, ranks, "chain") for ranks in range(100, 5000)]
    ended = switched("plain", "300", learned=[*others[1:], ("bcast", 5, 2, "binomial"), others[0]])
    number = str(offers(installation_of([launcher()]))["bcast"].names.index("binomial"))
    broadcasts = {words[0] for words in ended.of("cell") if words[1:3] == ["bcast", "5"]}
    tried = Counter(words[1] for words in ended.of("try") if words[0] in broadcasts)
    assert set(tried) == {"0", number}


@pytest.mark.mpi
def test_threads_that_call_at_once_race_nowhere_in_it(switched, monkeypatch):
    """Nothing is switched with MPI_THREAD_MULTIPLE; with threads in turn everything is."""
    bits = Path("/proc/sys/vm/mmap_rnd_bits")
    if bits.exists() and int(bits.read_text()) > 28:
        pytest.skip("ThreadSanitizer of gcc 12 fails on addresses so random (vm.mmap_rnd_bits above 28)")
    found = ran(["gcc", "-print-file-name=libtsan.so"], check=True).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip("gcc has no ThreadSanitizer here")
    monkeypatch.setenv("TSAN_OPTIONS", "exitcode=0")  # Open MPI has reports of its own
    monkeypatch.setenv("PMIX_MCA_gds", "hash")  # where its segments should lie ThreadSanitizer has its own
    monkeypatch.setenv("UCX_MEM_EVENTS", "no")  # UCX takes locks where a thread is not yet known to it
    for how in ("multiple", "serialized"):
        ended = switched(how, "50", flags=["-fsanitize=thread", "-g"], preloaded=str(Path(found).resolve()))
        assert ended.of("job")[0][2] == ("threads" if how == "multiple" else "on")
        # Compiled from standard input; Open MPI's own accesses are in its libraries.
        assert (
            re.findall(r"SUMMARY: ThreadSanitizer.*(?:<stdin>|switcher|decide|library\.h).*", ended.said)
            == []
        )


@pytest.mark.debian
@pytest.mark.mpi
def test_valgrind_sees_no_error_and_no_leak_in_it(switched, monkeypatch):
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind here (apt-get install valgrind)")
    for name, value in {"pml": "ob1", "btl": "self,sm", "coll": "^ucc,hcoll", "osc": "rdma"}.items():
        monkeypatch.setenv(f"OMPI_MCA_{name}", value)  # what is not loaded takes no time
    ended = switched("plain", "150", flags=["-g"], under=VALGRIND)
    assert len(ended.of("try")) > 20
    reports = re.split(r"(?m)^==\d+== *$", ended.said)
    assert [one for one in reports if re.search(r"\(switcher\.c:|\(decide\.h:|switcher-\w+\.so", one)] == []
