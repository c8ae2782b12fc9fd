"""The table of cleared algorithms says what the installed libraries do: ``make conformance`` in short.

On four ranks alone, a power of two between three and five: all algorithms, compositions and components with
all cases. What fails on other numbers of ranks only, ``make conformance`` finds. It alone checks Intel MPI,
whose ranks never sleep: on two cores the cases had not ended after seven minutes, beside other tests.
"""

import itertools
import os

import pytest

from autotune.exporters import exporter
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point
from tests.conformance.launching import Forced, Stack, launch, outcome
from tests.conformance.table import differences, entry, table
from tests.integration.mpirun import python_of

RANKS = 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", marks=pytest.mark.mpi),
        pytest.param("OPENMPI41", marks=pytest.mark.mpi41),
        pytest.param("MPICH", marks=pytest.mark.mpich),
    ],
)
@pytest.mark.timeout(1800)
def test_the_table_says_what_each_algorithm_does(name):
    stack = Stack(python_of(name))
    outcomes = {RANKS: outcome(stack, RANKS)}
    measured = entry(stack.listed(), outcomes)
    assert differences(stack.named, measured, outcomes) == []


@pytest.mark.parametrize(
    "name", [pytest.param("", marks=pytest.mark.mpi), pytest.param("OPENMPI41", marks=pytest.mark.mpi41)]
)
def test_exported_rules_force_what_is_wrong_for_operations_that_do_not_commute(name, tmp_path, monkeypatch):
    """So they are not exported for everybody: the library does not ask the operation."""
    stack = Stack(python_of(name))
    wrong: dict[str, list[str]] = {}
    for fault in table()[stack.named]["faults"]:
        blocks = not fault["collective"].startswith("i")  # rules are for calls that block
        if fault["commuting_right"] and blocks:
            wrong.setdefault(fault["collective"], []).append(fault["algorithm"])
    source = Provenance("c", stack=f"Open MPI {stack.version}", family="openmpi", commutative=True)
    for algorithms in itertools.zip_longest(*wrong.values()):
        named = {c: a for c, a in zip(wrong, algorithms, strict=True) if a}
        rules = tuple(Rule(c, RANKS, 0, Point.of({"algorithm": a})) for c, a in sorted(named.items()))
        recommended = Recommendation(Point(), rules, provenance=source)
        for file, text in exporter("coll_tuned").export(recommended, tmp_path).items():
            (tmp_path / file).write_text(text)
            monkeypatch.setenv("OMPI_MCA_coll_tuned_dynamic_rules_filename", os.fspath(tmp_path / file))
        monkeypatch.setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1")
        seen = {call for call, case in launch(stack, RANKS, map(Forced, named)).faults if "product" in case}
        assert seen == named.keys()
