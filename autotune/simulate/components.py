"""Collective components other than ``tuned``: two-level (han, hcoll-like) and k-nomial (ucc-like) algorithms.

Place in the flow: `JobSettings.component` → :func:`by_component` → `predict`. A component chooses its
algorithms itself, so algorithm ids of ``tuned`` have no effect on its collectives. If a component does not
implement a collective, ``tuned`` runs it.

Notation: *low* is the communicator of the ranks of one node (all nodes do the same at the same time, so one
of them represents all), *up* is the communicator of the first ranks (leaders) of all nodes, and a *rail* is a
communicator of the ranks with the same number on each node.

The models: ``han`` is modelled on Open MPI 5.0.9 (64 KiB segments whose stages overlap). ``ucc`` is modelled
on UCC's TL/UCP over all ranks: k-nomial up to 4 KiB, scatter-reduce-allgather above. HCOLL's source is
closed, so ``hcoll`` is only *like* it: a two-level library that its vendor has tuned. A call takes the time
of the faster of two algorithms, one through the leaders and one that is flat or uses rails.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from autotune.simulate import trees
from autotune.simulate.algorithms import run
from autotune.simulate.protocols import Floats
from autotune.simulate.schedule import Group, exchange, makespan
from autotune.simulate.tuned import ELEMENT_BYTES, fold, unfold

_SEGMENT_BYTES = 65536
"""Size in bytes of han's segments (coll_han_*_segsize), and of the fragments of the hcoll-like component."""
_RADIX = 4  # Radix of the k-nomial exchanges and trees.
_UCC_SHORT_BYTES = 4096  # Largest message in bytes that TL/UCP does not split (allreduce, allgather).
_UCC_TREE_BYTES = 32768  # Largest message in bytes that TL/UCP broadcasts and reduces along a tree.
_UCC_BRUCK_BYTES = 128  # Largest message in bytes for which TL/UCP's alltoall uses Bruck's algorithm.


def by_component(component: str, collective: str, everybody: Group, nbytes: Floats) -> Floats | None:
    """Return the time of a call by ``han``, ``hcoll`` or ``ucc``, (n,); None if ``tuned`` runs the call."""
    plan = _PLANS[component].get(collective)
    cluster = everybody.fabric.cluster
    alone = cluster.ranks == 1 or (component == "han" and cluster.nodes == 1)
    return None if plan is None or alone else plan(_Levels(everybody), nbytes)


class _Levels:
    """The communicators of a two-level algorithm, and the time of an allreduce on rails."""

    def __init__(self, everybody: Group) -> None:
        fabric = everybody.fabric
        self.nodes, self.ppn = fabric.cluster.nodes, fabric.cluster.ppn
        self.low = everybody.subset(np.arange(self.ppn))
        self.up = everybody.subset(np.arange(self.nodes) * self.ppn)
        self.all = everybody

    def on_rails(self, nbytes: Floats, *, ring: bool) -> Floats:
        """Return the time of an allreduce on all rails at once, around a ring or by recursive doubling."""
        if self.nodes == 1:
            return np.zeros_like(nbytes)
        # All rails are simulated at the same time, because the ranks of a node share its NIC.
        t = self.all.start()
        node, local = np.divmod(np.arange(self.all.size), self.ppn)
        if ring:
            blocks = nbytes / self.nodes
            target = (node + 1) % self.nodes * self.ppn + local
            scattering = makespan(exchange(self.all, t, target, blocks, work_s=self.all.reduce_s(blocks)))
            return (self.nodes - 1) * (scattering + makespan(exchange(self.all, t, target, blocks)))
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


Plan = Callable[[_Levels, Floats], Floats]
"""Function that returns the time of a stage or a call, in seconds (n,), from its communicators and the
message sizes in bytes (n,)."""


def _stage(words: str) -> Plan:
    """Return the plan of the stage that ``words`` describe.

    ``GROUP COLLECTIVE ALGORITHM`` is a collective of ``tuned`` on one of the communicators; if the third word
    is missing, the algorithm is ``default``. ``GROUP ascend`` is a reduction up a k-nomial tree,
    ``GROUP descend`` a broadcast down such a tree.
    """
    name, operation, algorithm = (*words.split(), "default")[:3]

    def duration(levels: _Levels, nbytes: Floats) -> Floats:
        group: Group = getattr(levels, name)
        if operation in ("ascend", "descend"):
            shape = trees.knomial(group.size, _RADIX)
            return makespan(getattr(trees, operation)(group, group.start(), shape, nbytes))
        if group.size == 1:
            return np.zeros_like(nbytes)
        return makespan(run(operation, algorithm, group, group.start(), nbytes))

    return duration


def _in_turn(*words: str) -> Plan:
    stages = [*map(_stage, words)]
    return lambda levels, nbytes: sum((stage(levels, nbytes) for stage in stages), np.zeros_like(nbytes))


def _pipelined(*words: str) -> Plan:
    """Return the plan of stages that overlap for successive segments.

    The first segment takes the time of all stages, each further segment the time of the slowest stage.
    """
    stages = [*map(_stage, words)]

    def duration(levels: _Levels, nbytes: Floats) -> Floats:
        piece, pieces = trees.segments(nbytes, _SEGMENT_BYTES)
        each = np.stack([stage(levels, piece) for stage in stages])
        once: Floats = each.sum(axis=0)
        return once + (pieces - 1) * makespan(each)

    return duration


def _fastest(*plans: Plan) -> Plan:
    return lambda levels, nbytes: np.minimum(*(plan(levels, nbytes) for plan in plans))


def _by_size(limit: int, short: Plan, long: Plan) -> Plan:
    return lambda levels, nbytes: np.where(nbytes <= limit, short(levels, nbytes), long(levels, nbytes))


def _gathered(between: str, spread: str) -> Plan:
    """Return the plan of an allgather: a gather on each node, an exchange of the leaders, and a broadcast."""

    def duration(levels: _Levels, nbytes: Floats) -> Floats:
        exchanged = _stage(between)(levels, levels.ppn * nbytes)
        flat = trees.ascend(levels.low, levels.low.start(), trees.linear(levels.ppn), nbytes, combine=False)
        return makespan(flat) + exchanged + _stage(spread)(levels, levels.all.size * nbytes)

    return duration


def _hcoll_allreduce(levels: _Levels, nbytes: Floats) -> Floats:
    along = _pipelined("low ascend", "up allreduce recursive_doubling", "low descend")
    leaders, part = along(levels, nbytes), nbytes / levels.ppn
    inside = _stage("low reduce_scatter recursive_halving")(levels, nbytes)
    outside = _stage("low allgather recursive_doubling")(levels, part)
    between = np.minimum(levels.on_rails(part, ring=False), levels.on_rails(part, ring=True))
    splittable = nbytes >= ELEMENT_BYTES * levels.all.size
    return np.where(splittable, np.minimum(leaders, inside + between + outside), leaders)


def _knomial_exchange(levels: _Levels, nbytes: Floats, *, scatter: bool = False) -> Floats:
    """Return the time of an allreduce in rounds of radix 4, in each of which a rank has three partners.

    A rank sends its whole vector to each of the three partners. With ``scatter`` it sends quarters, and the
    rounds are repeated in reverse to gather the result. The messages of a round leave at the same time. So a
    round is modelled as a single exchange with the farthest partner, in which the bytes for all three
    partners are moved; each further partner adds its overheads. Ranks beyond a power of two first send their
    data to a neighbour.
    """
    everybody = levels.all
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
    for partner, carried, overheads_s in rounds:
        t = exchange(core, t, partner, carried, work_s=core.reduce_s(carried) + overheads_s)
    for partner, carried, overheads_s in reversed(rounds) if scatter else ():
        t = exchange(core, t, partner, carried, work_s=overheads_s)
    return makespan(unfold(everybody, everybody.start(), t, at, nbytes))


_TWO_LEVEL_BARRIER = _in_turn("low ascend", "up barrier recursive_doubling", "low descend")

_PLANS: dict[str, dict[str, Plan]] = {
    "han": {
        "allreduce": _pipelined("low reduce", "up reduce binomial", "up bcast binomial", "low bcast"),
        "allgather": _gathered("up allgather", "low bcast"),
        "bcast": _pipelined("up bcast binomial", "low bcast"),
        "reduce": _pipelined("low reduce", "up reduce binomial"),
        "barrier": _TWO_LEVEL_BARRIER,
    },
    "hcoll": {
        "allreduce": _hcoll_allreduce,
        "allgather": _fastest(_gathered("up allgather bruck", "low descend"), _stage("all allgather ring")),
        "alltoall": _fastest(_stage("all alltoall modified_bruck"), _stage("all alltoall pairwise")),
        "bcast": _pipelined("up descend", "low descend"),
        "reduce": _pipelined("low ascend", "up ascend"),
        "barrier": _TWO_LEVEL_BARRIER,
    },
    "ucc": {
        "allreduce": _by_size(_UCC_SHORT_BYTES, _knomial_exchange, partial(_knomial_exchange, scatter=True)),
        "allgather": _by_size(
            _UCC_SHORT_BYTES, _stage("all allgather bruck"), _stage("all allgather neighbor")
        ),
        "alltoall": _by_size(
            _UCC_BRUCK_BYTES, _stage("all alltoall modified_bruck"), _stage("all alltoall pairwise")
        ),
        "bcast": _by_size(_UCC_TREE_BYTES, _stage("all descend"), _stage("all bcast scatter_allgather")),
        "reduce": _by_size(_UCC_TREE_BYTES, _stage("all ascend"), _stage("all reduce rabenseifner")),
        "reduce_scatter": _stage("all reduce_scatter ring"),
        "barrier": _knomial_exchange,
    },
}
"""Maps component and collective to the plan by which the component runs the collective."""
