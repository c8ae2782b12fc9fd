"""Calls of a recording that settings can make faster, as the probe measures them (beside the flow)."""

import math
from dataclasses import dataclass

from autotune.collectives import PATTERNS, later
from autotune.importers.recording import Recording


@dataclass(frozen=True, slots=True)
class TunableCalls:
    """Calls that settings can make faster, as the probe measures them."""

    name: str  # One of ``collectives.MEASURED``.
    comm_size: int | None  # Ranks of the communicator; None: of messages it does not matter.
    message_bytes: float  # Mean message size.
    count: float  # Calls of one rank; of a halo as many as its messages make.
    busy_s: float  # Seconds of a mean rank; of messages with what it waited, which is not separable.


def tunable(recorded: Recording) -> tuple[TunableCalls, ...]:
    """Blocking collectives, those of other kinds that are patterns, messages and one-sided operations."""
    found = []
    for one in recorded.calls:
        name = one.collective if one.tunable else later(one.collective, one.kind)
        if one.tunable or (name in PATTERNS and one.comm_size > 1):
            size = one.message_bytes
            found.append(TunableCalls(name, one.comm_size, size, one.calls_per_rank, one.busy_s))
    for other in recorded.other:
        if name := other.pattern:
            count = other.calls_per_rank / requests(name, recorded.ranks)
            found.append(TunableCalls(name, None, other.message_bytes, count, other.own_s))
    return tuple(found)


def requests(pattern: str, ranks: int) -> int:
    """Messages, sent and received, that a rank begins in one call of a pattern as the probe makes it.

    A halo has two neighbours in each of two dimensions, or of one where the number of ranks is prime.
    """
    if not pattern.startswith("halo"):
        return 1
    prime = all(ranks % n for n in range(2, math.isqrt(ranks) + 1))
    return 4 if prime else 8
