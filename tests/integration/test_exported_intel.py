"""A real Intel MPI reads the exported variables, and reads ``@`` as the exporter says that it does."""

from pathlib import Path

import numpy as np
import pytest

from autotune.exporters import exporter
from autotune.history.lookup import choice_at
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point
from autotune.stacks.mpich import intel_id
from tests.integration.mpirun import python_of, untold
from tests.program import ran

pytestmark = pytest.mark.intel

PIECES = Path(__file__).with_name("pieces.py")
SIZES = (1024, 4096, 65536)
WHOLE, PARTS = 1, 8
"""Ids of allreduce that tell themselves apart: recursive doubling, ring."""


@pytest.fixture(scope="session")
def intel():
    """The folder of an environment with Intel MPI and mpi4py."""
    return Path(python_of("INTEL")).parent.parent


def kinds(intel, value, ranks=4):
    """(communicator size, message size) → in which pieces an allreduce is done under a value."""
    installed = {
        "I_MPI_ROOT": str(intel),
        "LD_LIBRARY_PATH": str(intel / "lib"),
        "FI_PROVIDER_PATH": str(intel / "opt/mpi/libfabric/lib/prov"),
        "FI_PROVIDER": "tcp",
        "I_MPI_FABRICS": "shm",
    }
    chosen = {} if value is None else {"I_MPI_ADJUST_ALLREDUCE": value}
    done = ran(
        [intel / "bin/mpiexec", "-n", str(ranks), intel / "bin/python", PIECES, *map(str, SIZES)],
        env=untold("I_MPI_", "FI_") | installed | chosen,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = (line.split() for line in done.stdout.splitlines())
    return {(int(n), int(size)): kind for n, size, kind in rows}


def by_size(*said):
    """The same kinds, one for each of ``SIZES``, at 2, 3 and 4 ranks."""
    return {(n, size): kind for n in (2, 3, 4) for size, kind in zip(SIZES, said, strict=True)}


def exported(tmp_path, rules):
    source = Provenance(stack="Intel MPI 2021.18")
    (text,) = (
        exporter("intel").export(Recommendation(Point(), tuple(rules), provenance=source), tmp_path).values()
    )
    script = tmp_path / "intel-mpi-env.sh"
    script.write_text(text)
    said = ran(["sh", "-c", f'. "{script}"; printf %s "$I_MPI_ADJUST_ALLREDUCE"'], check=True)
    return said.stdout


def rule(min_bytes, algorithm):
    return Rule("allreduce", 4, min_bytes, Point.of({"algorithm": algorithm}))


def test_each_exported_row_is_used_for_its_sizes(intel, tmp_path):
    rows = [rule(0, "ring"), rule(4096, "recursive_doubling"), rule(65536, "ring")]
    assert kinds(intel, exported(tmp_path, rows)) == by_size("parts", "whole", "parts")
    rows = [rule(0, "recursive_doubling"), rule(4096, "ring"), rule(65536, "recursive_doubling")]
    assert kinds(intel, exported(tmp_path, rows)) == by_size("whole", "parts", "whole")


NAMES = ("recursive_doubling", "rabenseifner", "reduce_bcast", "ring")


@pytest.fixture(scope="session")
def alone(intel):
    """Algorithm → what it does at each size where it is forced for all."""
    return {name: kinds(intel, str(intel_id("allreduce", name))) for name in NAMES}


@pytest.mark.parametrize("seed", range(4))
def test_the_rows_of_a_random_winner_are_used_for_their_sizes(intel, alone, tmp_path, seed):
    rng = np.random.default_rng(seed)
    starts = [0, *sorted(rng.choice(range(8, 2 * SIZES[-1], 8), rng.integers(1, 4), replace=False))]
    rows = [
        rule(int(start), name) for start, name in zip(starts, rng.choice(NAMES, len(starts)), strict=True)
    ]
    expected = {
        (n, size): alone[str(choice_at(rows, ("allreduce", 4, size))["algorithm"])][n, size]
        for n in (2, 3, 4)
        for size in SIZES
    }
    assert kinds(intel, exported(tmp_path, rows)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (f"{PARTS}:4096-8191", ("parts", "parts", "parts")),  # the last condition has no bounds
        (f"{WHOLE}:0-100;{PARTS}:4096-8191", ("parts", "parts", "parts")),  # nor a lower one
        (f"{WHOLE}:0-2147483647;{PARTS}:4096-8191", ("whole", "whole", "whole")),  # the first that fits
        (f"{WHOLE}:0-4095@2-4;{PARTS}:4096-2147483647@2-4", ("parts", "parts", "parts")),  # by size and ranks
        (f"{PARTS}:4096-2147483647@2-4;{WHOLE}:0-4095@2-4", ("whole", "whole", "whole")),
    ],
    ids=["one", "two", "order", "ranks", "ranks reversed"],
)
def test_conditions_are_upper_bounds_and_sizes_are_forgotten_beside_ranks(intel, value, expected):
    """Why ``@`` is never written."""
    assert kinds(intel, value) == by_size(*expected)


def test_ranks_alone_are_told_apart(intel):
    found = kinds(intel, f"{WHOLE}:0-2147483647@2-2;{PARTS}:0-2147483647@3-3;{WHOLE}:0-2147483647@4-4")
    assert {kind for (n, _), kind in found.items() if n == 3} == {"parts"}
    assert {kind for (n, _), kind in found.items() if n != 3} == {"whole"}


def test_no_id_leaves_a_size_to_the_library(intel):
    """Why rules that leave some sizes to the library are refused: 0 is not what runs without the variable."""
    assert kinds(intel, "0") != kinds(intel, None)
