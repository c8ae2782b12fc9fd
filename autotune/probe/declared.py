"""Declaration of a collective or a pattern: who sends what, what each rank must find, and the call.

Notation: p ranks, rank r, root 0. A *block* is ``message_bytes`` long; ``patterns.block(sources,
destination)`` is what a block must hold. A declaration lists

- ``sends(r, p)``: destinations of the blocks in the send buffer of rank r, in order;
- ``receives(r, p)``: (sources, destination) of each block that rank r must find, in order;
- ``before(r, p)``: the same for the receive buffer before the call, where that matters;
- ``call(exchange)``: the call without arguments, everything bound beforehand;
- ``share(r)``: what part of the time that rank r measures is the time of the operation.

"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from autotune.collectives import COLLECTIVES, Pattern

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from autotune.probe.exchange import Exchange

Blocks: TypeAlias = Sequence[tuple[Iterable[int], int]]

_COMPUTE_S, _COMPUTE_S_A_BYTE = 10e-6, 0.5e-9
"""Computation meanwhile: about what the call itself takes in shared memory here. The same under every
setting, so that settings compare; OSU computes for as long as each setting's own call takes."""

_BETWEEN = (Pattern.PAIR, Pattern.PAIRS, Pattern.NEIGHBOURS, Pattern.ONE_SIDED)


@dataclass(frozen=True, slots=True)
class Operation:
    """One collective, or one pattern of messages."""

    name: str  # Of ``collectives.MEASURED``.
    sends: Callable[[int, int], Sequence[int]]  # Destinations of the blocks that a rank sends.
    receives: Callable[[int, int], Blocks]  # What a rank must find.
    call: Callable[[Exchange], Callable[[], object]]  # The call, bound.
    before: Callable[[int, int], Blocks] = lambda _rank, _size: ()
    """Required content of the receive buffer before the call; empty: any."""
    share: Callable[[int], float] = lambda _rank: 1.0  # Part of a rank's time that is the operation's.
    exposes: str = ""  # Buffer that a window shows to the other ranks: ``send``, ``recv``; empty: no window.
    epoch: str = "flush"  # What opens a window: ``flush`` (one epoch for all calls), ``lock``, ``fence``.
    peers: Callable[[int, int], Sequence[int]] = lambda _rank, _size: ()
    """Ranks to which a rank sends its blocks; the j-th block it gets is of the peer with number j xor 1."""
    graph: bool = False  # Whether the call needs a communicator that knows the peers.

    @property
    def least_ranks(self) -> int:
        """Without which it cannot be measured."""
        return 2 if COLLECTIVES[self.name].pattern in _BETWEEN else 1

    @property
    def in_a_row(self) -> bool:
        """Whether a tight loop has no barrier between calls: messages between ranks wait for each other."""
        its = COLLECTIVES[self.name]
        return its.pattern in _BETWEEN and not its.overlaps

    def compute_s(self, message_bytes: int) -> float:
        """Seconds of computation inside of a call."""
        its = COLLECTIVES[self.name].overlaps
        return _COMPUTE_S + message_bytes * _COMPUTE_S_A_BYTE if its else 0.0

    def connect(self, sync: Intracomm) -> Intracomm:
        """A new communicator of the same ranks for the call; collective."""
        if not self.graph:
            return sync.Dup()
        to = self.peers(sync.rank, sync.size)
        return sync.Create_dist_graph_adjacent(opposite(to), to)


def opposite(peers: Sequence[int]) -> list[int]:
    """From whom each block comes, of the peers to whom they go."""
    return [peers[j ^ 1] for j in range(len(peers))]


def vector(sources: Callable[[int, int], Iterable[int]]) -> Callable[[int, int], Blocks]:
    """One block for everyone, summed over these sources; no block where there are none."""

    def receives(rank: int, size: int) -> Blocks:
        summed = list(sources(rank, size))
        return [(summed, 0)] if summed else []

    return receives


def at(who: Callable[[int, int], bool], blocks: Callable[[int, int], Blocks]) -> Callable[[int, int], Blocks]:
    """These blocks on the ranks for which it holds, none on the others."""
    return lambda rank, size: blocks(rank, size) if who(rank, size) else []


def root(rank: int, _size: int) -> bool:
    """Whether it is the first rank."""
    return rank == 0


def last(rank: int, size: int) -> bool:
    """Whether it is the last rank."""
    return rank == size - 1


def one(_rank: int, _size: int) -> Sequence[int]:
    """One block, for nobody in particular."""
    return (0,)


def each(_rank: int, size: int) -> Sequence[int]:
    """A block for each rank."""
    return range(size)


def gathered(_rank: int, size: int, to: int = 0) -> Blocks:
    """A block of every rank, for one."""
    return [((source,), to) for source in range(size)]


def exchanged(rank: int, size: int) -> Blocks:
    """A block of every rank, for this one."""
    return gathered(rank, size, rank)


def scattered(rank: int, size: int) -> Blocks:
    """The sum of what all ranks have for this one."""
    return [(range(size), rank)]


def first_only(rank: int) -> float:
    """The first rank's time alone."""
    return 0.0 if rank else 1.0
