"""The probe under Open MPI 4.1 and MPICH, each in an environment of its own that the variables name."""

import secrets
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autotune.collectives import MEASURED
from autotune.probe.protocol import Expectation, Heat, SweptChoice
from tests.asking import FEW_CALLS, probe_request
from tests.integration.mpirun import CROWDED, Launched, probe, python_of, run

VERSIONS = {
    "OPENMPI41": ("Open MPI v4.1", pytest.mark.mpi41),
    "MPICH": ("MPICH", pytest.mark.mpich),
}
both = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=mark) for name, (_, mark) in VERSIONS.items()]
)


@both
def test_every_collective_gives_right_results_in_c(name, tmp_path):
    python = python_of(name)
    options = CROWDED if name == "OPENMPI41" else ()
    request = probe_request(MEASURED, (0, 3, 4096), ranks=3, **FEW_CALLS, max_samples=10, timing="native")
    launched = probe(tmp_path, request, *options, ranks=3, python=python)
    assert launched.code == 0, launched.stderr
    assert launched.result.status == "ok", launched.result.reason
    assert launched.result.library.startswith(VERSIONS[name][0])
    assert launched.result.timing == "native"
    assert {cell.collective for cell in launched.result.cells} == set(MEASURED)
    for cell in launched.result.cells:
        if (cell.collective, name) == ("allreduce_init", "OPENMPI41"):  # 4.1 has no MPI_Allreduce_init
            assert "MPI_ERR_UNSUPPORTED_OPERATION" in cell.reason
        else:
            assert cell.status == "ok", cell


OTHER_COMPILER = """
import sys
from pathlib import Path
from autotune.errors import StackError
from autotune.probe import compiling, mpit, native
from mpi4py import MPI
library = mpit.ToolInterface(MPI).library
try:
    compiling.built(Path(sys.argv[1]), native.source(), library, Path(sys.argv[2]) / "kernel.so")
except StackError as exc:
    print(exc.message)
"""


@pytest.mark.mpich
def test_ranks_of_a_node_find_each_other_where_a_setting_hides_that_they_share_it(tmp_path):
    """With MPIR_CVAR_NOLOCAL each rank is a node of its own to MPI."""
    token, python = secrets.token_hex(16), python_of("MPICH")

    def launched(job: int, env: dict[str, str]) -> Launched:
        place = Heat(str(tmp_path), token, job, 2, 0.2)
        request = probe_request(("allreduce",), (8,), ranks=2, timing="native", heat=place)
        try:
            return probe(tmp_path / str(job), request, python=python, env=env)
        finally:
            place.ended(job).touch()

    with ThreadPoolExecutor(2) as pool:
        launches = list(pool.map(launched, range(2), ({}, {"MPIR_CVAR_NOLOCAL": "1"})))
    for one in launches:
        assert one.result is not None, one.stderr
        assert one.result.status == "ok", one.result.reason
        assert not one.result.taken_out


@pytest.mark.mpich
def test_a_compiler_of_another_mpi_is_not_used(tmp_path):
    """As where several MPIs lie under one roof: it compiles, yet its library is not the one in use."""
    other = Path(python_of("MPICH")).with_name("mpicc")
    done = run([sys.executable, "-c", OTHER_COMPILER, str(other), str(tmp_path)], ranks=1)
    assert "mpicc belongs to another MPI than" in done.stdout, done.stderr
    assert not list(tmp_path.glob("*.so"))


@pytest.mark.mpi41
def test_algorithms_are_switched_and_traps_found_out_under_openmpi41(tmp_path):
    python = python_of("OPENMPI41")
    variable = "coll_tuned_allreduce_algorithm"
    choices = tuple(SweptChoice({"algorithm": n}, {variable: n}) for n in (3, 6, 7))
    request = probe_request(("allreduce",), (8, 65536), {"allreduce": choices}, ranks=2, **FEW_CALLS)
    dynamic = ("--mca", "coll_tuned_use_dynamic_rules", "1")
    cells = probe(tmp_path, request, *dynamic, python=python).result.cells
    assert [cell.status for cell in cells] == ["ok", "ok", "not_applied"] * 2

    trapped = probe_request(("allreduce",), (8,), ranks=2, expect=Expectation(cvars={variable: "7"}))
    launched = probe(tmp_path, trapped, *dynamic, "--mca", variable, "7", python=python)
    assert launched.result.status == "not_applied"
    assert "asked for '7'" in launched.result.reason


@pytest.mark.mpich
def test_algorithms_are_switched_in_a_running_mpich(tmp_path):
    """MPICH reads its variables at each call, and has no enumerator but the words of a description."""
    python = python_of("MPICH")
    variable = "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"
    choices = tuple(
        SweptChoice({"algorithm": name}, {variable: name})
        for name in ("recursive_doubling", "ring", "no_such")
    )
    request = probe_request(("allreduce",), (8, 65536), {"allreduce": choices}, ranks=2, **FEW_CALLS)
    result = probe(tmp_path, request, python=python).result
    assert [cell.status for cell in result.cells] == ["ok", "ok", "not_applied"] * 2
    assert "allowed: auto, nb, smp" in result.cells[2].reason


@pytest.mark.mpich
@pytest.mark.parametrize("algorithm", ["recursive_doubling", "ring", "k_reduce_scatter_allgather"])
def test_names_mean_the_numbers_that_mpich_gives_them(tmp_path, algorithm):
    """MPICH itself turns the name in the environment into the number that reads back."""
    python = python_of("MPICH")
    variable = "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"
    expect = Expectation(env={variable: algorithm}, cvars={variable: algorithm})
    request = probe_request(("allreduce",), (8,), ranks=2, **FEW_CALLS, expect=expect)
    launched = probe(tmp_path, request, "-genv", variable, algorithm, python=python)
    assert launched.result.status == "ok", launched.result.reason
    assert launched.result.applied[variable] != "0"
