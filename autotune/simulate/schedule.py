"""Rounds, rings and bursts: the parts of collective algorithms without a tree, for all ranks and sizes.

Place in the flow: `Fabric` (costs of a message) → rounds, rings, bursts (and ``trees``) → ``algorithms`` →
`predict`.

Notation: t is the time at which each rank of a communicator is free, in seconds, shape (g, n) for g ranks and
n sizes; every function returns the t after its step. An arrival is max-plus arithmetic: a receiver is done at
max(own readiness + hold, sender's departure + wire) + receive, in the terms of `fabric.Costs`.
"""

import numpy as np
from numpy.typing import NDArray

from autotune.simulate.fabric import Fabric
from autotune.simulate.protocols import NETWORK, Costs, Floats, Ints


class Group:
    """A communicator in a call: some ranks of a fabric, numbered 0 … g-1 in their order.

    ``missing``, (n,), is for each message size the share of the call's data that is not in caches.
    """

    __slots__ = ("fabric", "missing", "ranks", "size")

    def __init__(self, fabric: Fabric, ranks: Ints, missing: Floats) -> None:
        self.fabric = fabric
        self.ranks = ranks
        self.missing = missing
        self.size = len(ranks)

    def subset(self, indices: Ints) -> "Group":
        """Return the communicator of some of its ranks."""
        return Group(self.fabric, self.ranks[indices], self.missing)

    def at_sizes(self, mask: NDArray[np.bool_]) -> "Group":
        """Return the same ranks, for some of the message sizes."""
        return Group(self.fabric, self.ranks, self.missing[mask])

    def start(self) -> Floats:
        """Return the readiness at time zero, shape (g, n)."""
        return np.zeros((self.size, len(self.missing)))

    def costs(
        self, source: Ints, target: Ints, nbytes: Floats, *, peers: int = 1, alone: bool = False
    ) -> Costs:
        """Return `Fabric.costs` for ranks given by their numbers in the group."""
        ranks = self.ranks
        return self.fabric.costs(ranks[source], ranks[target], nbytes, self.missing, peers=peers, alone=alone)

    def copy_s(self, nbytes: Floats) -> Floats:
        """Return the duration of a copy that every rank of the job makes at the same time, shape (n,)."""
        return self.fabric.copy_s(nbytes, self.missing)

    def reduce_s(self, nbytes: Floats) -> Floats:
        """Return the duration of combining two payloads on every rank at the same time, shape (n,)."""
        return self.fabric.reduce_s(nbytes, self.missing)


def makespan(t: Floats) -> Floats:
    """Return when the last rank is free, shape (n,)."""
    return np.asarray(t.max(axis=0))


def exchange(
    group: Group, t: Floats, target: Ints, nbytes: Floats, *, work_s: Floats | float = 0.0, peers: int = 1
) -> Floats:
    """Simulate one round in which ranks send to others and receive from others at the same time.

    Args:
        group: The communicator.
        t: Readiness before the round.
        target: Receiving ranks by their numbers in the group, (g,); a rank's own number where it sends
            nothing. No rank receives more than one message.
        nbytes: Message sizes, (n,).
        work_s: CPU time of each receiver after its message (reduction, unpacking), (n,).
        peers: Ranks of other nodes to which a rank sends in the whole algorithm.
    """
    rank = np.arange(group.size)
    sending = target != rank
    costs = group.costs(rank, target, nbytes, peers=peers)
    start = t + costs.send
    if sending.all():
        source = np.empty_like(rank)
        source[target] = rank
        received = np.maximum(start + costs.hold[source], start[source] + costs.wire[source])
        received += costs.receive[source]
        received += work_s
    else:
        senders, receivers = rank[sending], target[sending]
        received = start.copy()
        arrived = np.maximum(start[receivers] + costs.hold[senders], start[senders] + costs.wire[senders])
        received[receivers] = arrived + costs.receive[senders] + work_s
    free = np.maximum(received, start + costs.release)
    if costs.synchronous.any():
        free = np.where(costs.synchronous, np.maximum(free, received[target] - work_s), free)
    return free


def ring(group: Group, t: Floats, nbytes: Floats, rounds: int, *, work_s: Floats | float = 0.0) -> Floats:
    """Simulate equal rounds in which each rank sends to its right and receives from its left, in closed form.

    Round by round this is a max-plus recurrence. So after K rounds the last rank is done when the heaviest
    path of K steps is. This path is along the ring (latency-bound: a window of K successive links), or stays
    at the busiest link (bandwidth-bound). Both are exact for their kind of path, and so is their maximum
    except for mixed paths.

    ``work_s`` (n,) is the CPU time after each message.

    References:
        Baccelli, Cohen, Olsder, Quadrat: "Synchronization and Linearity", 1992, ch. 3 (cycle times).
    """
    if rounds <= 0 or group.size == 1:
        return t
    right_rank, left_rank = (np.roll(np.arange(group.size), shift) for shift in (-1, 1))
    costs = group.costs(np.arange(group.size), right_rank, nbytes)
    pushed = costs.send + costs.wire + costs.receive + work_s
    # A rank sends, receives from its left and works before it can begin the next round.
    stay = costs.send + costs.hold[left_rank] + costs.receive[left_rank] + work_s
    stay = np.maximum(stay, np.maximum(costs.port, costs.send + costs.release))
    stay = np.where(costs.synchronous, np.maximum(stay, pushed - work_s), stay)
    # A rendezvous holds its sender until the receiver has the data, so its link is busy throughout.
    stay = np.where(costs.synchronous[left_rank], np.maximum(stay, pushed[left_rank]), stay)
    full_turns, remainder = divmod(rounds, group.size)
    along = full_turns * pushed.sum(axis=0)
    if remainder:
        sums = np.cumsum(np.concatenate([pushed, pushed[:remainder]]), axis=0)
        windows = sums[remainder - 1 :][: group.size].copy()
        windows[1:] -= sums[: len(windows) - 1]
        along = along + windows.max(axis=0)
    staying = (rounds - 1) * stay.max(axis=0) + np.maximum(pushed, stay).max(axis=0)
    return np.broadcast_to(makespan(t) + np.maximum(along, staying), t.shape)


def burst(group: Group, t: Floats, nbytes: Floats) -> Floats:
    """Simulate that every rank sends to every other at once (all requests posted, then waited for).

    The result is in closed form: CPU times add up on a rank, transfers add up on its share of the NIC, and
    the two overlap. Each of a rank's g-1 messages has the same size.
    """
    fabric = group.fabric
    cpu, nic = np.zeros_like(t), np.zeros_like(t)
    slowest = np.zeros_like(nbytes)
    # For each distance: a rank's partners, and the cost of a message to one of them under full load.
    for partner, count in _partners(group):
        costs = group.costs(np.arange(group.size), partner, nbytes, peers=group.size - 1)
        outside = (fabric.distance(group.ranks, group.ranks[partner]) == NETWORK)[:, None]
        # The NIC moves the data of a rendezvous; inside a node that is the receiver's own copy.
        hold = np.where(costs.synchronous & outside, 0.0, costs.hold)
        cpu += count[:, None] * (costs.send + hold + costs.receive)
        nic += np.where(outside, count[:, None] * costs.port, 0.0)
        slowest = np.maximum(slowest, np.where(np.isfinite(costs.wire), costs.wire, 0.0).max(axis=0))
    busy: Floats = np.maximum(cpu, nic).max(axis=0)
    return np.broadcast_to(makespan(t) + busy + slowest, t.shape)


def _partners(group: Group) -> list[tuple[Ints, Ints]]:
    """Return for each distance one partner of each rank, and the number of such partners, both (g,)."""
    fabric, ranks = group.fabric, group.ranks
    ppn = fabric.cluster.ppn
    partners = []
    if group.size > ppn:
        # One partner on the next node represents all partners on other nodes: every NIC is then fully loaded.
        remote = (np.arange(group.size) + ppn) % group.size
        partners.append((remote, np.full(group.size, group.size - ppn)))
    inside = min(group.size, ppn)
    base = np.arange(group.size) // inside * inside
    local = np.arange(group.size) % inside
    distances = fabric.distance(ranks[local[:inside, None]], ranks[local[None, :inside]])
    for distance in np.unique(distances[distances > 0]):
        matches = distances == distance
        count = matches.sum(axis=1)
        # Rotate, so that partners spread over the domain rather than all meeting one rank.
        turned = np.stack([np.roll(matches[i], -i) for i in range(inside)])
        first = (np.argmax(turned, axis=1) + np.arange(inside)) % inside
        first = np.where(count > 0, first, np.arange(inside))
        # The last node of a communicator may be filled in part only.
        partners.append((np.minimum(base + first[local], group.size - 1), count[local]))
    return partners
