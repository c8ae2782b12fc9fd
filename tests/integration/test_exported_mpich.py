"""A real MPICH 5 reads the exported tree and the exported variables."""

import os
import subprocess
from pathlib import Path

import pytest

from autotune.exporters import exporter
from autotune.exporters.mpich import SCRIPT, TREE_FILE, MpichSelection
from autotune.history.trial import Rule
from autotune.recommend.front import Provenance, Recommendation
from autotune.space import Point
from autotune.stacks.mpich import installed_tree

pytestmark = pytest.mark.mpich

CALLS = Path(__file__).with_name("calls.py")
EVERYTHING = [
    f"{c}:{n}"
    for c in ("allreduce", "bcast", "allgather", "alltoall", "reduce", "gather", "scatter", "scan", "barrier")
    for n in (8, 65536)
]


@pytest.fixture(scope="session")
def mpich():
    """The folder of an environment with MPICH and mpi4py."""
    python = os.environ.get("AUTOTUNE_PYTHON_MPICH")
    if not python:
        pytest.skip("AUTOTUNE_PYTHON_MPICH names no interpreter (make mpi-test)")
    return Path(python).parent.parent


def launch(mpich, env):
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "MPIR_", "PYTHONPATH"))
    }
    return subprocess.run(
        [mpich / "bin/mpiexec", "-n", "2", mpich / "bin/python", CALLS, *EVERYTHING],
        capture_output=True,
        text=True,
        env=clean | {"MPI4PY_LIBMPI": str(mpich / "lib/libmpi.so.12")} | env,
        timeout=120,
        check=False,
    )


def rule(collective, min_bytes, algorithm):
    return Rule(collective, 2, min_bytes, Point.of({"algorithm": algorithm}))


def exported(made, directory, rules):
    files = made.export(
        Recommendation(Point(), tuple(rules), provenance=Provenance(stack="MPICH 5")), directory
    )
    for name, text in files.items():
        (directory / name).write_text(text)
    lines = (directory / SCRIPT).read_text().splitlines()
    pairs = (line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export "))
    return dict(pairs)


def test_the_exported_tree_serves_all_collectives(mpich, tmp_path):
    made = MpichSelection(lambda: installed_tree(mpich / "lib/libmpi.so.12"))
    rules = [
        rule("allreduce", 0, "recursive_doubling"),
        rule("allreduce", 1024, "ring"),
        rule("bcast", 0, "scatter_ring_allgather"),
        rule("scan", 0, "recursive_doubling"),
    ]
    env = exported(made, tmp_path, rules)
    done = launch(mpich, env)
    assert done.stdout.split() == [word for call in EVERYTHING for word in (call, "SUCCESS")], done.stderr
    assert done.returncode == 0
    tree = tmp_path / TREE_FILE
    tree.write_text(tree.read_text().replace("MPIR_Allreduce_intra_ring", "MPIR_Allreduce_intra_no_such"))
    assert launch(mpich, env).returncode != 0  # so the file was read


def test_a_tree_with_a_single_collective_would_not_do(mpich, tmp_path):
    """Why the whole tree is exported."""
    tree = {"collective=allreduce": {"algorithm=MPIR_Allreduce_intra_ring": {}}}
    env = exported(MpichSelection(lambda: tree), tmp_path, [])
    assert launch(mpich, env).returncode != 0


def test_exported_variables_are_read(mpich, tmp_path):
    env = exported(exporter("mpich_cvars"), tmp_path, [rule("allreduce", 0, "ring")])
    assert env == {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ring"}
    assert launch(mpich, env).returncode == 0
    assert launch(mpich, {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "no_such"}).returncode != 0
