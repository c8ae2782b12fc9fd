"""A real MPICH 5 reads the exported tree and the exported variables."""

import json
from pathlib import Path

import numpy as np
import pytest

from autotune.collectives import COLLECTIVES
from autotune.errors import UserError
from autotune.exporters import exporter
from autotune.exporters.mpich import SCRIPT, TREE_FILE, MpichSelection
from autotune.history.lookup import choice_at
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point
from autotune.stacks.cleared import clearance
from autotune.stacks.mpich import algorithms, installed_tree, leaf
from tests.integration.mpirun import python_of, untold
from tests.program import ran

pytestmark = pytest.mark.mpich

CALLS = Path(__file__).with_name("calls.py")
PIECES = Path(__file__).with_name("pieces.py")
SIZES = (1024, 4096, 65536)
RANKS = 4
EVERYTHING = [
    f"{c}:{n}"
    for c in ("allreduce", "bcast", "allgather", "alltoall", "reduce", "gather", "scatter", "scan", "barrier")
    for n in (8, 65536)
]


@pytest.fixture(scope="session")
def mpich():
    """The folder of an environment with MPICH and mpi4py."""
    return Path(python_of("MPICH")).parent.parent


def launch(mpich, env, words=(CALLS, *EVERYTHING), ranks=2):
    return ran(
        [mpich / "bin/mpiexec", "-n", str(ranks), mpich / "bin/python", *map(str, words)],
        env=untold("MPIR_") | {"MPI4PY_LIBMPI": str(mpich / "lib/libmpi.so.12")} | env,
    )


def kinds(mpich, env):
    """Message size → in which pieces an allreduce on all ranks is done."""
    done = launch(mpich, env, (PIECES, *SIZES), RANKS)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = (line.split() for line in done.stdout.splitlines())
    return {int(size): kind for n, size, kind in rows if int(n) == RANKS}


def rule(collective, min_bytes, algorithm, ranks=2):
    return Rule(collective, ranks, min_bytes, Point.of({"algorithm": algorithm}))


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
    assert launch(mpich, exported(MpichSelection(lambda: tree), tmp_path, [])).returncode != 0


def test_exported_variables_are_read(mpich, tmp_path):
    env = exported(exporter("mpich_cvars"), tmp_path, [rule("allreduce", 0, "ring")])
    assert env == {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ring"}
    assert launch(mpich, env).returncode == 0
    assert launch(mpich, {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "no_such"}).returncode != 0


NAMES = ("recursive_doubling", "ring", "default")


@pytest.fixture(scope="session")
def alone(mpich):
    """Algorithm → what it does at each size where it is forced for all."""
    variable = "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"
    return {name: kinds(mpich, {} if name == "default" else {variable: name}) for name in NAMES}


def nameable(collective):
    """Algorithms of a collective that a tree can name, and that are exported."""
    for name in algorithms(collective):
        if clearance("mpich", "").refusal(collective, name):
            continue
        try:
            leaf(collective, name, {})
        except UserError:
            continue
        yield name


SIZED = {name: it.mpich.size for name, it in COLLECTIVES.items() if it.mpich and it.mpich.size}


OTHERS = {"algorithm=MPIR_Scan_intra_recursive_doubling": {}}
REFUSED = {"avg_msg_size": OTHERS, "total_msg_size": {"avg_msg_size<1": OTHERS, "avg_msg_size=any": OTHERS}}
"""Of a condition the collectives that know it → a subtree that they refuse as they reach it."""


def test_every_name_that_a_tree_can_say_is_one_that_it_knows(mpich, tmp_path):
    made = MpichSelection(lambda: installed_tree(mpich / "lib/libmpi.so.12"))
    rows = [rule(name, 1024 * i, it) for name in SIZED for i, it in enumerate(nameable(name))]
    done = launch(mpich, exported(made, tmp_path, [*rows, rule("barrier", 0, "smp"), rule("scan", 0, "smp")]))
    assert done.returncode == 0, done.stderr


ELEMENTS = {"gather", "scatter"}
"""Collectives of which MPICH 5.0.2 counts elements where it says bytes."""


@pytest.mark.parametrize("collective", [name for name in SIZED if name != "allgather"])  # MPI_Init calls that
def test_a_row_is_reached_from_its_message_size_on(mpich, tmp_path, collective):
    """What a collective does not know aborts the first call that reaches it."""
    made = MpichSelection(lambda: installed_tree(mpich / "lib/libmpi.so.12"))
    env = exported(made, tmp_path, [rule(collective, 0, "default"), rule(collective, 1024, "auto")])
    tree = json.loads((tmp_path / TREE_FILE).read_text())
    whole = tree[f"collective={collective}"]
    mine = f"{SIZED[collective]}<{2048 if SIZED[collective].startswith('total') else 1024}"
    rows = next(table for table in whole.get("comm_type=intra", whole).values() if mine in table)
    rows[f"{SIZED[collective]}=any"] = REFUSED[SIZED[collective]]
    (tmp_path / TREE_FILE).write_text(json.dumps(tree))
    below, above = (8184, 8192) if collective in ELEMENTS else (1016, 1024)  # doubles have 8 bytes
    done = launch(mpich, env, (CALLS, *(f"{collective}:{size}" for size in (8, below, above))))
    assert done.stdout.split() == [f"{collective}:8", "SUCCESS", f"{collective}:{below}", "SUCCESS"]
    assert done.returncode != 0


@pytest.mark.parametrize("seed", range(4))
def test_the_rows_of_a_random_winner_are_used_for_their_sizes(mpich, alone, tmp_path, seed):
    """Beside a random table of another collective, whose names MPICH checks as it reads them."""
    rng = np.random.default_rng(seed)
    made = MpichSelection(lambda: installed_tree(mpich / "lib/libmpi.so.12"))
    starts = [0, *sorted(rng.choice(range(8, 2 * SIZES[-1], 8), rng.integers(1, 4), replace=False))]
    other = str(
        rng.choice(("bcast", "allgather", "alltoall", "reduce", "gather", "scatter", "reduce_scatter"))
    )
    rows = [
        rule(collective, int(start), str(name), RANKS)
        for collective, names in (("allreduce", NAMES), (other, [*nameable(other)]))
        for start, name in zip(starts, rng.choice(names, len(starts)), strict=True)
    ]
    expected = {
        size: alone[str(choice_at(rows, ("allreduce", RANKS, size))["algorithm"])][size] for size in SIZES
    }
    assert kinds(mpich, exported(made, tmp_path, rows)) == expected
