"""The wheel in a fresh environment, without extras: how large that is, and what it is enough for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import ran

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
DONE = DATA / "golden_campaigns" / "simulated"
RULES = DATA / "field" / "f1_dynamic_rules.txt"
LOG = DATA / "field" / "p3_osu59.log"
MOST_BYTES = 150e6
ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
ENVIRONMENT |= {"SLURM_CONF": "/no/such/slurm.conf", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # downloads, on cores that others may use too


def installed(folder, *requirements):
    """A fresh environment with these, in the versions that the project is tested with."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    words = ["-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), *map(str, requirements)]
    done = ran([str(folder / "bin" / "python"), *words], env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def light(wheel, tmp_path_factory):
    return installed(tmp_path_factory.mktemp("light") / "venv", wheel)


def size_bytes(site):
    """What an environment's packages take, pip itself excepted."""
    files = (path for path in site.rglob("*") if path.is_file() and not path.is_symlink())
    rest = (path for path in files if not path.relative_to(site).parts[0].startswith(("pip", "setuptools")))
    return sum(path.stat().st_size for path in rest)


def test_it_is_small(light):
    [site] = light.parent.glob("lib/python3*/site-packages")
    sizes = {path.name: size_bytes(path) for path in site.iterdir() if path.is_dir()}
    assert size_bytes(site) <= MOST_BYTES, sorted(sizes.items(), key=lambda one: -one[1])[:12]
    assert not {"torch", "ax", "botorch", "gpytorch", "scipy", "pandas", "plotly", "sklearn"} & set(sizes)


VERBS = {
    "version": ("--version",),
    "lint": ("lint", RULES),
    "explain": ("lint", RULES, "--explain", "--ranks", "64", "--bytes", "4k"),
    "doctor": ("doctor",),
    "import": ("import", LOG, "--comm-size", "8", "--out", "out.csv"),
    "plan --list": ("plan", "--list"),
    "export --list": ("export", "--list"),
    "history": ("history", DONE, "--out", "history.csv"),
}


@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
def test_a_verb_runs(words, light, tmp_path):
    done = ran([str(light / "mpi-autotune"), *map(str, words)], cwd=tmp_path, env=ENVIRONMENT)
    # ``lint`` ends with 1 where it finds something, ``doctor`` with 2 where there is no MPI.
    codes = {"lint": (0, 1), "doctor": (0, 1, 2)}.get(words[0], (0,))
    assert done.returncode in codes, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "mpi-autotune[tune" not in done.stderr


def test_a_campaign_says_what_it_lacks(light, tmp_path):
    words = ("conf=allreduce_8node", "hydra/launcher=simulated")
    done = ran([str(light / "autotune"), *words], cwd=tmp_path, env=ENVIRONMENT)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "pip install 'mpi-autotune[tune]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_uvx_runs_it_without_an_installation(wheel, tmp_path):
    uvx = installed(tmp_path / "venv", "uv") / "uvx"
    words = [str(uvx), "--from", str(wheel), "mpi-autotune", "--version"]
    env = ENVIRONMENT | {"UV_CACHE_DIR": str(tmp_path / "cache"), "UV_PYTHON": sys.executable}
    done = ran(words, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("autotune ")
