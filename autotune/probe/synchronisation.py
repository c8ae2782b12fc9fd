"""Ways to synchronise ranks before each call, and how the time of a call is computed.

- ``BarrierSynchronisation``: ranks meet in a barrier before each call; the time of the call is the maximum of
  the ranks' own times.
- ``window.WindowSynchronisation``: all ranks start at agreed moments on a shared clock; the time of the call
  is last exit − first entry, and each sample has a validity code. The length of the windows between two
  starts is adapted to each call. Waiting ranks only read the clock, so every rank needs a core of its own.

Both classes store the times of blocks of calls until ``collect``, so that only calls happen between blocks.

References:
    S. Hunold, A. Carpen-Amarie, "Reproducible MPI benchmarking is still not as easy as you think", IEEE TPDS
    27 (2016) 3617–3630.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Generic, TypeAlias, TypeVar

from mpi4py import MPI

from autotune.probe.exchange import Exchange
from autotune.probe.loops import Loop, Times, took

Timed: TypeAlias = tuple[Times, bytes | None]
"""Samples in seconds and their validity codes; codes of None mean that all samples are valid."""

BlockTimes = TypeVar("BlockTimes")  # The times that a rank stores for a block of calls.


class Synchronisation(ABC, Generic[BlockTimes]):
    """A way to synchronise ranks before each call; every method must be called on all ranks."""

    def __init__(self, sync: MPI.Intracomm, loop: Loop) -> None:
        """Store the loop that times the calls, and the communicator of the ranks that are measured."""
        self._sync, self.loop = sync, loop
        self._blocks: list[BlockTimes] = []

    @abstractmethod
    def block(self, exchange: Exchange, count: int, warm_up: bool = True) -> None:
        """Time ``count`` calls in a row, after one uncounted call if ``warm_up`` is true."""

    @abstractmethod
    def collect(self) -> list[Timed]:
        """Return the samples of the blocks since the last collection, in order; empty except on rank 0."""


class BarrierSynchronisation(Synchronisation[Times]):
    """Synchronisation of ranks by a barrier of sends and receives before each call."""

    def block(self, exchange: Exchange, count: int, warm_up: bool = True) -> None:
        """Time a block as ``Synchronisation.block`` describes."""
        times = took(*self.loop.run(exchange, count + warm_up))[warm_up:]
        share = exchange.operation.share(self._sync.rank)
        self._blocks.append(times if share == 1 else array("d", [share * seconds for seconds in times]))

    def collect(self) -> list[Timed]:
        """Collect samples as ``Synchronisation.collect`` describes."""
        blocks, self._blocks = self._blocks, []
        own_times = array("d", chain.from_iterable(blocks))
        slowest = array("d", own_times)
        self._sync.Reduce(own_times, slowest, MPI.MAX, 0)
        if self._sync.rank:
            return []
        return [(slowest[part], None) for part in parts(blocks)]


def parts(blocks: Sequence[Times]) -> Iterator[slice]:
    """Yield for each block the slice of its times in the concatenation of all blocks."""
    begin = 0
    for block in blocks:
        yield slice(begin, begin + len(block))
        begin += len(block)
