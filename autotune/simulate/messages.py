"""Times of patterns of messages: pairs of ranks, and neighbours in a grid.

Place in the flow: (`Group`, sizes) → :func:`pattern_s` → `predict`. What overlaps, returns early or is
one-sided has no model.

Notation: in a pair's row of ``WINDOW`` messages each costs what the busiest of sender, receiver and port
spends on it, and all share the latency of the last one and of the answer. Neighbours' messages are a burst:
CPU times add up on a rank, transfers on its port; the two overlap.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from autotune.simulate.protocols import NETWORK, Costs, Floats, Ints
from autotune.simulate.schedule import Group

WINDOW = 64  # Messages in a row, as the probe sends them.


def pattern_s(name: str, group: Group, nbytes: Floats) -> Floats | None:
    """Time of one call, shape (n,); None where there is no model of this pattern, or no partner."""
    return PATTERNS[name](group, nbytes) if name in PATTERNS and group.size > 1 else None


def _flight(costs: Costs) -> Floats:
    """From the call of a sender until a waiting receiver has returned, the slowest of the messages."""
    took: Floats = (costs.send + costs.wire + costs.receive).max(axis=0)
    return took


def _pingpong(group: Group, nbytes: Floats) -> Floats:
    return _flight(group.costs(np.array([0]), np.array([group.size - 1]), nbytes, alone=True))


def _pairs(group: Group, nbytes: Floats, *, both: bool) -> Floats:
    """Time of one message of a row; both: each rank sends and receives one."""
    half = group.size // 2
    there, back = np.arange(half), np.arange(half) + half
    source, target = (np.r_[there, back], np.r_[back, there]) if both else (there, back)
    costs = group.costs(source, target, nbytes)
    sender, receiver = costs.send, _received(group, costs, source, target)
    # With both ways the one who answers is the sender of the other message, of the same cost.
    busy = np.maximum(sender + receiver if both else np.maximum(sender, receiver), costs.port)
    answer = 0.0 if both else _flight(group.costs(back, there, np.ones_like(nbytes)))
    took: Floats = busy.max(axis=0) + (_flight(costs) + answer) / WINDOW
    return took


def _received(group: Group, costs: Costs, source: Ints, target: Ints) -> Floats:
    """CPU of the receivers; the data of a rendezvous between nodes are moved by the NIC."""
    ranks = group.ranks
    outside = (group.fabric.distance(ranks[source], ranks[target]) == NETWORK)[:, None]
    return np.where(costs.synchronous & outside, 0.0, costs.hold) + costs.receive


def _halo(group: Group, nbytes: Floats, *, dimensions: int = 2) -> Floats:
    me, peers = np.arange(group.size), neighbours(group.size, dimensions)
    cpu = port = slowest = np.zeros((group.size, len(nbytes)))
    for peer in peers:
        costs = group.costs(me, peer, nbytes, peers=len(peers))
        cpu = cpu + costs.send + _received(group, costs, me, peer)
        port = port + costs.port
        slowest = np.maximum(slowest, costs.wire)
    took: Floats = np.maximum(cpu, port).max(axis=0) + slowest.max(axis=0)
    return took


def neighbours(size: int, dimensions: int) -> list[Ints]:
    """For each direction everybody's neighbour there, shape (size,); none along a side of one rank.

    The grid is periodic and as even as a greedy search finds.
    """
    extents, left = [], size
    for dimension in range(dimensions, 0, -1):
        extents.append(max(n for n in range(1, left + 1) if left % n == 0 and n**dimension <= left))
        left //= extents[-1]
    rank, stride, found = np.arange(size), 1, []
    for extent in reversed(extents):
        at = rank // stride % extent
        found += [rank + ((at + by) % extent - at) * stride for by in (-1, 1) if extent > 1]
        stride *= extent
    return found


PATTERNS: Mapping[str, Callable[[Group, Floats], Floats]] = {
    "pingpong": _pingpong,
    "multipair": partial(_pairs, both=False),
    "bidirectional": partial(_pairs, both=True),
    # The model knows no cost of making requests, by which these differ.
    **dict.fromkeys(("halo", "halo_persistent", "halo_neighbor"), _halo),
    "halo3d": partial(_halo, dimensions=3),
}
"""Pattern → its model."""
