"""``record`` on programs whose calls are known, under every MPI, however they end."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.errors import ExitCode
from tests.integration.mpirun import CROWDED, launcher, python_of

pytestmark = pytest.mark.usefixtures("as_root")

PROGRAM = Path(__file__).with_name("recorded_calls.py")
OTHERS = {"openmpi41": pytest.mark.mpi41, "mpich": pytest.mark.mpich, "intel": pytest.mark.intel}


def recorded(out, python, *words, ranks=3, options=(), capfd=None, monkeypatch=None):
    """The exit code, what the program told, and what was recorded."""
    beside = Path(python).parent
    monkeypatch.setenv("PATH", f"{beside}{os.pathsep}{os.environ['PATH']}")
    with tempfile.NamedTemporaryFile("r") as told:
        argv = [launcher(python), "-n", str(ranks), *options, python, str(PROGRAM), told.name, *words]
        code = main(["record", "--out", str(out), "--", *argv])
        counts = {tuple(key): count for *key, count in json.load(told)}
    return code, counts, json.loads(out.read_text()), capfd.readouterr()


def found(document):
    """What was recorded, as the program tells it."""
    keys = ("collective", "kind", "comm_size", "message_bytes", "calls")
    return {tuple(one[key] for key in keys[:-1]): one["calls"] for one in document["calls"]}


@pytest.mark.mpi
def test_counts_are_those_of_the_program_and_time_is_that_of_the_run(tmp_path, capfd, monkeypatch):
    code, told, document, said = recorded(
        tmp_path / "calls.json",
        sys.executable,
        *("persistent", "threads"),
        options=CROWDED,
        capfd=capfd,
        monkeypatch=monkeypatch,
    )
    assert code == ExitCode.WELL
    assert found(document) == told
    assert (document["ranks"], document["nodes"], document["ended"]) == (3, 1, "finalized")
    assert 0 < sum(c["waiting_s"] for c in document["calls"]) < sum(c["seconds"] for c in document["calls"])
    assert sum(c["seconds"] for c in document["calls"]) < document["mpi_s"] * 4 + document["run_s"]
    assert "are in collectives" in said.out
    assert [path.name for path in tmp_path.iterdir()] == ["calls.json"]


@pytest.mark.mpi
@pytest.mark.parametrize(("word", "ended", "own"), [("abort", "aborted", 3), ("kill", "killed", 137)])
def test_what_came_before_an_untimely_end_is_kept(word, ended, own, tmp_path, capfd, monkeypatch):
    code, told, document, said = recorded(
        tmp_path / "calls.json", sys.executable, word, options=CROWDED, capfd=capfd, monkeypatch=monkeypatch
    )
    assert code == own
    told["barrier", "blocking", 3, 0] += 3
    assert found(document) == told
    assert document["ended"] == ended
    assert "ended with exit code" in said.err


SEVERAL = """
import os, signal, sys
from pathlib import Path
from mpi4py import MPI
place, how, whom = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
world = MPI.COMM_WORLD
number = len(list(place.iterdir())) + 1  # of this run
world.Barrier()
if world.rank == 0:
    (place / str(number)).touch()
for _ in range(100 * number):
    world.Allreduce(MPI.IN_PLACE, [bytearray(4), MPI.INT])
if number == 3 and how == "fail":
    MPI.Finalize()
    os._exit(7)
if number == 3 and how == "interrupt" and world.rank == 0:
    os.kill(whom, signal.SIGINT)
    signal.pause()
"""


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("how", "asked", "exit_code", "message"),
    [
        ("well", 2, ExitCode.WELL, "run 2 of 2: "),
        ("fail", 4, 7, "ended with exit code 7 in run 3 of 4; kept are the 2 before it"),
        ("interrupt", 4, ExitCode.INTERRUPTED, "interrupted in run 3 of 4; kept are the 2 before it"),
    ],
)
def test_several_runs_are_one_recording(how, asked, exit_code, message, tmp_path, capfd):
    """Run n makes 100 n calls of allreduce; the third of some ends badly."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "several.py").write_text(SEVERAL)
    words = [sys.executable, tmp_path / "several.py", tmp_path / "runs", how, os.getpid()]
    argv = [launcher(sys.executable), "-n", "2", *CROWDED, *map(str, words)]
    out = tmp_path / "calls.json"
    assert main(["record", "--runs", str(asked), "--out", str(out), "--", *argv]) == exit_code
    said = capfd.readouterr()
    assert message in said.err
    document = json.loads(out.read_text())
    (calls,) = (c for c in document["calls"] if c["collective"] == "allreduce")
    assert [run["calls"] for run in calls["runs"]] == [200, 400]
    assert (calls["calls"], calls["calls_per_rank"]) == (300, 150.0)
    assert calls["seconds"] == pytest.approx(sum(run["seconds"] for run in calls["runs"]) / 2)
    assert document["run_s"] == pytest.approx(sum(run["run_s"] for run in document["runs"]) / 2)
    assert "mean of 2 runs" in said.out
    assert "200 … 400 calls" in said.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calls.json", "runs", "several.py"]


@pytest.mark.parametrize("name", [pytest.param(n, marks=m) for n, m in OTHERS.items()])
def test_counts_under_other_mpis(name, tmp_path, capfd, monkeypatch):
    python = python_of(name.upper())
    if name == "intel":  # its wheel has no header; MPICH's has the same binary interface
        monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{Path(python_of('MPICH')).parent}")
        monkeypatch.setenv("I_MPI_FABRICS", "shm")
    words = ("persistent",) if name == "mpich" else ()  # 4.1 has none, Intel MPI may wait for ever in them
    options = CROWDED if name == "openmpi41" else ()
    out = tmp_path / "calls.json"
    code, told, document, _ = recorded(
        out, python, *words, options=options, capfd=capfd, monkeypatch=monkeypatch
    )
    assert code == ExitCode.WELL
    assert found(document) == told


STATIC = "int main(void) { return 0; }"


@pytest.mark.mpi
def test_wrong_usage_is_one_message_and_leaves_no_file(tmp_path, capfd):
    mpirun, out = launcher(), tmp_path / "calls.json"
    wrong = {
        "no rank called MPI_Init": [mpirun, "-n", "1", "true"],
        "ended with exit code 1 before any rank": [mpirun, "-n", "1", "false"],
        "is not a program that can be found": [str(tmp_path / "mpirun"), "-n", "1", "true"],
        "no application was given": [],
    }
    if shutil.which("cc"):
        static = tmp_path / "static"
        made = subprocess.run(
            ["cc", "-static", "-x", "c", "-", "-o", str(static)], input=STATIC, text=True, check=False
        )
        if made.returncode == 0:
            wrong["is linked statically"] = [mpirun, "-n", "1", str(static)]
    for message, argv in wrong.items():
        assert main(["record", "--out", str(out), "--", *argv]) == ExitCode.MISTAKE
        assert message in capfd.readouterr().err
        assert not out.exists()
    assert main(["record", "--out", str(tmp_path), "--", mpirun, "true"]) == ExitCode.MISTAKE
    assert "no place for a file" in capfd.readouterr().err


@pytest.mark.mpich
def test_a_program_of_another_mpi_is_told_so(tmp_path, capfd):
    """The launcher is Open MPI's, the program's library MPICH."""
    argv = [launcher(), "-n", "1", python_of("MPICH"), str(PROGRAM)]
    assert main(["record", "--out", str(tmp_path / "calls.json"), "--", *argv]) == ExitCode.MISTAKE
    assert "made for Open MPI, but this program runs with another MPI" in capfd.readouterr().err
