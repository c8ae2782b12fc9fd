"""The table of cleared algorithms says what the installed libraries do: ``make conformance`` in short.

On four ranks alone, a power of two between three and five: all algorithms with all cases. What fails on other
numbers of ranks only, ``make conformance`` finds. It alone checks Intel MPI, whose ranks never sleep: on two
cores the cases had not ended after seven minutes, beside other tests.
"""

import pytest

from tests.conformance.launching import Stack, outcome
from tests.conformance.table import differences, entry
from tests.suites import python_of

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
