"""The simulated algorithms of each collective, under Open MPI's names, and the library's default choice.

Place in the flow: (collective, algorithm) → a function of ``tuned`` → `predict`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from autotune.errors import SpaceError, allowed
from autotune.simulate import trees, tuned
from autotune.simulate.protocols import Floats
from autotune.simulate.schedule import Group
from autotune.stacks import fixed_rules
from autotune.stacks.fixed_rules import Rules, fixed_choice

CHAIN_FANOUT = 4  # Number of chains below the root in coll_tuned (coll_tuned_*_chain_fanout).
KNOMIAL_RADIX = 4  # Default radix of coll_tuned (coll_tuned_bcast_knomial_radix).


@dataclass(frozen=True, slots=True)
class Model:
    """The simulated algorithms of one collective, and how the library chooses among them."""

    algorithms: Mapping[str, tuned.Algorithm]
    """Maps the name of each algorithm to the function that simulates the algorithm."""
    decisions: Rules  # Rules by which the library chooses an algorithm by default.
    buffers: Callable[[int], int]
    """Function of the number of ranks that returns how much memory a rank reads or writes, in units of a
    message."""
    vectors: bool = False
    """Whether the functions in ``algorithms`` take the size of the whole vector, although message sizes of
    this collective count one block."""
    smallest: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Maps an algorithm to (replacement, bytes per rank): for messages with fewer bytes per rank the library
    runs the replacement instead."""


def algorithms(collective: str, ranks: int) -> tuple[str, ...]:
    """Return the algorithms that can be simulated on a number of ranks, beginning with ``default``.

    Raises:
        SpaceError: If the collective has no model.
    """
    modelled = model_of(collective).algorithms
    return ("default", *(name for name in modelled if ranks == 2 or name != "two_proc"))


def model_of(collective: str) -> Model:
    """Return the model of a collective.

    Raises:
        SpaceError: If the collective has no model.
    """
    if collective not in _MODELS:
        raise SpaceError(f"no model of {collective!r}", allowed(collective, _MODELS))
    return _MODELS[collective]


def run(
    collective: str, algorithm: str, group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0
) -> Floats:
    """Simulate one call, and return the times at which ranks have finished it, shape (g, n).

    Args:
        collective: Name of the collective.
        algorithm: Name of an algorithm that `algorithms` returns.
        group: The communicator.
        t: Times at which the ranks enter the call, shape (g, n).
        nbytes: Message sizes, shape (n,).
        segment_bytes: Size of the segments into which the algorithm splits messages; 0 means that messages
            are not split.

    Raises:
        SpaceError: If the collective has no model, or the algorithm does not exist on so many ranks.
    """
    modelled = algorithms(collective, group.size)
    if algorithm not in modelled:
        problem = f"no {collective} algorithm {algorithm!r} on {group.size} ranks"
        raise SpaceError(problem, allowed(algorithm, modelled))
    if group.size == 1:
        return t + group.copy_s(nbytes)
    model = _MODELS[collective]
    if algorithm == "default":
        names, segment_bytes = np.array(fixed_choice(model.decisions, group.size, nbytes)), 0
    else:
        names = np.full(nbytes.shape, algorithm)
    for name in dict.fromkeys(names.tolist()):
        # A vector with fewer elements than ranks cannot be split, so the library uses another algorithm for
        # it.
        replacement, per_rank = model.smallest.get(name, (name, 0))
        names = np.where((names == name) & (nbytes < per_rank * group.size), replacement, names)
    ready = np.empty_like(t)
    for name in dict.fromkeys(names.tolist()):
        selected = names == name
        call = model.algorithms[name]
        ready[:, selected] = call(group.at_sizes(selected), t[:, selected], nbytes[selected], segment_bytes)
    return ready


def _nonoverlapping(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an allreduce as a reduce and a bcast, each by the library's default algorithm."""
    t = run("reduce", "default", group, t, nbytes)
    return run("bcast", "default", group, t, nbytes)


def _linear_allreduce(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an allreduce as a reduce in which all ranks send to the root, and a bcast by default."""
    t = trees.ascend(group, t, trees.linear(group.size), nbytes)
    return run("bcast", "default", group, t, nbytes)


def _linear_allgather(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate an allgather as a gather in which all ranks send to the root, and a bcast of the result."""
    t = trees.ascend(group, t, trees.linear(group.size), nbytes, combine=False)
    return run("bcast", "default", group, t, group.size * nbytes)


def _reduce_and_scatter(group: Group, t: Floats, nbytes: Floats, segment_bytes: int = 0) -> Floats:
    """Simulate a reduce-scatter as a reduce to rank 0, which then sends each rank its block."""
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
        fixed_rules.ALLREDUCE,
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
        fixed_rules.REDUCE,
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
        fixed_rules.REDUCE_SCATTER,
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
        fixed_rules.BARRIER,
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
        fixed_rules.ALLGATHER,
        lambda ranks: ranks + 1,
    ),
    "alltoall": Model(
        {
            "linear": tuned.everybody,
            "pairwise": tuned.pairwise,
            "modified_bruck": tuned.modified_bruck,
            # By default the number of requests is not limited, so linear_sync is the same as linear.
            "linear_sync": tuned.everybody,
            "two_proc": tuned.swap,
        },
        fixed_rules.ALLTOALL,
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
            "scatter_allgather": partial(tuned.scatter_then, tuned.doubling_allgather),
            "scatter_allgather_ring": partial(tuned.scatter_then, tuned.ring_allgather),
        },
        fixed_rules.BCAST,
        lambda _ranks: 1,
        smallest={"scatter_allgather": ("linear", 1), "scatter_allgather_ring": ("linear", 1)},
    ),
}
