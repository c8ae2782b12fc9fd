"""Cells of one (collective, communicator size) → raw samples, each cell's calls back to back.

A benchmark's loop keeps one buffer, one code path and the other ranks warm; an application's call rarely
finds them so (see ``sweep``). Between two calls stands the library's own barrier on the same communicator, as
in the loops of the OSU benchmarks and of IMB (its default, ``-sync on``); what counts on a rank is the
mean over calls of its own time inside of the call.

Calls come in *runs*; between them rank 0 learns each rank's mean, and nothing else happens. A cell has enough
when it has been called ``_CALLS`` times and the later half of its runs agrees with the earlier one, or when
its share of the time is used up. A sample is one run's mean on the slowest rank: each run is a small
benchmark whose ``t_max`` it is, as ``ranks_avg_s`` is ``t_avg``, what OSU prints. Over runs the scenario's
estimator is taken: the median forgets the runs in which a rank lost its core, ``mean`` is one long run.

References:
    OSU Micro-Benchmarks 7, ``c/mpi/collective/blocking/osu_allreduce.c``; Intel MPI Benchmarks,
    ``src_c/IMB_allreduce.c``, ``IMB_pingpong.c`` and ``IMB_warm_up.c``.
"""

import time
from functools import partial

import numpy as np

from autotune.errors import StackError
from autotune.measure.stopping import CellStatus
from autotune.probe.exchange import Exchange
from autotune.probe.loops import Loop, Times
from autotune.probe.sweep import Sweep
from autotune.probe.swept import SweptCell

_CALLS = 1000  # At least, unless the time is used up: what IMB makes of small messages.
_MOST_CALLS = 20_000  # Of a cell whose halves never agree: more calls would say little more.
_RUNS = 20  # Of a cell's share of the time, so that its error is known.
_LEAST_RUNS = 12  # Fewer say little when the machine is busy.
_RUN_CALLS = 250  # In a run at most.
_RUN_S = 2e-3  # Of a run at most: shorter than what a scheduler gives to another process.
_FIRST = 10  # Calls that are not counted at the head of a run; where a run has few, a quarter of it.


class TightSweep(Sweep):
    """One collective on one communicator size, one cell after the other.

    A cell's first block is a visit of no length: two runs. The visit in its share of the time replaces it.
    """

    def _time_first(self, index: int) -> None:
        self._steadily(partial(self._visit, self._cells[index], 0.0))

    def _sample(self, budget_s: float, rng: np.random.Generator) -> None:
        """Every cell once, in an order drawn by rank 0."""
        usable = [index for index, cell in enumerate(self._cells) if cell.exchange is not None]
        usable = [i for i in usable if self._cells[i].verdict == ("ok", "") and self._cells[i].begun]
        order = self._sync.bcast(rng.permutation(usable).tolist() if self._sync.rank == 0 else None)
        end = self._spent_s + budget_s
        self._ends.clear()  # of the first blocks
        for place, index in enumerate(order):
            share_s = self._sync.bcast((end - self._spent_s) / (len(order) - place))
            if share_s <= 0:  # these keep their first block
                self._ends[CellStatus.OUT_OF_TIME] += len(order) - place
                break
            self._steadily(partial(self._visit, self._cells[index], share_s))
        self._candidates = usable

    def _visit(self, cell: SweptCell, share_s: float) -> None:
        """All calls of one cell in its share of the time, as rank 0 says."""
        if cell.exchange is None:
            raise StackError("a cell without a call cannot be timed")
        self._variables.enforce(cell.choice.cvars)
        loop, begin = self._synchronisation.loop, time.perf_counter()
        run_s = min(share_s / _RUNS, _RUN_S)
        wanted = max(2, run_s / _call_s(loop, cell.exchange)) if run_s > 0 else 2
        calls = self._sync.bcast(int(min(_RUN_CALLS, wanted)))
        first = min(_FIRST, -(-calls // 4))
        means: list[Times] = []
        done = False
        operation = cell.exchange.operation
        while not done:
            if operation.in_a_row:  # the clock is read around all calls
                loop.run(cell.exchange, first, tight=True)
            begins, ends = loop.run(cell.exchange, calls if operation.in_a_row else first + calls, tight=True)
            mine = float(np.mean((ends - begins)[-calls:])) * operation.share(self._sync.rank)
            gathered = self._sync.gather(mine)
            if gathered is not None:
                means.append(np.array(gathered))
                done = self._enough(means, calls, share_s - (time.perf_counter() - begin))
            done = self._sync.bcast(done)
        if means:
            runs = np.array(means)
            runs = runs[:, runs.max(axis=0) > 0]  # ranks whose time counts
            ranks = np.median(runs, axis=0)
            cell.blocks = [(runs[:, ranks.argmax()], None)]
            cell.extra = {"ranks_min_s": float(ranks.min()), "ranks_avg_s": float(ranks.mean())}

    def _enough(self, means: list[Times], calls: int, left_s: float) -> bool:
        """On rank 0: whether a cell is known, or has had its share."""
        if len(means) < (_LEAST_RUNS if left_s > 0 else 2):
            return False
        slowest = np.array([run.max() for run in means])
        made = calls * len(means)
        if left_s <= 0 or made >= _MOST_CALLS:
            self._ends[CellStatus.OUT_OF_TIME] += made < _CALLS
            return True
        later, earlier = np.median(slowest[len(slowest) // 2 :]), np.median(slowest[: len(slowest) // 2])
        return made >= _CALLS and bool(abs(later - earlier) <= self._request.precision * later)


def _call_s(loop: Loop, exchange: Exchange) -> float:
    """About what a call takes on this rank; a core that is lost meanwhile says nothing about calls."""
    if not exchange.operation.in_a_row:
        begins, _ = loop.run(exchange, _FIRST, tight=True)
        return float(np.median(np.diff(begins)))
    pairs = [loop.run(exchange, 2, tight=True) for _ in range(_FIRST // 2)]  # the clock is read around each
    return min(float(np.mean(ends - begins)) for begins, ends in pairs)
