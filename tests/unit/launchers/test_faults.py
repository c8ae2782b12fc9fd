"""What can befall a launch: each a status with its cause and the last lines of output, whatever it is."""

import re
import sys
import textwrap
import time
from itertools import chain, repeat

import pytest

from autotune.campaign.observing import observation
from autotune.errors import StackError
from autotune.history.trial import Phase, Status, Trial
from autotune.space import Point
from autotune.stacks.ports import LaunchRequest, Placement
from hydra_plugins.autotune._mpirun import run_here
from tests.unit.launchers.test_processes import PATIENCE_S

TRIAL = Trial(1, Phase.SEARCH, Point())


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def launched(folder, program, timeout_s=120.0, words=None):
    """What a launch shows whose launcher runs these lines, in its own folder."""
    request = LaunchRequest(folder, (), {}, Placement(2), timeout_s)
    program = "import ctypes, os, signal, subprocess, sys, time\n" + textwrap.dedent(program)
    argv = words or [sys.executable, "-c", program]
    return observation(TRIAL, run_here([(request, argv, {})])[0])


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        ("sys.exit('MPI_Init: no such device')", Status.CRASHED, "exit code 1: MPI_Init: no such device"),
        ("ctypes.string_at(0)", Status.CRASHED, "(SIGSEGV): it printed nothing"),
        ("os.abort()", Status.CRASHED, "(SIGABRT)"),
        ("os.kill(os.getpid(), signal.SIGKILL)", Status.LOST, "for want of memory"),
        ("sys.exit(137)", Status.CRASHED, "exit code 137 (SIGKILL, which the kernel also sends for want of"),
        ("sys.exit(139)", Status.CRASHED, "exit code 139 (SIGSEGV)"),
        ("sys.exit(250)", Status.CRASHED, "exit code 250: it printed nothing"),
        ("print('daemon lost')", Status.LOST, "returned 0 without a result: daemon lost"),
        ("print('x\\n' * 10_000 + 'the last'); sys.exit(3)", Status.CRASHED, "x | the last"),
        ("os.write(1, os.urandom(1 << 16)); sys.exit(3)", Status.CRASHED, "exit code 3: "),
        ("open('result.json', 'w').write('{\"format\"')", Status.INVALID, "result.json"),
        ("open('result.json', 'wb').write(os.urandom(999))", Status.INVALID, "result.json"),
        ("os.mkdir('result.json')", Status.INVALID, "result.json"),
        ("open('result.json', 'w').write('[' * 100_000)", Status.INVALID, "result.json"),
    ],
)
def test_each_fault_is_a_status_with_its_cause(tmp_path, program, status, words):
    seen = launched(tmp_path, program)
    assert (seen.status, words in seen.reason) == (status, True), seen.reason
    assert "\n" not in seen.reason
    assert len(seen.reason) < 600
    assert seen.duration_s >= 0


def test_one_that_hangs_is_a_timeout_with_what_it_said(tmp_path):
    for timeout_s in PATIENCE_S:
        seen = launched(tmp_path, "print('waits', flush=True); time.sleep(600)", timeout_s)
        assert seen.status is Status.TIMEOUT
        if "it printed nothing" not in seen.reason:  # a busy machine had not started it yet
            break
    assert re.fullmatch(r"ended after \d+ s: waits", seen.reason)


def test_a_launcher_that_is_missing_ends_the_campaign_with_its_name(tmp_path):
    with pytest.raises(StackError, match=r"cannot start .*mpirun-of-yesterday: No such file"):
        launched(tmp_path, "", words=[str(tmp_path / "mpirun-of-yesterday")])


def test_a_clock_that_jumps_back_makes_no_negative_time(tmp_path, monkeypatch):
    now, begun = time.time(), time.monotonic()
    times = chain([now], repeat(now - 3600))
    monkeypatch.setattr("hydra_plugins.autotune._processes.time.time", lambda: next(times))
    assert 0 <= launched(tmp_path, "print('well')").duration_s <= time.monotonic() - begun


MPI = "from mpi4py import MPI; import ctypes, os; rank = MPI.COMM_WORLD.rank; "
REAL = {
    "MPI_Abort": (MPI + "MPI.COMM_WORLD.Abort(7)", "abort"),
    "segfault of a rank": (MPI + "ctypes.string_at(1 - rank)", ""),
    "a rank killed": (MPI + "os.kill(os.getpid(), 9 * rank)", ""),
    "crash at init": ("raise SystemExit('no device')", ""),
}


@pytest.mark.mpi
@pytest.mark.parametrize("fault", REAL)
def test_faults_of_ranks_under_a_real_launcher(tmp_path, monkeypatch, fault):
    from tests.integration.mpirun import ROOT, launcher

    program, words = REAL[fault]
    argv = [launcher(), "-n", "2", "--oversubscribe", sys.executable, "-c", program]
    for name, value in ROOT.items():
        monkeypatch.setenv(name, value)
    seen = launched(tmp_path, "", words=argv)
    assert seen.status is Status.CRASHED, seen.reason
    assert words in seen.reason.lower()
    assert seen.reason.count("exit code") >= 1


def test_a_launch_that_met_the_directory_of_a_killed_one_is_made_again(tmp_path):
    """Otherwise the setting would have crashed."""
    seen = launched(
        tmp_path,
        """
        first = not os.path.exists("begun")
        open("begun", "a").write("x")
        print("The PMIx server's listener thread failed to start. We cannot continue." if first else "new")
        sys.exit(3)
        """,
    )
    assert "exit code 3: new" in seen.reason
    assert (tmp_path / "begun").read_text() == "xx"
