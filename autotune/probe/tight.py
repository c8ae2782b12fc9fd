"""Measure all cells of one collective and communicator size with each cell's calls back to back.

A *cell* is one message size with one choice, such as an algorithm. Benchmarks time calls back to back: the
buffer, the code path and the other ranks then stay warm, as they seldom are when an application calls (see
``sweep``). Between two calls is the library's own barrier on the same communicator, as in the loops of the
OSU benchmarks and of IMB (its default, ``-sync on``). A rank's time is the mean over calls of the rank's own
time inside of the call.

Calls are made in *runs*; between two runs rank 0 collects each rank's mean, and nothing else happens. A cell
is complete when it has been called ``_CALLS`` times and the later half of its runs agrees with the earlier
half, or when its share of the time is used up. A sample is one run's mean on the slowest rank, which OSU
prints as ``t_max``; the figure ``ranks_avg_s`` corresponds to OSU's ``t_avg``. The scenario's estimator is
applied to the runs: the median ignores the runs in which a rank lost its core, ``mean`` is equivalent to one
long run.

References:
    OSU Micro-Benchmarks 7, ``c/mpi/collective/blocking/osu_allreduce.c``; Intel MPI Benchmarks,
    ``src_c/IMB_allreduce.c``, ``IMB_pingpong.c`` and ``IMB_warm_up.c``.
"""

from __future__ import annotations

import time
from array import array
from itertools import pairwise

from autotune.errors import StackError
from autotune.measure.rows import Row, median
from autotune.measure.stopping import CellStatus, Random, shuffled
from autotune.probe.exchange import Exchange
from autotune.probe.loops import Loop, took
from autotune.probe.sweep import Sweep
from autotune.probe.swept import SweptCell

_CALLS = 1000  # Least number of calls of a cell, if its time permits; IMB's number for small messages.
_MOST_CALLS = 20_000  # Largest number of calls of a cell whose two halves of runs never agree.
_RUNS = 20  # Number of runs in a cell's share of the time, enough to estimate the error of its time.
_LEAST_RUNS = 12  # Least number of runs: fewer show little on a busy machine.
_RUN_CALLS = 250  # Largest number of calls in a run.
_RUN_S = 2e-3  # Longest duration of a run in seconds: shorter than a scheduler's time slice.
_FIRST = 10  # Uncounted calls at the start of a run; if it has few calls, a quarter of their number.


class TightSweep(Sweep):
    """The measurement of one collective on one communicator size, one cell after the other.

    A cell's first block consists of two runs of calls. The longer measurement that follows replaces it.
    """

    def _time_first(self, index: int) -> None:
        self._visit(self._cells[index], 0.0)

    def _sample(self, budget_s: float, rng: Random) -> None:
        usable = [index for index, cell in enumerate(self._cells) if cell.exchange is not None]
        usable = [i for i in usable if self._cells[i].verdict == ("ok", "") and self._cells[i].started]
        order = self.sync.bcast(shuffled(usable, rng) if self.sync.rank == 0 else None)
        end = time.perf_counter() + budget_s
        self._ends.clear()  # forget how cells ended after their first blocks
        for place, index in enumerate(order):
            share_s = self.sync.bcast((end - time.perf_counter()) / (len(order) - place))
            if share_s <= 0:  # the remaining cells keep the samples of their first block
                self._ends[CellStatus.OUT_OF_TIME] += len(order) - place
                break
            self._visit(self._cells[index], share_s)
        self._candidates = usable

    def _visit(self, cell: SweptCell, share_s: float) -> None:
        """Measure one cell in its share of the time, in seconds; rank 0 decides when it is complete."""
        if cell.exchange is None:
            raise StackError("a cell without a call cannot be timed")
        self._variables.enforce(cell.choice.cvars)
        loop, begin = self._synchronisation.loop, time.perf_counter()
        run_s = min(share_s / _RUNS, _RUN_S)
        target_calls = max(2, run_s / _call_s(loop, cell.exchange)) if run_s > 0 else 2
        calls = self.sync.bcast(int(min(_RUN_CALLS, target_calls)))
        warm_calls = min(_FIRST, -(-calls // 4))
        means: list[list[float]] = []
        complete = False
        operation = cell.exchange.operation
        while not complete:
            if operation.in_a_row:  # the clock is read before the first call and after the last one
                loop.run(cell.exchange, warm_calls, tight=True)
            begins, ends = loop.run(
                cell.exchange, calls if operation.in_a_row else warm_calls + calls, tight=True
            )
            own_mean_s = sum(took(begins, ends)[-calls:]) / calls * operation.share(self.sync.rank)
            gathered = self.sync.gather(own_mean_s)
            if gathered is not None:
                means.append(gathered)
                complete = self._enough(means, calls, share_s - (time.perf_counter() - begin))
            complete = self.sync.bcast(complete)
        self.timed.add(time.perf_counter() - begin)
        if means:
            runs = [row for row in zip(*means, strict=True) if max(row) > 0]  # only ranks whose time counts
            ranks = list(map(median, runs))
            cell.blocks, cell.valid = [], Row()
            cell.add((array("d", runs[ranks.index(max(ranks))]), None))
            cell.extra = {"ranks_min_s": min(ranks), "ranks_avg_s": sum(ranks) / len(ranks)}

    def _enough(self, means: list[list[float]], calls: int, remaining_s: float) -> bool:
        """Return whether a cell is precise enough, or its share of the time is used up; called on rank 0.

        ``means`` has for each run of ``calls`` calls the mean time of a call on each rank, in seconds.
        """
        if len(means) < (_LEAST_RUNS if remaining_s > 0 else 2):
            return False
        slowest = list(map(max, means))
        n_calls = calls * len(means)
        if remaining_s <= 0 or n_calls >= _MOST_CALLS:
            self._ends[CellStatus.OUT_OF_TIME] += n_calls < _CALLS
            return True
        later, earlier = median(slowest[len(slowest) // 2 :]), median(slowest[: len(slowest) // 2])
        return n_calls >= _CALLS and abs(later - earlier) <= self._request.precision * later


def _call_s(loop: Loop, exchange: Exchange) -> float:
    """Return the approximate duration of a call in seconds, even if this rank loses its core for a while."""
    if not exchange.operation.in_a_row:
        begins, _ = loop.run(exchange, _FIRST, tight=True)
        return median(later - earlier for earlier, later in pairwise(begins))
    # The clock is read before and after each pair of calls.
    pairs = [loop.run(exchange, 2, tight=True) for _ in range(_FIRST // 2)]
    return min(sum(took(*pair)) / 2 for pair in pairs)
