"""Trees of ranks: their shapes in Open MPI, and simulations of data that move up or down a tree in segments.

Place in the flow: `Fabric` (costs of a message) → trees → ``algorithms`` → `predict`.

Notation: as in ``schedule``. A tree consists of the parent of each rank (as the parent's number in the group,
-1 for a root) and of each rank's position among its siblings. The first segment of a message takes the time
of its way through the whole tree. Each further segment takes the time of the slowest stage, because all edges
are busy then.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autotune.simulate.protocols import Floats, Ints
from autotune.simulate.schedule import Group, makespan

_STEPWISE = 160
"""Trees with more steps than this (chains, flat trees) are not simulated step by step; times are summed along
their paths instead."""


@dataclass(frozen=True, slots=True, eq=False)
class RankTree:
    """One rooted tree of ranks, or several."""

    parent: Ints  # Number of each rank's parent, -1 for a root, shape (g,).
    turn: Ints  # Position of each rank among the children of its parent, counted from 0, shape (g,).

    def depth(self) -> Ints:
        """Return the number of edges between each rank and its root, shape (g,)."""
        return self.along_paths(np.ones((len(self.parent), 1)))[:, 0].astype(np.intp)

    def along_paths(self, weight: Floats) -> Floats:
        """Return for each rank the sum of the edge weights up to its root, (g, n), by pointer jumping."""
        total = np.where((self.parent >= 0)[:, None], weight, 0.0)
        above = self.parent.copy()
        while (above >= 0).any():
            total = total + np.where((above >= 0)[:, None], total[above], 0.0)
            above = np.where(above >= 0, above[above], -1)
        return total

    def steps(self) -> list[Ints]:
        """Return groups of ranks, in the order of the steps in which their parents send to them.

        The order is by depth, then by the position among siblings.
        """
        children = np.flatnonzero(self.parent >= 0)
        if not len(children):
            return []
        key = self.depth()[children] * (int(self.turn.max()) + 1) + self.turn[children]
        order = np.argsort(key, kind="stable")
        _, first = np.unique(key[order], return_index=True)
        return np.split(children[order], first[1:])


Shape = Callable[[int], RankTree]  # Function that returns the tree for a number of ranks.


def linear(size: int) -> RankTree:
    """Return a tree in which rank 0 is the root and all other ranks are its children."""
    rank = np.arange(size)
    return RankTree(np.where(rank == 0, -1, 0), np.maximum(rank - 1, 0))


def chains(size: int, fanout: int) -> RankTree:
    """Return a tree in which rank 0 is the root of `fanout` chains of consecutive ranks."""
    rank = np.arange(size)
    length = max(1, -(-(size - 1) // fanout))
    place = (rank - 1) % length
    head = (rank > 0) & (place == 0)
    parent = np.where(rank == 0, -1, np.where(head, 0, rank - 1))
    return RankTree(parent, np.where(head, (rank - 1) // length, 0))


def binary(size: int) -> RankTree:
    """Return a complete binary tree in breadth-first order."""
    rank = np.arange(size)
    return RankTree(np.where(rank == 0, -1, (rank - 1) // 2), np.where(rank == 0, 0, (rank - 1) % 2))


def in_order_binary(size: int) -> RankTree:
    """Return a binary tree with the last rank as root, whose in-order traversal is the order of the ranks."""
    parent = np.full(size, -1)
    turn = np.zeros(size, dtype=np.intp)
    low, high, root = np.zeros(1, np.intp), np.full(1, size - 1), np.full(1, size - 1)
    while len(root):
        # The subtree [low, high) below a root is split into halves, each of which has its last rank as root.
        middle = low + (high - low) // 2
        has_left, has_right = middle > low, high > middle
        parent[middle[has_left] - 1], turn[middle[has_left] - 1] = root[has_left], 1
        parent[high[has_right] - 1], turn[high[has_right] - 1] = root[has_right], 0
        starts = np.concatenate([low[has_left], middle[has_right]])
        root = np.concatenate([middle[has_left] - 1, high[has_right] - 1])
        low, high = starts, root
    return RankTree(parent, turn)


def binomial(size: int) -> RankTree:
    """Return the binomial tree of Open MPI's broadcast: the parent of rank r is r without its highest bit."""
    rank = np.arange(size)
    top = np.floor(np.log2(np.maximum(rank, 1))).astype(np.intp)
    parent = np.where(rank == 0, -1, rank - (1 << top))
    above = np.where(parent > 0, top[np.maximum(parent, 0)], -1)
    return RankTree(parent, np.where(rank == 0, 0, top - above - 1))


def knomial(size: int, radix: int) -> RankTree:
    """Return the k-nomial tree with subtrees of consecutive ranks, the largest first; radix 2 is binomial."""
    rank = np.arange(size)
    parent = np.full(size, -1)
    turn = np.zeros(size, dtype=np.intp)
    tiers = 0
    while radix**tiers < size:
        tiers += 1
    served = np.zeros(size, dtype=np.intp)
    for tier in reversed(range(tiers)):
        span = radix**tier
        holders = rank[rank % (span * radix) == 0]
        for digit in range(1, radix):
            child = holders + digit * span
            inside = child < size
            parent[child[inside]] = holders[inside]
            turn[child[inside]] = served[holders[inside]]
            served[holders[inside]] += 1
    return RankTree(parent, turn)


def descend(group: Group, t: Floats, tree: RankTree, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate data that move from the roots to the leaves, in segments or (if 0 bytes) in whole messages."""
    piece, pieces = segments(nbytes, segment_bytes)
    later_segments = (pieces - 1) * _pace(group, tree, piece, 0.0, up=False)
    steps = tree.steps()
    if len(steps) > _STEPWISE:
        edge, spacing = _edges(group, tree, piece, up=False)
        wait_for_siblings = tree.turn[:, None] * spacing
        return makespan(t) + tree.along_paths(edge + wait_for_siblings) + later_segments
    t = t.copy()
    last = t.copy()
    for children in steps:
        parents = tree.parent[children]
        costs = group.costs(parents, children, piece)
        start = t[parents] + costs.send
        arrived = np.maximum(t[children] + costs.hold, start + costs.wire) + costs.receive
        sender_free = np.where(costs.synchronous, arrived, start + costs.release)
        last[parents] = np.maximum(last[parents], sender_free)
        t[parents] += np.maximum(costs.send, costs.port)
        t[children] = arrived
    return np.maximum(t, last) + later_segments


def ascend(
    group: Group, t: Floats, tree: RankTree, nbytes: Floats, segment_bytes: int = 0, *, combine: bool = True
) -> Floats:
    """Simulate data that move from the leaves to the roots; with ``combine`` each parent reduces them."""
    piece, pieces = segments(nbytes, segment_bytes)
    work = group.reduce_s(piece) if combine else np.zeros_like(piece)
    later_segments = (pieces - 1) * _pace(group, tree, piece, work, up=True)
    # On the way up, siblings send in reverse order, the smallest subtree first.
    steps = tree.steps()
    if len(steps) > _STEPWISE:
        edge, spacing = _edges(group, tree, piece, up=True)
        wait_for_siblings = tree.turn[:, None] * (spacing + work)
        along = tree.along_paths(edge + work + wait_for_siblings).max(axis=0)
        return np.broadcast_to(makespan(t) + along + later_segments, t.shape)
    t = t.copy()
    for children in reversed(steps):
        parents = tree.parent[children]
        costs = group.costs(children, parents, piece)
        start = t[children] + costs.send
        arrived = np.maximum(t[parents] + costs.hold, start + costs.wire) + costs.receive
        t[children] = np.where(costs.synchronous, arrived, start + costs.release)
        t[parents] = arrived + work
    return t + later_segments


def segments(nbytes: Floats, segment_bytes: int) -> tuple[Floats, Floats]:
    """Return the size and the number of the segments of each message, each of shape (n,)."""
    if segment_bytes <= 0:
        return nbytes, np.ones_like(nbytes)
    return np.minimum(nbytes, float(segment_bytes)), np.maximum(1.0, np.ceil(nbytes / segment_bytes))


def _edges(group: Group, tree: RankTree, piece: Floats, *, up: bool) -> tuple[Floats, Floats]:
    """Return the time of one message between each rank and its parent, (g, n), and the smallest spacing.

    The spacing, (g, n), is the time between the messages of two siblings at their parent.
    """
    below = np.arange(group.size)
    above = np.where(tree.parent >= 0, tree.parent, below)
    source, target = (below, above) if up else (above, below)
    costs = group.costs(source, target, piece, alone=True)
    edge = np.where((tree.parent >= 0)[:, None], costs.send + costs.wire + costs.receive, 0.0)
    one_by_one = np.maximum(costs.port, costs.hold + costs.receive if up else costs.send)
    return edge, one_by_one


def _pace(group: Group, tree: RankTree, piece: Floats, work_s: Floats | float, *, up: bool) -> Floats:
    """Return the time between two segments at the slowest stage if all stages are busy, shape (n,)."""
    children = np.flatnonzero(tree.parent >= 0)
    if not len(children):
        return np.zeros_like(piece)
    parents = tree.parent[children]
    source, target = (children, parents) if up else (parents, children)
    costs = group.costs(source, target, piece)
    # Libraries keep two receives posted, so half of a rendezvous overlaps with the segment before it.
    taking = np.where(costs.synchronous, 0.5 * costs.hold, costs.hold) + costs.receive + work_s
    busy = np.zeros((group.size, len(piece)))
    np.add.at(busy, source, costs.send)
    np.add.at(busy, target, taking)
    return np.maximum(makespan(busy), makespan(costs.port))
