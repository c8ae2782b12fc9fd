"""``diagnose`` on programs of different kinds: the sentence comes out right, and the bound holds."""

import json
import sys
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.errors import ExitCode
from tests.integration.mpirun import ROOT, launcher

PROGRAM = Path(__file__).parents[1] / "data" / "applications" / "diagnosed.py"
PLANTED = """
coll_tuned_use_dynamic_rules = 1
coll_tuned_allreduce_algorithm = 5
coll_tuned_allreduce_algorithm_segmentsize = 8
"""
"""A site's file that makes each allreduce send eight bytes at a time."""
ALGORITHMS = PROGRAM.with_name("algorithms.yaml")

pytestmark = pytest.mark.mpi


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    for name, value in ROOT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def application(kind, *words, ranks=2):
    return [launcher(), "-n", str(ranks), sys.executable, str(PROGRAM), kind, *words]


def diagnosed(kind, *words, options=("--seconds", "0"), capfd=None):
    assert main(["diagnose", "--json", *options, "--", *application(kind, *words)]) == ExitCode.WELL
    return json.loads(capfd.readouterr().out)


@pytest.mark.parametrize("late", ["0", "1"])
def test_a_rank_that_computes_longer_is_named(late, capfd):
    found = diagnosed("imbalance", "150", late, capfd=capfd)
    first = found["losses"][0]
    assert (first["name"], first["waiting"], first["late"]["pattern"]) == ("allreduce", True, "same")
    assert first["late"]["ranks"][0]["rank"] == int(late)
    assert f"waiting in allreduce because rank {late} is late (imbalance, not MPI)" in found["sentence"]


@pytest.mark.parametrize(
    ("kind", "family", "said"),
    [
        ("halo", "point-to-point", "point-to-point (Waitall, I"),
        ("files", "files", "in MPI-IO (File_write_at_all of 4 MiB)"),
        ("one_sided", "one-sided", "one-sided ("),
    ],
)
def test_time_outside_of_collectives_is_named(kind, family, said, capfd):
    found = diagnosed(kind, capfd=capfd)
    assert found["losses"][0]["family"] == family
    assert said in found["sentence"]
    assert 0 < found["most"] <= 1 or family == "files"


def test_a_program_that_hardly_communicates_is_left_alone(capfd):
    found = diagnosed("compute", capfd=capfd)
    assert found["verdict"] == "do not bother" or found["win"] is None
    assert main(["report", "calls.json"]) == ExitCode.WELL
    assert found["sentence"].split(".")[0].replace("'", "&#39;") in Path("calls.html").read_text()


def test_a_planted_slow_default_is_worth_tuning(place, monkeypatch, capfd):
    """Few launches tell that a campaign wins, with an interval that excludes nothing."""
    planted = place / "site.conf"
    planted.write_text(PLANTED)
    monkeypatch.setenv("OMPI_MCA_mca_base_param_files", str(planted))
    few = ("--seconds", "15", "--set", "probe.budget_s=0.5", "--set", f"space={ALGORITHMS}")
    found = diagnosed("sums", options=few, capfd=capfd)
    assert found["verdict"] == "tune", found["sentence"]
    assert found["losses"][0]["times"] > 2
    share, low, high = found["win"]
    assert 0 < low < share < high < 1
