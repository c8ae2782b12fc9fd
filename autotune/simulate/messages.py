"""Simulate message patterns: pairs of ranks, neighbours in a grid, and one-sided operations.

Place in the flow: (`Group`, sizes) → :func:`pattern_s` → `predict`. A non-blocking collective takes as long
as its blocking form (``BLOCKING``), because a library without a progress thread runs all rounds but the first
only while it waits.

The models: a pair exchanges a row of ``WINDOW`` messages. Each message takes as long as the busiest of
sender, receiver and port; the row also takes the latency of its last message and of the answer. Messages to
neighbours in a grid are sent at the same time: CPU times add up on a rank, transfers add up on its port, and
CPU times and transfers overlap. Computation hides everything except CPU time and the rendezvous, which begins
only in the wait. A one-sided operation is a rendezvous without handshake, followed by a short message that
signals its completion. A lock and its release are two more short messages, and a fence is a barrier.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from autotune.probe.declared import COMPUTE_S, COMPUTE_S_A_BYTE
from autotune.probe.messages import WINDOW, neighbours
from autotune.simulate.fabric import Fabric
from autotune.simulate.protocols import NETWORK, Costs, Floats, Ints
from autotune.simulate.schedule import Group

BLOCKING: Mapping[str, str] = {
    **dict.fromkeys(("iallreduce", "iallreduce_overlap", "allreduce_init"), "allreduce"),
    **dict.fromkeys(("ialltoall", "ialltoall_overlap"), "alltoall"),
}
"""Maps each non-blocking or persistent collective to its blocking form."""


def pattern_s(name: str, group: Group, nbytes: Floats) -> Floats | None:
    """Return the time of one call of a pattern, shape (n,).

    The result is None if the pattern has no model or if the communicator has only one rank.
    """
    return PATTERNS[name](group, nbytes) if name in PATTERNS and group.size > 1 else None


def _flight(costs: Costs) -> Floats:
    """Return the time of the slowest message, from the sender's call to the return of a waiting receiver."""
    return np.asarray((costs.send + costs.wire + costs.receive).max(axis=0))


def _pingpong(group: Group, nbytes: Floats) -> Floats:
    return _flight(group.costs(np.array([0]), np.array([group.size - 1]), nbytes, alone=True))


def _pairs(group: Group, nbytes: Floats, *, bidirectional: bool) -> Floats:
    """Return the time of one message in a row of messages between pairs of ranks.

    With ``bidirectional`` both ranks of a pair send at the same time.
    """
    half = group.size // 2
    lower, upper = np.arange(half), np.arange(half) + half
    source, target = (np.r_[lower, upper], np.r_[upper, lower]) if bidirectional else (lower, upper)
    costs = group.costs(source, target, nbytes)
    sender, receiver = costs.send, _received(group, costs, source, target)
    # If both ranks of a pair send, there is no answer: each of them waits for the messages of the other.
    busy = np.maximum(sender + receiver if bidirectional else np.maximum(sender, receiver), costs.port)
    answer = 0.0 if bidirectional else _flight(group.costs(upper, lower, np.ones_like(nbytes)))
    return np.asarray(busy.max(axis=0) + (_flight(costs) + answer) / WINDOW)


def _received(group: Group, costs: Costs, source: Ints, target: Ints) -> Floats:
    """Return the receivers' CPU time.

    Between nodes, the NIC and not the CPU moves the data of a rendezvous.
    """
    ranks = group.ranks
    outside = (group.fabric.distance(ranks[source], ranks[target]) == NETWORK)[:, None]
    return np.where(costs.synchronous & outside, 0.0, costs.hold) + costs.receive


def _halo(group: Group, nbytes: Floats, *, dimensions: int = 2, computing: bool = False) -> Floats:
    """Return the time that a rank spends on exchanging messages with all its neighbours in a grid.

    With ``computing`` the result leaves out the part of this time that computation hides.
    """
    me = np.arange(group.size)
    peers = neighbours(me, group.size, dimensions)
    cpu = port = slowest = np.zeros((group.size, len(nbytes)))
    waits = np.zeros(len(nbytes), bool)
    for peer in peers:
        costs = group.costs(me, peer, nbytes, peers=len(peers))
        cpu = cpu + costs.send + _received(group, costs, me, peer)
        port = port + costs.port
        slowest = np.maximum(slowest, costs.wire)
        waits |= costs.synchronous.any(axis=0)
    duration: Floats = np.maximum(cpu, port).max(axis=0) + slowest.max(axis=0)
    if computing:
        hidden = np.minimum(duration - cpu.max(axis=0), COMPUTE_S + COMPUTE_S_A_BYTE * nbytes)
        duration = duration - np.where(waits, 0.0, hidden)
    return duration


def _remote(
    group: Group, nbytes: Floats, *, reads: bool = False, sums: bool = False, epoch: str = ""
) -> Floats:
    """Return the time of a one-sided operation of the first rank on the memory of the last rank.

    The operation writes the memory, reads it (``reads``) or adds to it (``sums``). ``epoch`` is the kind of
    its synchronisation: ``lock``, ``fence``, or empty.
    """
    fabric, ends = group.fabric, (np.array([0]), np.array([group.size - 1]))
    machine, ranks = fabric.protocols.machine, group.ranks
    no_eager = replace(fabric.settings, rndv_intra_bytes=0.0, rndv_inter_bytes=0.0)
    direct = Group(Fabric(machine, fabric.cluster, no_eager), ranks, group.missing)
    far = fabric.distance(ranks[ends[0]], ranks[ends[1]])[0] == NETWORK
    handshake = (fabric.protocols.transport if far else machine.memory).rendezvous_s
    took, word = (
        _flight(direct.costs(*(ends[::-1] if reads else ends), n, alone=True)) - handshake
        for n in (nbytes, np.zeros_like(nbytes))
    )
    words = {"": 1, "lock": 3, "fence": 2 * np.ceil(np.log2(group.size))}
    duration: Floats = took + words[epoch] * word + (group.reduce_s(nbytes) if sums else 0.0)
    return duration


PATTERNS: Mapping[str, Callable[[Group, Floats], Floats]] = {
    "pingpong": _pingpong,
    "multipair": partial(_pairs, bidirectional=False),
    "bidirectional": partial(_pairs, bidirectional=True),
    # These three patterns differ only in the cost of creating requests, which the model leaves out.
    **dict.fromkeys(("halo", "halo_persistent", "halo_neighbor"), _halo),
    "halo3d": partial(_halo, dimensions=3),
    "halo_overlap": partial(_halo, computing=True),
    **{
        name + (epoch and f"_{epoch}"): partial(
            _remote, reads=name == "get", sums=name == "accumulate", epoch=epoch
        )
        for name in ("put", "get", "accumulate")
        for epoch in ("", "lock", "fence")
    },
}
"""Maps the name of each pattern to the function that returns the pattern's time."""
