"""Whether a campaign's measurements cover the calls of an application (outside the flow, after step 12).

Measurements hold within the limits of their per-size tables (``history.lookup``): half to twice the message
sizes, up to twice the ranks, on the same number of nodes. Beyond these limits nothing is claimed.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from autotune.history.lookup import reached
from autotune.history.objectives import Slot


class Cover(StrEnum):
    """Says whether measurements cover a call; the text is shown to users."""

    MEASURED = "measured"
    WITHIN = "within the limits of the rules"
    NOT = "not covered"


@dataclass(frozen=True, slots=True)
class Covered:
    """Says whether one kind of calls of an application is covered."""

    slot: Slot  # Collective, communicator size, message size.
    nodes: int  # Number of nodes on which the calls run.
    cover: Cover  # Whether measurements cover them.
    why: str = ""  # The reason why they are not covered; empty where they are.
    seconds: float | None = None  # Time of the calls in a recording; None: there is no recording.


def coverage(
    measured: Collection[Slot], nodes: int, calls: Iterable[tuple[Slot, int, float | None]]
) -> tuple[Covered, ...]:
    """Return the coverage of calls, each as (slot, nodes, seconds), by measurements on ``nodes`` nodes."""
    return tuple(Covered(slot, n, *_cover(measured, nodes, slot, n), seconds) for slot, n, seconds in calls)


def _cover(measured: Collection[Slot], nodes: int, slot: Slot, call_nodes: int) -> tuple[Cover, str]:
    """Return the coverage of a call on ``call_nodes`` nodes, and the reason where it is not covered."""
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
