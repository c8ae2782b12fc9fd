"""Declaration of a collective or a pattern: who sends what, what each rank must find, and the call.

Notation: p ranks, rank r, root 0. A *block* is ``message_bytes`` long; ``patterns.block(sources,
destination)`` is what a block must hold. A declaration lists

- ``sends(r, p)``: destinations of the blocks in the send buffer of rank r, in order;
- ``receives(r, p)``: (sources, destination) of each block that rank r must find, in order;
- ``initial(r, p)``: the same for the receive buffer before the call, where that matters;
- ``call(exchange)``: the call without arguments, everything bound beforehand;
- ``share(r)``: the factor by which rank r's time is multiplied to give the time of the operation.

The other properties of a collective are in ``collectives``, which ranks do not load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from autotune.probe.exchange import Exchange

Blocks: TypeAlias = Sequence[tuple[Iterable[int], int]]  # (sources, destination) of each block.

_COMPUTE_S, _COMPUTE_S_A_BYTE = 10e-6, 0.5e-9
"""Computation inside of a call, in seconds and in seconds a byte: about as long as the call itself takes in
shared memory. It is the same under every setting, so that settings can be compared; OSU computes for as long
as each setting's own call takes."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One collective, or one pattern of messages."""

    name: str  # Its name in ``collectives.MEASURED``.
    sends: Callable[[int, int], Sequence[int]]  # Destinations of the blocks that a rank sends.
    receives: Callable[[int, int], Blocks]  # Blocks that a rank must find.
    call: Callable[[Exchange], Callable[[], object]]  # The call, with everything bound to it.
    initial: Callable[[int, int], Blocks] = lambda _rank, _size: ()
    """Content that the receive buffer must have before the call; empty: any."""
    share: Callable[[int], float] = lambda _rank: 1.0
    """Factor from a rank's time to the operation's; 0: the rank's time does not count."""
    exposes: str = ""
    """Buffer that a window shows to the other ranks, ``send`` or ``recv``; empty: no window is used."""
    epoch: str = "flush"
    """Kind of the window's epochs: ``flush`` (one epoch for all calls), ``lock``, ``fence``."""
    peers: Callable[[int, int], Sequence[int]] = lambda _rank, _size: ()
    """Ranks to which a rank sends its blocks; the j-th block comes from the peer with number j xor 1."""
    between: bool = False  # Whether messages go between single ranks, so that two are needed.
    overlaps: bool = False  # Whether the rank computes something until the call is complete.
    sized: bool = True  # Whether the operation carries data.
    graph: bool = False  # Whether the call needs a communicator with the peers as its graph.

    @property
    def least_ranks(self) -> int:
        """Return the number of ranks that it needs at least."""
        return 2 if self.between else 1

    @property
    def in_a_row(self) -> bool:
        """Return whether a tight loop has no barrier between calls: messages wait for each other anyway."""
        return self.between and not self.overlaps

    def blocks(self, size: int) -> int:
        """Return how many blocks the root sends or receives at once; 1 for messages between single ranks."""
        return 1 if self.between else max(1, len(self.sends(0, size)), len(self.receives(0, size)))

    def compute_s(self, message_bytes: int) -> float:
        """Return the seconds of computation inside of a call."""
        return _COMPUTE_S + message_bytes * _COMPUTE_S_A_BYTE if self.overlaps else 0.0

    def connect(self, sync: Intracomm) -> Intracomm:
        """Create a communicator of the same ranks for the call; collective."""
        if not self.graph:
            return sync.Dup()
        to = self.peers(sync.rank, sync.size)
        return sync.Create_dist_graph_adjacent(opposite(to), to)


def opposite(peers: Sequence[int]) -> list[int]:
    """Return the peer from whom each block comes, given the peers to whom the blocks go."""
    return [peers[j ^ 1] for j in range(len(peers))]


def vector(sources: Callable[[int, int], Iterable[int]]) -> Callable[[int, int], Blocks]:
    """Return a rule: one block for everyone, summed over these sources; no block without sources."""

    def receives(rank: int, size: int) -> Blocks:
        summed = list(sources(rank, size))
        return [(summed, 0)] if summed else []

    return receives


def at(who: Callable[[int, int], bool], blocks: Callable[[int, int], Blocks]) -> Callable[[int, int], Blocks]:
    """Return a rule: these blocks on the ranks for which the condition holds, none on the others."""
    return lambda rank, size: blocks(rank, size) if who(rank, size) else []


def root(rank: int, _size: int) -> bool:
    """Return whether this is the first rank."""
    return rank == 0


def last(rank: int, size: int) -> bool:
    """Return whether this is the last rank."""
    return rank == size - 1


def one_block(_rank: int, _size: int) -> Sequence[int]:
    """Return one block, with no rank in particular as its destination."""
    return (0,)


def each(_rank: int, size: int) -> Sequence[int]:
    """Return a block for each rank."""
    return range(size)


def gathered(_rank: int, size: int, to: int = 0) -> Blocks:
    """Return a block from every rank, for one destination."""
    return [((source,), to) for source in range(size)]


def exchanged(rank: int, size: int) -> Blocks:
    """Return a block from every rank, for this rank."""
    return gathered(rank, size, rank)


def scattered(rank: int, size: int) -> Blocks:
    """Return the sum of what all ranks have for this rank."""
    return [(range(size), rank)]


def first_only(rank: int) -> float:
    """Return the share by which the first rank's time alone counts."""
    return 0.0 if rank else 1.0
