"""Find which rule of a per-size table is in effect at a call (data flow: recommend to files).

Files choose by communicator size too, but a campaign measures only a few communicator sizes. A table applies
within a factor of two of the communicator size on which it was measured; beyond that nothing is known and the
stack decides. Where two tables overlap, the table of the smaller communicator applies below the communicator
size on which the other table was measured. Inside a table a rule applies from its first message size up to
the next rule; the rules together apply from half of the smallest message that was measured to twice the
largest.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from autotune.history.objectives import Slot
from autotune.history.trial import Rule
from autotune.space import Point

T = TypeVar("T")


def table_starts(measured: Sequence[int], exact: Collection[int] = ()) -> dict[int, int]:
    """Return, for each communicator size at which another table begins to apply, that table's measured size.

    The keys are ascending. A value of 0 means that the stack decides from the key on.

    Args:
        measured: Measured communicator sizes in ranks, ascending and distinct.
        exact: Measured sizes whose table must not be used for larger communicators.
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
    """Return the range of message sizes in bytes about which the measured sizes inform.

    The result is a pair: the first size of the range, and the first size beyond it.
    """
    return -(-min(measured) // 2), 2 * max(measured) + 1


def reached(slots: Collection[Slot], collective: str, comm_size: int | None, message_bytes: float) -> bool:
    """Whether measurements in these slots (collective, communicator size, message size) inform about a call.

    Args:
        slots: The slots that were measured.
        collective: The collective that is called.
        comm_size: Ranks of the call's communicator; None: not known.
        message_bytes: Message size of the call.
    """
    measured_by_comm_size: dict[int, list[int]] = {}
    for name, p, measured in slots:
        if name == collective:
            measured_by_comm_size.setdefault(p, []).append(measured)
    owners = (
        measured_by_comm_size
        if comm_size is None
        else {_owner(sorted(measured_by_comm_size), comm_size)} & measured_by_comm_size.keys()
    )
    spans = [size_reach(measured_by_comm_size[p]) for p in owners]
    return any(low <= message_bytes < beyond for low, beyond in spans)


def last_up_to(entries: Mapping[int, T], value: int) -> T | None:
    """Return the entry that applies to a value: that with the largest key up to it; None below all keys."""
    start = max((start for start in entries if start <= value), default=None)
    return None if start is None else entries[start]


def rule_at(rules: Sequence[Rule], slot: Slot) -> Rule | None:
    """Return the rule in effect in a slot (collective, communicator size, message size); None without one."""
    collective, comm_size, size = slot
    owner = _owner(sorted({rule.comm_size for rule in rules if rule.collective == collective}), comm_size)
    table = {r.min_bytes: r for r in rules if (r.collective, r.comm_size) == (collective, owner)}
    return last_up_to(table, size)


def _owner(measured: Sequence[int], comm_size: int) -> int:
    """Return the measured communicator size whose table applies to a communicator size; 0 if none does."""
    return comm_size if comm_size in measured else last_up_to(table_starts(measured), comm_size) or 0


def choice_at(rules: Sequence[Rule], slot: Slot) -> Point:
    """Return the choice of the rules in a slot; an empty point if the stack decides."""
    rule = rule_at(rules, slot)
    return rule.choice if rule else Point()
