"""``guard`` on real MPIs: what was kept is checked as it is, after upgrades, and after planted losses."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from autotune.exporters.install import merged
from autotune.exporters.origin import commented, remarks
from autotune.exporters.site import site_tree
from autotune.exporters.writing import write_files
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Gain, Provenance, Recommendation
from autotune.space import Point
from tests.integration.mpirun import ROOT, launcher

UCX = (
    ("OMPI_MCA_pml", "ucx"),
    ("OMPI_MCA_opal_common_ucx_tls", "any"),
    ("OMPI_MCA_opal_common_ucx_devices", "any"),
    ("UCX_TLS", "self,posix"),
)
SIZES = (8, 65536)


def autotune(*words, env=None):
    """A command with the MPI of these tests."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "UCX_", "AUTOTUNE_GUARD"))}
    done = subprocess.run(
        [sys.executable, "-m", "autotune", *map(str, words)],
        capture_output=True,
        text=True,
        env={**clean, **ROOT, "PATH": f"{Path(launcher()).parent}:{clean['PATH']}", **(env or {})},
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def here(mpirun):
    """The version that a launcher says, with the UCX that it brings."""
    code = (
        "import sys; from autotune.stacks.installation import find; from autotune.stacks.ucx import detect; "
        "i = find(sys.argv[1]); u = detect(i.library); print(i.version, u.version if u else '')"
    )
    told = subprocess.run([sys.executable, "-c", code, mpirun], capture_output=True, text=True, check=True)
    return told.stdout.split()


def prefix(folder, mpirun, algorithm="recursive_doubling"):
    """A site's tree, exported for an MPI; no campaign ever ran for it."""
    version, ucx = here(mpirun)
    rules = (
        Rule("allreduce", 2, 0, Point()),
        Rule("allreduce", 2, 1024, Point.of({"algorithm": algorithm})),
    )
    gains = tuple(Gain(("allreduce", 2, size), 1e-6, 1e-8, 1.2e-6, 1e-8) for size in SIZES)
    source = Provenance(
        "night", "2026-11-01", f"Open MPI {version}, UCX {ucx}, pml ucx", 1, 2, env=UCX, family="openmpi"
    )
    write_files(site_tree(Recommendation(Point(), rules, gains, source), folder, "").files, parents=True)
    return folder


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A prefix that was kept, with a block of launches."""
    folder = prefix(tmp_path_factory.mktemp("site") / "it's tuned", launcher())
    done = autotune("guard", "keep", folder, "--minutes", "0.1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "proved on fresh launches" in done.stdout
    return folder


@pytest.mark.mpi
def test_the_same_is_the_same_in_seconds(kept, tmp_path):
    out = {name: tmp_path / name for name in ("junit", "metrics", "motd")}
    words = [word for name, path in out.items() for word in (f"--{name}", path)]
    done = autotune("guard", "check", kept, "--quick", *words)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("in effect as on ")
    assert ElementTree.parse(out["junit"]).getroot().get("failures") == "0"  # noqa: S314 - our own
    assert "autotune_guard_code 0" in out["metrics"].read_text()
    assert out["motd"].read_text().startswith("MPI settings: in effect")
    by_variable = autotune("guard", "check", "--quick", "--json", env={"AUTOTUNE_GUARD": str(kept)})
    assert json.loads(by_variable.stdout)["changes"] == []


@pytest.mark.mpi
def test_the_first_nights_say_what_would_tell_and_stand_in_the_history(kept, tmp_path):
    done = autotune("guard", "check", kept, "--minutes", "0.1", "--json", "--to", tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert re.search("resolves? ", told["headline"])
    assert [(slot["collective"], slot["bytes"]) for slot in told["slots"]] == [
        ("allreduce", n) for n in SIZES
    ]
    rows = json.loads(autotune("guard", "history", kept, "--to", tmp_path, "--json").stdout)
    assert rows[0]["kept"]
    assert [row["code"] for row in rows][-1] == 3
    assert rows[-1]["launches"] >= 8


@pytest.mark.mpi
def test_rules_that_were_damaged_are_not_in_force(kept):
    rules = next(kept.glob("openmpi-*/coll_tuned_rules.conf"))
    text = rules.read_text()
    try:
        rules.write_text("gone\n")
        done = autotune("guard", "check", kept, "--quick")
    finally:
        rules.write_text(text)
    assert done.returncode == 1
    assert done.stdout.startswith("not in effect")
    assert f"{rules} was edited" in done.stdout


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """Kept settings with a planted loss: a ring in messages of 64 bytes, at the larger size alone."""
    folder = prefix(tmp_path_factory.mktemp("slow"), launcher(), "segmented_ring")
    rules = next(folder.glob("openmpi-*/coll_tuned_rules.conf"))
    text = rules.read_text()
    planted = re.sub(r"(?m)^(1024 5 \d+) 0\b.*$", r"\1 64", text)
    assert planted != text
    rules.write_text(planted)
    assert autotune("guard", "keep", folder, "--minutes", "0").returncode == 0
    return folder


@pytest.mark.mpi
@pytest.mark.slow  # verifications of minutes
def test_a_planted_loss_at_one_size_is_named_and_its_command_tunes_it_alone(slow, tmp_path):
    done = autotune("guard", "check", slow, "--minutes", "4", "--json", "--to", tmp_path)
    told = json.loads(done.stdout)
    assert done.returncode == 1, done.stdout + done.stderr
    assert {one["bytes"] for one in told["found"]} == {65536}
    words = shlex.split(told["tune_again"])
    composed = autotune(*words[3:], "--cfg", "job")
    assert composed.returncode == 0, composed.stderr
    assert "sizes:\n- 65536\n" in composed.stdout
    assert "collective:\n- allreduce\n" in composed.stdout


@pytest.mark.mpi
@pytest.mark.slow  # verifications of minutes
def test_bisection_names_the_settings_that_cost_the_time(slow):
    tree = next(slow.glob("openmpi-*"))
    a, b = f"mpi={launcher()}", f"mpi={launcher()},settings={tree}"
    done = autotune("guard", "bisect", a, b, "sizes=[8,64k]", "cluster.ranks=2", "--blocks", "3", "--json")
    (document,) = json.loads(done.stdout)
    assert done.returncode == 1, done.stdout + done.stderr
    assert document["slower"] == [["allreduce", 2, 65536]]
    assert document["part"] == "settings"


@pytest.mark.mpi
def test_lint_and_doctor_warn_of_files_of_another_version(tmp_path):
    parameters = tmp_path / ".openmpi" / "mca-params.conf"
    parameters.parent.mkdir()
    heading = commented(
        remarks(Recommendation(Point(), (), provenance=Provenance(stack="Open MPI 5.0.1, UCX 1.18.0")))
    )
    parameters.write_bytes(merged(None, "\n".join((*heading, "pml = ob1", ""))))
    said = "measured on Open MPI 5.0.1, and "
    assert said in autotune("lint", parameters).stderr
    document = json.loads(autotune("doctor", "--json", env={"HOME": str(tmp_path)}).stdout)
    assert document["findings"][str(parameters)].startswith(said)


@pytest.mark.mpi
def test_reframe_makes_the_check_and_reads_the_times(kept, tmp_path):
    test = kept / "guard" / "autotune_guard_reframe.py"
    words = [
        "-c",
        test,
        "-r",
        "-S",
        "minutes=0.1",
        "--prefix",
        tmp_path,
        "--report-file",
        tmp_path / "report.json",
    ]
    reframe = Path(sys.executable).with_name("reframe")
    path = f"{Path(launcher()).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [reframe, *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **ROOT, "PATH": path, "HOME": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = json.loads((tmp_path / "report.json").read_text())["runs"]
    (case,) = run["testcases"]
    figures = [name for name in case["perfvalues"] if "allreduce_2_" in name]
    assert len(figures) == len(SIZES)


@pytest.mark.mpi
def test_what_was_not_kept_and_what_is_no_settings_is_one_message(tmp_path):
    for words, said in (
        (("check", tmp_path), "was not kept"),
        (("history", tmp_path), "was not kept"),
        (("keep", tmp_path), "holds no settings to keep"),
        (("bisect", launcher(), launcher()), "both environments are the same"),
        (("bisect", launcher(), f"libc={launcher()}"), "no part of an environment"),
        (("bisect", launcher(), tmp_path / "none"), "is not there"),
    ):
        done = autotune("guard", *words)
        assert done.returncode == 2
        assert said in done.stderr


UPGRADES = {
    "openmpi41": ("AUTOTUNE_PYTHON_OPENMPI41", pytest.mark.mpi41),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=mark) for name, (_, mark) in UPGRADES.items()])
def test_after_another_version_it_is_named_and_not_in_effect(tmp_path, name):
    python = os.environ.get(UPGRADES[name][0])
    if not python:
        pytest.skip(f"{UPGRADES[name][0]} names no interpreter (make mpi-test)")
    other = launcher(python)
    folder = prefix(tmp_path / "site", other)
    kept = autotune("guard", "keep", folder, "--minutes", "0", "--mpirun", other)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    same = autotune("guard", "check", folder, "--quick")  # the launcher it was kept with, whatever PATH says
    assert (same.returncode, same.stdout.startswith("in effect as on")) == (0, True), same.stdout
    done = autotune("guard", "check", folder, "--quick", "--mpirun", launcher())
    assert done.returncode == 1, done.stdout
    (was, ucx_was), (now, ucx_now) = here(other), here(launcher())
    assert f"Open MPI: {was} → {now}" in done.stdout
    assert f"UCX: {ucx_was} → {ucx_now}" in done.stdout
    assert f"not in effect: the files hold for Open MPI {was}" in done.stdout
    # The old one is still there: both in turn.
    both = autotune("guard", "check", folder, "--minutes", "0.3", "--mpirun", launcher())
    assert "launches in turn" in both.stdout
    assert "SLOWER" not in both.stdout
