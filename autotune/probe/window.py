"""Start windows: all ranks begin a call at an agreed moment on a shared clock (see ``synchronisation``)."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from mpi4py import MPI

from autotune.measure.rows import median
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
from autotune.probe.loops import Loop, Times, took
from autotune.probe.synchronisation import Synchronisation, Timed, parts

_EXCHANGES = 30  # Message exchanges in a comparison of two clocks; the quickest of them bounds the error.
_OFTEN_ENOUGH_S = 0.25  # Seconds between two comparisons, in which a clock's drift is assumed to be constant.


class SharedClock:
    """The clock of rank 0 as this rank estimates it: one time axis for all ranks of a communicator.

    From time to time during the launch, each other rank exchanges a burst of messages with rank 0, from which
    ``measure.windows`` computes the offset of its clock. Ranks start a window by the clock alone, so that the
    order in which a barrier would release them does not affect the measurement.
    """

    def __init__(self, sync: MPI.Intracomm) -> None:
        self._sync = sync
        node = sync.Split_type(MPI.COMM_TYPE_SHARED)
        self._same_node = 0 in node.allgather(sync.rank)
        node.Free()
        self._offsets: list[ClockOffset] = []
        self._estimated_s = -math.inf
        self.model = Clock(0.0, 0.0, 0.0, 0.0)
        """Converts between this rank's clock and the clock of rank 0; on rank 0 it changes nothing."""
        self.refresh()

    def refresh(self) -> None:
        """Estimate the offset of the clock again if the last estimate is old; called on every rank."""
        due = self._sync.bcast(time.perf_counter() - self._estimated_s > _OFTEN_ENOUGH_S)
        if not due:
            return
        for rank in range(1, self._sync.size):
            if self._sync.rank == 0:
                self._answer(rank)
            elif self._sync.rank == rank:
                offset = clock_offset(*self._ask())
                if self._same_node and abs(offset.offset_s) <= offset.bound_s:
                    continue  # ranks of one node read the same clock: the offset is exactly 0
                self._offsets.append(offset)
                self.model = clock_drift(self._offsets)
        self._estimated_s = time.perf_counter()

    def _answer(self, rank: int) -> None:
        question, own_time = array("d", [0.0]), array("d", [0.0])
        for _ in range(_EXCHANGES):
            self._sync.Recv(question, rank)
            own_time[0] = time.perf_counter()
            self._sync.Send(own_time, rank)

    def _ask(self) -> tuple[Times, Times, Times]:
        """Exchange messages with rank 0; return when each was sent, rank 0's time, when the answer came."""
        sent, remote, received = array("d"), array("d"), array("d")
        question, answer = array("d", [0.0]), array("d", [0.0])
        for _ in range(_EXCHANGES):
            sent.append(time.perf_counter())
            self._sync.Send(question, 0)
            self._sync.Recv(answer, 0)
            received.append(time.perf_counter())
            remote.append(answer[0])
        return sent, remote, received


@dataclass(slots=True)
class _Window:
    """Length of the start windows of one call: a multiple of the call's undisturbed duration."""

    length_s: float  # Length of a window, in seconds.
    factor: float = 1.0  # Factor by which the length is adapted, between 1 and 4.
    undisturbed: list[float] = field(default_factory=list)  # Lower quartile of each block's run times.

    def learn(self, times: Times, codes: bytes) -> None:
        """Adapt the length after a block of calls: longer if over a quarter of its windows were too short.

        The factor has a bound, since a rank that loses its core exceeds a window of any length.
        """
        self.undisturbed.append(sorted(times)[len(times) // 4])
        overrun = Validity.STARTED_LATE | Validity.OVERRAN
        too_short = sum(code & overrun != 0 for code in codes) > 0.25 * len(codes)
        self.factor = min(4.0, self.factor * 1.5) if too_short else max(1.0, self.factor * 0.8)
        self.length_s = self.factor * 3 * median(self.undisturbed) + 10e-6


@dataclass(slots=True)
class _Block:
    """One rank's times of a block of calls, in seconds on the shared clock."""

    exchange: Exchange
    starts: Times  # Agreed start of each call.
    begins: Times  # When this rank entered each call.
    ends: Times  # When this rank returned from each call.
    length_s: float  # Length of a window.


class WindowSynchronisation(Synchronisation[_Block]):
    """Synchronisation of ranks by agreed start moments on the clock of rank 0."""

    def __init__(self, sync: MPI.Intracomm, loop: Loop) -> None:
        """Estimate the shared clock, and measure how long an announcement of a start moment takes."""
        super().__init__(sync, loop)
        self._clock = SharedClock(sync)
        self._windows: dict[int, _Window] = {}
        durations = []
        for _ in range(20):
            begin = time.perf_counter()
            self._sync.bcast(0.0)
            self._sync.Barrier()
            durations.append(time.perf_counter() - begin)
        self._lead_s = self._sync.bcast(2 * median(durations))

    def block(self, exchange: Exchange, count: int, warm_up: bool = True) -> None:
        """Time a block as ``Synchronisation.block`` describes."""
        window = self._windows.get(id(exchange))
        if window is None:
            longest_s = max(took(*self.loop.run(exchange, 3)))
            window = _Window(4 * self._sync.allreduce(longest_s, MPI.MAX) + 20e-6)
            self._windows[id(exchange)] = window
        first, length_s = self._sync.bcast((time.perf_counter() + self._lead_s, window.length_s))
        starts = array("d", [first + length_s * index for index in range(count + warm_up)])
        model = self._clock.model
        moments = self.loop.run(exchange, count + warm_up, array("d", model.to_local(starts)))
        begins, ends = (array("d", model.to_reference(row)[warm_up:]) for row in moments)
        self._blocks.append(_Block(exchange, starts[warm_up:], begins, ends, length_s))

    def collect(self) -> list[Timed]:
        """Collect samples as ``Synchronisation.collect`` describes."""
        blocks, self._blocks = self._blocks, []
        begins = self._gathered([block.begins for block in blocks])
        ends = self._gathered([block.ends for block in blocks])
        bounds = self._sync.gather(self._clock.model.bound_s)
        self._clock.refresh()
        if self._sync.rank or bounds is None:
            return []
        return [
            self._timed(block, bounds, [row[part] for row in begins], [row[part] for row in ends])
            for block, part in zip(blocks, parts([block.starts for block in blocks]), strict=True)
        ]

    def _timed(
        self, block: _Block, bounds: Sequence[float], begins: Sequence[Times], ends: Sequence[Times]
    ) -> Timed:
        """Return the times and validity codes of a block, and adapt the length of its call's windows.

        ``bounds`` has each rank's bound of the clock error in seconds. ``begins`` and ``ends`` have for each
        rank the moments at which it entered and left the calls.
        """
        operation = block.exchange.operation
        timed_ranks = [rank for rank in range(self._sync.size) if operation.share(rank)]
        entries, exits = [begins[rank] for rank in timed_ranks], [ends[rank] for rank in timed_ranks]
        codes = validity(
            block.starts,
            block.length_s,
            entries,
            exits,
            clock_bound_s=max(bounds[rank] for rank in timed_ranks),
            lateness_s=self.loop.wait_s,
        )
        times = run_time(entries, exits)
        self._windows[id(block.exchange)].learn(array("d", times), codes)
        share = max(operation.share(rank) for rank in timed_ranks)
        return array("d", [share * seconds for seconds in times]), codes

    def _gathered(self, rows: list[Times]) -> list[Times]:
        own_times = array("d", chain.from_iterable(rows))
        all_times = array("d", bytes(8 * len(own_times) * self._sync.size if self._sync.rank == 0 else 0))
        self._sync.Gather(own_times, all_times, 0)
        return [
            all_times[begin : begin + len(own_times)]
            for begin in range(0, len(all_times), max(1, len(own_times)))
        ]
