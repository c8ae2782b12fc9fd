"""``run``: a program whose algorithms are switched while it runs does what it did, and gets faster."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.errors import ExitCode
from autotune.stacks import application
from tests import programs, suites
from tests.conformance.launching import PROGRAM as CASES
from tests.integration.mpirun import CROWDED, ROOT, launcher, python_of
from tests.integration.mpirun import run as launched
from tests.integration.test_record_programs import none_left
from tests.program import ran
from tests.suites import ON_EACH

PROGRAM = Path(__file__).with_name("switched_calls.py")
SLOW_BCAST = "1\n7\n1\n2\n2\n0 0 0 0\n65536 3 0 64\n"
"""A rules file of coll_tuned: broadcasts from 64 KiB on by a pipeline of 1024 segments."""
UNDEFINED = ("-fsanitize=undefined", "-fno-sanitize-recover=all", "-g")


@pytest.fixture
def tuned(tmp_path, capfd, as_root, monkeypatch):
    """Run the program under ``run``: exit code, run.json and what was said."""

    def run(*words, python=sys.executable, ranks=2, options=CROWDED, verb=(), mode=None, program=(PROGRAM,)):
        if mode:
            monkeypatch.setenv("AUTOTUNE_RUN_MODE", mode)
        monkeypatch.setenv("PATH", f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}")
        out = tmp_path / "run.json"
        argv = [launcher(python), "-n", str(ranks), *options, python, *map(str, program), *words]
        code = main(["run", "--out", str(out), *verb, "--", *argv])
        return code, json.loads(out.read_text()), capfd.readouterr()

    return run


@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        pytest.param("", 4, marks=pytest.mark.mpi),
        pytest.param("OPENMPI41", 2, marks=pytest.mark.mpi41),
        pytest.param("MPICH", 2, marks=pytest.mark.mpich),
    ],
)
def test_another_algorithm_at_each_call_changes_no_result_and_nothing_of_the_program(name, ranks, tuned):
    options = () if name == "MPICH" else CROWDED
    words = {"verb": ["--reductions"], "mode": "random", "python": python_of(name)}
    code, document, said = tuned(**words, ranks=ranks, options=options)
    assert code == ExitCode.WELL, said.err
    assert "all calls were right" in said.out
    assert document["state"] == "on"


@ON_EACH
def test_messages_with_gaps_are_right_whatever_is_tried(name, tuned, tmp_path, monkeypatch):
    """Types with gaps and negative strides, unlike on both sides, in place, of zero units."""
    monkeypatch.setenv("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")
    called = ["bcast", "gather", "scatter", "allgather", "alltoall"]
    request = json.dumps({"collectives": 3 * called, "skip": []})
    code, document, said = tuned(
        str(tmp_path),
        request,
        python=python_of(name),
        ranks=4,
        options=() if name == "MPICH" else CROWDED,
        mode="random",
        program=(CASES,),
    )
    assert code == ExitCode.WELL, said.err
    lines = [json.loads(line) for file in tmp_path.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert [words for words in lines if words[0] == "fault"] == []
    assert sum(words == ["end"] for words in lines) == 4
    assert {cell["collective"] for cell in document["cells"]} >= set(called)


@ON_EACH
def test_without_reductions_every_bit_is_that_of_an_untouched_run(name, tuned):
    """On four ranks sums of reals would show it: the order of two summands says nothing."""
    python = python_of(name)
    # MPICH spins: more ranks than cores take minutes.
    options, ranks = ((), 2) if name == "MPICH" else (CROWDED, 4)
    plain = launched([python, str(PROGRAM), "bits"], *options, ranks=ranks, python=python)
    code, document, said = tuned("bits", mode="random", python=python, ranks=ranks, options=options)
    assert code == ExitCode.WELL, said.err
    assert re.findall("bits .*", said.out) == re.findall("bits .*", plain.stdout) != []
    calls = {one["collective"]: 0 for one in document["cells"]}
    for one in document["cells"]:
        calls[one["collective"]] += one["calls"]
    assert calls["allreduce"] == calls["reduce"] == 32 * 3 * 10  # sums of reals are not among them, nor bytes
    assert calls["allgather"] >= 32


@pytest.mark.mpi
def test_mpi4py_s_own_tests_of_collectives_pass_as_without(tmp_path):
    """A short version of ``make suite-test``."""
    suite = suites.fetched(tmp_path)
    plain = suites.outcome(suite, sys.executable, 2, r"test_cco_buf(_inter)?\.py", switched=False)
    other = suites.outcome(suite, sys.executable, 2, r"test_cco_buf(_inter)?\.py", switched=True)
    assert other.calls > 1000
    assert (other.ran, other.failed) == (plain.ran, plain.failed)
    assert plain.ran > 50


PUBLIC = (
    "allgather[23]|allred[2-6]|alltoall1|bcast(test)?|coll[24789]|gather2?|op(band|bor|maxloc|prod|sum)"
    "|red[34]|red_scat_block|reduce|scatter([23]|n)"
)
"""29 programs that take seconds to compile and to run."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", marks=[pytest.mark.mpi, pytest.mark.debian]),
        pytest.param("MPICH", marks=pytest.mark.mpich),
    ],
)
def test_public_test_programs_say_what_they_do_untouched(name, tmp_path):
    """A short version of ``make suite-test PROGRAMS=…``."""
    place = os.environ.get("AUTOTUNE_PROGRAMS")
    if place == "none":
        pytest.xfail("no mirror of CI's has MPICH's source package")
    if not place:
        pytest.skip("AUTOTUNE_PROGRAMS names no folder with MPICH's test/mpi (.ci/run unpacks it)")
    python, jobs = python_of(name), os.cpu_count() or 1
    sources = programs.chosen([Path(place)], rf"test/mpi/coll/({PUBLIC})\.c$")
    assert len(sources) == 29
    pairs = programs.compared(programs.built(sources, python, tmp_path, jobs), python, 2, jobs)
    assert {one.name: pair for one, pair in pairs.items() if programs.differs(pair)} == {}
    assert sum(not plain.code for plain, _ in pairs.values()) >= 25
    assert sum(other.calls for _, other in pairs.values()) > 500


@pytest.mark.mpi
def test_no_undefined_behaviour_is_seen_in_it(tuned, monkeypatch):
    monkeypatch.setattr(application, "_FLAGS", (*application._FLAGS, *UNDEFINED))
    code, document, said = tuned(verb=["--reductions", "--budget", "50%"])
    assert code == ExitCode.WELL, said.err
    assert "runtime error" not in said.err
    assert document["spent_s"] > 0


@pytest.mark.mpi
def test_a_planted_bad_default_is_repaired_inside_the_run(tuned, tmp_path):
    rules = tmp_path / "slow.conf"
    rules.write_text(SLOW_BCAST)
    mca = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_dynamic_rules_filename"]
    learn = tmp_path / "site.json"
    code, document, said = tuned(
        "fast", "20000", options=[*CROWDED, *mca, str(rules)], verb=["--budget", "20%", "--learn", str(learn)]
    )
    assert code == ExitCode.WELL, said.err
    (cell,) = [one for one in document["cells"] if one["collective"] == "bcast"]
    assert cell["algorithm"] != "default"
    assert cell["speedup_95"][0] > 1.01
    assert document["saved_s"] > document["spent_s"]
    assert re.search(r"bcast of 64 KiB on 2 ranks: \w+ in place of the default, \d", said.out)
    assert [one["algorithm"] for one in json.loads(learn.read_text())["cells"]] == [cell["algorithm"]]
    assert "65536" in (tmp_path / "run-coll_tuned_rules.conf").read_text()


PHASES = ("begin", "try", "block", "settled", "end")


@pytest.mark.parametrize(
    ("how", "phase"),
    [
        pytest.param(how, phase, marks=() if PHASES.index(phase) % 2 == (how == "kill") else pytest.mark.slow)
        for how in ("abort", "kill")
        for phase in PHASES
    ],
)
@ON_EACH
def test_an_untimely_end_in_any_phase_hangs_nobody_and_leaves_whole_files(name, how, phase, tuned, tmp_path):
    python = python_of(name)
    learn = tmp_path / "learn-run.json"
    learn.write_text(json.dumps({"format": "autotune-learned-1", "cells": []}))
    code, document, said = tuned(
        f"{how}@{phase}",
        str(tmp_path),
        python=python,
        options=() if name == "MPICH" else CROWDED,
        verb=["--reductions", "--budget", "50%", "--learn", str(learn)],
    )
    assert (
        code in {"abort": [3], "kill": [128 + signal.SIGKILL, signal.SIGKILL]}[how]
    )  # the second is Hydra's
    assert (tmp_path / f"ended in {phase}").exists()
    assert "ended with exit code" in said.err
    # Where a rank is killed at the end of MPI the first rank may have left it: the exit code says the rest.
    assert document["ended"] in (("killed", "finalized") if (how, phase) == ("kill", "end") else ("killed",))
    assert phase == "begin" or sum(one["calls"] for one in document["cells"]) > 0
    assert phase in ("begin", "try") or document["spent_s"] > 0
    assert json.loads(learn.read_text())["format"] == "autotune-learned-1"
    assert {path.name for path in tmp_path.glob("*run*")} <= {
        "run.json",
        learn.name,
        "run-coll_tuned_rules.conf",
        "run-mpich-env.sh",
        "run-mpich-selection.json",
    }


@pytest.mark.mpi
def test_a_killed_driver_leaves_no_half_of_a_file_and_no_process(tmp_path):
    out, said = tmp_path / "run.json", tmp_path / "said"
    verb = ["run", "--reductions", "--budget", "50%", "--out", str(out), "--"]
    program = [launcher(), "-n", "2", *CROWDED, sys.executable, str(PROGRAM)]
    argv = [sys.executable, "-m", "autotune", *verb, *program]
    with said.open("wb") as file:
        driver = subprocess.Popen(
            argv, env=os.environ | ROOT, stdout=file, stderr=file, start_new_session=True, cwd=tmp_path
        )
        while not any("\ntry " in path.read_text() for path in tmp_path.glob(".run.json.*/run/*.run")):
            assert driver.poll() is None, said.read_text()
            time.sleep(0.05)
        driver.kill()
        driver.wait()
    none_left(tmp_path)
    assert not out.exists()


@pytest.mark.mpi
def test_a_file_of_decisions_that_was_damaged_meanwhile_costs_nothing_of_what_was_found(tmp_path, capfd):
    out, learn = tmp_path / "run.json", tmp_path / "site.json"
    words = ["--out", str(out), "--learn", str(learn), "--", "sh", "-c", f"echo damaged >{learn}"]
    assert main(["run", *words]) == ExitCode.MISTAKE
    said = capfd.readouterr()
    assert f"kept in {out}\n" in said.out
    assert str(learn) in said.err
    assert json.loads(out.read_text())["cells"] == []


LATE = """
import time, mpi4py
mpi4py.rc.initialize = mpi4py.rc.finalize = False
from mpi4py import MPI
time.sleep(0.2)
MPI.Init_thread(MPI.THREAD_SERIALIZED)
MPI.Finalize()
"""


@ON_EACH
def test_of_a_program_without_collectives_nothing_is_said_but_that(name, tuned):
    """It begins late, too."""
    code, document, said = tuned(
        python=python_of(name), options=() if name == "MPICH" else CROWDED, program=("-c", LATE)
    )
    assert code == ExitCode.WELL, said.err
    assert (document["state"], document["ended"], document["cells"]) == ("on", "finalized", [])
    assert "the default stays in 0 kinds of calls, 0 are not decided" in said.out


@ON_EACH
def test_calls_of_a_library_that_the_program_itself_opens_pass_through(name, tuned):
    program = (
        "import ctypes, mpi4py\nmpi4py.rc.initialize = mpi4py.rc.finalize = False\nfrom mpi4py import MPI\n"
        "path = next(line.split()[-1] for line in open('/proc/self/maps') if '/libmpi.so' in line)\n"
        "mpi = ctypes.CDLL(path)\nassert not mpi.MPI_Init(None, None)\n"
        "for _ in range(200):\n    MPI.COMM_WORLD.Barrier()\n"
        "assert not mpi.MPI_Finalize()\n"
    )
    code, document, said = tuned(
        python=python_of(name), options=() if name == "MPICH" else CROWDED, program=("-c", program)
    )
    assert code == ExitCode.WELL, said.err
    assert document["state"] == ""
    assert "no rank called MPI_Init of a shared library" in said.out


@pytest.mark.mpi
def test_with_threads_that_call_at_once_nothing_is_switched_and_that_is_said(tuned):
    code, document, said = tuned("threads", "fast", "10")
    assert code == ExitCode.WELL
    assert document["state"] == "threads"
    assert "nothing was switched: it uses MPI_THREAD_MULTIPLE" in said.out


@pytest.mark.mpi
def test_a_dry_run_switches_nothing_and_says_what_would_be_tried(tuned):
    code, document, said = tuned("fast", "6000", verb=["--dry", "--budget", "50%"])
    assert code == ExitCode.WELL
    assert "algorithms would be tried" in said.out
    assert all(one["algorithm"] == "default" for one in document["cells"])


@pytest.mark.intel
@pytest.mark.parametrize("tuner", ["run", "I_MPI_TUNING_MODE=auto"])
def test_tuned_launches_are_compared_in_pairs_with_untouched_ones(tuner):
    """In short what ``docs/online.md`` quotes of both. Intel's wheel has no compiler: MPICH's has its ABI."""
    mpich, intel = (Path(python_of(name)).parents[1] for name in ("MPICH", "INTEL"))
    path = os.environ["PATH"]
    if tuner == "run":
        words, library, launch = ["--budget", "50%"], "Open MPI", [launcher(), *CROWDED]
        path = f"{Path(launcher()).parent}{os.pathsep}{path}"
    else:
        words, library = ["--variable", tuner], "Intel"
        its = [f"PATH={intel / 'bin'}{os.pathsep}{path}", f"LD_LIBRARY_PATH={intel / 'lib'}"]
        launch = ["env", *its, "I_MPI_FABRICS=shm", str(intel / "bin/mpirun")]
        path = f"{mpich / 'bin'}{os.pathsep}{path}"
    argv = ["--pairs", "2", *words, "--", *launch, "-n", "2", "CALLS", "2000", "allreduce:8"]
    done = ran(
        [sys.executable, "benchmarks/running.py", *argv],
        cwd=Path(__file__).parents[2],
        env=os.environ | ROOT | {"PATH": path},
    )
    assert done.returncode == 0, done.stderr
    *pairs, last = done.stdout.splitlines()
    assert [len(re.findall(r"\d+\.\d{4} ", line)) for line in pairs] == [2, 2], done.stdout
    assert re.match(rf"2 pairs by {library}.*?: \S+% \(\S+% \.\.\. \S+%\); median ", last), last
