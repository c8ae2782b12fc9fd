"""How ranks come together before each call, and what the time of a call then is.

- ``BarrierSynchronisation``: a barrier before each call; the time is the maximum over ranks of each rank's
  own time.
- ``WindowSynchronisation``: agreed start moments on a shared clock; the time is last exit − first entry, and
  each sample has a validity code. How long a window has to be is learnt for each call. Waiting ranks do
  nothing but read the clock, so every rank needs a core of its own.

Both keep what a block gave until ``collect``, so that nothing but calls happens between blocks.

References:
    S. Hunold, A. Carpen-Amarie, "Reproducible MPI benchmarking is still not as easy as you think", IEEE
    TPDS 27 (2016) 3617–3630.
"""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from autotune.measure.windows import (
    Clock,
    ClockOffset,
    Validity,
    clock_drift,
    clock_offset,
    run_time,
    validity,
)
from autotune.probe.exchange import Exchange
from autotune.probe.loops import Loop, Times

Timed: TypeAlias = tuple[Times, NDArray[np.uint8] | None]
"""Samples ``(n,)`` in seconds and their validity codes; no codes: all are valid."""

_EXCHANGES = 30  # In a burst between two clocks; the quickest of them bounds the error.
_OFTEN_ENOUGH_S = 0.25  # Between two bursts, over which the drift of a clock is taken to be constant.


Seen = TypeVar("Seen")


class Synchronisation(ABC, Generic[Seen]):
    """A way to bring ranks together; all methods on every rank alike."""

    def __init__(self, sync: MPI.Intracomm, loop: Loop) -> None:
        """On a communicator of the ranks that are measured, with a loop over calls."""
        self._sync, self.loop = sync, loop
        self._blocks: list[Seen] = []

    @abstractmethod
    def block(self, exchange: Exchange, count: int) -> None:
        """Time some calls in a row, after one that is not counted."""

    def forget(self, after: int) -> None:
        """All blocks since the last time that were collected, but for the first so many."""
        del self._blocks[after:]

    @abstractmethod
    def collect(self) -> list[Timed]:
        """Samples of the blocks since the last time, in order; on rank 0, empty elsewhere."""


class BarrierSynchronisation(Synchronisation[Times]):
    """A barrier of sends and receives before each call."""

    def block(self, exchange: Exchange, count: int) -> None:
        """As in ``Synchronisation``."""
        begins, ends = self.loop.run(exchange, count + 1)
        self._blocks.append((ends - begins)[1:] * exchange.operation.share(self._sync.rank))

    def collect(self) -> list[Timed]:
        """As in ``Synchronisation``."""
        blocks, self._blocks = self._blocks, []
        mine = np.concatenate(blocks)
        slowest = np.empty_like(mine)
        self._sync.Reduce(mine, slowest, MPI.MAX, 0)
        if self._sync.rank:
            return []
        return [(slowest[part], None) for part in _parts(blocks)]


class SharedClock:
    """The clock of rank 0 as this rank knows it: one time axis for all ranks of a communicator.

    Each other rank exchanges a burst of messages with rank 0, now and then during the launch; the arithmetic
    is ``measure.windows``. Nothing but the clock brings ranks together at the start of a window, so that no
    barrier's pattern of release is in what follows.
    """

    def __init__(self, sync: MPI.Intracomm) -> None:
        """Estimate the offset for the first time; on every rank that shares the clock."""
        self._sync = sync
        node = sync.Split_type(MPI.COMM_TYPE_SHARED)
        self._same_node = 0 in node.allgather(sync.rank)
        node.Free()
        self._offsets: list[ClockOffset] = []
        self._estimated_s = -np.inf
        self.model = Clock(0.0, 0.0, 0.0, 0.0)
        """This rank's clock against the reference; on rank 0 the identity."""
        self.refresh()

    def refresh(self) -> None:
        """Estimate again, if the last time is long ago; on every rank alike."""
        due = self._sync.bcast(time.perf_counter() - self._estimated_s > _OFTEN_ENOUGH_S)
        if not due:
            return
        for rank in range(1, self._sync.size):
            if self._sync.rank == 0:
                self._answer(rank)
            elif self._sync.rank == rank:
                offset = clock_offset(*self._ask())
                if self._same_node and abs(offset.offset_s) <= offset.bound_s:
                    continue  # one kernel, one clock: nothing to estimate, and no doubt left
                self._offsets.append(offset)
                self.model = clock_drift(self._offsets)
        self._estimated_s = time.perf_counter()

    def _answer(self, rank: int) -> None:
        heard, now = np.empty(1), np.empty(1)
        for _ in range(_EXCHANGES):
            self._sync.Recv(heard, rank)
            now[0] = time.perf_counter()
            self._sync.Send(now, rank)

    def _ask(self) -> tuple[Times, Times, Times]:
        sent, remote, received = np.empty(_EXCHANGES), np.empty(_EXCHANGES), np.empty(_EXCHANGES)
        question = np.zeros(1)
        for index in range(_EXCHANGES):
            sent[index] = time.perf_counter()
            self._sync.Send(question, 0)
            self._sync.Recv(remote[index : index + 1], 0)
            received[index] = time.perf_counter()
        return sent, remote, received


@dataclass(slots=True)
class _Window:
    """The length of one call's windows: a multiple of what the call takes when nothing disturbs it."""

    length_s: float
    factor: float = 1.0
    undisturbed: list[float] = field(default_factory=list)

    def learn(self, times: Times, codes: NDArray[np.uint8]) -> None:
        """Lengthen the windows that are overrun, within bounds: a rank without its core overruns any."""
        self.undisturbed.append(float(np.quantile(times, 0.25)))
        spoilt = np.mean(codes & (Validity.STARTED_LATE | Validity.OVERRAN) != 0) > 0.25
        self.factor = min(4.0, self.factor * 1.5) if spoilt else max(1.0, self.factor * 0.8)
        self.length_s = self.factor * 3 * float(np.median(self.undisturbed)) + 10e-6


@dataclass(slots=True)
class _Block:
    """One rank's times of a block, on the shared clock."""

    exchange: Exchange
    starts: Times
    begins: Times
    ends: Times
    length_s: float


class WindowSynchronisation(Synchronisation[_Block]):
    """Agreed start moments on the clock of rank 0."""

    def __init__(self, sync: MPI.Intracomm, loop: Loop) -> None:
        """Set the clock, and measure how long it takes to announce a moment to all ranks."""
        super().__init__(sync, loop)
        self._clock = SharedClock(sync)
        self._windows: dict[int, _Window] = {}
        took = []
        for _ in range(20):
            begin = time.perf_counter()
            self._sync.bcast(0.0)
            self._sync.Barrier()
            took.append(time.perf_counter() - begin)
        self._lead_s = self._sync.bcast(2 * float(np.median(took)))

    def block(self, exchange: Exchange, count: int) -> None:
        """As in ``Synchronisation``."""
        window = self._windows.get(id(exchange))
        if window is None:
            begins, ends = self.loop.run(exchange, 3)
            window = _Window(4 * float(self._sync.allreduce(np.max(ends - begins), MPI.MAX)) + 20e-6)
            self._windows[id(exchange)] = window
        first, length_s = self._sync.bcast((time.perf_counter() + self._lead_s, window.length_s))
        starts = first + length_s * np.arange(count + 1)
        model = self._clock.model
        begins, ends = self.loop.run(exchange, count + 1, model.to_local(starts))
        begins, ends = (model.to_reference(seen)[1:] for seen in (begins, ends))
        self._blocks.append(_Block(exchange, starts[1:], begins, ends, length_s))

    def collect(self) -> list[Timed]:
        """As in ``Synchronisation``."""
        blocks, self._blocks = self._blocks, []
        begins = self._gathered([block.begins for block in blocks])
        ends = self._gathered([block.ends for block in blocks])
        bounds = self._sync.gather(self._clock.model.bound_s)
        self._clock.refresh()
        if self._sync.rank or bounds is None:
            return []
        return [
            self._judged(block, np.array(bounds), begins[:, part], ends[:, part])
            for block, part in zip(blocks, _parts([block.starts for block in blocks]), strict=True)
        ]

    def _judged(self, block: _Block, bounds: Times, begins: Times, ends: Times) -> Timed:
        operation = block.exchange.operation
        timed = [rank for rank in range(self._sync.size) if operation.share(rank)]
        codes = validity(
            block.starts,
            block.length_s,
            begins[timed],
            ends[timed],
            clock_bound_s=bounds[timed],
            lateness_s=self.loop.wait_s,
        )
        times = run_time(begins[timed], ends[timed])
        self._windows[id(block.exchange)].learn(times, codes)
        return times * max(operation.share(rank) for rank in timed), codes

    def _gathered(self, rows: list[Times]) -> Times:
        """All ranks' rows, shape ``(n_ranks, n)``, on rank 0."""
        mine = np.concatenate(rows)
        everyone = np.empty((self._sync.size if self._sync.rank == 0 else 0, mine.size))
        self._sync.Gather(mine, everyone, 0)
        return everyone


def _parts(blocks: list[Times]) -> list[slice]:
    ends = np.cumsum([len(block) for block in blocks]).tolist()
    return [slice(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
