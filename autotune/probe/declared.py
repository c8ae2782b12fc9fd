"""Declare a collective or a pattern: which blocks ranks send, which blocks each must receive, and the call.

Notation: p ranks, rank r, root 0. A *block* is ``message_bytes`` long; ``patterns.block(sources,
destination)`` is its expected content. A declaration lists

- ``sends(r, p)``: destinations of the blocks in the send buffer of rank r, in order;
- ``receives(r, p)``: (sources, destination) of each block that rank r must have after the call, in order;
- ``initial(r, p)``: the same for the receive buffer before the call, if the call depends on that content;
- ``call(exchange)``: a function without arguments that makes the MPI call;
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

Blocks: TypeAlias = Sequence[tuple[Iterable[int], int]]  # The (source ranks, destination rank) of each block.

COMPUTE_S, COMPUTE_S_A_BYTE = 10e-6, 0.5e-9
"""Duration of the computation inside of an overlapping call, in seconds and in seconds a byte.

The computation takes about as long as the call itself in shared memory, and equally long under every setting,
so that settings can be compared. OSU's benchmarks compute for as long as each setting's own call takes."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One collective, or one pattern of messages; its functions get a rank, most also the number of ranks."""

    name: str  # Name in ``collectives.MEASURED``.
    sends: Callable[[int, int], Sequence[int]]  # Destinations of the blocks that a rank sends.
    receives: Callable[[int, int], Blocks]  # Blocks that a rank must have received after the call.
    call: Callable[[Exchange], Callable[[], object]]  # Returns a function that makes the call once.
    initial: Callable[[int, int], Blocks] = lambda _rank, _size: ()
    """Blocks that the receive buffer must contain before the call; empty: its content does not matter."""
    share: Callable[[int], float] = lambda _rank: 1.0
    """Factor by which a rank's time is multiplied to give the operation's time; 0: it is ignored."""
    exposes: str = ""
    """Buffer that other ranks can access through a window, ``send`` or ``recv``; empty: no window is used."""
    epoch: str = "flush"
    """Kind of the window's epochs: ``flush`` (one for all calls), ``lock`` or ``fence`` (one for each)."""
    peers: Callable[[int, int], Sequence[int]] = lambda _rank, _size: ()
    """Ranks to which a rank sends its blocks; the j-th block comes from the peer with index j xor 1."""
    between: bool = False  # Whether messages go between single ranks, so that two ranks are needed.
    overlaps: bool = False  # Whether the rank computes something while the messages are on their way.
    sized: bool = True  # Whether the operation carries data.
    graph: bool = False  # Whether the call needs a communicator whose graph connects the peers.

    @property
    def least_ranks(self) -> int:
        """Return the least number of ranks that the operation needs."""
        return 2 if self.between else 1

    @property
    def in_a_row(self) -> bool:
        """Return whether calls back to back need no barrier in between: their messages keep ranks in step."""
        return self.between and not self.overlaps

    def blocks(self, size: int) -> int:
        """Return how many blocks the root sends or receives at once; 1 for messages between single ranks."""
        return 1 if self.between else max(1, len(self.sends(0, size)), len(self.receives(0, size)))

    def compute_s(self, message_bytes: int) -> float:
        """Return the duration of the computation inside of a call, in seconds."""
        return COMPUTE_S + message_bytes * COMPUTE_S_A_BYTE if self.overlaps else 0.0

    def connect(self, sync: Intracomm) -> Intracomm:
        """Create a communicator of the same ranks for the call; all ranks must call this together."""
        if not self.graph:
            return sync.Dup()
        to = self.peers(sync.rank, sync.size)
        return sync.Create_dist_graph_adjacent(opposite(to), to)


def opposite(peers: Sequence[int]) -> list[int]:
    """Return the peer that sends each block to a rank, given the peers to which the rank sends its blocks."""
    return [peers[j ^ 1] for j in range(len(peers))]


def vector(sources: Callable[[int, int], Iterable[int]]) -> Callable[[int, int], Blocks]:
    """Return a function like ``Operation.receives``: every rank has one block, the sum of sources' blocks.

    A rank without sources has no block.
    """

    def receives(rank: int, size: int) -> Blocks:
        summed = list(sources(rank, size))
        return [(summed, 0)] if summed else []

    return receives


def at(who: Callable[[int, int], bool], blocks: Callable[[int, int], Blocks]) -> Callable[[int, int], Blocks]:
    """Return a function like ``Operation.receives``: ranks that meet a condition get blocks, others none."""
    return lambda rank, size: blocks(rank, size) if who(rank, size) else []


def root(rank: int, _size: int) -> bool:
    """Return whether a rank is the first one of the communicator."""
    return rank == 0


def last(rank: int, size: int) -> bool:
    """Return whether a rank is the last one of the communicator."""
    return rank == size - 1


def one_block(_rank: int, _size: int) -> Sequence[int]:
    """Return the destinations of a rank that sends one block, which is the same for every receiver."""
    return (0,)


def each(_rank: int, size: int) -> Sequence[int]:
    """Return the destinations of a rank that sends a block to each rank."""
    return range(size)


def gathered(_rank: int, size: int, to: int = 0) -> Blocks:
    """Return blocks to receive: one from every rank, made for the destination ``to``."""
    return [((source,), to) for source in range(size)]


def exchanged(rank: int, size: int) -> Blocks:
    """Return blocks to receive: one from every rank, made for this rank."""
    return gathered(rank, size, rank)


def scattered(rank: int, size: int) -> Blocks:
    """Return one block to receive: the sum of the blocks that all ranks have for this rank."""
    return [(range(size), rank)]


def first_only(rank: int) -> float:
    """Return a rank's share if only the first rank's time counts: 1 for the first rank, 0 for all others."""
    return 0.0 if rank else 1.0
