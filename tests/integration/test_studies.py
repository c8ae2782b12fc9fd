"""The five studies as scenarios: small budgets, on the simulated cluster or on this machine's MPI."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import autotune
from tests.schemas import answer

ROOT = Path(__file__).resolve().parents[2]
SIMULATED = ("hydra/launcher=simulated", "verify.enabled=false")


def ran(*words, cwd):
    done = autotune(*words, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def history(directory, cwd):
    return list(csv.DictReader(ran("history", directory, "--all", cwd=cwd).splitlines()))


@pytest.mark.slow
def test_screening_in_two_blocks_of_twelve_runs(tmp_path):
    words = ["cluster.nodes=4", "cluster.ppn=4", "sizes=[8,64k,1M]", "budget.launches=30", "proposer=random"]
    shown = ran("conf=study_screening", *SIMULATED, *words, cwd=tmp_path)
    rows = history("campaigns/study_screening", tmp_path)
    assert len({row["trial"] for row in rows if row["phase"] == "screening"}) == 24
    effects = [line for line in shown.splitlines() if line.startswith("UCX_TLS") and "→" in line]
    assert len(effects) == 2  # latency and bandwidth
    assert all(line.rstrip().endswith("*") for line in effects)
    ran("report", "campaigns/study_screening", cwd=tmp_path)
    assert "UCX_RNDV_THRESH_INTER" in (tmp_path / "campaigns/study_screening/report.html").read_text()


PROGRAM = """
import json, sys
its = dict(zip(sys.argv[1::2], sys.argv[2::2]))
slow = 1 + (its["--a"] == "high") + 0.5 * (its["--b"] == "high")
print(json.dumps({"latency_us": 10 * slow, "bandwidth": 5 / slow + (its["--c"] == "high")}))
"""


@pytest.mark.slow
def test_screening_of_any_program(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    lines = [f"  {name}: {{values: [low, high], default: low}}" for name in "abcdef"]
    (tmp_path / "space.yaml").write_text(
        "\n".join(["description: six settings", "parameters:", *lines]) + "\n"
    )
    shown = ran(
        *("conf=command", "space=space.yaml", f"probe.options.run=[{sys.executable},program.py]"),
        *(
            "responses.latency_us=min",
            "responses.bandwidth=max",
            "screening.runs=12",
            "screening.replicates=2",
        ),
        *("probe.max_samples=1", "budget.launches=28", "proposer=random", "verify.enabled=false"),
        cwd=tmp_path,
    )
    rows = history("campaigns/command", tmp_path)
    assert len({row["trial"] for row in rows if row["phase"] == "screening"}) == 24
    assert [line for line in shown.splitlines() if line.startswith("a ") and "low → high" in line]
    best = answer(ran("status", "campaigns/command", "--json", cwd=tmp_path))
    assert best["trials"] == {"ok": 28}


@pytest.mark.slow
def test_bcast_and_reduce_by_algorithm_go_into_a_model(tmp_path):
    words = ["cluster.comm_sizes=[2,4,8,16]", "cluster.ppn=8", "sizes=[8,256,8k,64k,1M]", "budget.launches=4"]
    ran("conf=study_bcast_reduce", *SIMULATED, *words, cwd=tmp_path)
    ran("history", "campaigns/study_bcast_reduce", "--all", "--out", "all.csv", cwd=tmp_path)
    document = answer(ran(
        *("model", "all.csv", "--response", "median_us", "--terms", "comm_size,message_bytes", "--json"),
        *("--log2", "median_us,message_bytes", "--where", "collective=bcast"),
        *("--where", "algorithm=binomial", "--where", "segsize=0", "--where", "mapping=block"),
        *("--plot", "model.html"),
        cwd=tmp_path,
    ))  # fmt: skip
    assert document["n"] % 20 == 0
    assert set(document["coefficients"]) == {"Intercept", "comm_size", "message_bytes"}
    assert document["loggp"]["form"] == "tree"
    assert document["loggp"]["better"]
    assert (tmp_path / "model.html").stat().st_size < 6 << 20
    assert "binomial" in ran("compare", "--winners", "campaigns/study_bcast_reduce", cwd=tmp_path)


def test_the_tuning_table_of_two_systems(tmp_path):
    words = ["cluster.ppn=4", "sizes=[8,64k]", "budget.launches=4", "cluster.nodes=1,2"]
    ran("-m", "conf=study_tuning_table", *SIMULATED, *words, cwd=tmp_path)
    campaigns = [str(path) for path in sorted((tmp_path / "campaigns/study_tuning_table").iterdir())]
    shown = ran("compare", "--winners", *campaigns, "--out", "t.csv", "--plot", "t.html", cwd=tmp_path)
    assert "1 node, 4 ranks" in shown
    assert "2 nodes, 8 ranks" in shown
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    slots = {(row["nodes"], row["collective"], row["message_bytes"]) for row in rows}
    assert len(rows) == len(slots) == 2 * 2 * 2
    assert all(float(row["gain_low"]) <= float(row["gain"]) <= float(row["gain_high"]) for row in rows)
    text = (tmp_path / "t.html").read_text()
    assert '"shape"' in text  # hatches
    assert (
        answer(ran("compare", "--winners", *campaigns, "--json", cwd=tmp_path))["rows"][0]["collective"]
        == "allreduce"
    )
    twice = autotune("compare", "--winners", campaigns[0], campaigns[0] + "/", cwd=tmp_path)
    assert twice.returncode == 0  # one campaign, named twice, contradicts nothing
    copied = tmp_path / "copy"
    subprocess.run(["cp", "-r", campaigns[0], copied], check=True)
    both = autotune("compare", "--winners", campaigns[0], str(copied), cwd=tmp_path)
    assert both.returncode == 2
    assert "both have allreduce of 8 B" in both.stderr
    assert autotune("compare", "--winners", "nowhere", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("proposer", ["staged", pytest.param("curve", marks=pytest.mark.slow)])
def test_ucx_on_nodes_by_stages_and_by_model(proposer, tmp_path):
    words = ["cluster.nodes=2", "cluster.ppn=2", "sizes=[4k,1M]", "budget.launches=8", f"proposer={proposer}"]
    shown = ran("conf=study_ucx_nodes", *SIMULATED, *words, cwd=tmp_path)
    rows = history("campaigns/study_ucx_nodes", tmp_path)
    searched = [row for row in rows if row["phase"] == "search"]
    assert len({row["trial"] for row in searched}) == 6  # of eight launches two are of the default
    if proposer == "staged":  # the first stage holds everything but transport and rendezvous
        assert {row["UCX_ZCOPY_THRESH"] for row in searched} == {"auto"}
        assert len({row["UCX_RNDV_THRESH_INTER"] for row in searched}) > 2
    assert "all of this is SIMULATED" in shown


@pytest.mark.mpi
@pytest.mark.slow
def test_one_at_a_time_on_this_machine(tmp_path):
    words = ["budget.launches=6", "verify.launches=4", "verify.max_failures=1", "sizes=[8,64k]"]
    words += ["probe.budget_s=0.5", "cluster.ranks=2"]
    ran("conf=study_one_at_a_time", *words, cwd=tmp_path)
    rows = history("campaigns/study_one_at_a_time", tmp_path)
    points = {row["trial"]: row for row in rows if row["phase"] == "search"}
    assert len(points) >= 3
    compared = answer(ran("compare", "campaigns/study_one_at_a_time", "--json", cwd=tmp_path))
    made = {row["trial"] for row in rows}  # where nothing seems better, nothing is verified
    assert compared["campaigns"][0]["launches"] == len(made) >= 6
