"""Per-size rules as variables of Intel MPI (used by steps 5 and 12)."""

import re
from collections.abc import Iterable, Sequence

from autotune.collectives import COLLECTIVES
from autotune.errors import UserError
from autotune.history.trial import Rule
from autotune.stacks.asked import Answer, Asked
from autotune.stacks.mpich import intel_id
from autotune.stacks.tables import algorithm_of, tables

_LARGEST_BYTES = 2**31 - 1  # The last bound: Intel MPI 2021.18 reads bounds as ``int``.


def adjustments(rules: Iterable[Rule]) -> dict[int, dict[str, str]]:
    """Communicator size → ``I_MPI_ADJUST_*`` variables that say the rules for it.

    As Intel MPI 2021.18 reads a value, against its documentation
    (``tests/integration/test_exported_intel.py``):

    - conditions are upper bounds in the order in which they stand; the last one has none;
    - with ``@`` in it, sizes are forgotten: a value has conditions on message sizes or communicator sizes;
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


def adjustment_at(where: str, value: str, call: Asked) -> Answer:
    """The choice of a value of ``I_MPI_ADJUST_*`` for a call; ``where`` is its file and line in words.

    Raises:
        ValueError: a value that Intel MPI would not take; in words.
    """
    shape = re.compile(r"(\d+)(?::(\d+)(?:-(\d+))?)?(?:@(\d+)(?:-(\d+))?)?")
    parts = [shape.fullmatch(part) for part in value.split(";")]
    if not all(parts):
        raise ValueError(f"{value!r} is no list of ID:LOW-HIGH")
    read = [part.groups() for part in parts if part]
    by_ranks = "@" in value
    number, what = (call.ranks, "ranks") if by_ranks else (call.nbytes, "bytes")
    low, high = (3, 4) if by_ranks else (1, 2)
    ends = [int(part[high] or part[low] or _LARGEST_BYTES) for part in read]
    at = next((i for i, end in enumerate(ends) if number <= end), len(ends) - 1)
    names = COLLECTIVES[call.collective].intel
    identity = int(read[at][0] or 0)
    known = names[identity - 1] if 0 < identity <= len(names) else "not documented"
    answer = Answer(call.collective, f"{known} ({identity})", component="Intel MPI")
    reach = f"{number} {what} reach part {at + 1} of {len(read)}"
    answer.why.append(f"{where}: upper bounds are tried in order, and {reach}")
    if by_ranks and ":" in value:
        answer.why.append("with @ in the value its message sizes are forgotten")
    return answer
