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
from autotune.exporters.prefix import site_tree
from autotune.exporters.writing import write_files
from autotune.guard.place import launching
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Gain, Provenance, Recommendation
from autotune.space import Point
from autotune.views.text import own_line
from tests.integration.mpirun import ROOT, launcher, python_of
from tests.program import ran
from tests.schemas import answer

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
    done = ran(
        [sys.executable, "-m", "autotune", *map(str, words)],
        env={**clean, **ROOT, "PATH": f"{Path(launcher()).parent}:{clean['PATH']}", **(env or {})},
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert not re.search(r"\bnan\b", done.stdout), done.stdout
    return done


def here(mpirun):
    """The version that a launcher says, with the UCX that it brings."""
    code = (
        "import sys; from autotune.stacks.installation import find; from autotune.stacks.ucx import detect; "
        "i = find(sys.argv[1]); u = detect(i.library); print(i.version, u.version if u else '')"
    )
    told = ran([sys.executable, "-c", code, mpirun], check=True)
    return told.stdout.split()


def prefix(folder, mpirun, algorithm="recursive_doubling"):
    """A site's tree, exported for an MPI; no campaign ever ran for it."""
    version, ucx = here(mpirun)
    rules = (Rule("allreduce", 2, 0, Point()), Rule("allreduce", 2, 1024, Point.of({"algorithm": algorithm})))
    gains = tuple(Gain(("allreduce", 2, size), 1e-6, 1e-8, 1.2e-6, 1e-8) for size in SIZES)
    source = Provenance(
        "night",
        "2026-11-01",
        f"Open MPI {version}, UCX {ucx}, pml ucx",
        1,
        2,
        env=UCX,
        family="openmpi",
        commutative=True,
    )
    write_files(site_tree(Recommendation(Point(), rules, gains, source), folder, "").files, parents=True)
    return folder


CRON = {"HOME": "/nonexistent", "LOGNAME": "x", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
"""What cron gives a command, on Debian."""


def of_the_page(folder):
    """Both commands of the page that lead to a nightly check, for a prefix in a folder."""
    page = (Path(__file__).parents[2] / "docs" / "guard.md").read_text()
    commands = re.search(r"```bash\n(.*?)```", page, re.DOTALL)[1]
    for place in ("/opt/tuned", "/etc/motd.d", "/var/lib/node_exporter"):
        assert place in commands
        commands = commands.replace(place, shlex.quote(f"{folder}{place}"))
    keep, nightly = commands.splitlines()
    return keep, nightly


def sh(command, env):
    return ran(["/bin/sh", "-ec", command], stdin=subprocess.DEVNULL, env=env, cwd="/")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A prefix that was kept by the first command of the page, without its launches."""
    above = tmp_path_factory.mktemp("all of a site")
    folder = prefix(above / "opt" / "tuned", launcher())
    keep, _ = of_the_page(above)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = sh(f"cd /tmp; {keep} --minutes 0", {**CRON, "HOME": str(Path.home()), "PATH": path})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "files in effect on fresh launches" in done.stdout
    return folder


@pytest.mark.mpi
def test_the_second_command_of_the_page_is_a_line_of_cron_that_runs_without_a_home_too(kept, tmp_path):
    _, install = of_the_page(kept.parents[1])
    crontab, table = tmp_path / "bin" / "crontab", tmp_path / "table"
    crontab.parent.mkdir()
    crontab.write_text(
        f'#!/bin/sh\n[ "$1" = -l ] && exec cat {table}\ncat >{table}.new && mv {table}.new {table}\n'
    )
    crontab.chmod(0o755)
    table.write_text("0 5 * * 1 true\n")
    path = f"{crontab.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = sh(install, {**CRON, "PATH": path})
    assert done.returncode == 0, done.stdout + done.stderr
    before, line = table.read_text().splitlines()
    assert before == "0 5 * * 1 true"
    *when, nightly = line.split(" ", 5)
    assert when == ["20", "2", "*", "*", "*"]
    assert "%" not in nightly  # cron would end the command there
    junit = tmp_path / "junit.xml"
    done = sh(f"{nightly} --quick --junit {junit} --json", {"PATH": CRON["PATH"]})
    assert done.returncode == 0, done.stdout + done.stderr
    report = answer(done.stdout)
    assert report["changes"] == []
    assert report["headline"].startswith("in effect as on ")
    above = kept.parents[1]
    assert ElementTree.parse(junit).getroot().get("failures") == "0"  # noqa: S314 - our own
    assert (above / "etc/motd.d/mpi").read_text().startswith("MPI settings: in effect")
    assert "autotune_guard_code 0" in (above / "var/lib/node_exporter/mpi.prom").read_text()


@pytest.mark.mpi
def test_the_same_is_the_same_in_seconds(kept, tmp_path):
    out = {name: tmp_path / name for name in ("junit", "metrics", "motd")}
    words = [word for name, path in out.items() for word in (f"--{name}", path)]
    done = autotune("guard", "check", "--quick", "--json", *words, env={"AUTOTUNE_GUARD": str(kept)})
    assert done.returncode == 0, done.stdout
    # It was kept in an environment like cron's, and this one sets a parameter.
    assert [one["text"] for one in answer(done.stdout)["changes"]] == ["environment: new: OMPI_MCA_btl"]
    assert ElementTree.parse(out["junit"]).getroot().get("failures") == "0"  # noqa: S314 - our own
    assert "autotune_guard_code 0" in out["metrics"].read_text()
    assert out["motd"].read_text().startswith("MPI settings: in effect")


@pytest.mark.mpi
def test_transports_that_a_variable_hides_are_still_there(kept):
    env = {"AUTOTUNE_GUARD": str(kept), "UCX_TLS": "tcp,self"}
    done = autotune("guard", "check", "--quick", "--json", env=env)
    assert [one["text"] for one in answer(done.stdout)["changes"]] == [
        "environment: new: OMPI_MCA_btl, UCX_TLS"
    ]


@pytest.mark.mpi
def test_what_is_kept_holds_no_secret_and_a_check_takes_it_from_the_environment(tmp_path):
    folder, value = prefix(tmp_path / "opt", launcher()), "s3cr3t"
    words = ("mpi.env.API_TOKEN", "mpi.mca.my_password")
    done = autotune("guard", "keep", folder, "--minutes", "0", *(f"{word}={value}" for word in words))
    assert done.returncode == 0, done.stderr
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if value.encode() in path.read_bytes()]
    without = autotune("guard", "check", folder, "--quick")
    assert without.returncode == 2
    assert "is a secret by its name, and no file keeps its value" in without.stderr
    given = {"API_TOKEN": value, "OMPI_MCA_my_password": value}
    assert autotune("guard", "check", folder, "--quick", env=given).returncode == 0
    other = autotune("guard", "check", folder, "--quick", env={**given, "API_TOKEN": "another"})
    assert "mpi.env.API_TOKEN is not what it was" in other.stderr


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
    """Kept settings and, planted later, a ring in messages of 64 bytes, at the larger size alone."""
    folder = prefix(tmp_path_factory.mktemp("slow"), launcher(), "segmented_ring")
    assert autotune("guard", "keep", folder, "--minutes", "0").returncode == 0
    rules = next(folder.glob("openmpi-*/coll_tuned_rules.conf"))
    text = rules.read_text()
    planted = re.sub(r"(?m)^(1024 5 \d+) 0\b.*$", r"\1 64", text)
    assert planted != text
    rules.write_text(planted)
    return folder


@pytest.mark.mpi
@pytest.mark.slow  # verifications of minutes
def test_a_planted_loss_at_one_size_is_named_and_its_command_tunes_it_alone(slow, tmp_path):
    done = autotune("guard", "check", slow, "--minutes", "4", "--json", "--to", tmp_path)
    told = answer(done.stdout)
    assert done.returncode == 1, done.stdout + done.stderr
    assert {one["bytes"] for one in told["found"]} == {65536}
    assert "was edited" in told["not_in_effect"][0]
    words = shlex.split(told["tune_again"])
    composed = autotune(*words[3:], "--cfg", "job")
    assert composed.returncode == 0, composed.stderr
    assert "sizes:\n- 65536\n" in composed.stdout
    assert "collective:\n- allreduce\n" in composed.stdout


@pytest.fixture
def at_home(tmp_path):
    """A home of the test's own, and settings that leave the algorithms to the library."""
    (tmp_path / "home" / ".openmpi").mkdir(parents=True)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    version, ucx = here(launcher())
    gains = tuple(Gain(("allreduce", 2, size), 1e-6, 1e-8, 1.2e-6, 1e-8) for size in SIZES)
    stack = f"Open MPI {version}, UCX {ucx}, pml ucx"
    source = Provenance("night", "2026-11-01", stack, 1, 2, env=UCX, family="openmpi")
    files = site_tree(Recommendation(Point(), (), gains, source), tmp_path / "site", "").files
    write_files(files, parents=True)
    return tmp_path, {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": cache}


@pytest.mark.mpi
@pytest.mark.slow  # a night and two checks
@pytest.mark.timeout(600)
def test_a_night_is_kept_and_a_parameter_file_that_makes_calls_slower_is_found_on_the_same_day(at_home):
    """By ReFrame beside a variable that changes nothing, and beside a file that takes thrice the time."""
    folder, env = at_home
    site, parameters = folder / "site", folder / "home" / ".openmpi" / "mca-params.conf"
    parameters.write_text("# nothing\n")
    done = autotune("guard", "keep", site, "--minutes", "2", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the settings beside themselves: typical calls at most" in done.stdout
    private = site / "guard" / "private.json"
    assert private.stat().st_mode & 0o077 == 0
    test, report = site / "guard" / "autotune_guard_reframe.py", folder / "report.json"
    reframe = Path(sys.executable).with_name("reframe")
    words = [reframe, "-c", test, "-r", "-S", "minutes=2", "--prefix", folder, "--report-file", report]
    path = f"{Path(launcher()).parent}:{os.environ['PATH']}"
    hidden = {**os.environ, **ROOT, "PATH": path, **env, "UCX_TLS": "tcp,self"}
    done = ran(words, cwd=folder, env=hidden)
    assert done.returncode == 0, done.stdout + done.stderr  # the settings name the transports themselves
    (case,) = json.loads(report.read_text())["runs"][0]["testcases"]
    assert len([name for name in case["perfvalues"] if "allreduce_2_" in name]) == len(SIZES)
    rows = answer(autotune("guard", "history", site, "--json").stdout)["nights"]
    assert rows[0]["kept"]
    assert rows[-1]["code"] in (0, 3)  # beside other work a loss of 10 % may stay possible
    assert rows[-1]["launches"] >= 8
    parameters.write_text(
        "coll_tuned_use_dynamic_rules = 1\n"
        "coll_tuned_allreduce_algorithm = 5\ncoll_tuned_allreduce_algorithm_segmentsize = 64\n"
    )
    done = autotune("guard", "check", site, "--minutes", "2", "--json", env=env)
    slower = answer(done.stdout)
    assert done.returncode == 1, done.stdout + done.stderr
    assert {"collective": "allreduce", "ranks": 2, "bytes": 65536} in slower["beside"]["slower"]
    assert [one["text"] for one in slower["changes"]] == [f"{parameters} was edited"]
    assert "64 KiB: slower than as kept" in slower["headline"]
    next(site.glob("openmpi-*/*.sh")).unlink()
    done = ran(words, cwd=folder, env=hidden)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "slower, or not in effect" in done.stdout


@pytest.fixture(params=["of the tests", pytest.param("of its own", marks=pytest.mark.slow)])
def reframe(request, tmp_path):
    """ReFrame in the environment of these tests, and newly installed into an environment of its own."""
    if request.param == "of the tests":
        return Path(sys.executable).with_name("reframe")
    ran([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    pip = [tmp_path / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", "ReFrame-HPC>=4.8,<5"]
    done = ran(pip)
    assert done.returncode == 0, done.stdout + done.stderr
    return tmp_path / "venv" / "bin" / "reframe"


@pytest.mark.mpi
@pytest.mark.timeout(900)  # the second ReFrame is installed
def test_the_recipe_for_reframe_checks_files_and_a_prefix(reframe, tmp_path):
    """Both hold; then a file has a line that is ignored, and a rules file is gone."""
    folder = prefix(tmp_path / "site", launcher())
    assert autotune("guard", "keep", folder, "--minutes", "0").returncode == 0
    (program := tmp_path / "autotune").write_text(f'#!/bin/sh\nexec {sys.executable} -m autotune "$@"\n')
    program.chmod(0o755)
    (parameters := tmp_path / "mca-params.conf").write_text("pml = ucx\n")
    recipe, report = (
        Path(__file__).parents[2] / "docs" / "recipes" / "reframe_checks.py",
        tmp_path / "report.json",
    )
    values = {"program": program, "AutotuneLint.files": parameters, "AutotuneGuard.kept": folder}
    words = [reframe, "-c", recipe, "-r", "--prefix", tmp_path, "--report-file", report]
    words += [word for name, value in values.items() for word in ("-S", f"{name}={value}")]
    env = {**os.environ, **ROOT, "PATH": f"{Path(launcher()).parent}:{os.environ['PATH']}"}
    done = ran(words, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = json.loads(report.read_text())["runs"][0]["testcases"]
    assert {case["name"]: case["result"] for case in cases} == {
        "AutotuneLint": "pass",
        "AutotuneGuard": "pass",
    }
    parameters.write_text("OMPI_MCA_pml = ucx\n")
    next(folder.glob("openmpi-*/coll_tuned_rules.conf")).unlink()
    done = ran(words, cwd=tmp_path, env=env)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "MPI203 OMPI_MCA_pml" in done.stdout
    assert "not in effect" in done.stdout
    done = ran([*words[:4], "--prefix", tmp_path], cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr  # without names both are skipped
    assert "Ran 0/0 test case(s)" in done.stdout


@pytest.mark.mpi
@pytest.mark.slow  # verifications of minutes
def test_bisection_names_the_settings_that_cost_the_time(slow):
    tree = next(slow.glob("openmpi-*"))
    a, b = f"mpi={launcher()}", f"mpi={launcher()},settings={tree}"
    done = autotune("guard", "bisect", a, b, "sizes=[8,64k]", "cluster.ranks=2", "--blocks", "3", "--json")
    (document,) = answer(done.stdout)["comparisons"]
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
    document = answer(autotune("doctor", "--json", env={"HOME": str(tmp_path)}).stdout)
    assert document["findings"][str(parameters)].startswith(said)


@pytest.mark.mpi
def test_what_was_not_kept_and_what_is_no_settings_is_one_message(tmp_path):
    damaged = prefix(tmp_path / "a site", launcher())
    text = next(damaged.glob("openmpi-*/recommendation.json"))
    text.write_text(text.read_text()[:300])
    for words, said in (
        (("check", tmp_path), "was not kept"),
        (("check", damaged), f"first: {own_line('guard', 'keep', str(damaged))}"),
        (("keep", damaged), "not JSON"),
        (("history", tmp_path), "was not kept"),
        (("keep", tmp_path), "holds no settings to keep"),
        (("bisect", launcher(), launcher()), "both environments are the same"),
        (("bisect", launcher(), f"libc={launcher()}"), "no part of an environment"),
        (("bisect", launcher(), tmp_path / "none"), "is not there"),
    ):
        done = autotune("guard", *words)
        assert done.returncode == 2
        assert said in done.stderr


@pytest.mark.mpi
def test_one_check_measures_at_a_time_and_one_that_was_killed_leaves_nothing_behind(kept):
    nights = (kept / "guard" / "nights.jsonl").read_bytes()
    words = [sys.executable, "-m", "autotune", "guard", "check", kept, "--minutes", "5"]
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env={**os.environ, **ROOT}
    ) as first:
        try:
            assert b"block 1, " in first.stderr.readline()
            done = autotune("guard", "check", kept, "--minutes", "0.05")
        finally:
            first.kill()
    assert done.returncode == 4
    assert "another check measures now" in done.stderr
    assert (kept / "guard" / "nights.jsonl").read_bytes() == nights
    (left,) = (kept / "guard").glob("launches-*")
    os.utime(left, (1, 1))
    with launching(kept / "guard", alone=True):
        assert not left.exists()


@pytest.mark.mpi
@pytest.mark.parametrize(
    "change, code, said",
    [
        (lambda kept: kept.update(version=99), 2, "has version 99"),
        (lambda kept: kept.pop("facts"), 2, "facts"),
        (
            lambda kept: kept["scenario"]["mpi"].update(mpirun="/nowhere/mpirun"),
            2,
            "'/nowhere/mpirun' is not an",
        ),
        (lambda kept: kept["facts"]["machine"].update(kernel="4.18"), 0, "kernel: 4.18 → "),
    ],
    ids=["newer", "damaged", "mpirun gone", "another machine"],
)
def test_what_became_of_what_was_kept_is_one_message(kept, tmp_path, change, code, said):
    folder = tmp_path / "guard"
    folder.mkdir()
    document = json.loads((kept / "guard" / "kept.json").read_text())
    change(document)
    (folder / "kept.json").write_text(json.dumps(document))
    night = (kept / "guard" / "nights.jsonl").read_bytes().splitlines(keepends=True)[0]
    later = night.replace(b'"202', b'"302').replace(b'"kept":true', b'"kept":false')
    (folder / "nights.jsonl").write_bytes(night + later)
    done = autotune("guard", "check", "--quick", "--yes", env={"AUTOTUNE_GUARD": str(tmp_path)})
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
    if not code:
        assert re.search(r"left out: 1 of 2 nights, .* see to the clock", done.stderr)


@pytest.mark.mpi
def test_a_prefix_of_files_that_somebody_wrote_by_hand_is_kept_and_watched(tmp_path):
    etc = tmp_path / "etc"
    etc.mkdir()
    rules = etc / "site.rules"
    (etc / "openmpi-mca-params.conf").write_text(
        "# ours\npml=ucx\nopal_common_ucx_tls = any\nopal_common_ucx_devices = any\n"
        f"coll_tuned_use_dynamic_rules = 1\ncoll_tuned_dynamic_rules_filename = {rules}\n"
    )
    (etc / "ucx.conf").write_text("UCX_TLS=self,posix\n")
    rules.write_text("1\n2 # allreduce\n1\n2 # ranks\n2\n0 0 0 0\n1024 3 0 0\n")
    done = autotune("guard", "keep", tmp_path, "--minutes", "0", "cluster.ranks=2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 measured sizes with a rule reach it" in done.stdout
    rules.write_text(rules.read_text().replace("1024 3", "1024 4"))
    done = autotune("guard", "check", tmp_path, "--quick")
    assert (done.returncode, done.stdout.partition("\n")[0]) == (1, f"not in effect: {rules} was edited")
    rules.write_text("1\n2\n")
    done = autotune("guard", "keep", tmp_path, "--minutes", "0")
    assert (done.returncode, "silently ignored" in done.stderr) == (2, True), done.stderr


@pytest.mark.mpi41
def test_after_another_version_it_is_named_and_not_in_effect(tmp_path):
    other = launcher(python_of("OPENMPI41"))
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
    both = autotune("guard", "check", folder, "--minutes", "2", "--mpirun", launcher())
    assert f"speed now over that as kept under Open MPI {was}" in both.stdout
    assert "launches each, at the same moments" in both.stdout
