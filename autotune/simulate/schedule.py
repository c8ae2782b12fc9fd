"""Rounds, rings and bursts: what collective algorithms without a tree are made of, over all ranks and sizes.

Place in the flow: `Fabric` (costs of a message) → rounds, rings, bursts (and ``trees``) → ``algorithms`` →
`predict`.

Notation: t is when each rank of a communicator is free, seconds, shape (g, n) for g ranks and n sizes; every
function returns the t after its step. An arrival is max-plus arithmetic: a receiver is done at
max(own readiness + hold, sender's departure + wire) + receive, in the words of `fabric.Costs`.
"""

import numpy as np
from numpy.typing import NDArray

from autotune.simulate.fabric import Fabric
from autotune.simulate.protocols import NETWORK, Costs, Floats, Ints


class Group:
    """A communicator in a call: some ranks of a fabric, numbered 0 … g-1 in their order.

    ``missing``, (n,): for each message size the share of the call's data that is not in caches.
    """

    __slots__ = ("fabric", "missing", "ranks", "size")

    def __init__(self, fabric: Fabric, ranks: Ints, missing: Floats) -> None:
        self.fabric = fabric
        self.ranks = ranks
        self.missing = missing
        self.size = len(ranks)

    def subset(self, at: Ints) -> "Group":
        """Some of its ranks."""
        return Group(self.fabric, self.ranks[at], self.missing)

    def at_sizes(self, mask: NDArray[np.bool_]) -> "Group":
        """The same ranks, for some of the message sizes."""
        return Group(self.fabric, self.ranks, self.missing[mask])

    def start(self) -> Floats:
        """Everybody free at time zero, shape (g, n)."""
        return np.zeros((self.size, len(self.missing)))

    def costs(
        self, source: Ints, target: Ints, nbytes: Floats, *, peers: int = 1, alone: bool = False
    ) -> Costs:
        """`Fabric.costs` by numbers in the group."""
        ranks = self.ranks
        return self.fabric.costs(ranks[source], ranks[target], nbytes, self.missing, peers=peers, alone=alone)

    def copy_s(self, nbytes: Floats) -> Floats:
        """A copy that every rank of the job makes at the same time; shape (n,)."""
        return self.fabric.copy_s(nbytes, self.missing)

    def reduce_s(self, nbytes: Floats) -> Floats:
        """Combining of a payload into another that every rank does at the same time; shape (n,)."""
        return self.fabric.reduce_s(nbytes, self.missing)


def makespan(t: Floats) -> Floats:
    """When the last rank is free, shape (n,)."""
    return np.asarray(t.max(axis=0))


def exchange(
    group: Group, t: Floats, target: Ints, nbytes: Floats, *, work_s: Floats | float = 0.0, peers: int = 1
) -> Floats:
    """One round in which ranks send to others and receive from others at the same time.

    Targets, shape (g,), are numbers in the group, a rank's own where it sends nothing; nobody receives more
    than one message. ``work_s`` (n,) is the CPU time of each receiver after its message (reduction,
    unpacking); peers are ranks of other nodes that a rank talks to in the whole algorithm.
    """
    me = np.arange(group.size)
    sending = target != me
    costs = group.costs(me, target, nbytes, peers=peers)
    start = t + costs.send
    if sending.all():
        source = np.empty_like(me)
        source[target] = me
        done = np.maximum(start + costs.hold[source], start[source] + costs.wire[source])
        done += costs.receive[source]
        done += work_s
    else:
        senders, receivers = me[sending], target[sending]
        done = start.copy()
        arrived = np.maximum(start[receivers] + costs.hold[senders], start[senders] + costs.wire[senders])
        done[receivers] = arrived + costs.receive[senders] + work_s
    free = np.maximum(done, start + costs.release)
    if costs.synchronous.any():
        free = np.where(costs.synchronous, np.maximum(free, done[target] - work_s), free)
    return free


def ring(group: Group, t: Floats, nbytes: Floats, rounds: int, *, work_s: Floats | float = 0.0) -> Floats:
    """Equal rounds in which every rank sends to its right and receives from its left, in closed form.

    Round by round this is a max-plus recurrence, so after K rounds the last rank is done when the heaviest
    path of K steps is: along the ring (latency-bound: a window of K successive links), or staying at the
    busiest link (bandwidth-bound). Both are exact for their kind of path, and so is their maximum but for
    mixed paths.

    ``work_s`` (n,) is the CPU time after each message.

    References:
        Baccelli, Cohen, Olsder, Quadrat: "Synchronization and Linearity", 1992, ch. 3 (cycle times).
    """
    if rounds <= 0 or group.size == 1:
        return t
    right, left = (np.roll(np.arange(group.size), shift) for shift in (-1, 1))
    costs = group.costs(np.arange(group.size), right, nbytes)
    pushed = costs.send + costs.wire + costs.receive + work_s
    # A rank that stays put sends, receives from its left, works: the next round cannot begin before.
    stay = costs.send + costs.hold[left] + costs.receive[left] + work_s
    stay = np.maximum(stay, np.maximum(costs.port, costs.send + costs.release))
    stay = np.where(costs.synchronous, np.maximum(stay, pushed - work_s), stay)
    # A rendezvous holds its sender until the receiver has the data, so its link is busy throughout.
    stay = np.where(costs.synchronous[left], np.maximum(stay, pushed[left]), stay)
    turns, rest = divmod(rounds, group.size)
    along = turns * pushed.sum(axis=0)
    if rest:
        sums = np.cumsum(np.concatenate([pushed, pushed[:rest]]), axis=0)
        windows = sums[rest - 1 :][: group.size].copy()
        windows[1:] -= sums[: len(windows) - 1]
        along = along + windows.max(axis=0)
    staying = (rounds - 1) * stay.max(axis=0) + np.maximum(pushed, stay).max(axis=0)
    return np.broadcast_to(makespan(t) + np.maximum(along, staying), t.shape)


def burst(group: Group, t: Floats, nbytes: Floats) -> Floats:
    """Everybody sends to everybody at once (all requests posted, then waited for), in closed form.

    CPU times add up on a rank, transfers add up on its share of the NIC; the two overlap.

    Each of a rank's g-1 messages has the same size.
    """
    fabric = group.fabric
    cpu, nic = np.zeros_like(t), np.zeros_like(t)
    slowest = np.zeros_like(nbytes)
    # By distance: a rank's partners there, and what one message to any of them costs under full load.
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
    """For each distance: one partner of each rank, and the number of such partners, both (g,)."""
    fabric, ranks = group.fabric, group.ranks
    ppn = fabric.cluster.ppn
    partners = []
    if group.size > ppn:
        # One partner on the next node stands for all partners on other nodes: every NIC is then fully loaded.
        away = (np.arange(group.size) + ppn) % group.size
        partners.append((away, np.full(group.size, group.size - ppn)))
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
