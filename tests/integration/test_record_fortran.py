"""``record`` on Fortran programs of known calls: ``use mpi`` and ``use mpi_f08``."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.errors import ExitCode
from tests.integration.mpirun import ROOT

PROGRAM = Path(__file__).parents[1] / "data" / "applications" / "recorded_calls.f90"
CALLS = {
    ("allreduce", "blocking", 3, 32): 3 * 3000,
    ("allreduce", "blocking", 3, 8): 3 * 30,
    ("barrier", "blocking", 3, 0): 3 * 7,
    ("bcast", "blocking", 3, 32): 3 * 9,
    ("reduce", "blocking", 3, 32): 3 * 9,
    ("alltoall", "blocking", 3, 32): 3 * 5,
    ("gather", "blocking", 3, 32): 3 * 5,
    ("allgatherv", "blocking", 3, 32): 3 * 5,
    ("allreduce", "non-blocking", 3, 32): 3 * 6,
    ("barrier", "non-blocking", 3, 0): 3 * 6,
    ("allreduce", "blocking", 2, 32): 2 * 400,
    ("allreduce", "blocking", 1, 32): 400,
}


def compiled(program, modules, libraries, *flags):
    """The program with an MPI's modules; gfortran's version must be the one that they were made with."""
    fortran = shutil.which("gfortran")
    if fortran is None:
        pytest.skip("no gfortran here (apt-get install gfortran)")
    argv = [fortran, "-cpp", f"-I{modules}", *flags, str(PROGRAM), "-o", str(program), *map(str, libraries)]
    subprocess.run(argv, check=True)


def counts(out, *argv):
    """What was recorded of a run, which must end well."""
    assert main(["record", "--out", str(out), "--", *argv]) == ExitCode.WELL
    keys = ("collective", "kind", "comm_size", "message_bytes")
    return {tuple(one[key] for key in keys): one["calls"] for one in json.loads(out.read_text())["calls"]}


@pytest.mark.apps
@pytest.mark.parametrize("flag", ["-DF08", "-UF08"])
def test_counts_under_debians_open_mpi(flag, tmp_path, monkeypatch):
    """Its modules are in libopenmpi-dev; CI unpacks that, as installing it would bring a second mpicc."""
    where = Path(os.environ.get("AUTOTUNE_OPENMPI_MODULES") or "/usr/lib")
    modules = next(where.rglob("openmpi/mpi_f08.mod"), None)
    mpirun = shutil.which("mpirun.openmpi")
    if modules is None or mpirun is None:
        pytest.skip("no mpi_f08.mod of Debian's Open MPI (libopenmpi-dev; AUTOTUNE_OPENMPI_MODULES names it)")
    for name, value in ROOT.items():
        monkeypatch.setenv(name, value)
    names = ("usempif08", "usempi_ignore_tkr", "mpifh")
    folder = next(Path("/usr/lib").glob("*/libmpi.so.40")).parent
    libraries = [folder / f"libmpi_{name}.so.40" for name in names]
    compiled(tmp_path / "program", modules.parent, [*libraries, folder / "libmpi.so.40"], flag)
    crowded = ("--oversubscribe", "--mca", "mpi_yield_when_idle", "1")
    argv = [mpirun, "-n", "3", *crowded, str(tmp_path / "program")]
    assert counts(tmp_path / "calls.json", *argv) == CALLS


@pytest.mark.intel
def test_counts_under_intel_mpi(tmp_path, monkeypatch):
    """Its mpi_f08 is for Intel's own compiler."""
    python = os.environ.get("AUTOTUNE_PYTHON_INTEL")
    mpich = os.environ.get("AUTOTUNE_PYTHON_MPICH")
    if not python or not mpich:
        pytest.skip("make mpi-test gives AUTOTUNE_PYTHON_INTEL and AUTOTUNE_PYTHON_MPICH")
    place = Path(python).parents[1]
    modules = place / "include/mpi/gfortran/12.4.0"
    if "12." not in subprocess.run(["gfortran", "-dumpfullversion"], capture_output=True, text=True).stdout:
        pytest.skip("Intel's modules of gfortran 12 are of use to that alone")
    libraries = [place / "lib/libmpifort.so.12", place / "lib/libmpi.so.12", f"-Wl,-rpath,{place / 'lib'}"]
    compiled(tmp_path / "program", modules, libraries, f"-I{place / 'include/mpi'}")
    # Its wheel has no header; MPICH's has the same binary interface.
    monkeypatch.setenv(
        "PATH", os.pathsep.join([str(place / "bin"), os.environ["PATH"], str(Path(mpich).parent)])
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", str(place / "lib"))
    monkeypatch.setenv("I_MPI_FABRICS", "shm")
    argv = [str(place / "bin/mpirun"), "-n", "3", str(tmp_path / "program")]
    assert counts(tmp_path / "calls.json", *argv) == CALLS
