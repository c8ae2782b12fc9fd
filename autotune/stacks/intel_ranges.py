"""Per-size rules as variables of Intel MPI (used by steps 5 and 12)."""

from collections.abc import Iterable, Sequence

from autotune.errors import UserError
from autotune.history.trial import Rule
from autotune.stacks.mpich import intel_id
from autotune.stacks.tables import algorithm_of, tables

_LARGEST_BYTES = 2**31 - 1  # The last bound: Intel MPI 2021.18 reads bounds as ``int``.


def adjustments(rules: Iterable[Rule]) -> dict[int, dict[str, str]]:
    """Communicator size → ``I_MPI_ADJUST_*`` variables that say the rules for it.

    As Intel MPI 2021.18 reads a value, against its documentation
    (``tests/integration/test_exported_intel.py``):

    - conditions are upper bounds in the order in which they stand; the last one has none;
    - with ``@`` in it, sizes are forgotten: a value tells apart message or communicator sizes;
    - no id stands for the tuned choice made without the variable: 0 is another, simpler one;
    - a bound beyond 2³¹ − 1 is a segmentation fault.

    Raises:
        UserError: an algorithm that Intel MPI has no id for, or sizes that are left to the library.
    """
    by_comm_size: dict[int, dict[str, str]] = {}
    for collective, by_size in tables(rules).items():
        for comm_size, table in by_size.items():
            if value := ";".join(_ranges(collective, comm_size, table)):
                by_comm_size.setdefault(comm_size, {})[adjusted(collective)] = value
    return by_comm_size


def adjusted(collective: str) -> str:
    """The variable that chooses a collective's algorithm in Intel MPI."""
    return f"I_MPI_ADJUST_{collective.upper()}"


def _ranges(collective: str, comm_size: int, table: Sequence[Rule]) -> list[str]:
    """``id:low-high`` for each rule, bounds in bytes, inclusive; none where the library decides all."""
    names = [algorithm_of(rule) for rule in table]
    if not any(names):
        return []
    if not all(names):
        left = ", ".join(str(rule.min_bytes) for rule, name in zip(table, names, strict=True) if not name)
        raise UserError(
            f"{collective} on {comm_size} ranks is left to Intel MPI from {left} bytes on, by size",
            "I_MPI_ADJUST_* set for some sizes takes the tuned choice away from all others",
        )
    ends = [*(rule.min_bytes - 1 for rule in table[1:]), _LARGEST_BYTES]
    return [
        f"{intel_id(collective, name)}:{rule.min_bytes}-{end}"
        for rule, name, end in zip(table, names, ends, strict=True)
    ]
