"""``diagnose`` on programs of different kinds: the sentence comes out right, and the bound holds."""

import shutil
import sys
from pathlib import Path

import pytest

import autotune
from autotune.cli import main
from autotune.errors import CampaignError, ExitCode
from tests.integration.mpirun import launcher
from tests.schemas import answer

PROGRAM = Path(__file__).parents[1] / "data" / "applications" / "diagnosed.py"
ALGORITHMS = PROGRAM.with_name("algorithms.yaml")
RECORDED = PROGRAM.parents[1] / "recordings" / "calls.json"

pytestmark = pytest.mark.mpi


@pytest.fixture(autouse=True)
def place(tmp_path, as_root, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def application(kind, *words, ranks=2):
    return [launcher(), "-n", str(ranks), sys.executable, str(PROGRAM), kind, *words]


def diagnosed(kind, *words, options=("--seconds", "0"), capfd=None):
    assert main(["diagnose", "--json", *options, "--", *application(kind, *words)]) == ExitCode.WELL
    return answer(capfd.readouterr().out)


@pytest.mark.parametrize("late", ["0", "1"])
def test_a_rank_that_computes_longer_is_named(late, capfd):
    found = diagnosed("imbalance", "150", late, capfd=capfd)
    first = found["losses"][0]
    assert (first["name"], first["waiting"], first["late"]["pattern"]) == ("allreduce", True, "same")
    assert first["late"]["ranks"][0]["rank"] == int(late)
    assert f"waiting in allreduce because rank {late} is late (imbalance, not MPI)" in found["sentence"]


def test_imbalance_that_moves_is_not_taken_for_noise(capfd):
    found = diagnosed("rotating", capfd=capfd)
    first = found["losses"][0]
    assert (first["name"], first["waiting"], first["late"]["pattern"]) == ("allreduce", True, "wandering")
    assert first["late"]["outside"] > 0.1  # it is known of each call, however much of it other load takes
    assert "(noise, not MPI)" not in found["sentence"]


def test_datatypes_of_the_programs_own_are_counted(capfd):
    (first,) = (one for one in diagnosed("derived", capfd=capfd)["losses"] if one["name"] == "sendrecv")
    assert first["derived"] == 0.75


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
    # Nothing is known of what settings win; of files they win nothing, elsewhere at most all of MPI's time.
    tunable = sum(one["seconds"] if one["touched"] else one["unexplained_s"] for one in found["losses"])
    assert found["most"] == pytest.approx(min(tunable / found["run_s"], 1.0))
    assert found["verdict"] in ("not measured", "do not bother") if family == "files" else ("not measured",)


def test_a_program_that_hardly_communicates_is_left_alone(capfd):
    found = diagnosed("compute", capfd=capfd)
    assert (found["verdict"], found["win"]) == ("do not bother", None), found["sentence"]
    assert found["most"] < 0.01
    assert "do not bother" in found["sentence"]
    assert main(["report", "calls.json"]) == ExitCode.WELL
    assert found["sentence"].split(".")[0].replace("'", "&#39;") in Path("calls.html").read_text()


def planted(place, monkeypatch):
    """A site's rules that make each allreduce send a double at a time, in force by its parameter file.

    Rules, since Open MPI 5 would take an algorithm that is forced before the rules of anybody else.
    """
    rules, site = place / "site.rules", place / "site.conf"
    rules.write_text("1\n2\n1\n2\n1\n0 5 0 8\n")  # allreduce from 2 ranks and 0 bytes on: segmented ring
    site.write_text(f"coll_tuned_use_dynamic_rules = 1\ncoll_tuned_dynamic_rules_filename = {rules}\n")
    monkeypatch.setenv("OMPI_MCA_mca_base_param_files", str(site))


@pytest.mark.slow
def test_settings_of_ones_own_are_tried_and_a_planted_slow_default_is_seen(place, monkeypatch, capfd):
    """A file that takes the site's away: what is planted takes a hundred times as long as without."""
    planted(place, monkeypatch)
    mine = place / "my own.conf"
    mine.write_text("coll_tuned_use_dynamic_rules = 0\n")
    recorded = diagnosed("sums", capfd=capfd)
    assert (recorded["verdict"], recorded["floor"]) == ("not measured", None)
    keys = ("probe.budget_s=0.5", f"space={ALGORITHMS}", f"mpi.mpirun={launcher()}")
    few = ("--seconds", "8", *(word for key in keys for word in ("--set", key)))
    assert main(["diagnose", "calls.json", "--json", "--conf", str(mine), *few]) == ExitCode.WELL
    found = answer(capfd.readouterr().out)
    assert found["losses"][0]["times"] > 2, found["sentence"]
    assert found["verdict"] == "tune"
    assert str(mine) in found["floor"]["settings"]
    assert "" not in {
        best
        for best, gain in zip(found["floor"]["best"], found["floor"]["gains"], strict=True)
        if gain["slot"][0] == "allreduce"
    }
    share, low, high = found["win"]
    assert 0 < low <= share <= high < 1


def test_python_gives_what_the_commands_print(capfd):
    recorded = autotune.record(*application("compute"))
    found = autotune.diagnose("calls.json", seconds=0)
    assert main(["diagnose", "calls.json", "--seconds", "0", "--json"]) == ExitCode.WELL
    told = answer(capfd.readouterr().out)
    assert recorded.run_s == found.run_s == told["run_s"]
    assert (found.verdict, found.most, len(found.losses)) == (
        told["verdict"],
        told["most"],
        len(told["losses"]),
    )


FAILING = "import sys; from mpi4py import MPI; MPI.COMM_WORLD.Barrier(); MPI.Finalize(); sys.exit(3)"


def test_an_application_that_fails_is_told_so_and_what_came_before_is_diagnosed(capfd):
    argv = [launcher(), "-n", "1", sys.executable, "-c", FAILING]
    assert main(["diagnose", "--seconds", "0", "--", *argv]) == ExitCode.FINDING
    said = capfd.readouterr()
    assert "Your job spends" in said.out
    assert "ended with exit code 3" in said.err
    with pytest.raises(CampaignError, match="did not end well"):
        autotune.diagnose(*argv, seconds=0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.json"], "nowhere.json"),
        ([], "nothing to diagnose"),
        (["calls.json", "--seconds", "-1"], "--seconds"),
        (["calls.json", "--seconds", "nan"], "--seconds"),
        (["calls.json", "--conf", "nowhere.conf"], "nowhere.conf"),
        (["calls.json", "--conf", "empty.conf"], "nothing is set there"),
        (["calls.json", "--conf", "a.yaml", "--conf", "b.yaml"], "two search spaces"),
        (["--conf", "nowhere.conf", "--", "touch", "ran"], "nowhere.conf"),  # it is not run before
        (["--conf", "nowhere.yaml", "--", "touch", "ran"], "nowhere.yaml"),
        (["calls.json", "--set", "probe.budgt_s=1"], "budgt"),
        (["folder.json"], "folder.json"),
        (["other.json"], "other.json"),
    ],
)
def test_wrong_words_are_one_message(place, words, said, capfd):
    shutil.copy(RECORDED, "calls.json")
    Path("empty.conf").touch()
    Path("folder.json").mkdir()
    Path("other.json").write_text('{"format": "autotune floor 1"}')
    for name in "ab":
        shutil.copy(ALGORITHMS, f"{name}.yaml")
    before = sorted(place.iterdir())
    assert main(["diagnose", *words]) == ExitCode.MISTAKE
    told = capfd.readouterr()
    assert said in told.err
    assert "Traceback" not in told.err
    assert (told.out, sorted(place.iterdir())) == ("", before)
