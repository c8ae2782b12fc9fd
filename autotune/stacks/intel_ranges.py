"""Rules by message size as environment variables of Intel MPI, for launches and exported files."""

import re
from collections.abc import Iterable, Sequence

from autotune.collectives import COLLECTIVES
from autotune.errors import UserError
from autotune.history.trial import Rule
from autotune.stacks.asked import Answer, Asked
from autotune.stacks.mpich import intel_id
from autotune.stacks.tables import algorithm_of, tables

_LARGEST_BYTES = 2**31 - 1  # Largest bound in bytes: Intel MPI 2021.18 reads bounds as ``int``.


def adjustments(rules: Iterable[Rule]) -> dict[int, dict[str, str]]:
    """Return the ``I_MPI_ADJUST_*`` variables that contain the rules, by communicator size.

    Intel MPI 2021.18 reads the value of such a variable otherwise than its documentation says
    (``tests/integration/test_exported_intel.py``):

    - only upper bounds count: the first part whose upper bound is not exceeded applies, else the last part;
    - if a value contains ``@``, its message sizes are ignored, so a value has conditions either on message
      sizes or on communicator sizes;
    - no id stands for the tuned choice that Intel MPI makes without the variable: 0 is a simpler choice;
    - a bound beyond 2³¹ − 1 leads to a segmentation fault.

    Raises:
        UserError: Intel MPI has no id for an algorithm, or the rules leave some sizes to the library.
    """
    by_comm_size: dict[int, dict[str, str]] = {}
    for collective, by_size in tables(rules).items():
        for comm_size, table in by_size.items():
            if value := ";".join(_ranges(collective, comm_size, table)):
                by_comm_size.setdefault(comm_size, {})[adjusted(collective)] = value
    return by_comm_size


def adjusted(collective: str) -> str:
    """Return the variable that chooses a collective's algorithm in Intel MPI."""
    return f"I_MPI_ADJUST_{collective.upper()}"


def _ranges(collective: str, comm_size: int, table: Sequence[Rule]) -> list[str]:
    """Return ``id:low-high`` for each rule, with inclusive bounds in bytes; empty if no rule names an id."""
    names = [algorithm_of(rule) for rule in table]
    if not any(names):
        return []
    if not all(names):
        unset_sizes = ", ".join(
            str(rule.min_bytes) for rule, name in zip(table, names, strict=True) if not name
        )
        raise UserError(
            f"{collective} on {comm_size} ranks is left to Intel MPI from {unset_sizes} bytes on, by size",
            "I_MPI_ADJUST_* set for some sizes takes the tuned choice away from all others",
        )
    ends = [*(rule.min_bytes - 1 for rule in table[1:]), _LARGEST_BYTES]
    return [
        f"{intel_id(collective, name)}:{rule.min_bytes}-{end}"
        for rule, name, end in zip(table, names, ends, strict=True)
    ]


def adjustment_at(place: str, value: str, call: Asked) -> Answer:
    """Return the algorithm that a value of ``I_MPI_ADJUST_*`` at a place (file and line) chooses for a call.

    Raises:
        ValueError: the value does not have the form that Intel MPI expects.
    """
    shape = re.compile(r"(\d+)(?::(\d+)(?:-(\d+))?)?(?:@(\d+)(?:-(\d+))?)?")
    parts = [shape.fullmatch(part) for part in value.split(";")]
    if not all(parts):
        raise ValueError(f"{value!r} is no list of ID:LOW-HIGH")
    read = [part.groups() for part in parts if part]
    by_ranks = "@" in value
    number, unit = (call.ranks, "ranks") if by_ranks else (call.nbytes, "bytes")
    low, high = (3, 4) if by_ranks else (1, 2)
    ends = [int(part[high] or part[low] or _LARGEST_BYTES) for part in read]
    at = next((i for i, end in enumerate(ends) if number <= end), len(ends) - 1)
    names = COLLECTIVES[call.collective].intel
    identity = int(read[at][0] or 0)
    name = names[identity - 1] if 0 < identity <= len(names) else "not documented"
    answer = Answer(call.collective, f"{name} ({identity})", component="Intel MPI")
    reach = f"{number} {unit} reach part {at + 1} of {len(read)}"
    answer.why.append(f"{place}: upper bounds are tried in order, and {reach}")
    if by_ranks and ":" in value:
        answer.why.append("with @ in the value its message sizes are forgotten")
    return answer
