"""``record`` on Fortran programs of known calls: ``mpif.h``, ``use mpi`` and ``use mpi_f08``."""

import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.errors import ExitCode
from tests.integration.mpirun import CROWDED, python_of
from tests.program import ran

DATA = Path(__file__).parents[1] / "data" / "applications"
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
OTHERS = {
    ("send", 32): 7,
    ("recv", 32): 7 + 2 * 3,
    ("sendrecv", 32): 2 * 5,
    ("sendrecv_replace", 32): 2 * 5,
    ("isend", 32768): 2 * 6,
    ("irecv", 32768): 2 * 6,
    ("waitany", 32768): 2 * 6,
    ("waitall", 32768): 2 * 3,
    ("issend", 32): 2 * 3,
    ("probe", 0): 2 * 3,
    ("wait", 32): 2 * 3,
    ("send_init", 32): 2 * 4,
    ("recv_init", 32): 2 * 4,
    ("waitall", 32): 2 * 4,
    ("win_fence", 0): 2 * 12,
    ("put", 32): 2 * 5,
    ("get", 32): 2 * 3,
    ("accumulate", 32): 2 * 3,
    ("win_lock", 0): 2 * 2,
    ("win_flush", 0): 2 * 2,
    ("win_unlock", 0): 2 * 2,
    ("win_free", 0): 2,
    ("file_open", 0): 2,
    ("file_set_view", 0): 2,
    ("file_write_at_all", 32768): 2 * 5,
    ("file_read_at", 4096): 2 * 5,
    ("file_iwrite_at", 4096): 2 * 5,
    ("file_close", 0): 2,
}
"""Operation and bytes (of a wait: of the largest message) → calls; how often it tests is by chance."""


def compiled(source, program, modules, libraries, *flags):
    """The program with an MPI's modules; gfortran's version must be the one that they were made with."""
    fortran = shutil.which("gfortran")
    if fortran is None:
        pytest.skip("no gfortran here (apt-get install gfortran)")
    argv = [fortran, "-cpp", "-w", f"-I{modules}", *flags, str(DATA / source), "-o", str(program)]
    subprocess.run([*argv, *map(str, libraries)], check=True)


def counts(out, *argv):
    """What was recorded of a run, which must end well."""
    assert main(["record", "--out", str(out), "--", *argv]) == ExitCode.WELL
    keys = ("collective", "kind", "comm_size", "message_bytes")
    return {tuple(one[key] for key in keys): one["calls"] for one in json.loads(out.read_text())["calls"]}


@pytest.fixture
def debians(tmp_path, as_root):
    """Compiles a program by Debian's Open MPI, and says how it is launched.

    Its modules are in libopenmpi-dev; CI unpacks that, as installing it would bring a second mpicc.
    """
    where = Path(os.environ.get("AUTOTUNE_OPENMPI_MODULES") or "/usr/lib")
    modules = next(where.rglob("openmpi/mpi_f08.mod"), None)
    mpirun = shutil.which("mpirun.openmpi")
    if modules is None or mpirun is None:
        pytest.skip("no mpi_f08.mod of Debian's Open MPI (libopenmpi-dev; AUTOTUNE_OPENMPI_MODULES names it)")

    def made(source, ranks, *flags):
        names = ("usempif08", "usempi_ignore_tkr", "mpifh")
        folder = next(Path("/usr/lib").glob("*/libmpi.so.40")).parent
        libraries = [*(folder / f"libmpi_{name}.so.40" for name in names), folder / "libmpi.so.40"]
        compiled(source, tmp_path / "program", modules.parent, libraries, *flags)
        return [mpirun, "-n", str(ranks), *CROWDED, str(tmp_path / "program")]

    return made


@pytest.mark.apps
@pytest.mark.parametrize("flag", ["-DF08", "-UF08"])
def test_counts_under_debians_open_mpi(flag, tmp_path, debians):
    assert counts(tmp_path / "calls.json", *debians("recorded_calls.f90", 3, flag)) == CALLS


@pytest.mark.apps
@pytest.mark.parametrize("flag", ["-DF08", "-UF08"])
def test_its_calls_go_by_another_algorithm_each(flag, tmp_path, debians, monkeypatch):
    """What ``run`` switches is what is recorded, less what it passes through."""
    monkeypatch.setenv("AUTOTUNE_RUN_MODE", "random")
    out, argv = tmp_path / "run.json", debians("recorded_calls.f90", 3, flag)
    assert main(["run", "--reductions", "--out", str(out), "--", *argv]) == ExitCode.WELL
    cells = json.loads(out.read_text())["cells"]
    switched = {
        (*key[:1], *key[2:]): calls // key[2]
        for key, calls in CALLS.items()
        if key[1] == "blocking" and key[0] != "allgatherv" and key[2] > 1
    }
    assert {(c["collective"], c["ranks"], c["lowest_bytes"]): c["calls"] for c in cells} == switched


@pytest.mark.apps
@pytest.mark.parametrize("flag", ["-DF08", "-UF08", "-DMPIF"])
def test_counts_of_what_is_no_collective(flag, tmp_path, debians):
    out = tmp_path / "calls.json"
    argv = debians("recorded_others.f90", 2, "-fallow-argument-mismatch", flag)
    counts(out, *argv, str(tmp_path / "data"))
    sums = Counter()
    for one in json.loads(out.read_text())["other"]:
        sums[one["operation"], one["message_bytes"]] += one["calls"]
    assert sums.pop(("test", 4096)) >= 2 * 5
    assert sums == OTHERS


@pytest.mark.intel
def test_counts_under_intel_mpi(tmp_path, monkeypatch):
    """Its mpi_f08 is for Intel's own compiler."""
    python, mpich = python_of("INTEL"), python_of("MPICH")
    place = Path(python).parents[1]
    modules = place / "include/mpi/gfortran/12.4.0"
    if "12." not in ran(["gfortran", "-dumpfullversion"]).stdout:
        pytest.skip("Intel's modules of gfortran 12 are of use to that alone")
    libraries = [place / "lib/libmpifort.so.12", place / "lib/libmpi.so.12", f"-Wl,-rpath,{place / 'lib'}"]
    compiled("recorded_calls.f90", tmp_path / "program", modules, libraries, f"-I{place / 'include/mpi'}")
    # Its wheel has no header; MPICH's has the same binary interface.
    monkeypatch.setenv(
        "PATH", os.pathsep.join([str(place / "bin"), os.environ["PATH"], str(Path(mpich).parent)])
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", str(place / "lib"))
    monkeypatch.setenv("I_MPI_FABRICS", "shm")
    argv = [str(place / "bin/mpirun"), "-n", "3", str(tmp_path / "program")]
    assert counts(tmp_path / "calls.json", *argv) == CALLS
