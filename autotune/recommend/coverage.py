"""Coverage: find out whether the measurements of a campaign are valid for the calls of an application.

Place in the flow of ``autotune/__init__.py``: outside it, after step 12, export.

Measurements cover a call if the call is within the limits of their per-size rules (``history.lookup``): half
to twice the measured message sizes, up to twice the ranks, and the same number of nodes. Nothing is claimed
for calls beyond these limits.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from autotune.history.lookup import reached
from autotune.history.objectives import Slot


class Cover(StrEnum):
    """Result of the comparison of a call with the measurements; its text is shown to users."""

    MEASURED = "measured"
    WITHIN = "within the limits of the rules"
    NOT = "not covered"


@dataclass(frozen=True, slots=True)
class Covered:
    """The calls of one kind in an application, and whether measurements cover them."""

    slot: Slot  # Collective, communicator size, message size.
    nodes: int
    cover: Cover
    why: str = ""  # Reason why the calls are not covered; empty if they are covered.
    seconds: float | None = None
    """Total time of the calls in a recording of the application; None if the time was not recorded."""


def coverage(
    measured: Collection[Slot], nodes: int, calls: Iterable[tuple[Slot, int, float | None]]
) -> tuple[Covered, ...]:
    """Return for each kind of call whether measurements cover it.

    ``measured`` contains the measured slots (collective, communicator size, message size), ``nodes`` is the
    number of nodes of the measurements, and ``calls`` are given as (slot, nodes, seconds).
    """
    return tuple(Covered(slot, n, *_cover(measured, nodes, slot, n), seconds) for slot, n, seconds in calls)


def _cover(measured: Collection[Slot], nodes: int, slot: Slot, call_nodes: int) -> tuple[Cover, str]:
    collective, ranks, size = slot
    sizes = {m for name, _, m in measured if name == collective}
    if not sizes:
        return Cover.NOT, "another collective"
    if call_nodes != nodes:
        return Cover.NOT, f"measured on {nodes} node{'s' if nodes > 1 else ''}"
    if slot in measured:
        return Cover.MEASURED, ""
    if reached(measured, collective, ranks, size):
        return Cover.WITHIN, ""
    if any(reached(measured, collective, ranks, m) for m in sizes):
        return Cover.NOT, "a message size beyond those measured"
    measured_ranks = sorted({p for name, p, _ in measured if name == collective})
    return Cover.NOT, f"measured on {', '.join(map(str, measured_ranks))} ranks"
