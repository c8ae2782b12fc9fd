"""The collectives of Open MPI's ``tuned`` that only move data: allgather, alltoall, bcast.

Place in the flow: ``schedule`` and ``trees`` → these → ``algorithms`` (registry) → `predict`.

Notation: as in ``reductions``; m is the message of a bcast, the block of one rank in an allgather, the block
of one pair in an alltoall.

References:
    Bruck et al.: "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems",
    IEEE TPDS 8, 1997. Chen et al.: "Performance Evaluation of Allgather Algorithms on Terascale Linux
    Cluster with Fast Ethernet", HPCAsia 2005 (neighbour exchange). Loch, Koslovski: "Sparbit", 2021.
    Algorithms as in Open MPI 5.0.9, ompi/mca/coll/base.
"""

from collections.abc import Callable

import numpy as np

from autotune.simulate import trees
from autotune.simulate.protocols import Floats, Ints
from autotune.simulate.reductions import Algorithm
from autotune.simulate.schedule import Group, burst, exchange, ring

_WALKED = 1 << 21
"""Long sequences of similar rounds are sampled: so many ranks × rounds are walked, for all of them."""


def bruck_allgather(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Allgather: ceil(log2 g) rounds of doubling blocks and distances, then a rotation in memory."""
    rank = np.arange(group.size)
    distance = 1
    while distance < group.size:
        blocks = min(distance, group.size - distance)
        t = exchange(group, t, (rank - distance) % group.size, blocks * nbytes)
        distance *= 2
    return t + group.copy_s(group.size * nbytes)


def doubling_allgather(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Allgather: pairs swap all they have; Bruck's where g is not a power of two."""
    if group.size & (group.size - 1):
        return bruck_allgather(group, t, nbytes)
    distance = 1
    while distance < group.size:
        t = exchange(group, t, np.arange(group.size) ^ distance, distance * nbytes)
        distance *= 2
    return t


def ring_allgather(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Allgather: g-1 rounds of one block around the ring."""
    return ring(group, t, nbytes, group.size - 1)


def neighbor(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Allgather: g/2 rounds of exchanges with both neighbours in turn, two blocks each; odd g: ring."""
    if group.size % 2:
        return ring_allgather(group, t, nbytes)
    rank = np.arange(group.size)
    partners = (rank ^ 1, np.where(rank % 2 == 0, rank - 1, rank + 1) % group.size)
    t = exchange(group, t, partners[0], nbytes)
    rounds = group.size // 2 - 1
    walked = min(rounds, max(32, _WALKED // group.size))
    before = t
    for k in range(walked):
        t = exchange(group, t, partners[(k + 1) % 2], 2 * nbytes)
    return t + (rounds - walked) / max(walked, 1) * (t - before)


def sparbit(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Allgather: log2 g rounds at halving distances, so that large rounds stay near; blocks go one by one."""
    rank = np.arange(group.size)
    distance = 1 << max(0, (group.size - 1).bit_length() - 1)
    held = 1
    overhead = group.fabric.overhead_s
    while distance and held < group.size:
        blocks = min(held, group.size - held)
        t = exchange(
            group, t, (rank + distance) % group.size, blocks * nbytes, work_s=(blocks - 1) * overhead
        )
        held += blocks
        distance //= 2
    return t


def swap(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Allgather or alltoall of two ranks: one exchange."""
    return exchange(group, t, np.arange(2)[::-1], nbytes) + group.copy_s(nbytes)


def everybody(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Allgather (direct) or alltoall (linear): all messages posted at once."""
    return burst(group, t, nbytes) + group.copy_s(nbytes)


def pairwise(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Alltoall: in round k every rank sends to the k-th after it and receives from the k-th before it."""
    rank = np.arange(group.size)
    rounds = group.size - 1
    walked = np.unique(np.linspace(1, rounds, min(rounds, max(32, _WALKED // group.size))).astype(np.intp))
    weight = rounds / len(walked)
    start = t
    for k in walked:
        t = exchange(group, t, (rank + k) % group.size, nbytes, peers=group.size - 1)
    return start + weight * (t - start) + group.copy_s(nbytes)


def modified_bruck(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Alltoall: ceil(log2 g) rounds, each packing, sending and unpacking about half of all blocks."""
    rank = np.arange(group.size)
    t = t + group.copy_s(group.size * nbytes)
    distance = 1
    while distance < group.size:
        blocks = int(np.count_nonzero(rank & distance))
        packing = group.copy_s(blocks * nbytes)
        t = exchange(group, t + packing, (rank + distance) % group.size, blocks * nbytes, work_s=packing)
        distance *= 2
    return t + group.copy_s(group.size * nbytes)


def bcast_by(shape: Callable[[int], trees.RankTree]) -> Algorithm:
    """Bcast down a tree of the given shape, in segments."""

    def algorithm(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
        return trees.descend(group, t, shape(group.size), nbytes, segment_bytes)

    return algorithm


def split_binary(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Bcast: each half down one side of a binary tree, then pairs across the sides swap halves."""
    tree = trees.binary(group.size)
    if group.size < 3:
        return trees.descend(group, t, tree, nbytes, segment_bytes)
    half = nbytes / 2
    t = trees.descend(group, t, tree, half, segment_bytes)
    side = _side(tree)
    left, right = np.flatnonzero(side == 0), np.flatnonzero(side == 1)
    pairs = min(len(left), len(right))
    target = np.arange(group.size)
    target[left[:pairs]], target[right[:pairs]] = right[:pairs], left[:pairs]
    return exchange(group, t, target, half)


def scatter_allgather(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Bcast: a binomial scatter, then an allgather by recursive doubling."""
    return doubling_allgather(group, _scatter(group, t, nbytes), nbytes / group.size)


def scatter_allgather_ring(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Bcast: a binomial scatter, then an allgather around the ring."""
    return ring_allgather(group, _scatter(group, t, nbytes), nbytes / group.size)


def _scatter(group: Group, t: Floats, nbytes: Floats) -> Floats:
    """A binomial scatter from rank 0: each holder hands the upper half of its ranks' blocks on."""
    rank = np.arange(group.size)
    span = 1 << max(0, (group.size - 1).bit_length() - 1)
    while span:
        giving = (rank % (2 * span) == 0) & (rank + span < group.size)
        t = exchange(group, t, np.where(giving, rank + span, rank), nbytes * min(1.0, span / group.size))
        span //= 2
    return t


def _side(tree: trees.RankTree) -> Ints:
    """Which child of the root each rank lies below: 0, 1, or -1 for the root itself."""
    rank = np.arange(len(tree.parent))
    top = rank.copy()
    for _ in range(int(tree.depth().max())):
        top = np.where(tree.parent[top] > 0, tree.parent[top], top)
    return np.where(rank == 0, -1, tree.turn[top])
