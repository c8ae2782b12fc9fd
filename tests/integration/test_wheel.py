"""The wheel holds everything: a campaign runs from it, far away from the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.program import ran
from tests.schemas import answer

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder into which the wheel was unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [wheel] = folder.glob("*.whl")
    target = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def autotune(*words, site, cwd):
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    code = (
        "import sys; source = (sys.argv[1], sys.argv[1] + '/launchers', sys.argv[1] + '/plugins'); "
        "sys.path[:] = [p for p in sys.path if p not in source]; "
        "sys.path.insert(0, sys.argv[2]); sys.argv[:] = ['autotune', *sys.argv[3:]]; "
        "import autotune; assert autotune.__file__.startswith(sys.path[0]), autotune.__file__; "
        "from autotune.__main__ import main; main()"
    )
    return ran(
        [sys.executable, "-c", code, str(ROOT), str(site), *words],
        cwd=cwd,
        env={**env, "SLURM_CONF": "/no/such/slurm.conf"},
    )


def test_a_campaign_runs_from_the_wheel(installed, tmp_path):
    words = ("conf=allreduce_8node", "proposer=random", "budget.launches=3", "verify.enabled=false")
    done = autotune(*words, site=installed, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    status = autotune("status", "campaigns/allreduce_8node", "--json", site=installed, cwd=tmp_path)
    assert answer(status.stdout)["state"] == "complete"
    done = autotune("report", "campaigns/allreduce_8node", site=installed, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_wheel_holds_what_is_read_at_run_time(installed):
    for name in (
        "autotune/conf/config.yaml",
        "autotune/conf/conf/allreduce_local.yaml",
        "autotune/search_spaces/openmpi_ucx_cluster.yaml",
        "autotune/search_spaces/knobs/ucx.yaml",
        "autotune/probe/kernel.c",
        "autotune/probe/recorder/recorder.c",
        "autotune/probe/recorder/counting.h",
        "autotune/lint/codes.toml",
        "hydra_plugins/autotune/slurm.py",
        "autotune_formats/ucc.py",
        "autotune/docs/schemas/status.schema.json",
        "autotune/py.typed",
    ):
        assert (installed / name).is_file(), name
    assert not (installed / "hydra_plugins" / "__init__.py").exists()


def test_the_wheel_has_both_commands(installed):
    [points] = installed.glob("mpi_autotune-*.dist-info/entry_points.txt")
    scripts = points.read_text().partition("[console_scripts]\n")[2].partition("\n\n")[0]
    assert {*scripts.split("\n")} >= {
        "autotune = autotune.__main__:main",
        "mpi-autotune = autotune.__main__:main",
    }


def test_formats_of_the_wheels_own_plugins_are_found(installed, tmp_path):
    done = autotune("export", "--list", site=installed, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"ucc_conf{' ' * 11}ucc.conf: " in done.stdout
    assert "cannot be used" not in done.stdout + done.stderr
