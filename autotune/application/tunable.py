"""Which calls of a recording MPI settings can make faster, by the names that the benchmark probe uses."""

import math
from dataclasses import dataclass

from autotune.application.recording import Recording
from autotune.collectives import PATTERNS, later


@dataclass(frozen=True, slots=True)
class TunableCalls:
    """Calls of one kind that MPI settings can make faster."""

    name: str  # The collective or pattern of messages, one of ``collectives.MEASURED``.
    comm_size: int | None
    """Ranks of the communicator; None for messages, where their number does not matter."""
    message_bytes: float  # Mean message size in bytes.
    count: float
    """Number of calls of one rank; for a halo, the number of halo exchanges that consist of its messages."""
    busy_s: float
    """Seconds of a mean rank in these calls. For collectives they exclude the waiting for late ranks; for
    messages they include waiting, which cannot be separated."""


def tunable(recorded: Recording) -> tuple[TunableCalls, ...]:
    """Return the calls of a recording that MPI settings can make faster.

    They are blocking collectives, non-blocking and persistent collectives that the benchmark probe can
    measure, messages between two ranks, and one-sided operations.
    """
    tunable_calls = []
    for collective in recorded.calls:
        name = collective.collective if collective.tunable else later(collective.collective, collective.kind)
        if collective.tunable or (name in PATTERNS and collective.comm_size > 1):
            size = collective.message_bytes
            tunable_calls.append(
                TunableCalls(name, collective.comm_size, size, collective.calls_per_rank, collective.busy_s)
            )
    for other_calls in recorded.other:
        if name := other_calls.pattern:
            count = other_calls.calls_per_rank / requests(name, recorded.ranks)
            tunable_calls.append(
                TunableCalls(name, None, other_calls.message_bytes, count, other_calls.own_s)
            )
    return tuple(tunable_calls)


def requests(pattern: str, ranks: int) -> int:
    """Return the number of messages, sent and received, that a rank begins in one call of a pattern.

    In a halo exchange a rank has two neighbours in each of two dimensions, or two neighbours in one dimension
    if the number of ranks is prime.
    """
    if not pattern.startswith("halo"):
        return 1
    prime = all(ranks % n for n in range(2, math.isqrt(ranks) + 1))
    return 4 if prime else 8
