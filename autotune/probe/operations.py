"""One declaration for each collective: who sends what, what each rank must find, and the call.

Notation: p ranks, rank r, root 0. A *block* is ``message_bytes`` long; ``patterns.block(sources,
destination)`` is what a block must hold. A declaration lists

- ``sends(r, p)``: destinations of the blocks in the send buffer of rank r, in order;
- ``receives(r, p)``: (sources, destination) of each block that rank r must find, in order;
- ``before(r, p)``: the same for the receive buffer before the call, where that matters;
- ``call(exchange)``: the call without arguments, everything bound beforehand;
- ``share(r)``: what part of the time that rank r measures is the time of the operation.

Ping-pong and the one-sided operations run between the first and the last rank, so that the pair crosses
whatever the communicator crosses; only the first rank's time counts, for ping-pong half of the round trip.
One-sided times are those of the operation and the flush that completes it at the target, inside of one
epoch (``MPI_Win_lock_all``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

from autotune.collectives import COLLECTIVES, Pattern

if TYPE_CHECKING:
    from autotune.probe.exchange import Exchange

Blocks: TypeAlias = Sequence[tuple[Iterable[int], int]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One collective, or one operation between two ranks."""

    name: str  # Of ``collectives.MEASURED``.
    sends: Callable[[int, int], Sequence[int]]  # Destinations of the blocks that a rank sends.
    receives: Callable[[int, int], Blocks]  # What a rank must find.
    call: Callable[[Exchange], Callable[[], object]]  # The call, bound.
    before: Callable[[int, int], Blocks] = lambda _rank, _size: ()
    """Required content of the receive buffer before the call; empty: any."""
    share: Callable[[int], float] = lambda _rank: 1.0  # Part of a rank's time that is the operation's.
    exposes: str = ""  # Buffer that a window shows to the other ranks: ``send``, ``recv``; empty: no window.

    @property
    def least_ranks(self) -> int:
        """Without which it cannot be measured."""
        return 2 if COLLECTIVES[self.name].pattern in (Pattern.PAIR, Pattern.ONE_SIDED) else 1


def _vector(sources: Callable[[int, int], Iterable[int]]) -> Callable[[int, int], Blocks]:
    """One block for everyone, summed over these sources; no block where there are none."""

    def receives(rank: int, size: int) -> Blocks:
        summed = list(sources(rank, size))
        return [(summed, 0)] if summed else []

    return receives


def _at(
    who: Callable[[int, int], bool], blocks: Callable[[int, int], Blocks]
) -> Callable[[int, int], Blocks]:
    """These blocks on the ranks for which it holds, none on the others."""
    return lambda rank, size: blocks(rank, size) if who(rank, size) else []


def _root(rank: int, _size: int) -> bool:
    return rank == 0


def _last(rank: int, size: int) -> bool:
    return rank == size - 1


def _one(_rank: int, _size: int) -> Sequence[int]:
    return (0,)


def _each(_rank: int, size: int) -> Sequence[int]:
    return range(size)


def _gathered(_rank: int, size: int, to: int = 0) -> Blocks:
    return [((source,), to) for source in range(size)]


def _exchanged(rank: int, size: int) -> Blocks:
    return _gathered(rank, size, rank)


def _scattered(rank: int, size: int) -> Blocks:
    return [(range(size), rank)]


def _first_only(rank: int) -> float:
    return 0.0 if rank else 1.0


def _counts(x: Exchange) -> list[int]:
    return [x.elements] * x.comm.size


def _v(x: Exchange, side: NDArray[Any]) -> list[Any]:
    """A buffer as ``MPI_Alltoallv`` and its like want it: with counts, displacements and type."""
    return [side, _counts(x), [x.elements * place for place in range(x.comm.size)], x.datatype]


def _nothing() -> None:
    """Do nothing: the part of a rank that does not take part in the call."""


def _pingpong(x: Exchange) -> Callable[[], object]:
    comm, last = x.comm, x.comm.size - 1

    def first() -> None:
        comm.Send(x.send, last)
        comm.Recv(x.recv, last)

    def echo() -> None:
        comm.Recv(x.recv, 0)
        comm.Send(x.send, 0)

    if last == 0:
        return partial(comm.Sendrecv, x.send, 0, 0, x.recv, 0, 0)
    return {0: first, last: echo}.get(comm.rank, _nothing)


def _one_sided(name: str, side: str) -> Callable[[Exchange], Callable[[], object]]:
    def bound(x: Exchange) -> Callable[[], object]:
        window, last = x.window, x.comm.size - 1
        if x.comm.rank or window is None:
            return _nothing
        how = {"op": x.sum} if name == "Accumulate" else {}
        start = partial(getattr(window, name), getattr(x, side), last, **how)

        def call() -> None:
            start()
            window.Flush(last)

        return call

    return bound


_ALL = (
    Operation("allreduce", _one, _vector(_each), lambda x: partial(x.comm.Allreduce, x.send, x.recv, x.sum)),
    Operation(
        "reduce",
        _one,
        _at(_root, _vector(_each)),
        lambda x: partial(x.comm.Reduce, x.send, x.recv, x.sum, 0),
    ),
    Operation(
        "bcast",
        lambda rank, _size: () if rank else (0,),
        _vector(lambda rank, _size: (0,) if rank else ()),
        lambda x: partial(x.comm.Bcast, x.recv if x.comm.rank else x.send, 0),
    ),
    Operation("allgather", _one, _gathered, lambda x: partial(x.comm.Allgather, x.send, x.recv)),
    Operation("allgatherv", _one, _gathered, lambda x: partial(x.comm.Allgatherv, x.send, _v(x, x.recv))),
    Operation("alltoall", _each, _exchanged, lambda x: partial(x.comm.Alltoall, x.send, x.recv)),
    Operation(
        "alltoallv", _each, _exchanged, lambda x: partial(x.comm.Alltoallv, _v(x, x.send), _v(x, x.recv))
    ),
    Operation(
        "gather",
        _one,
        _at(_root, _gathered),
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
        _each,
        _scattered,
        lambda x: partial(x.comm.Reduce_scatter, x.send, x.recv, _counts(x), x.sum),
    ),
    Operation(
        "reduce_scatter_block",
        _each,
        _scattered,
        lambda x: partial(x.comm.Reduce_scatter_block, x.send, x.recv, x.sum),
    ),
    Operation("barrier", lambda _r, _p: (), lambda _r, _p: (), lambda x: x.comm.Barrier),
    Operation(
        "scan",
        _one,
        _vector(lambda rank, _size: range(rank + 1)),
        lambda x: partial(x.comm.Scan, x.send, x.recv, x.sum),
    ),
    Operation(
        "exscan",
        _one,
        _vector(lambda rank, _size: range(rank)),
        lambda x: partial(x.comm.Exscan, x.send, x.recv, x.sum),
    ),
    Operation(
        "pingpong",
        _one,
        _at(
            lambda rank, size: rank in (0, size - 1),
            lambda rank, size: [((0 if rank else size - 1,), 0)],
        ),
        _pingpong,
        share=lambda rank: 0.0 if rank else 0.5,
    ),
    Operation(
        "put",
        _one,
        _at(_last, lambda _rank, _size: [((0,), 0)]),
        _one_sided("Put", "send"),
        share=_first_only,
        exposes="recv",
    ),
    Operation(
        "get",
        _one,
        _at(_root, lambda _rank, size: [((size - 1,), 0)]),
        _one_sided("Get", "recv"),
        share=_first_only,
        exposes="send",
    ),
    Operation(
        "accumulate",
        _one,
        _at(_last, lambda _rank, size: [((0, size - 1), 0)]),
        _one_sided("Accumulate", "send"),
        before=_at(_last, lambda rank, _size: [((rank,), 0)]),
        share=_first_only,
        exposes="recv",
    ),
)

OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in _ALL}
"""By name, in the order of ``collectives.MEASURED``."""
