"""``guard`` where it takes root to show it: users who may write nothing, a full disk, and Slurm's epilog."""

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.integration.mpirun import ROOT as AS_ROOT
from tests.integration.mpirun import launcher
from tests.integration.test_guard import autotune, prefix
from tests.program import ran

from .campaigns import wait_until
from .configuration import STATE
from .ground import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

NOBODY = (
    *("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "env", "-i", "PATH=/usr/bin:/bin"),
    f"OMPI_MCA_btl={AS_ROOT['OMPI_MCA_btl']}",  # as what was kept: other variables are named
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix that root has kept."""
    folder: Path = prefix(tmp_path_factory.mktemp("site") / "tuned", launcher())
    done = autotune("guard", "keep", folder, "--minutes", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def seen_by_all(*places: Path) -> Iterator[str]:
    """Lines of a shell that hide what only root may search, but for some folders in it."""
    wanted = {p.resolve() for p in places}
    private = {a for p in wanted for a in p.parents if a.stat().st_mode & 0o005 != 0o005}
    for top in {a for a in private if not private & set(a.parents)}:
        below = sorted(p for p in wanted if top in p.parents)
        for number, place in enumerate(below):
            yield f"mkdir -p $stage/{number} && mount --bind {shlex.quote(str(place))} $stage/{number}"
        yield f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(top))}"
        for number, place in enumerate(below):
            yield f"mkdir -p {shlex.quote(str(place))}"
            yield f"mount --move $stage/{number} {shlex.quote(str(place))}"


def apart(
    site: Path, user: Sequence[str], *words: object, before: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """``guard`` in a mount namespace of its own, started by ``user``."""
    installed = (Path(sys.base_prefix), Path(sys.prefix), Path(sysconfig.get_path("purelib")), ROOT, site)
    lines = [
        "set -e",
        "umask 022",
        "stage=$(mktemp -d)",
        *seen_by_all(*installed),
        *before,
        'cd /; exec "$@"',
    ]
    command = [*user, sys.executable, "-m", "autotune", "guard", *map(str, words)]
    done = ran(
        ["unshare", "--mount", "sh", "-c", "\n".join(lines), "sh", *command],
        stdin=subprocess.DEVNULL,
        env={**os.environ, **AS_ROOT},  # as what was kept: other variables are named
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize(
    "home, words, code, said",
    [
        ((), ("--quick",), 0, "in effect as on "),
        (("HOME=/nonexistent",), ("--minutes", "0"), 3, "inconclusive: "),
    ],
    ids=["no home", "no folder at home"],
)
def test_another_user_who_may_write_nothing_checks(site, home, words, code, said):
    before = (site / "guard" / "nights.jsonl").read_bytes()
    done = apart(site, (*NOBODY, *home), "check", site, *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.startswith(said)
    assert "changed" not in done.stdout
    *launches, last = done.stderr.splitlines()
    assert all(line.startswith("launch ") for line in launches)
    assert "Permission denied; --to DIR adds it in a folder of your own" in last
    assert (site / "guard" / "nights.jsonl").read_bytes() == before
    assert not list((site / "guard").glob("launches-*"))


def test_another_user_keeps_nights_of_their_own(site):
    own = ["mkdir -m 777 $stage/own", "mount --bind $stage/own /mnt"]
    done = apart(site, NOBODY, "check", site, "--quick", "--to", "/mnt/nights", before=own)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def test_a_full_disk_is_one_message_for_the_history_and_an_error_for_what_was_asked_for(site):
    full = ["mount -t tmpfs -o size=4k tmpfs /mnt", "head -c 8192 /dev/zero >/mnt/full 2>/dev/null || true"]
    words = ("check", site, "--quick", "--yes", "--to", "/mnt", "--motd", "/mnt/motd")  # root's key is hidden
    done = apart(site, ("env",), *words, before=full)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "not added to the history: /mnt: No space left on device" in done.stderr
    assert "autotune: cannot write /mnt/motd: No space left on device" in done.stderr


def test_slurms_epilog_checks_once_after_a_job_and_not_after_its_own(raised, site, tmp_path):
    """By the line of the page; it has to leave out the job that it starts."""
    page = (ROOT / "docs" / "guard.md").read_text()
    found = re.search(r"`EpilogSlurmctld`: `(.+)`", page)
    assert found
    line = found[1].replace("/opt/venv/bin/python", sys.executable).replace("/opt/tuned", str(site))
    epilog = tmp_path / "epilog"
    here = f"export PATH={os.environ['PATH']} SLURM_CONF={STATE}/slurm.conf\ncd {tmp_path}"
    epilog.write_text(f"#!/bin/sh\n{here}\n{line}\n")
    epilog.chmod(0o755)
    ground = raised(n_nodes=2, slurm_lines=(f"EpilogSlurmctld={epilog}",))
    nights = site / "guard" / "nights.jsonl"
    before = nights.read_text().count("\n")
    ground.run("sbatch", "--wait", "-o", "/dev/null", "--wrap", "true").check_returncode()
    wait_until(lambda: nights.read_text().count("\n") > before, 120)
    wait_until(lambda: not ground.run("squeue", "-h").stdout.strip(), 60)
    jobs = ground.run("scontrol", "show", "job", "-o").stdout
    assert jobs.count("JobId=") == 2, jobs
    assert '"code":0' in nights.read_text().splitlines()[-1], nights.read_text()


def test_in_salloc_facts_are_those_of_the_node_and_outside_a_job_answers(raised, tmp_path):
    """The log-in node has another processor; a check that only submits its job has not said "same"."""
    folder: Path = prefix(tmp_path / "tuned", launcher())
    of_node = tmp_path / "cpuinfo"
    of_node.write_text("model name\t: that of the node\n")
    ground = raised(n_nodes=2)
    guard = ("python", "-m", "autotune", "guard")
    ground.run("mount", "--bind", str(of_node), "/proc/cpuinfo", node="cn0").check_returncode()
    inside = ("salloc", "-N1", "--nodelist=cn0", "--ntasks-per-node=2")
    words = ("--minutes", "0", "hydra/launcher=slurm", "hydra.launcher.time=5")
    done = ground.run(*inside, *guard, "keep", str(folder), *words, timeout_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    kept = json.loads((folder / "guard" / "kept.json").read_text())
    assert kept["facts"]["machine"]["model name"] == "that of the node"
    done = ground.run(*inside, *guard, "check", str(folder), "--quick", timeout_s=300)
    assert (done.returncode, "changed" in done.stdout) == (0, False), done.stdout + done.stderr
    nights = folder / "guard" / "nights.jsonl"
    before = nights.read_text().count("\n")
    for said in ("its output: ", "runs this campaign already"):
        done = ground.run(*guard, "check", str(folder), "--quick", timeout_s=300)
        assert (done.returncode, said in done.stderr) == (6, True), done.stdout + done.stderr
    wait_until(lambda: nights.read_text().count("\n") > before, 240)
