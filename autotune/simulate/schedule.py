"""Simulate rounds, rings and bursts: the parts of collective algorithms that do not use a tree.

Each simulation covers all ranks and message sizes at once.

Place in the flow: `Fabric` (costs of a message) → rounds, rings, bursts (and ``trees``) → ``algorithms`` →
`predict`.

Notation: t is the time at which each rank of a communicator is ready for its next step, in seconds, shape (g,
n) for g ranks and n sizes. Every function takes the t before a step and returns the t after it. In the terms
of `protocols.Costs`, a receiver is ready at max(its t + hold, time when the sender has sent + wire) +
receive.
"""

import numpy as np
from numpy.typing import NDArray

from autotune.simulate.fabric import Fabric
from autotune.simulate.protocols import NETWORK, Costs, Floats, Ints


class Group:
    """A communicator in a call: some ranks of a job, numbered 0 … g-1 in their order.

    ``missing``, (n,), is the share of the call's data that is not in caches, for each message size.
    """

    __slots__ = ("fabric", "missing", "ranks", "size")

    def __init__(self, fabric: Fabric, ranks: Ints, missing: Floats) -> None:
        self.fabric = fabric
        self.ranks = ranks
        self.missing = missing
        self.size = len(ranks)

    def subset(self, indices: Ints) -> "Group":
        """Return the communicator of the ranks with these numbers in this communicator."""
        return Group(self.fabric, self.ranks[indices], self.missing)

    def at_sizes(self, mask: NDArray[np.bool_]) -> "Group":
        """Return the communicator of the same ranks, reduced to some of the message sizes."""
        return Group(self.fabric, self.ranks, self.missing[mask])

    def start(self) -> Floats:
        """Return t if all ranks are ready at time zero, shape (g, n)."""
        return np.zeros((self.size, len(self.missing)))

    def costs(
        self, source: Ints, target: Ints, nbytes: Floats, *, peers: int = 1, alone: bool = False
    ) -> Costs:
        """Return `Fabric.costs` for ranks given by their numbers in this communicator."""
        ranks = self.ranks
        return self.fabric.costs(ranks[source], ranks[target], nbytes, self.missing, peers=peers, alone=alone)

    def copy_s(self, nbytes: Floats) -> Floats:
        """Return the time of a copy if all ranks of the job copy at the same time, shape (n,)."""
        return self.fabric.copy_s(nbytes, self.missing)

    def reduce_s(self, nbytes: Floats) -> Floats:
        """Return the time to combine two payloads if all ranks do so at the same time, shape (n,)."""
        return self.fabric.reduce_s(nbytes, self.missing)


def makespan(t: Floats) -> Floats:
    """Return the time at which the last rank is ready, shape (n,)."""
    return np.asarray(t.max(axis=0))


def exchange(
    group: Group, t: Floats, target: Ints, nbytes: Floats, *, work_s: Floats | float = 0.0, peers: int = 1
) -> Floats:
    """Simulate one round in which ranks send to others and receive from others at the same time.

    Args:
        group: The communicator.
        t: Times at which the ranks begin the round.
        target: Receiving ranks by their numbers in the communicator, (g,). A rank that sends nothing has its
            own number here. No rank receives more than one message.
        nbytes: Message sizes, (n,).
        work_s: CPU time that each receiver needs after its message (reduction, unpacking), (n,).
        peers: Number of ranks on other nodes to which a rank sends in the whole algorithm.
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
    """Simulate equal rounds in which each rank sends to its right and receives from its left neighbour.

    The result is in closed form. The times of the rounds follow a max-plus recurrence, so K rounds take as
    long as the longest path of K dependent steps. Two kinds of paths are considered: along the ring over K
    successive links (latency-bound), and K times over the busiest link (bandwidth-bound). The result is the
    longer of these two, which is exact unless a path that mixes both kinds is longer.

    ``work_s``, (n,), is the CPU time that a rank needs after each message.

    References:
        Baccelli, Cohen, Olsder, Quadrat: "Synchronization and Linearity", 1992, ch. 3 (cycle times).
    """
    if rounds <= 0 or group.size == 1:
        return t
    right_rank, left_rank = (np.roll(np.arange(group.size), shift) for shift in (-1, 1))
    costs = group.costs(np.arange(group.size), right_rank, nbytes)
    pushed = costs.send + costs.wire + costs.receive + work_s
    # A *stay* is the time that a rank needs for one round: it has to send, to receive from its left, and to
    # work on what it received.
    stay = costs.send + costs.hold[left_rank] + costs.receive[left_rank] + work_s
    stay = np.maximum(stay, np.maximum(costs.port, costs.send + costs.release))
    stay = np.where(costs.synchronous, np.maximum(stay, pushed - work_s), stay)
    # In a rendezvous the sender waits until the receiver has the data, so the link is busy during the whole
    # stay.
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
    """Simulate that every rank sends messages to all other ranks at once, and then waits for all messages.

    The result is in closed form: CPU times add up on each rank, transfers add up on the rank's share of the
    NIC, and CPU times and transfers overlap. All g-1 messages of a rank have the same size.
    """
    fabric = group.fabric
    cpu, nic = np.zeros_like(t), np.zeros_like(t)
    slowest = np.zeros_like(nbytes)
    # All messages of a rank to the same distance have the same cost, so one partner represents all partners
    # at each distance.
    for partner, count in _partners(group):
        costs = group.costs(np.arange(group.size), partner, nbytes, peers=group.size - 1)
        outside = (fabric.distance(group.ranks, group.ranks[partner]) == NETWORK)[:, None]
        # Between nodes the NIC moves the data of a rendezvous; inside a node the receiver has to copy the
        # data.
        hold = np.where(costs.synchronous & outside, 0.0, costs.hold)
        cpu += count[:, None] * (costs.send + hold + costs.receive)
        nic += np.where(outside, count[:, None] * costs.port, 0.0)
        slowest = np.maximum(slowest, np.where(np.isfinite(costs.wire), costs.wire, 0.0).max(axis=0))
    busy: Floats = np.maximum(cpu, nic).max(axis=0)
    return np.broadcast_to(makespan(t) + busy + slowest, t.shape)


def _partners(group: Group) -> list[tuple[Ints, Ints]]:
    """Return for each distance one partner of each rank and the number of such partners, each (g,)."""
    fabric, ranks = group.fabric, group.ranks
    ppn = fabric.cluster.ppn
    partners = []
    if group.size > ppn:
        # One partner on the next node represents all partners on other nodes; every NIC is then fully loaded.
        remote = (np.arange(group.size) + ppn) % group.size
        partners.append((remote, np.full(group.size, group.size - ppn)))
    inside = min(group.size, ppn)
    base = np.arange(group.size) // inside * inside
    local = np.arange(group.size) % inside
    distances = fabric.distance(ranks[local[:inside, None]], ranks[local[None, :inside]])
    for distance in np.unique(distances[distances > 0]):
        matches = distances == distance
        count = matches.sum(axis=1)
        # The search for a partner begins at the rank itself, so that ranks choose different partners.
        turned = np.stack([np.roll(matches[i], -i) for i in range(inside)])
        first = (np.argmax(turned, axis=1) + np.arange(inside)) % inside
        first = np.where(count > 0, first, np.arange(inside))
        # The last node of a communicator may have fewer ranks than other nodes.
        partners.append((np.minimum(base + first[local], group.size - 1), count[local]))
    return partners
