"""Simulate the algorithms of Open MPI's component ``tuned``, composed of rounds, rings and trees.

Place in the flow: ``schedule`` and ``trees`` → ``tuned`` → ``algorithms`` (which lists them) → `predict`.

Notation: every function takes a communicator of g ranks, the times t at which its ranks are ready, (g, n), n
message sizes in bytes, (n,), and a segment size in bytes (0 means that messages are not split). It returns t
after the call. A message is the whole vector in a reduction or bcast, the block of one rank in an allgather,
and the block of one pair of ranks in an alltoall. g = 2^k + e: the e ranks beyond the power of two are
*folded away* first, which means that each of them sends its data to a neighbour and waits for the result.
"""

from collections.abc import Callable

import numpy as np

from autotune.simulate import trees
from autotune.simulate.protocols import Floats, Ints
from autotune.simulate.schedule import Group, burst, exchange, ring

Algorithm = Callable[[Group, Floats, Floats, int], Floats]
"""Function that simulates an algorithm: it takes the communicator, the times t before the call (g, n), the
message sizes in bytes (n,) and the segment size in bytes, and returns the times t after the call, (g, n)."""

ELEMENT_BYTES = 8  # Size in bytes of one element of the vectors that are reduced (a double).

_WALKED = 1 << 21
"""Largest product of ranks and rounds for which every round is simulated. If there are more, only a sample of
the similar rounds is simulated."""


def recursive_doubling(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an allreduce in log2 g rounds, in which pairs of ranks exchange and combine whole vectors."""
    work = group.reduce_s(nbytes)
    core, folded, at = fold(group, t, nbytes, work)
    for mask in _powers(core.size):
        folded = exchange(core, folded, np.arange(core.size) ^ mask, nbytes, work_s=work)
    return unfold(group, t, folded, at, nbytes)


def ring_allreduce(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an allreduce as a reduce-scatter around a ring, followed by an allgather around the ring."""
    return ring_allgather(group, ring_scatter(group, t, nbytes), nbytes / group.size)


def segmented_ring(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate a ring allreduce whose reduce-scatter has a separate phase for each segment of the blocks."""
    if segment_bytes <= 0:
        return ring_allreduce(group, t, nbytes)
    block = nbytes / group.size
    piece, phases = trees.segments(block, segment_bytes)
    once = ring(group, t, piece, group.size - 1, work_s=group.reduce_s(piece))
    return ring_allgather(group, once + (phases - 1) * (once - t).max(axis=0), block)


def rabenseifner(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an allreduce by vector halving and distance doubling, then in reverse (Rabenseifner 2004)."""
    masks = _powers(group.size)
    core, folded, at, piece = _halved(group, t, nbytes, masks)
    for mask in reversed(masks):
        folded = exchange(core, folded, np.arange(core.size) ^ mask, piece)
        piece = piece * 2
    return unfold(group, t, folded, at, nbytes)


def reduce_by(shape: trees.Shape, group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate a reduce whose segments go up a tree of the given shape."""
    return trees.ascend(group, t, shape(group.size), nbytes, segment_bytes)


def rabenseifner_reduce(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate a reduce by vector halving and distance doubling, then a binomial gather to the root."""
    masks = _powers(group.size)
    core, folded, at, piece = _halved(group, t, nbytes, masks)
    rank = np.arange(core.size)
    for mask in reversed(masks):
        # Ranks whose highest set bit is ``mask`` send their data to the partner without this bit.
        giving = (rank & mask != 0) & (rank & ~(2 * mask - 1) == 0)
        folded = exchange(core, folded, np.where(giving, rank ^ mask, rank), piece)
        piece = piece * 2
    t = t.copy()
    t[at] = np.maximum(t[at], folded)
    return t


def recursive_halving(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate a reduce-scatter in which pairs of ranks exchange halves.

    Ranks that were folded away get their block at the end.
    """
    _, folded, at, _ = _halved(group, t, nbytes, _powers(group.size)[::-1])
    return unfold(group, t, folded, at, nbytes / group.size)


def ring_scatter(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate a reduce-scatter around a ring, in g-1 rounds of one block."""
    block = nbytes / group.size
    return ring(group, t, block, group.size - 1, work_s=group.reduce_s(block))


def butterfly(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate a reduce-scatter by halving at doubling distances, then an exchange that orders the blocks."""
    masks = _powers(group.size)
    core, folded, at, piece = _halved(group, t, nbytes, masks)
    rank, bits = np.arange(core.size), len(masks)
    mirrored = sum((((rank >> i) & 1) << (bits - 1 - i) for i in range(bits)), start=np.zeros_like(rank))
    folded = exchange(core, folded, mirrored, piece)
    return unfold(group, t, folded, at, nbytes / group.size)


def barrier_by(shape: trees.Shape, group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate a barrier as empty messages that move up a tree of the given shape and down again."""
    tree = shape(group.size)
    return trees.descend(group, trees.ascend(group, t, tree, nbytes, combine=False), tree, nbytes)


def dissemination(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate a barrier in ceil(log2 g) rounds; in round k, rank r signals rank r + 2^k (Bruck)."""
    for distance in doublings(group.size):
        t = exchange(group, t, (np.arange(group.size) + distance) % group.size, nbytes)
    return t


def _halved(group: Group, t: Floats, nbytes: Floats, masks: list[int]) -> tuple[Group, Floats, Ints, Floats]:
    """Simulate rounds that exchange and combine halves; return the results of `fold`, and the pieces."""
    core, folded, at = fold(group, t, nbytes, group.reduce_s(nbytes))
    piece = nbytes
    for mask in masks:
        piece = piece / 2
        folded = exchange(core, folded, np.arange(core.size) ^ mask, piece, work_s=group.reduce_s(piece))
    return core, folded, at, piece


def _powers(size: int) -> list[int]:
    return [1 << i for i in range(size.bit_length() - 1)]


def doublings(size: int) -> list[int]:
    """Return the powers of two below a size, which are the distances whose sums reach every rank."""
    return [1 << i for i in range((size - 1).bit_length())]


def fold(group: Group, t: Floats, nbytes: Floats, work_s: Floats) -> tuple[Group, Floats, Ints]:
    """Simulate that each of the e ranks beyond a power of two sends its data to a neighbour.

    Returns:
        The communicator of the remaining 2^k ranks, the times at which they are ready, and their numbers in
        the group.
    """
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
    """Return the times at which all ranks are ready, after folded ranks have received the result."""
    extra = group.size - len(at)
    if not extra:
        return folded
    t = t.copy()
    t[at] = folded
    rank = np.arange(group.size)
    return exchange(group, t, np.where((rank < 2 * extra) & (rank % 2 == 1), rank - 1, rank), nbytes)


def bruck_allgather(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an allgather in ceil(log2 g) rounds of doubling blocks and distances, then a local copy."""
    rank = np.arange(group.size)
    for distance in doublings(group.size):
        blocks = min(distance, group.size - distance)
        t = exchange(group, t, (rank - distance) % group.size, blocks * nbytes)
    return t + group.copy_s(group.size * nbytes)


def doubling_allgather(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an allgather in which pairs exchange all their blocks; Bruck's if g is not a power of two."""
    if group.size & (group.size - 1):
        return bruck_allgather(group, t, nbytes)
    for distance in doublings(group.size):
        t = exchange(group, t, np.arange(group.size) ^ distance, distance * nbytes)
    return t


def ring_allgather(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an allgather around a ring, in g-1 rounds of one block."""
    return ring(group, t, nbytes, group.size - 1)


def neighbor(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an allgather in g/2 rounds of two blocks, with both neighbours in turn; a ring for odd g."""
    if group.size % 2:
        return ring_allgather(group, t, nbytes)
    rank = np.arange(group.size)
    partners = (rank ^ 1, np.where(rank % 2 == 0, rank - 1, rank + 1) % group.size)
    t = exchange(group, t, partners[0], nbytes)
    rounds = group.size // 2 - 1
    walked = min(rounds, max(32, _WALKED // group.size))
    start = t
    for k in range(walked):
        t = exchange(group, t, partners[(k + 1) % 2], 2 * nbytes)
    return t + (rounds - walked) / max(walked, 1) * (t - start)


def sparbit(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an allgather in log2 g rounds at halving distances.

    So the rounds with many blocks are between ranks that are near each other. Each block is a separate
    message.
    """
    rank = np.arange(group.size)
    own_blocks = 1
    for distance in reversed(doublings(group.size)):
        blocks = min(own_blocks, group.size - own_blocks)
        further_s = (blocks - 1) * group.fabric.overhead_s
        t = exchange(group, t, (rank + distance) % group.size, blocks * nbytes, work_s=further_s)
        own_blocks += blocks
    return t


def swap(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an allgather, alltoall or barrier between two ranks as a single exchange."""
    return exchange(group, t, np.arange(2)[::-1], nbytes) + group.copy_s(nbytes)


def everybody(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an allgather (direct) or alltoall (linear) in which each rank sends all messages at once."""
    return burst(group, t, nbytes) + group.copy_s(nbytes)


def pairwise(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an alltoall in which rank r, in round k, sends to rank r + k and receives from rank r − k."""
    rank = np.arange(group.size)
    rounds = group.size - 1
    walked = np.unique(np.linspace(1, rounds, min(rounds, max(32, _WALKED // group.size))).astype(np.intp))
    weight = rounds / len(walked)
    start = t
    for k in walked:
        t = exchange(group, t, (rank + k) % group.size, nbytes, peers=group.size - 1)
    return start + weight * (t - start) + group.copy_s(nbytes)


def modified_bruck(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an alltoall in ceil(log2 g) rounds; each packs, sends and unpacks half of the blocks."""
    rank = np.arange(group.size)
    t = t + group.copy_s(group.size * nbytes)
    for distance in doublings(group.size):
        blocks = int(np.count_nonzero(rank & distance))
        packing = group.copy_s(blocks * nbytes)
        t = exchange(group, t + packing, (rank + distance) % group.size, blocks * nbytes, work_s=packing)
    return t + group.copy_s(group.size * nbytes)


def bcast_by(shape: trees.Shape, group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate a bcast whose segments move down a tree of the given shape."""
    return trees.descend(group, t, shape(group.size), nbytes, segment_bytes)


def split_binary(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate a bcast of one half down each side of a binary tree, after which pairs exchange halves."""
    tree = trees.binary(group.size)
    if group.size < 3:
        return trees.descend(group, t, tree, nbytes, segment_bytes)
    half = nbytes / 2
    t = trees.descend(group, t, tree, half, segment_bytes)
    side = _side(tree)
    first_side, second_side = np.flatnonzero(side == 0), np.flatnonzero(side == 1)
    pairs = min(len(first_side), len(second_side))
    target = np.arange(group.size)
    target[first_side[:pairs]], target[second_side[:pairs]] = second_side[:pairs], first_side[:pairs]
    return exchange(group, t, target, half)


def scatter_then(
    allgather: Algorithm, group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0
) -> Floats:
    """Simulate a bcast as a binomial scatter, in which ranks send half of their blocks, and an allgather."""
    rank = np.arange(group.size)
    for span in reversed(doublings(group.size)):
        giving = (rank % (2 * span) == 0) & (rank + span < group.size)
        t = exchange(group, t, np.where(giving, rank + span, rank), nbytes * min(1.0, span / group.size))
    return allgather(group, t, nbytes / group.size, 0)


def _side(tree: trees.RankTree) -> Ints:
    """Return the number of the root's subtree to which each rank belongs: 0 or 1; -1 for the root itself."""
    rank = np.arange(len(tree.parent))
    top = rank.copy()
    for _ in range(int(tree.depth().max())):
        top = np.where(tree.parent[top] > 0, tree.parent[top], top)
    return np.where(rank == 0, -1, tree.turn[top])
