"""``run``: a program whose algorithms are switched while it runs does what it did, and gets faster."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.errors import ExitCode
from autotune.stacks import application
from tests import suites
from tests.integration.mpirun import CROWDED, ROOT, launcher
from tests.integration.mpirun import run as launched

PROGRAM = Path(__file__).with_name("switched_calls.py")
SLOW_BCAST = "1\n7\n1\n2\n2\n0 0 0 0\n65536 3 0 64\n"
"""A rules file of coll_tuned: broadcasts from 64 KiB on by a pipeline of 1024 segments."""
UNDEFINED = ("-fsanitize=undefined", "-fno-sanitize-recover=all", "-g")


@pytest.fixture
def tuned(tmp_path, capfd, monkeypatch):
    """Run the program under ``run``: exit code, run.json and what was said."""
    for name, value in ROOT.items():
        monkeypatch.setenv(name, value)

    def run(*words, python=sys.executable, ranks=2, options=CROWDED, verb=(), mode=None):
        if mode:
            monkeypatch.setenv("AUTOTUNE_RUN_MODE", mode)
        monkeypatch.setenv("PATH", f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}")
        out = tmp_path / "run.json"
        argv = [launcher(python), "-n", str(ranks), *options, python, str(PROGRAM), *words]
        code = main(["run", "--out", str(out), *verb, "--", *argv])
        return code, json.loads(out.read_text()), capfd.readouterr()

    return run


@pytest.mark.mpi
def test_another_algorithm_at_each_call_changes_no_result_and_nothing_of_the_program(tuned):
    code, document, said = tuned(verb=["--reductions"], mode="random")
    assert code == ExitCode.WELL, said.err
    assert "all calls were right" in said.out
    assert document["state"] == "on"


@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        pytest.param("", 4, marks=[pytest.mark.mpi, pytest.mark.slow]),
        pytest.param("OPENMPI41", 2, marks=pytest.mark.mpi41),
        pytest.param("MPICH", 2, marks=pytest.mark.mpich),
    ],
)
def test_another_algorithm_at_each_call_on_more_ranks_and_other_stacks(name, ranks, tuned):
    python = os.environ[f"AUTOTUNE_PYTHON_{name}"] if name else sys.executable
    options = () if name == "MPICH" else CROWDED
    code, document, said = tuned(
        verb=["--reductions"], mode="random", python=python, ranks=ranks, options=options
    )
    assert code == ExitCode.WELL, said.err
    assert "all calls were right" in said.out
    assert document["state"] == "on"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", marks=pytest.mark.mpi),
        pytest.param("OPENMPI41", marks=pytest.mark.mpi41),
        pytest.param("MPICH", marks=pytest.mark.mpich),
    ],
)
def test_without_reductions_every_bit_is_that_of_an_untouched_run(name, tuned):
    """On four ranks sums of reals would show it: the order of two summands says nothing."""
    python = os.environ[f"AUTOTUNE_PYTHON_{name}"] if name else sys.executable
    options, ranks = (
        ((), 2) if name == "MPICH" else (CROWDED, 4)
    )  # it spins: more ranks than cores take minutes
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
    plain = suites.outcome(suite, sys.executable, 2, r"test_cco_buf\.py", switched=False)
    other = suites.outcome(suite, sys.executable, 2, r"test_cco_buf\.py", switched=True)
    assert other.calls > 1000
    assert (other.ran, other.failed) == (plain.ran, plain.failed)
    assert plain.ran > 50


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
    mca = [
        "--mca",
        "coll_tuned_use_dynamic_rules",
        "1",
        "--mca",
        "coll_tuned_dynamic_rules_filename",
        str(rules),
    ]
    learn = tmp_path / "site.json"
    code, document, said = tuned(
        "fast", "6000", options=[*CROWDED, *mca], verb=["--budget", "20%", "--learn", str(learn)]
    )
    assert code == ExitCode.WELL, said.err
    (cell,) = [one for one in document["cells"] if one["collective"] == "bcast"]
    assert cell["algorithm"] != "default"
    assert cell["speedup_95"][0] > 1.01
    assert document["saved_s"] > document["spent_s"]
    assert re.search(r"bcast of 64 KiB on 2 ranks: \w+ in place of the default, \d", said.out)
    assert [one["algorithm"] for one in json.loads(learn.read_text())["cells"]] == [cell["algorithm"]]
    assert "65536" in (tmp_path / "run-coll_tuned_rules.conf").read_text()
    # The next run begins with it: one candidate is checked, nothing else is tried.
    code, again, _ = tuned(
        "fast", "6000", options=[*CROWDED, *mca], verb=["--budget", "20%", "--learn", str(learn)]
    )
    assert code == ExitCode.WELL
    assert again["cells"][0]["algorithm"] == cell["algorithm"]


PHASES = ("begin", "try", "block", "settled", "end")


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("how", "phase"),
    [
        pytest.param(how, phase, marks=() if PHASES.index(phase) % 2 == (how == "kill") else pytest.mark.slow)
        for how in ("abort", "kill")
        for phase in PHASES
    ],
)
def test_an_untimely_end_in_any_phase_hangs_nobody_and_leaves_whole_files(how, phase, tuned, tmp_path):
    learn = tmp_path / "learn-run.json"
    learn.write_text(json.dumps({"format": "autotune-learned-1", "cells": []}))
    code, document, said = tuned(
        f"{how}@{phase}", verb=["--reductions", "--budget", "50%", "--learn", str(learn)]
    )
    assert code == ExitCode.FINDING
    assert f"ends in {phase}" in said.out
    assert "ended with exit code" in said.err
    assert document["ended"] == "killed"
    assert phase == "begin" or sum(one["calls"] for one in document["cells"]) > 0
    assert json.loads(learn.read_text())["format"] == "autotune-learned-1"
    assert {path.name for path in tmp_path.glob("*run*")} <= {
        "run.json",
        learn.name,
        "run-coll_tuned_rules.conf",
    }


@pytest.mark.mpi
def test_a_killed_driver_leaves_no_half_of_a_file_and_its_job_goes_on(tmp_path):
    out, said = tmp_path / "run.json", tmp_path / "said"
    verb = [
        sys.executable,
        "-m",
        "autotune",
        "run",
        "--reductions",
        "--budget",
        "50%",
        "--out",
        str(out),
        "--",
    ]
    argv = [*verb, launcher(), "-n", "2", *CROWDED, sys.executable, str(PROGRAM)]
    with said.open("wb") as file:
        driver = subprocess.Popen(
            argv, env=os.environ | ROOT, stdout=file, stderr=file, start_new_session=True
        )
        while not any("\ntry " in path.read_text() for path in tmp_path.glob(".run.json.*/run/*.run")):
            assert driver.poll() is None, said.read_text()
            time.sleep(0.05)
        driver.kill()
        driver.wait()
    while "all calls were right" not in said.read_text():
        time.sleep(0.1)  # pytest's own limit ends it
    assert not out.exists()


@pytest.mark.mpi
def test_with_threads_that_call_at_once_nothing_is_switched_and_that_is_said(tuned):
    code, document, said = tuned("threads", "fast", "10")
    assert code == ExitCode.WELL
    assert document["state"] == "threads"
    assert "nothing was switched: it uses MPI_THREAD_MULTIPLE" in said.out


@pytest.mark.mpi
def test_a_dry_run_switches_nothing_and_says_what_would_be_tried(tuned):
    code, document, said = tuned("fast", "300", verb=["--dry", "--budget", "50%"])
    assert code == ExitCode.WELL
    assert "algorithms would be tried" in said.out
    assert all(one["algorithm"] == "default" for one in document["cells"])
