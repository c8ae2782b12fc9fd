"""Calls of a recording that settings can make faster, as the probe measures them (apart from the flow)."""

import math
from dataclasses import dataclass

from autotune.application.recording import Recording
from autotune.collectives import PATTERNS, later


@dataclass(frozen=True, slots=True)
class TunableCalls:
    """Calls that settings can make faster, as the probe measures them."""

    name: str  # One of ``collectives.MEASURED``.
    comm_size: int | None  # Ranks of the communicator; None for messages, where it does not matter.
    message_bytes: float  # Mean message size in bytes.
    count: float  # Calls of one rank; for a halo, the number of halos that its messages make.
    busy_s: float
    """Seconds of a mean rank, without waiting; for messages with waiting, which is not separable."""


def tunable(recorded: Recording) -> tuple[TunableCalls, ...]:
    """Return the calls of a recording that settings can make faster.

    They are blocking collectives, collectives of other kinds that are patterns of the probe, messages and
    one-sided operations.
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
    """Return the number of messages, sent and received, that a rank begins in one call of a probe's pattern.

    A halo has two neighbours in each of two dimensions, or in one where the number of ranks is prime.
    """
    if not pattern.startswith("halo"):
        return 1
    prime = all(ranks % n for n in range(2, math.isqrt(ranks) + 1))
    return 4 if prime else 8
