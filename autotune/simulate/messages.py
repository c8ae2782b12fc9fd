"""Times of patterns of messages: pairs of ranks, neighbours in a grid, and one-sided operations.

Place in the flow: (`Group`, sizes) → :func:`pattern_s` → `predict`. A non-blocking collective takes what the
blocking one takes (``BLOCKING``): without a thread of its own a library goes on with its later rounds in the
wait alone.

Notation: in a pair's row of ``WINDOW`` messages each costs what the busiest of sender, receiver and port
spends on it, and all share the latency of the last one and of the answer. Neighbours' messages are a burst:
CPU times add up on a rank, transfers on its port; the two overlap. Computation hides what is neither CPU time
nor a rendezvous, which begins in the wait. A one-sided operation is a rendezvous without its handshake, and
the word that says that it is complete; a lock and its release are two more, a fence is a barrier.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from autotune.simulate.fabric import Fabric
from autotune.simulate.protocols import NETWORK, Costs, Floats, Ints
from autotune.simulate.schedule import Group

WINDOW = 64  # Messages in a row, as the probe sends them.
COMPUTED_S, COMPUTED_S_A_BYTE = 10e-6, 0.5e-9  # Of what overlaps, as the probe computes.
BLOCKING: Mapping[str, str] = {
    **dict.fromkeys(("iallreduce", "iallreduce_overlap", "allreduce_init"), "allreduce"),
    **dict.fromkeys(("ialltoall", "ialltoall_overlap"), "alltoall"),
}
"""Non-blocking or persistent collective → the blocking one."""


def pattern_s(name: str, group: Group, nbytes: Floats) -> Floats | None:
    """Time of one call, shape (n,); None where there is no model of this pattern, or no partner."""
    return PATTERNS[name](group, nbytes) if name in PATTERNS and group.size > 1 else None


def _flight(costs: Costs) -> Floats:
    """From the call of a sender until a waiting receiver has returned, the slowest of the messages."""
    return np.asarray((costs.send + costs.wire + costs.receive).max(axis=0))


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
    return np.asarray(busy.max(axis=0) + (_flight(costs) + answer) / WINDOW)


def _received(group: Group, costs: Costs, source: Ints, target: Ints) -> Floats:
    """CPU of the receivers; the data of a rendezvous between nodes are moved by the NIC."""
    ranks = group.ranks
    outside = (group.fabric.distance(ranks[source], ranks[target]) == NETWORK)[:, None]
    return np.where(costs.synchronous & outside, 0.0, costs.hold) + costs.receive


def _halo(group: Group, nbytes: Floats, *, dimensions: int = 2, computing: bool = False) -> Floats:
    me, peers = np.arange(group.size), neighbours(group.size, dimensions)
    cpu = port = slowest = np.zeros((group.size, len(nbytes)))
    waits = np.zeros(len(nbytes), bool)
    for peer in peers:
        costs = group.costs(me, peer, nbytes, peers=len(peers))
        cpu = cpu + costs.send + _received(group, costs, me, peer)
        port = port + costs.port
        slowest = np.maximum(slowest, costs.wire)
        waits |= costs.synchronous.any(axis=0)
    took: Floats = np.maximum(cpu, port).max(axis=0) + slowest.max(axis=0)
    if computing:
        hidden = np.minimum(took - cpu.max(axis=0), COMPUTED_S + COMPUTED_S_A_BYTE * nbytes)
        took = took - np.where(waits, 0.0, hidden)
    return took


def _remote(
    group: Group, nbytes: Floats, *, back: bool = False, sums: bool = False, epoch: str = ""
) -> Floats:
    """The first rank writes, or reads (``back``), or combines (``sums``) the last one's memory."""
    fabric, ends = group.fabric, (np.array([0]), np.array([group.size - 1]))
    machine, ranks = fabric.protocols.machine, group.ranks
    at_once = replace(fabric.settings, rndv_intra_bytes=0.0, rndv_inter_bytes=0.0)
    direct = Group(Fabric(machine, fabric.cluster, at_once), ranks, group.missing)
    far = fabric.distance(ranks[ends[0]], ranks[ends[1]])[0] == NETWORK
    handshake = (fabric.protocols.transport if far else machine.memory).rendezvous_s
    took, word = (
        _flight(direct.costs(*(ends[::-1] if back else ends), n, alone=True)) - handshake
        for n in (nbytes, np.zeros_like(nbytes))
    )
    words = {"": 1, "lock": 3, "fence": 2 * np.ceil(np.log2(group.size))}
    its: Floats = took + words[epoch] * word + (group.reduce_s(nbytes) if sums else 0.0)
    return its


def neighbours(size: int, dimensions: int) -> list[Ints]:
    """Everybody's neighbour, (size,), in each direction of a periodic, even grid."""
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
    "halo_overlap": partial(_halo, computing=True),
    **{
        name + (epoch and f"_{epoch}"): partial(
            _remote, back=name == "get", sums=name == "accumulate", epoch=epoch
        )
        for name in ("put", "get", "accumulate")
        for epoch in ("", "lock", "fence")
    },
}
"""Pattern → its model."""
