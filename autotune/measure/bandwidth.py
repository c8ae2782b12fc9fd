"""Times → bandwidths, for every operation the probe measures.

Step 7 of the flow. Notation: m = `message_bytes` as the benchmarks print it, p = `comm_size` ranks,
S = the operation's size in bytes, t = time in seconds.

- Algorithm bandwidth S / t says how soon an operation of that size is over.
- Bus bandwidth S / t · f multiplies by the share f of S that must at least cross one rank's link, so that
  it can be held against the hardware's and does not depend on p.

| operation | m is | S | f |
|---|---|---|---|
| allreduce | the vector of a rank | m | 2(p − 1)/p |
| reduce, bcast | the vector | m | 1 |
| scan, exscan | the vector of a rank | m | 1 |
| allgather(v) | the block of a rank | p·m | (p − 1)/p |
| reduce_scatter(_block) | the block a rank receives | p·m | (p − 1)/p |
| gather, scatter | the block of a rank | p·m | (p − 1)/p |
| alltoall(v) | the block for one peer | p·m | (p − 1)/p |
| pingpong, put, get, accumulate | the message | m | 1 |
| barrier | nothing | 0 | 0 |

Allreduce: each of S bytes needs p − 1 additions and p − 1 copies over p links. Scan: every rank but the
first must receive a vector, every rank but the last must send one, each over its own link. Of gather,
scatter and all-to-all a rank's own block stays where it is. The vector forms are meant with equal blocks.
For `pingpong`, t is half a round trip.

References:
    NCCL tests, doc/PERFORMANCE.md (definitions of algbw and busbw; allreduce, reduce-scatter, allgather,
    broadcast, reduce, all-to-all; gather and scatter as in its source).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotune.errors import UserError, allowed

__all__ = ["OPERATIONS", "Bandwidth", "bandwidth", "operation_bytes"]

FloatArray: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Traffic:
    """S = m · (p if blocks else 1); f = crossings · ((p − 1)/p if shared else 1)."""

    blocks: bool
    crossings: int
    shared: bool


_VECTOR = _Traffic(blocks=False, crossings=1, shared=False)
_BLOCKS = _Traffic(blocks=True, crossings=1, shared=True)
_TRAFFIC = {
    "allreduce": _Traffic(blocks=False, crossings=2, shared=True),
    "reduce": _VECTOR,
    "bcast": _VECTOR,
    "allgather": _BLOCKS,
    "allgatherv": _BLOCKS,
    "alltoall": _BLOCKS,
    "alltoallv": _BLOCKS,
    "gather": _BLOCKS,
    "scatter": _BLOCKS,
    "reduce_scatter": _BLOCKS,
    "reduce_scatter_block": _BLOCKS,
    "barrier": _Traffic(blocks=False, crossings=0, shared=False),
    "scan": _VECTOR,
    "exscan": _VECTOR,
    "pingpong": _VECTOR,
    "put": _VECTOR,
    "get": _VECTOR,
    "accumulate": _VECTOR,
}

OPERATIONS: tuple[str, ...] = tuple(_TRAFFIC)
"""Names of all operations with a bandwidth formula."""


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Bandwidths, in the broadcast shape of what they were computed from."""

    algorithm_Bps: FloatArray  # noqa: N815 (B and b are different units)
    """S / t, bytes per second."""
    bus_Bps: FloatArray  # noqa: N815 (B and b are different units)
    """S / t · f, bytes per second."""


def operation_bytes(operation: str, message_bytes: ArrayLike, comm_size: ArrayLike) -> FloatArray:
    """S, the size of the whole operation in bytes, by the table of this module.

    Args:
        operation: One of `OPERATIONS`.
        message_bytes: m, any shape.
        comm_size: p, ranks in the communicator; broadcast against `message_bytes`.

    Returns:
        S in bytes, in the broadcast shape; 0 for a barrier.

    Raises:
        UserError: Unknown operation.
    """
    traffic = _traffic(operation)
    m, p = np.broadcast_arrays(np.asarray(message_bytes, np.float64), np.asarray(comm_size, np.float64))
    if operation == "barrier":
        return np.zeros(m.shape)
    return m * p if traffic.blocks else m.copy()


def bandwidth(operation: str, message_bytes: ArrayLike, comm_size: ArrayLike, time_s: ArrayLike) -> Bandwidth:
    """Algorithm and bus bandwidth of an operation.

    Args:
        operation: One of `OPERATIONS`.
        message_bytes: m, any shape.
        comm_size: p, broadcast against the others.
        time_s: t > 0 in seconds, broadcast against the others.

    Returns:
        Both bandwidths, in the broadcast shape.

    Raises:
        UserError: Unknown operation.
        ValueError: A time that is not above 0.
    """
    traffic = _traffic(operation)
    size, p, t = np.broadcast_arrays(
        operation_bytes(operation, message_bytes, comm_size),
        np.asarray(comm_size, np.float64),
        np.asarray(time_s, np.float64),
    )
    if not (t > 0).all():
        raise ValueError("a bandwidth needs times above 0 s")
    algorithm = size / t
    return Bandwidth(algorithm, algorithm * traffic.crossings * ((p - 1) / p if traffic.shared else 1.0))


def _traffic(operation: str) -> _Traffic:
    try:
        return _TRAFFIC[operation]
    except KeyError:
        raise UserError(f"unknown operation {operation!r}", allowed(operation, OPERATIONS)) from None
