"""Which rule is in effect at a call: the reading of a per-size table (steps 10 to 12 of the flow).

Files choose by communicator size too, but a campaign measures only a few. A table holds within a factor of
two of the size that it was measured on; beyond, nothing is known and the stack decides. Where two tables
meet, the smaller one holds up to the size that the larger one was measured on. Inside a table a rule holds
from its first message size up to the next rule, and all of them from half of the smallest message that was
measured to twice the largest.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from autotune.history.objectives import Slot
from autotune.history.trial import Rule
from autotune.space import Point

T = TypeVar("T")


def table_starts(measured: Sequence[int], exact: Collection[int] = ()) -> dict[int, int]:
    """First communicator size → measured size whose table holds from there (0: the stack decides), ascending.

    Measured sizes are ascending and distinct; exact ones have a table that a larger one must not use.
    """
    starts: dict[int, int] = {}
    end = 2  # the smallest communicator that no table covers yet
    for size in measured:
        low = size // 2 + 1
        if low > end:
            starts[end] = 0
        starts[low if low >= end else size] = size
        end = size + 1 if size in exact else 2 * size
    starts[end] = 0
    return dict(sorted(starts.items()))


def size_reach(measured: Collection[int]) -> tuple[int, int]:
    """The range of message sizes that these are evidence for: the first one, and the first one beyond."""
    return -(-min(measured) // 2), 2 * max(measured) + 1


def reached(slots: Collection[Slot], collective: str, comm_size: int | None, size: float) -> bool:
    """Whether measurements in these slots are evidence about a call; a size of None is not known."""
    own: dict[int, list[int]] = {}
    for name, p, measured in slots:
        if name == collective:
            own.setdefault(p, []).append(measured)
    owners = own if comm_size is None else {_owner(sorted(own), comm_size)} & own.keys()
    spans = [size_reach(own[p]) for p in owners]
    return any(low <= size < beyond for low, beyond in spans)


def last_up_to(entries: Mapping[int, T], value: int) -> T | None:
    """The entry that holds at a value, where each holds from a number on; None below all of them."""
    start = max((start for start in entries if start <= value), default=None)
    return None if start is None else entries[start]


def rule_at(rules: Sequence[Rule], slot: Slot) -> Rule | None:
    """The rule in effect in a slot; None where no table holds."""
    collective, comm_size, size = slot
    owner = _owner(sorted({rule.comm_size for rule in rules if rule.collective == collective}), comm_size)
    table = {r.min_bytes: r for r in rules if (r.collective, r.comm_size) == (collective, owner)}
    return last_up_to(table, size)


def _owner(measured: Sequence[int], comm_size: int) -> int:
    """The measured communicator size whose table holds for one; 0: none does."""
    return comm_size if comm_size in measured else last_up_to(table_starts(measured), comm_size) or 0


def choice_at(rules: Sequence[Rule], slot: Slot) -> Point:
    """Choice of the rules in a slot; empty where they leave it to the stack."""
    rule = rule_at(rules, slot)
    return rule.choice if rule else Point()
