"""``record`` and ``run`` beside other tools, with MPI that is opened late, untimely ends, a killed driver."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune.cli import main
from tests.integration.mpirun import CROWDED, SHARED, compiled, launcher
from tests.program import ran

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(120), pytest.mark.usefixtures("as_root")]

TOOL = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static int sums, waits;
int MPI_Allreduce(const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c) {
    sums++;
    return PMPI_Allreduce(s, r, n, t, o, c);
}
int MPI_Waitall(int n, MPI_Request r[], MPI_Status s[]) {
    waits++;
    return PMPI_Waitall(n, r, s);
}
int MPI_Finalize(void) {
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", getenv("TOLD"), rank);
    FILE *out = fopen(name, "w");
    fprintf(out, "%d %d", sums, waits);
    fclose(out);
    return PMPI_Finalize();
}
"""
PROGRAM = """
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>
#include <signal.h>
int main(int argc, char **argv) {
    int one = 1, sum, rank, how = atoi(argv[1]);
    MPI_Request r[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 40; i++) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < 30; i++) {
        MPI_Irecv(&sum, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, r);
        MPI_Isend(&one, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, r + 1);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
    if (how < 0) raise(-how);
    if (how > 100) exit(how - 100);
    MPI_Finalize();
    return how;
}
"""
OPENED = """
import ctypes, mpi4py
mpi4py.rc.initialize = mpi4py.rc.finalize = False
from mpi4py import MPI
path = next(line.split()[-1] for line in open('/proc/self/maps') if '/libmpi.so' in line)
mpi = ctypes.CDLL(path)
assert not mpi.MPI_Init(None, None)
MPI.COMM_WORLD.Barrier()
assert not mpi.MPI_Finalize()
"""
FOREIGN = """
#include <signal.h>
#include <unistd.h>
static void ends(int number) { _exit(100 + number); }
__attribute__((constructor)) static void load(void) { signal(SIGHUP, ends), signal(SIGUSR1, ends); }
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The tool and the program."""
    place = tmp_path_factory.mktemp("made")
    return str(compiled(TOOL, place / "tool.so", *SHARED)), str(compiled(PROGRAM, place / "program"))


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("how", ["-x", "variable", "env"])
def test_a_tool_of_the_users_own_sees_what_is_recorded(how, made, place, monkeypatch):
    tool, program = made
    options, words = {
        "-x": (["-x", f"LD_PRELOAD={tool}"], []),
        "env": ([], ["env", f"LD_PRELOAD={tool}"]),
    }.get(how, ([], []))
    if how == "variable":
        monkeypatch.setenv("LD_PRELOAD", tool)
    monkeypatch.setenv("TOLD", str(place / "told"))
    mpirun = [launcher(), "-n", "2", *CROWDED, *options, "-x", "TOLD", *words]
    assert main(["record", "--", *mpirun, program, "0"]) == 0
    document = json.loads(Path("calls.json").read_text())
    counts = {c["collective"]: c["calls"] for c in document["calls"]}
    counts |= {c["operation"]: c["calls"] for c in document["other"]}
    assert (counts["allreduce"], counts["waitall"]) == (80, 60)
    assert [Path(f"told.{rank}").read_text() for rank in range(2)] == ["40 30"] * 2


@pytest.mark.parametrize("verb", ["record", "run"])
@pytest.mark.parametrize(
    ("how", "code", "ended"),
    [
        (7, 7, "finalized"),
        (107, 7, "exited"),
        (-signal.SIGKILL, 128 + signal.SIGKILL, "killed"),
        (-signal.SIGSEGV, 128 + signal.SIGSEGV, "killed"),
    ],
)
def test_the_exit_code_is_the_programs_own(verb, how, code, ended, made, capfd):
    words = [launcher(), "-n", "1", made[1], str(how)]
    assert main([verb, "--", *words]) == code
    assert json.loads(Path({"record": "calls.json", "run": "run.json"}[verb]).read_text())["ended"] == ended
    assert f"ended with exit code {code}" in capfd.readouterr().err


def test_an_mpi_that_the_program_opens_itself_is_named(capfd):
    words = [launcher(), "-n", "1", sys.executable, "-c", OPENED]
    assert main(["record", "--", *words]) == 2
    said = capfd.readouterr().err
    assert "an MPI that it opens itself (dlopen)" in said
    assert "statically" not in said


def test_a_handler_that_is_not_pythons_stays(place):
    """Set before Python begins, by what is preloaded; then a hangup is its own affair."""
    env = {**os.environ, "LD_PRELOAD": str(compiled(FOREIGN, place / "foreign.so", *SHARED))}
    words = [sys.executable, "-m", "autotune", "run", "--", "true"]
    done = ran(words, env=env)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    waits = [*words[:-1], "sh", "-c", "touch begun; exec sleep 100"]
    with subprocess.Popen(waits, env=env, stderr=subprocess.PIPE, text=True) as driver:
        until("begun", driver)
        driver.send_signal(signal.SIGHUP)
        _, said = driver.communicate()
    assert (driver.returncode, "Traceback" in said) == (100 + signal.SIGHUP, False), said
    none_left(place)


def until(name, driver):
    while not Path(name).exists():
        assert driver.poll() is None
        time.sleep(0.02)


def of(place):
    """Processes that work in a folder."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cwd").readlink() == place and int(folder.name) != os.getpid():
                yield int(folder.name)
        except OSError:
            continue  # it has ended


def none_left(place):
    """The test's own limit ends it."""
    while list(of(place)):
        time.sleep(0.05)


WAITS = """
import sys, time
from pathlib import Path
from mpi4py import MPI
MPI.COMM_WORLD.Barrier()
Path("begun").touch()
time.sleep(1000)
"""


@pytest.mark.parametrize(
    ("verb", "within"), [("record", []), ("run", ["sh", "-c", '"$@"; echo went on >after', "sh"])]
)
def test_a_killed_driver_leaves_no_process(verb, within, place):
    words = [*within, launcher(), "-n", "2", *CROWDED, sys.executable, "-c", WAITS]
    driver = subprocess.Popen([sys.executable, "-m", "autotune", verb, "--", *words], start_new_session=True)
    until("begun", driver)
    assert len(list(of(place))) > 3
    driver.kill()
    driver.wait()
    none_left(place)
    assert not (place / "after").exists()
