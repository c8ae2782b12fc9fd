"""The algorithms of each collective by Open MPI's names, and the one that a component takes by itself.

Place in the flow: (collective, algorithm) → a function of ``tuned`` → `predict`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from autotune.errors import SpaceError, allowed
from autotune.simulate import decisions, trees, tuned
from autotune.simulate.decisions import Rules, fixed_choice
from autotune.simulate.protocols import Floats
from autotune.simulate.schedule import Group

CHAIN_FANOUT = 4  # coll_tuned's chains below the root (coll_tuned_*_chain_fanout).
KNOMIAL_RADIX = 4  # coll_tuned's default radix (coll_tuned_bcast_knomial_radix).


@dataclass(frozen=True, slots=True)
class Model:
    """The model of one collective."""

    algorithms: Mapping[str, tuned.Algorithm]  # Name → what it does.
    decisions: Rules  # What the library takes by itself.
    buffers: Callable[[int], int]  # Ranks → message sizes that one touches: sent, received and kept.
    vectors: bool = False  # Whether the algorithms count the whole vector where a message is one block of it.
    smallest: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """The library's replacement for an algorithm, and the bytes a rank below which it runs."""


def algorithms(collective: str, ranks: int) -> tuple[str, ...]:
    """The algorithms that the model knows for a collective on so many ranks; the first is ``default``.

    Raises:
        SpaceError: If the model does not know the collective.
    """
    known = model_of(collective).algorithms
    return ("default", *(name for name in known if ranks == 2 or name != "two_proc"))


def model_of(collective: str) -> Model:
    """The model of a collective.

    Raises:
        SpaceError: If there is none.
    """
    if collective not in _MODELS:
        raise SpaceError(f"no model of {collective!r}", allowed(collective, _MODELS))
    return _MODELS[collective]


def run(
    collective: str, algorithm: str, group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0
) -> Floats:
    """Readiness after one call, shape (g, n), from the readiness t before it and the message sizes (n,).

    Segments of ``segment_bytes`` are sent where the algorithm has segments; 0: whole messages.

    Raises:
        SpaceError: If the model does not know the collective, or the algorithm for it on so many ranks.
    """
    known = algorithms(collective, group.size)
    if algorithm not in known:
        what = f"no {collective} algorithm {algorithm!r} on {group.size} ranks"
        raise SpaceError(what, allowed(algorithm, known))
    if group.size == 1:
        return t + group.copy_s(nbytes)
    model = _MODELS[collective]
    if algorithm == "default":
        names, segment_bytes = np.array(fixed_choice(model.decisions, group.size, nbytes)), 0
    else:
        names = np.full(nbytes.shape, algorithm)
    for name in dict.fromkeys(names.tolist()):
        # Vectors with fewer elements than ranks cannot be split: the library takes another algorithm then.
        instead, per_rank = model.smallest.get(name, (name, 0))
        names = np.where((names == name) & (nbytes < per_rank * group.size), instead, names)
    done = np.empty_like(t)
    for name in dict.fromkeys(names.tolist()):
        at = names == name
        call = model.algorithms[name]
        done[:, at] = call(group.at_sizes(at), t[:, at], nbytes[at], segment_bytes)
    return done


def fixed_algorithm(collective: str, ranks: int, nbytes: int) -> str:
    """The choice of ``tuned`` by itself; empty for a collective whose fixed rules are not known."""
    model = _MODELS.get(collective)
    return fixed_choice(model.decisions, ranks, np.array([float(nbytes)]))[0] if model else ""


def _nonoverlapping(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Allreduce: whatever reduce, then whatever bcast the fixed rules take."""
    t = run("reduce", "default", group, t, nbytes)
    return run("bcast", "default", group, t, nbytes)


def _linear_allreduce(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Allreduce: a flat reduce, then whatever bcast the fixed rules take."""
    t = trees.ascend(group, t, trees.linear(group.size), nbytes)
    return run("bcast", "default", group, t, nbytes)


def _linear_allgather(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Allgather: a flat gather, then a bcast of everything."""
    t = trees.ascend(group, t, trees.linear(group.size), nbytes, combine=False)
    return run("bcast", "default", group, t, group.size * nbytes)


def _reduce_and_scatter(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Reduce-scatter: a reduce to rank 0, then a flat scatter."""
    t = run("reduce", "default", group, t, nbytes)
    return trees.descend(group, t, trees.linear(group.size), nbytes / group.size)


_chain = partial(trees.chains, fanout=CHAIN_FANOUT)
_pipeline = partial(trees.chains, fanout=1)

_MODELS: Mapping[str, Model] = {
    "allreduce": Model(
        {
            "linear": _linear_allreduce,
            "nonoverlapping": _nonoverlapping,
            "recursive_doubling": tuned.recursive_doubling,
            "ring": tuned.ring_allreduce,
            "segmented_ring": tuned.segmented_ring,
            "rabenseifner": tuned.rabenseifner,
        },
        decisions.ALLREDUCE,
        lambda _ranks: 3,
        smallest={
            "ring": ("recursive_doubling", tuned.ELEMENT_BYTES),
            "segmented_ring": ("recursive_doubling", tuned.ELEMENT_BYTES),
            "rabenseifner": ("linear", tuned.ELEMENT_BYTES),
        },
    ),
    "reduce": Model(
        {
            "linear": partial(tuned.reduce_by, trees.linear),
            "chain": partial(tuned.reduce_by, _chain),
            "pipeline": partial(tuned.reduce_by, _pipeline),
            "binary": partial(tuned.reduce_by, trees.binary),
            "binomial": partial(tuned.reduce_by, partial(trees.knomial, radix=2)),
            "in_order_binary": partial(tuned.reduce_by, trees.in_order_binary),
            "rabenseifner": tuned.rabenseifner_reduce,
        },
        decisions.REDUCE,
        lambda _ranks: 3,
        smallest={"rabenseifner": ("linear", tuned.ELEMENT_BYTES)},
    ),
    "reduce_scatter": Model(
        {
            "nonoverlapping": _reduce_and_scatter,
            "recursive_halving": tuned.recursive_halving,
            "ring": tuned.ring_scatter,
            "butterfly": tuned.butterfly,
        },
        decisions.REDUCE_SCATTER,
        lambda _ranks: 2,
        vectors=True,
    ),
    "barrier": Model(
        {
            "linear": partial(tuned.barrier_by, trees.linear),
            "double_ring": partial(tuned.barrier_by, partial(trees.chains, fanout=1)),
            "recursive_doubling": tuned.recursive_doubling,
            "bruck": tuned.dissemination,
            "two_proc": tuned.swap,
            "tree": partial(tuned.barrier_by, partial(trees.knomial, radix=2)),
        },
        decisions.BARRIER,
        lambda _ranks: 0,
    ),
    "allgather": Model(
        {
            "linear": _linear_allgather,
            "bruck": tuned.bruck_allgather,
            "recursive_doubling": tuned.doubling_allgather,
            "ring": tuned.ring_allgather,
            "neighbor": tuned.neighbor,
            "two_proc": tuned.swap,
            "sparbit": tuned.sparbit,
            "direct": tuned.everybody,
        },
        decisions.ALLGATHER,
        lambda ranks: ranks + 1,
    ),
    "alltoall": Model(
        {
            "linear": tuned.everybody,
            "pairwise": tuned.pairwise,
            "modified_bruck": tuned.modified_bruck,
            "linear_sync": tuned.everybody,  # the same without a limit on its requests, which is the default
            "two_proc": tuned.swap,
        },
        decisions.ALLTOALL,
        lambda ranks: 2 * ranks,
    ),
    "bcast": Model(
        {
            "linear": partial(tuned.bcast_by, trees.linear),
            "chain": partial(tuned.bcast_by, _chain),
            "pipeline": partial(tuned.bcast_by, _pipeline),
            "split_binary": tuned.split_binary,
            "binary": partial(tuned.bcast_by, trees.binary),
            "binomial": partial(tuned.bcast_by, trees.binomial),
            "knomial": partial(tuned.bcast_by, partial(trees.knomial, radix=KNOMIAL_RADIX)),
            "scatter_allgather": tuned.scatter_allgather,
            "scatter_allgather_ring": tuned.scatter_allgather_ring,
        },
        decisions.BCAST,
        lambda _ranks: 1,
        smallest={"scatter_allgather": ("linear", 1), "scatter_allgather_ring": ("linear", 1)},
    ),
}
