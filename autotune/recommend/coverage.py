"""Whether a campaign's measurements are valid for the calls of an application (cover these calls).

Place in the flow of ``autotune/__init__.py``: outside it, after step 12, export.

Measurements are valid within the limits of their per-size rules (``history.lookup``): half to twice the
message sizes, up to twice the ranks, on the same number of nodes. Beyond these limits nothing is claimed.
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
    """Whether measurements cover one kind of calls of an application."""

    slot: Slot  # Collective, communicator size, message size.
    nodes: int  # Number of nodes on which the calls run.
    cover: Cover  # Whether measurements cover the calls.
    why: str = ""  # The reason why the calls are not covered; empty if they are.
    seconds: float | None = None  # Time of the calls in a recording of the application; None: not recorded.


def coverage(
    measured: Collection[Slot], nodes: int, calls: Iterable[tuple[Slot, int, float | None]]
) -> tuple[Covered, ...]:
    """Return whether measurements on ``nodes`` nodes cover calls, each given as (slot, nodes, seconds)."""
    return tuple(Covered(slot, n, *_cover(measured, nodes, slot, n), seconds) for slot, n, seconds in calls)


def _cover(measured: Collection[Slot], nodes: int, slot: Slot, call_nodes: int) -> tuple[Cover, str]:
    """Return whether a call on ``call_nodes`` nodes is covered, and the reason if it is not."""
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
