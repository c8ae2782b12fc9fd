"""Declare the patterns of messages: pairs, neighbours, one-sided operations and non-blocking calls.

Ping-pong and the one-sided operations run between the first and the last rank, so that their messages take
the same path as messages between distant ranks of the communicator. Only the first rank's time counts; for
ping-pong it is half of the round trip. The time of a one-sided operation includes the flush that completes
the operation at the target, and all calls are inside of one epoch (``MPI_Win_lock_all``). In operations whose
names end with ``_lock``, the time includes an epoch for each call instead, and with ``_fence`` two fences.

Pairs send ``WINDOW`` messages in a row, as OSU's ``osu_mbw_mr`` and ``osu_bibw`` do. The time is the time of
one message; its inverse is a pair's message rate. In a halo exchange a rank sends a block to both neighbours
in each dimension of a periodic grid that has more than one rank: block j goes to the j-th neighbour, and
block j comes from the opposite neighbour. For patterns that overlap communication with computation, only the
time inside of MPI counts, without the computation between the two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

from autotune.probe.declared import (
    Blocks,
    Operation,
    at,
    each,
    exchanged,
    first_only,
    last,
    one_block,
    opposite,
    root,
    vector,
)

if TYPE_CHECKING:
    from mpi4py.MPI import Distgraphcomm, Request

    from autotune.probe.exchange import Exchange

WINDOW = 64  # Messages that a pair sends in a row: OSU's default in all versions.


def _nothing() -> None:
    """Do nothing: the call of a rank that does not take part in the pattern."""


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
    """Return a function like ``Operation.call`` for a window's method, such as ``Put``.

    The first rank passes its buffer ``side`` (``send`` or ``recv``) to the method.
    """

    def bound(x: Exchange) -> Callable[[], object]:
        window, last, epoch = x.window, x.comm.size - 1, x.operation.epoch
        if window is None or (x.comm.rank and epoch != "fence"):
            return _nothing
        from mpi4py.MPI import LOCK_SHARED  # imported here, since declarations are also read without MPI

        how = {"op": x.sum} if name == "Accumulate" else {}
        start = _nothing if x.comm.rank else partial(getattr(window, name), getattr(x, side), last, **how)
        sides: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "flush": (_nothing, partial(window.Flush, last)),
            "lock": (partial(window.Lock, last, LOCK_SHARED), partial(window.Unlock, last)),
            "fence": (window.Fence, window.Fence),
        }
        begin_epoch, end_epoch = sides[epoch]

        def call() -> None:
            begin_epoch()
            start()
            end_epoch()

        return call

    return bound


def _pair(rank: int, size: int) -> Sequence[int]:
    """Return the rank with which a rank forms a pair; empty for the last of an odd number of ranks."""
    half = size // 2
    return (rank + half if rank < half else rank - half,) if rank < 2 * half else ()


def _multipair(x: Exchange) -> Callable[[], object]:
    peers = _pair(x.comm.rank, x.comm.size)
    if not peers:
        return _nothing
    comm, token, (peer,) = x.comm, bytearray(1), peers

    def send() -> None:
        _wait([comm.Isend(x.send, peer) for _ in range(WINDOW)])
        comm.Recv(token, peer)

    def receive() -> None:
        _wait([comm.Irecv(x.recv, peer) for _ in range(WINDOW)])
        comm.Send(token, peer)

    return send if comm.rank < peer else receive


def _bidirectional(x: Exchange) -> Callable[[], object]:
    peers = _pair(x.comm.rank, x.comm.size)
    if not peers:
        return _nothing
    comm, (peer,) = x.comm, peers
    return lambda: _wait(
        [comm.Irecv(x.recv, peer) for _ in range(WINDOW)] + [comm.Isend(x.send, peer) for _ in range(WINDOW)]
    )


def _wait(requests: Sequence[Request]) -> None:
    if requests:
        requests[0].Waitall(requests)


@cache
def _grid(size: int, dimensions: int) -> tuple[int, ...]:
    """Return the extents of a grid of ``size`` ranks, largest first, as equal as a greedy search finds."""
    if dimensions == 1:
        return (size,)
    extent = max(n for n in range(1, size + 1) if size % n == 0 and n**dimensions <= size)
    return (*_grid(size // extent, dimensions - 1), extent)


def neighbours(rank: Any, size: int, dimensions: int = 2) -> list[Any]:
    """Return the ranks below and above a rank in each dimension of the grid that is longer than one rank.

    ``rank`` is one rank or an array of ranks; each entry of the result is of the same kind.
    """
    around, stride = [], 1
    for extent in _grid(size, dimensions):
        coordinate = rank // stride % extent
        around += [
            rank + ((coordinate + step) % extent - coordinate) * stride for step in (-1, 1) if extent > 1
        ]
        stride *= extent
    return around


def _post(x: Exchange, receive: str, send: str) -> list[Any]:
    """Start all receives, then all sends of a rank's halo exchange, by these methods of the communicator."""
    peers, n = x.operation.peers(x.comm.rank, x.comm.size), x.elements
    blocks = [slice(j * n, (j + 1) * n) for j in range(len(peers))]
    takes, gives = getattr(x.comm, receive), getattr(x.comm, send)
    return [takes(x.recv[block], peers[j ^ 1], j) for j, block in enumerate(blocks)] + [
        gives(x.send[block], peers[j], j) for j, block in enumerate(blocks)
    ]


def _halo(x: Exchange) -> Callable[[], object]:
    def call() -> None:
        requests = _post(x, "Irecv", "Isend")
        x.compute()
        _wait(requests)

    return call


def _persistent(make: Callable[[Exchange], list[Any]]) -> Callable[[Exchange], Callable[[], object]]:
    """Return a function like ``Operation.call`` whose calls start persistent requests.

    ``make`` creates the requests of an exchange when a call is made for that exchange for the first time.
    """

    def bound(x: Exchange) -> Callable[[], object]:
        x.requests = requests = x.requests or make(x)

        def call() -> None:
            if requests:
                requests[0].Startall(requests)
                _wait(requests)

        return call

    return bound


def _neighbor(x: Exchange) -> Callable[[], object]:
    n, peers = x.elements, len(x.operation.peers(x.comm.rank, x.comm.size))
    how = [n] * peers, [n * place for place in range(peers)], x.datatype
    if not peers:
        return _nothing
    return partial(cast("Distgraphcomm", x.comm).Neighbor_alltoallv, [x.send, *how], [x.recv, *how])


def _of_neighbours(
    name: str, call: Callable[[Exchange], Callable[[], object]], peers: Callable[[int, int], Sequence[int]]
) -> Operation:
    def receives(rank: int, size: int) -> Blocks:
        return [((source,), j) for j, source in enumerate(opposite(peers(rank, size)))]

    def sends(rank: int, size: int) -> Sequence[int]:
        return range(len(peers(rank, size)))

    overlaps, graph = name == "halo_overlap", name == "halo_neighbor"
    return Operation(name, sends, receives, call, peers=peers, between=True, overlaps=overlaps, graph=graph)


def _nonblocking(name: str, *how: str) -> Callable[[Exchange], Callable[[], object]]:
    """Return a function like ``Operation.call`` for a non-blocking collective: start, computation, wait.

    The exchange's attributes with the names ``how`` are passed to the collective after the buffers.
    """

    def bound(x: Exchange) -> Callable[[], object]:
        start = partial(getattr(x.comm, name), x.send, x.recv, *(getattr(x, word) for word in how))

        def call() -> None:
            request = start()
            x.compute()
            request.Wait()

        return call

    return bound


_EPOCHS = {"": "flush", "_lock": "lock", "_fence": "fence"}  # Suffix of a name → kind of the epochs.


def _one_sided_with(suffix: str, epoch: str) -> tuple[Operation, ...]:
    share = (lambda _rank: 1.0) if epoch == "fence" else first_only
    declared = partial(Operation, sends=one_block, share=share, epoch=epoch, between=True)
    return (
        declared(
            name=f"put{suffix}",
            receives=at(last, lambda _rank, _size: [((0,), 0)]),
            call=_one_sided("Put", "send"),
            exposes="recv",
        ),
        declared(
            name=f"get{suffix}",
            receives=at(root, lambda _rank, size: [((size - 1,), 0)]),
            call=_one_sided("Get", "recv"),
            exposes="send",
        ),
        declared(
            name=f"accumulate{suffix}",
            receives=at(last, lambda _rank, size: [((0, size - 1), 0)]),
            call=_one_sided("Accumulate", "send"),
            initial=at(last, lambda rank, _size: [((rank,), 0)]),
            exposes="recv",
        ),
    )


MESSAGES: tuple[Operation, ...] = (
    Operation(
        "pingpong",
        one_block,
        at(lambda rank, size: rank in (0, size - 1), lambda rank, size: [((0 if rank else size - 1,), 0)]),
        _pingpong,
        between=True,
        share=lambda rank: 0.0 if rank else 0.5,
    ),
    *(operation for suffix, epoch in _EPOCHS.items() for operation in _one_sided_with(suffix, epoch)),
    Operation(
        "multipair",
        one_block,
        at(lambda rank, size: size // 2 <= rank < size // 2 * 2, lambda r, p: [(_pair(r, p), 0)]),
        _multipair,
        share=lambda _rank: 1 / WINDOW,
        peers=_pair,
        between=True,
    ),
    Operation(
        "bidirectional",
        one_block,
        at(lambda rank, size: rank < size // 2 * 2, lambda r, p: [(_pair(r, p), 0)]),
        _bidirectional,
        share=lambda _rank: 1 / WINDOW,
        peers=_pair,
        between=True,
    ),
    *(
        _of_neighbours(name, call, peers)
        for name, call, peers in (
            ("halo", _halo, neighbours),
            ("halo3d", _halo, partial(neighbours, dimensions=3)),
            (
                "halo_persistent",
                _persistent(partial(_post, receive="Recv_init", send="Send_init")),
                neighbours,
            ),
            ("halo_neighbor", _neighbor, neighbours),
            ("halo_overlap", _halo, neighbours),
        )
    ),
    Operation("iallreduce", one_block, vector(each), _nonblocking("Iallreduce", "sum")),
    Operation(
        "iallreduce_overlap", one_block, vector(each), _nonblocking("Iallreduce", "sum"), overlaps=True
    ),
    Operation("ialltoall", each, exchanged, _nonblocking("Ialltoall")),
    Operation("ialltoall_overlap", each, exchanged, _nonblocking("Ialltoall"), overlaps=True),
    Operation(
        "allreduce_init",
        one_block,
        vector(each),
        _persistent(lambda x: [x.comm.Allreduce_init(x.send, x.recv, x.sum)]),
    ),
)
