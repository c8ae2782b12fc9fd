"""``run``: a program whose algorithms are switched while it runs does what it did, and gets faster."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.errors import ExitCode
from tests.integration.mpirun import CROWDED, ROOT, launcher

PROGRAM = Path(__file__).with_name("switched_calls.py")
SLOW_BCAST = "1\n7\n1\n2\n2\n0 0 0 0\n65536 3 0 64\n"
"""A rules file of coll_tuned: broadcasts from 64 KiB on by a pipeline of 1024 segments."""


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


@pytest.mark.mpi
@pytest.mark.parametrize("word", ["abort", "kill"])
def test_an_untimely_end_hangs_nobody_and_leaves_a_whole_document(word, tuned, tmp_path):
    code, document, said = tuned(word, verb=["--reductions", "--budget", "50%"])
    assert code == ExitCode.FINDING
    assert "ended with exit code" in said.err
    assert document["ended"] == "killed"
    assert sum(one["calls"] for one in document["cells"]) > 0
    assert [path.name for path in tmp_path.glob("*run*")] == ["run.json"]


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
