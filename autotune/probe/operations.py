"""Declarations of all collectives and patterns; ``declared`` describes what a declaration contains."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from autotune.probe.declared import (
    Operation,
    at,
    each,
    exchanged,
    gathered,
    one_block,
    root,
    scattered,
    vector,
)
from autotune.probe.messages import MESSAGES

if TYPE_CHECKING:
    from autotune.probe.exchange import Exchange, View


def _counts(x: Exchange) -> list[int]:
    return [x.elements] * x.comm.size


def _v(x: Exchange, side: View) -> list[Any]:
    """Return a buffer with counts, displacements and type, as ``MPI_Alltoallv`` and similar calls need it."""
    return [side, _counts(x), [x.elements * place for place in range(x.comm.size)], x.datatype]


_COLLECTIVES = (
    Operation(
        "allreduce", one_block, vector(each), lambda x: partial(x.comm.Allreduce, x.send, x.recv, x.sum)
    ),
    Operation(
        "reduce",
        one_block,
        at(root, vector(each)),
        lambda x: partial(x.comm.Reduce, x.send, x.recv, x.sum, 0),
    ),
    Operation(
        "bcast",
        lambda rank, _size: () if rank else (0,),
        vector(lambda rank, _size: (0,) if rank else ()),
        lambda x: partial(x.comm.Bcast, x.recv if x.comm.rank else x.send, 0),
    ),
    Operation("allgather", one_block, gathered, lambda x: partial(x.comm.Allgather, x.send, x.recv)),
    Operation("allgatherv", one_block, gathered, lambda x: partial(x.comm.Allgatherv, x.send, _v(x, x.recv))),
    Operation("alltoall", each, exchanged, lambda x: partial(x.comm.Alltoall, x.send, x.recv)),
    Operation(
        "alltoallv", each, exchanged, lambda x: partial(x.comm.Alltoallv, _v(x, x.send), _v(x, x.recv))
    ),
    Operation(
        "gather",
        one_block,
        at(root, gathered),
        lambda x: partial(x.comm.Gather, x.send, None if x.comm.rank else x.recv, 0),
    ),
    Operation(
        "scatter",
        lambda rank, size: () if rank else range(size),
        lambda rank, _size: [((0,), rank)],
        lambda x: partial(x.comm.Scatter, None if x.comm.rank else x.send, x.recv, 0),
    ),
    Operation(
        "reduce_scatter",
        each,
        scattered,
        lambda x: partial(x.comm.Reduce_scatter, x.send, x.recv, _counts(x), x.sum),
    ),
    Operation(
        "reduce_scatter_block",
        each,
        scattered,
        lambda x: partial(x.comm.Reduce_scatter_block, x.send, x.recv, x.sum),
    ),
    Operation("barrier", lambda _r, _p: (), lambda _r, _p: (), lambda x: x.comm.Barrier, sized=False),
    Operation(
        "scan",
        one_block,
        vector(lambda rank, _size: range(rank + 1)),
        lambda x: partial(x.comm.Scan, x.send, x.recv, x.sum),
    ),
    Operation(
        "exscan",
        one_block,
        vector(lambda rank, _size: range(rank)),
        lambda x: partial(x.comm.Exscan, x.send, x.recv, x.sum),
    ),
)

OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in (*_COLLECTIVES, *MESSAGES)}
"""Every operation by its name, in the order of ``collectives.MEASURED``."""
