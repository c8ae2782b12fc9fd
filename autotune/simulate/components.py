"""Collective components other than ``tuned``: two-level (han, hcoll-like) and k-nomial (ucc-like) algorithms.

Place in the flow: `Settings.component` → :func:`by_component` → `predict`. A component decides for itself
what to run, so algorithm ids of ``tuned`` have no effect while it answers; a collective that it lacks falls
to ``tuned``.

Notation: *low* is the communicator of one node (all nodes do the same at the same time, so one stands for
all), *up* that of the nodes' leaders, a *rail* that of the ranks with equal numbers on all nodes.

What is modelled: ``han`` as in Open MPI 5.0.9 (64 KiB segments whose stages overlap). ``ucc`` as its TL/UCP
over all ranks: k-nomial below 4 KiB, scatter-reduce-allgather above. HCOLL's source is closed: ``hcoll``
here is *like* it, two-level and tuned by its vendor, taken as the faster of its leader-based and its flat or
rail-based algorithm.

References:
    Luo et al.: "HAN: A Hierarchical AutotuNed Collective Communication Framework", IEEE Cluster 2020.
    Venkata et al.: "Unified Collective Communication (UCC): An Unified Library for CPU, GPU, and DPU
    Collectives", Hot Interconnects 2024 (thresholds: UCC's sources, tl/ucp, August 2026). Graham et al.:
    "Cheetah: A Framework for Scalable Hierarchical Collective Operations", CCGrid 2011.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from autotune.simulate import trees
from autotune.simulate.algorithms import run
from autotune.simulate.protocols import Floats
from autotune.simulate.reductions import ELEMENT_BYTES, fold, unfold
from autotune.simulate.schedule import Group, exchange, makespan

_SEGMENT_BYTES = 65536
"""coll_han_*_segsize, and the fragments of the hcoll-like component."""
_RADIX = 4
"""Of the k-nomial exchanges and trees."""
_UCC_SHORT_BYTES = 4096
"""Up to here TL/UCP moves whole vectors (allreduce, allgather)."""
_UCC_TREE_BYTES = 32768
"""Up to here TL/UCP broadcasts and reduces along a tree."""

Stage = Callable[[Floats], Floats]
"""Bytes (n,) → duration (n,)."""


def by_component(component: str, collective: str, everybody: Group, nbytes: Floats) -> Floats | None:
    """How long one call takes by a component's own choice, shape (n,); None where it leaves it to ``tuned``.

    The component is one of ``han``, ``hcoll`` and ``ucc``, the group all ranks of the job.
    """
    make = _TABLE[component].get(collective)
    cluster = everybody.fabric.cluster
    alone = cluster.ranks == 1 or (component == "han" and cluster.nodes == 1)
    return None if make is None or alone else make(_Levels(everybody), nbytes)


class _Levels:
    """The communicators of a two-level algorithm, and the stages that both kinds are made of."""

    def __init__(self, everybody: Group) -> None:
        fabric = everybody.fabric
        self.nodes, self.ppn = fabric.cluster.nodes, fabric.cluster.ppn
        self.low = everybody.subset(np.arange(self.ppn))
        self.up = everybody.subset(np.arange(self.nodes) * self.ppn)
        self.all = everybody

    def stage(self, group: Group, collective: str, algorithm: str = "default") -> Stage:
        """The duration of a collective of `tuned` on one of the communicators."""

        def duration(nbytes: Floats) -> Floats:
            if group.size == 1:
                return np.zeros_like(nbytes)
            return makespan(run(collective, algorithm, group, group.start(), nbytes))

        return duration

    def tree(self, group: Group, *, up: bool) -> Stage:
        """The duration of a k-nomial tree, combining on the way up."""
        shape = trees.knomial(group.size, _RADIX)

        def duration(nbytes: Floats) -> Floats:
            t = group.start()
            return makespan((trees.ascend if up else trees.descend)(group, t, shape, nbytes))

        return duration

    def gather(self, nbytes: Floats) -> Floats:
        """A flat gathering of equal blocks to each node's leader."""
        t = self.low.start()
        return makespan(trees.ascend(self.low, t, trees.linear(self.ppn), nbytes, combine=False))

    def on_rails(self, nbytes: Floats, *, ring: bool) -> Floats:
        """An allreduce that all rails run at the same time: around a ring, or by recursive doubling."""
        if self.nodes == 1:
            return np.zeros_like(nbytes)
        # All ranks exchange at distances of whole nodes, so that each node's NIC is shared as it would be.
        t = self.all.start()
        node, local = np.divmod(np.arange(self.all.size), self.ppn)
        if ring:
            blocks = nbytes / self.nodes
            target = (node + 1) % self.nodes * self.ppn + local
            there = makespan(exchange(self.all, t, target, blocks, work_s=self.all.reduce_s(blocks)))
            return (self.nodes - 1) * (there + makespan(exchange(self.all, t, target, blocks)))
        core = 1 << (self.nodes.bit_length() - 1)
        partners = [np.where(node < core, node ^ (1 << k), node) for k in range(core.bit_length() - 1)]
        if core < self.nodes:
            paired = np.where(node < self.nodes - core, node + core, node)
            paired = np.where(node >= core, node - core, paired)
            partners = [paired, *partners, paired]
        for partner in partners:
            work = self.all.reduce_s(nbytes)
            t = exchange(self.all, t, partner * self.ppn + local, nbytes, work_s=work)
        return makespan(t)


def _pipelined(nbytes: Floats, *stages: Stage) -> Floats:
    """Segments through stages that overlap: all stages once, then the slowest for each further segment."""
    piece, pieces = trees.segments(nbytes, _SEGMENT_BYTES)
    each = np.stack([stage(piece) for stage in stages])
    once: Floats = each.sum(axis=0)
    return once + (pieces - 1) * makespan(each)


def _by_size(nbytes: Floats, limit: int, short: Stage, long: Stage) -> Floats:
    """One stage up to a message size, another one above it."""
    return np.where(nbytes <= limit, short(nbytes), long(nbytes))


def _gathered(levels: _Levels, nbytes: Floats, algorithm: str, spread: Stage) -> Floats:
    """Allgather: blocks to the leaders, the leaders' exchange, then everything spread on each node."""
    between = levels.stage(levels.up, "allgather", algorithm)(levels.ppn * nbytes)
    return levels.gather(nbytes) + between + spread(levels.all.size * nbytes)


def _two_level_barrier(levels: _Levels, nbytes: Floats) -> Floats:
    empty = np.zeros_like(nbytes)
    between = levels.stage(levels.up, "barrier", "recursive_doubling")(empty)
    return levels.tree(levels.low, up=True)(empty) + between + levels.tree(levels.low, up=False)(empty)


def _hcoll_allreduce(levels: _Levels, nbytes: Floats) -> Floats:
    leaders = _pipelined(
        nbytes,
        levels.tree(levels.low, up=True),
        levels.stage(levels.up, "allreduce", "recursive_doubling"),
        levels.tree(levels.low, up=False),
    )
    inside = levels.stage(levels.low, "reduce_scatter", "recursive_halving")(nbytes)
    outside = levels.stage(levels.low, "allgather", "recursive_doubling")(nbytes / levels.ppn)
    part = nbytes / levels.ppn
    between = np.minimum(levels.on_rails(part, ring=False), levels.on_rails(part, ring=True))
    splittable = nbytes >= ELEMENT_BYTES * levels.all.size
    return np.where(splittable, np.minimum(leaders, inside + between + outside), leaders)


def _knomial_exchange(everybody: Group, nbytes: Floats, *, scatter: bool) -> Floats:
    """Allreduce in rounds of radix 4: whole vectors to three partners, or quarters and the way back.

    The messages of a round leave together, so a round is one exchange with the farthest partner that carries
    the bytes of all three; each further partner costs its overheads. Ranks beyond a power of two are folded
    away.
    """
    overhead = everybody.fabric.overhead_s
    core, t, at = fold(everybody, everybody.start(), nbytes, everybody.reduce_s(nbytes))
    rounds = []
    step, piece = 1, nbytes
    while step < core.size:
        radix = min(_RADIX, core.size // step)
        piece = piece / radix if scatter else piece
        partner = np.arange(core.size) ^ (step * (radix - 1))
        rounds.append((partner, piece * (radix - 1), (radix - 2) * overhead))
        step *= radix
    for partner, carried, more in rounds:
        t = exchange(core, t, partner, carried, work_s=core.reduce_s(carried) + more)
    for partner, carried, more in reversed(rounds) if scatter else ():
        t = exchange(core, t, partner, carried, work_s=more)
    return makespan(unfold(everybody, everybody.start(), t, at, nbytes))


_TABLE: dict[str, dict[str, Callable[[_Levels, Floats], Floats]]] = {
    "han": {
        "allreduce": lambda its, nbytes: _pipelined(
            nbytes,
            its.stage(its.low, "reduce"),
            its.stage(its.up, "reduce", "binomial"),
            its.stage(its.up, "bcast", "binomial"),
            its.stage(its.low, "bcast"),
        ),
        "allgather": lambda its, nbytes: _gathered(its, nbytes, "default", its.stage(its.low, "bcast")),
        "bcast": lambda its, nbytes: _pipelined(
            nbytes, its.stage(its.up, "bcast", "binomial"), its.stage(its.low, "bcast")
        ),
        "reduce": lambda its, nbytes: _pipelined(
            nbytes, its.stage(its.low, "reduce"), its.stage(its.up, "reduce", "binomial")
        ),
        "barrier": _two_level_barrier,
    },
    "hcoll": {
        "allreduce": _hcoll_allreduce,
        "allgather": lambda its, nbytes: np.minimum(
            _gathered(its, nbytes, "bruck", its.tree(its.low, up=False)),
            its.stage(its.all, "allgather", "ring")(nbytes),
        ),
        "alltoall": lambda its, nbytes: np.minimum(
            its.stage(its.all, "alltoall", "modified_bruck")(nbytes),
            its.stage(its.all, "alltoall", "pairwise")(nbytes),
        ),
        "bcast": lambda its, nbytes: _pipelined(
            nbytes, its.tree(its.up, up=False), its.tree(its.low, up=False)
        ),
        "reduce": lambda its, nbytes: _pipelined(
            nbytes, its.tree(its.low, up=True), its.tree(its.up, up=True)
        ),
        "barrier": _two_level_barrier,
    },
    "ucc": {
        "allreduce": lambda its, nbytes: _by_size(
            nbytes,
            _UCC_SHORT_BYTES,
            partial(_knomial_exchange, its.all, scatter=False),
            partial(_knomial_exchange, its.all, scatter=True),
        ),
        "allgather": lambda its, nbytes: _by_size(
            nbytes,
            _UCC_SHORT_BYTES,
            its.stage(its.all, "allgather", "bruck"),
            its.stage(its.all, "allgather", "neighbor"),
        ),
        "alltoall": lambda its, nbytes: _by_size(
            nbytes,
            128,
            its.stage(its.all, "alltoall", "modified_bruck"),
            its.stage(its.all, "alltoall", "pairwise"),
        ),
        "bcast": lambda its, nbytes: _by_size(
            nbytes,
            _UCC_TREE_BYTES,
            its.tree(its.all, up=False),
            its.stage(its.all, "bcast", "scatter_allgather"),
        ),
        "reduce": lambda its, nbytes: _by_size(
            nbytes, _UCC_TREE_BYTES, its.tree(its.all, up=True), its.stage(its.all, "reduce", "rabenseifner")
        ),
        "reduce_scatter": lambda its, nbytes: its.stage(its.all, "reduce_scatter", "ring")(nbytes),
        "barrier": lambda its, nbytes: _knomial_exchange(its.all, np.zeros_like(nbytes), scatter=False),
    },
}
