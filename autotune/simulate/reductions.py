"""The reducing collectives and the barrier of Open MPI's ``tuned``, as rounds, rings and trees.

Place in the flow: ``schedule`` and ``trees`` → these → ``algorithms`` (registry) → `predict`.

Notation: every function takes a communicator, the readiness t of shape (g, n), the vector size in bytes of
shape (n,) and a segment size in bytes (0: whole), and returns t after the call. g = 2^k + e, the e ranks
beyond the power of two being folded away first.

References:
    Rabenseifner: "Optimization of Collective Reduction Operations", ICCS 2004. Thakur, Rabenseifner, Gropp:
    "Optimization of Collective Communication Operations in MPICH", IJHPCA 19, 2005. Algorithms as in Open MPI
    5.0.9, ompi/mca/coll/base.
"""

from collections.abc import Callable

import numpy as np

from autotune.simulate import trees
from autotune.simulate.protocols import Floats, Ints
from autotune.simulate.schedule import Group, exchange, ring

Algorithm = Callable[[Group, Floats, Floats, int], Floats]
"""(communicator, readiness (g, n), bytes (n,), segment bytes) → readiness after the call (g, n)."""

ELEMENT_BYTES = 8
"""Size of an element of the reduced vectors (double)."""


def recursive_doubling(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Allreduce: log2 g rounds in which pairs swap and combine whole vectors."""
    work = group.reduce_s(nbytes)
    core, folded, at = fold(group, t, nbytes, work)
    for mask in _powers(core.size):
        folded = exchange(core, folded, np.arange(core.size) ^ mask, nbytes, work_s=work)
    return unfold(group, t, folded, at, nbytes)


def ring_allreduce(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Allreduce: a ring that scatters the sums, then a ring that gathers them."""
    block = nbytes / group.size
    t = ring(group, t, block, group.size - 1, work_s=group.reduce_s(block))
    return ring(group, t, block, group.size - 1)


def segmented_ring(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Allreduce: the ring, its reducing half in phases of one segment a block."""
    if segment_bytes <= 0:
        return ring_allreduce(group, t, nbytes)
    block = nbytes / group.size
    piece, phases = trees.segments(block, segment_bytes)
    once = ring(group, t, piece, group.size - 1, work_s=group.reduce_s(piece))
    t = once + (phases - 1) * (once - t).max(axis=0)
    return ring(group, t, block, group.size - 1)


def rabenseifner(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Allreduce: vector halving and distance doubling, then the way back (Rabenseifner 2004)."""
    masks = _powers(group.size)
    core, folded, at, piece = _halved(group, t, nbytes, masks)
    for mask in reversed(masks):
        folded = exchange(core, folded, np.arange(core.size) ^ mask, piece)
        piece = piece * 2
    return unfold(group, t, folded, at, nbytes)


def reduce_by(shape: Callable[[int], trees.RankTree]) -> Algorithm:
    """Reduce up a tree of the given shape, in segments."""

    def algorithm(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
        return trees.ascend(group, t, shape(group.size), nbytes, segment_bytes)

    return algorithm


def rabenseifner_reduce(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Reduce: vector halving and distance doubling, then a binomial gathering to the root."""
    masks = _powers(group.size)
    core, folded, at, piece = _halved(group, t, nbytes, masks)
    rank = np.arange(core.size)
    for mask in reversed(masks):
        # Ranks with only this bit set (and lower ones none) hand what they hold to their partner below.
        giving = (rank & mask != 0) & (rank & ~(2 * mask - 1) == 0)
        folded = exchange(core, folded, np.where(giving, rank ^ mask, rank), piece)
        piece = piece * 2
    t = t.copy()
    t[at] = np.maximum(t[at], folded)
    return t


def recursive_halving(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Reduce-scatter: pairs at halving distances swap halves; folded ranks get their block at the end."""
    _, folded, at, _ = _halved(group, t, nbytes, _powers(group.size)[::-1])
    return unfold(group, t, folded, at, nbytes / group.size)


def ring_scatter(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Reduce-scatter: g-1 rounds of one block around a ring."""
    block = nbytes / group.size
    return ring(group, t, block, group.size - 1, work_s=group.reduce_s(block))


def butterfly(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Reduce-scatter: halving at doubling distances, then one exchange that puts the blocks in order."""
    masks = _powers(group.size)
    core, folded, at, piece = _halved(group, t, nbytes, masks)
    rank, bits = np.arange(core.size), len(masks)
    mirrored = sum((((rank >> i) & 1) << (bits - 1 - i) for i in range(bits)), start=np.zeros_like(rank))
    folded = exchange(core, folded, mirrored, piece)
    return unfold(group, t, folded, at, nbytes / group.size)


def barrier_by(shape: Callable[[int], trees.RankTree]) -> Algorithm:
    """Barrier: empty messages up a tree of the given shape and down again."""

    def algorithm(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
        tree, empty = shape(group.size), np.zeros_like(nbytes)
        return trees.descend(group, trees.ascend(group, t, tree, empty, combine=False), tree, empty)

    return algorithm


def doubling_barrier(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Barrier: recursive doubling with empty messages, ranks beyond the power of two folded away."""
    return recursive_doubling(group, t, np.zeros_like(nbytes))


def dissemination(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Barrier: ceil(log2 g) rounds, in round k a message to the rank 2^k further (Bruck)."""
    distance = 1
    while distance < group.size:
        t = exchange(group, t, (np.arange(group.size) + distance) % group.size, np.zeros_like(nbytes))
        distance *= 2
    return t


def two_proc_barrier(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Barrier of two ranks: one exchange."""
    return exchange(group, t, np.arange(2)[::-1], np.zeros_like(nbytes))


def _halved(group: Group, t: Floats, nbytes: Floats, masks: list[int]) -> tuple[Group, Floats, Ints, Floats]:
    """Pairs at these distances swap and combine halves of what they have: as `fold`, and what is left."""
    core, folded, at = fold(group, t, nbytes, group.reduce_s(nbytes))
    piece = nbytes
    for mask in masks:
        piece = piece / 2
        folded = exchange(core, folded, np.arange(core.size) ^ mask, piece, work_s=group.reduce_s(piece))
    return core, folded, at, piece


def _powers(size: int) -> list[int]:
    """1, 2, 4 … below the largest power of two in a size."""
    return [1 << i for i in range(size.bit_length() - 1)]


def fold(group: Group, t: Floats, nbytes: Floats, work_s: Floats) -> tuple[Group, Floats, Ints]:
    """The 2^k ranks that go on after the first 2e have been paired, their readiness, and who they are."""
    core = 1 << (group.size.bit_length() - 1)
    extra = group.size - core
    if not extra:
        return group, t, np.arange(group.size)
    rank = np.arange(group.size)
    giving = (rank < 2 * extra) & (rank % 2 == 0)
    t = exchange(group, t, np.where(giving, rank + 1, rank), nbytes, work_s=work_s)
    at = rank[~giving]
    return group.subset(at), t[at], at


def unfold(group: Group, t: Floats, folded: Floats, at: Ints, nbytes: Floats) -> Floats:
    """Readiness of all ranks once those that were folded away have their result."""
    extra = group.size - len(at)
    if not extra:
        return folded
    t = t.copy()
    t[at] = folded
    rank = np.arange(group.size)
    return exchange(group, t, np.where((rank < 2 * extra) & (rank % 2 == 1), rank - 1, rank), nbytes)
