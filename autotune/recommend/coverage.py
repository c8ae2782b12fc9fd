"""Whether a campaign says anything of the calls that somebody makes (beside step 12).

What was measured holds within the limits of its per-size tables (``history.lookup``): half to twice the
message sizes, up to twice the ranks, on as many nodes. Beyond them nothing is claimed.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from autotune.history.lookup import reached
from autotune.history.objectives import Slot


class Cover(StrEnum):
    """Relation of a call to what was measured."""

    MEASURED = "measured"
    WITHIN = "within the limits of the rules"
    NOT = "not covered"


@dataclass(frozen=True, slots=True)
class Covered:
    """One kind of calls that was asked for."""

    slot: Slot  # Collective, communicator size, message size.
    nodes: int  # That they run on.
    cover: Cover  # What is known of them.
    why: str = ""  # Not covered: because of what.
    seconds: float | None = None  # That a recording has them take; None: none was given.


def coverage(
    measured: Collection[Slot], nodes: int, asked: Iterable[tuple[Slot, int, float | None]]
) -> tuple[Covered, ...]:
    """The coverage of calls, each as (slot, nodes, seconds), by measurements on ``nodes``."""
    return tuple(Covered(slot, n, *_cover(measured, nodes, slot, n), seconds) for slot, n, seconds in asked)


def _cover(measured: Collection[Slot], nodes: int, slot: Slot, on: int) -> tuple[Cover, str]:
    collective, ranks, size = slot
    sizes = {m for name, _, m in measured if name == collective}
    if not sizes:
        return Cover.NOT, "another collective"
    if on != nodes:
        return Cover.NOT, f"measured on {nodes} node{'s' if nodes > 1 else ''}"
    if slot in measured:
        return Cover.MEASURED, ""
    if reached(measured, collective, ranks, size):
        return Cover.WITHIN, ""
    if any(reached(measured, collective, ranks, m) for m in sizes):
        return Cover.NOT, "a message size beyond those measured"
    theirs = sorted({p for name, p, _ in measured if name == collective})
    return Cover.NOT, f"measured on {', '.join(map(str, theirs))} ranks"
