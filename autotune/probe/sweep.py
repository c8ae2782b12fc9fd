"""Cells of one (collective, communicator size) → raw samples: rounds of small blocks in shuffled order.

A sweep has two parts: ``begin`` checks each cell, warms it up and times its first block, as far as its share
of the launch's time reaches; ``finish`` spends another share on rounds. A launch begins all of its sweeps
before it finishes any, so that no cell has its second block before all others had their first.

Rank 0 decides after each round which cells get how many more samples (``measure.stopping``) and informs the
others, so that all ranks agree whatever their clocks say. Nothing but calls happens inside of a block;
samples travel to rank 0 once a round.

Each distinct setting of control variables has a communicator of its own, duplicated while the setting is in
force: Open MPI reads its variables then. They are set again before each block, because MPICH reads its at
each call.

Notation: a *cell* is one (message size, choice) of a sweep; a *block* is a few calls of one cell in a row,
preceded by one that is not counted (it finds the caches full of the previous cell's data).
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from autotune.errors import StackError
from autotune.measure.stopping import CellStatus, StoppingRule, interleave, next_round
from autotune.probe.cores import Cores
from autotune.probe.exchange import Memory, Pool
from autotune.probe.mpit import ControlVariables
from autotune.probe.operations import OPERATIONS
from autotune.probe.protocol import WARM_UP, CellSamples, ProbeRequest, SweptChoice
from autotune.probe.steadiness import Steadiness
from autotune.probe.swept import NEVER_TIMED, OK, SweptCell, Verdict
from autotune.probe.synchronisation import Synchronisation

BLOCK = 50  # Samples in a row at most.
MOST_BYTES = 2**31 - 1  # What the ``int`` counts and displacements of MPI hold.
_Setting: TypeAlias = tuple[tuple[str, int | str], ...]


class Sweep:
    """One collective on one communicator size."""

    def __init__(
        self,
        request: ProbeRequest,
        collective: str,
        sync: MPI.Intracomm,
        synchronisation: Synchronisation[Any],
        variables: ControlVariables,
        steadiness: Steadiness,
        cores: Cores | None,
        memory: Memory | None = None,
    ) -> None:
        """Make communicators, buffers and windows; on every rank of ``sync``, on which decisions travel.

        Sweeps with the same memory share their buffers: no two of them may be at work at once.
        """
        self._request, self._sync, self._steadiness, self._cores = request, sync, steadiness, cores
        self._synchronisation, self._variables = synchronisation, variables
        self._operation = OPERATIONS[collective]
        choices = request.choices.get(collective) or (SweptChoice({}),)
        sizes = request.sizes_of(collective)
        self._cells = [SweptCell(size, choice) for size in sizes for choice in choices]
        self._comms: dict[_Setting, MPI.Intracomm] = {}
        self._windows: dict[_Setting, MPI.Win | None] = {}
        self._pool: Pool | None = None
        self._memory = memory
        self._ends: Counter[CellStatus] = Counter()
        self._candidates: list[int] = []
        if sync.size < self._operation.least_ranks:
            self._refuse_all(f"{collective} needs {self._operation.least_ranks} ranks")
            return
        pool = self._pool = self._buffers(max(sizes))
        if pool is None:
            return
        for choice in choices:
            self._connect(choice, pool)
        for cell in self._cells:
            if cell.verdict == OK:
                key = _setting(cell.choice)
                cell.exchange = pool.exchange(self._comms[key], cell.message_bytes, self._windows[key])

    @property
    def sync(self) -> MPI.Intracomm:
        """The communicator of its ranks."""
        return self._sync

    @property
    def operation(self) -> str:
        """The name of its collective."""
        return self._operation.name

    @property
    def cells(self) -> int:
        """Number of its cells."""
        return len(self._cells)

    @property
    def waiting(self) -> int:
        """Number of cells whose first block was not made yet."""
        return len(self._waiting())

    def begin(self, budget_s: float) -> None:
        """Check, warm up and time once each cell that waits, one after the other, as long as time is left.

        The first one is made whatever the budget says, so that something is known of what calls cost.
        """
        end_s = self._spent_s + budget_s
        waiting = self._waiting()
        for place, index in enumerate(waiting):
            if self._sync.bcast(place > 0 and self._spent_s >= end_s):
                break
            begin_s = self._spent_s
            self._check([index])
            self._warm_up(self._cells[index])
            if self._cells[index].verdict == OK:
                self._time_first(index)
            self._cells[index].begun = True
            self._cells[index].took_s = self._spent_s - begin_s

    def needed_s(self, others: Iterable["Sweep"] = ()) -> float:
        """Seconds that the first blocks of all waiting cells would take, by what those made took; on rank 0.

        A cell takes what others of its message size took, else in proportion to the size what the largest one
        below took; ``others`` are asked where nothing of this sweep is known. Not a number where nothing is.
        """
        known = self._took_by_size()
        for other in others:
            known = known or other._took_by_size()
        return sum(_took_at(known, self._cells[index].message_bytes) for index in self._waiting())

    def finish(
        self, budget_s: float, rng: np.random.Generator, untimed: str = NEVER_TIMED
    ) -> tuple[CellSamples, ...]:
        """Raw samples of every cell; complete on rank 0, which alone draws the order of blocks.

        A second check of the results is within the budget; ``untimed`` says why cells have no sample.
        """
        self._refresh()
        again_s = sum(cell.spent_s / cell.spent_on for cell in self._cells if cell.spent_on)
        self._sample(budget_s - again_s, rng)
        self._check(self._sync.bcast(self._candidates))
        return tuple(cell.samples(self._operation.name, self._sync.size, untimed) for cell in self._cells)

    def measure(self, budget_s: float, rng: np.random.Generator) -> tuple[CellSamples, ...]:
        """Raw samples of every cell as of ``finish``; each has its first block whatever that takes."""
        self.begin(math.inf)
        return self.finish(budget_s, rng)

    def _waiting(self) -> list[int]:
        return [i for i, cell in enumerate(self._cells) if cell.verdict == OK and not cell.begun]

    def _took_by_size(self) -> dict[int, float]:
        took: dict[int, list[float]] = {}
        for cell in self._cells:
            if cell.begun:
                took.setdefault(cell.message_bytes, []).append(cell.took_s)
        return {size: sum(seconds) / len(seconds) for size, seconds in sorted(took.items())}

    def _time_first(self, index: int) -> None:
        """One timed call of a cell."""
        self._run([[(index, 1)]])

    def _refresh(self) -> None:
        """Fill shared buffers with this operation's data: sums of another one's may be no numbers."""
        usable = [cell.exchange for cell in self._cells if cell.exchange is not None and cell.verdict == OK]
        if self._memory is not None and usable and usable[-1].window is None:
            usable[-1].prepare()

    def close(self) -> None:
        """Free what was made, and set the control variables back."""
        for cell in self._cells:
            if cell.exchange is not None:
                cell.exchange.close()
        for window in self._windows.values():
            if self._pool is not None:
                self._pool.close(window)
        if self._pool is not None:
            self._pool.free()
        for comm in self._comms.values():
            comm.Free()
        self._variables.enforce({})

    @property
    def note(self) -> str:
        """How the cells ended, in words; empty where there is nothing to say. Known to rank 0."""
        words = {
            CellStatus.ELIMINATED: "given up as too slow to win",
            CellStatus.SAMPLED_OUT: "at the largest number of samples before they were precise",
            CellStatus.OUT_OF_TIME: "out of time before they were precise",
        }
        said = [f"{self._ends[status]} {text}" for status, text in words.items() if self._ends[status]]
        where = f"{self._operation.name} on {self._sync.size} ranks, {len(self._cells)} cells"
        return f"{where}: {', '.join(said)}" if said else ""

    def _sample(self, budget_s: float, rng: np.random.Generator) -> None:
        """Rounds of blocks until every cell has enough."""
        rule = _rule(self._request, budget_s)
        begin = self._spent_s
        while True:
            parts = None
            if self._sync.rank == 0:
                parts = self._parts(interleave(self._decide(rule, self._spent_s - begin), BLOCK, rng))
            parts = self._sync.bcast(parts)
            if not parts:
                break
            self._run(parts)

    @property
    def _spent_s(self) -> float:
        """On a clock that stands while cores are waited for."""
        return time.perf_counter() - self._steadiness.lost_s

    def _steadily(self, measure: Callable[[], None]) -> None:
        """Measure while the cores are as usual, if they can be seen; a collective call."""
        if self._cores is None:
            measure()
        else:
            self._cores.steadily(measure)

    def _parts(self, plan: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        """The blocks of a round, in parts between which one looks at the cores."""
        parts, left_s = list[list[tuple[int, int]]](), 0.0
        for index, count in plan:
            if left_s <= 0:
                parts, left_s = [*parts, []], self._steadiness.part_s
            parts[-1].append((index, count))
            cell = self._cells[index]
            left_s -= count * cell.spent_s / max(cell.spent_on, 1)
        return parts

    def _run(self, parts: Sequence[Sequence[tuple[int, int]]]) -> None:
        """One round: the blocks one after the other, then all of their samples to rank 0."""
        made = 0
        for part in parts:
            self._steadily(partial(self._time, part, made))
            made += len(part)
        plan = [block for part in parts for block in part]
        for (index, _), timed in zip(plan, self._synchronisation.collect(), strict=self._sync.rank == 0):
            self._cells[index].blocks.append(timed)

    def _time(self, part: Sequence[tuple[int, int]], made: int) -> None:
        """Some blocks of a round, after so many; what was made of them before is forgotten."""
        self._synchronisation.forget(made)
        for index, count in part:
            cell = self._cells[index]
            if cell.exchange is None:
                raise StackError("a cell without a call cannot be timed")
            begin = time.perf_counter()
            self._variables.enforce(cell.choice.cvars)
            self._synchronisation.block(cell.exchange, count)
            took = time.perf_counter() - begin
            cell.latest_s = took / count
            cell.spent_s += took
            cell.spent_on += count

    def _decide(self, rule: StoppingRule, elapsed_s: float) -> NDArray[np.int64]:
        """On rank 0: how many samples each cell gets next, shape ``(n_cells,)``."""
        usable = [index for index, cell in enumerate(self._cells) if cell.verdict == OK and cell.begun]
        cells = [self._cells[index] for index in usable]
        known = next_round(
            rule,
            [cell.samples(self._operation.name, self._sync.size).valid_s for cell in cells],
            [cell.spent_s / cell.spent_on if cell.spent_on else np.nan for cell in cells],
            [cell.message_bytes for cell in cells],
            elapsed_s,
        )
        self._ends = Counter(map(CellStatus, known.status.tolist()))
        self._candidates = [usable[i] for i in np.flatnonzero(known.status != CellStatus.ELIMINATED)]
        more = np.zeros(len(self._cells), np.int64)
        more[usable] = known.more
        return more

    def _check(self, which: Iterable[int]) -> None:
        """One call of each of these cells that is not timed, and its result compared."""
        wrong: list[tuple[int, Verdict]] = []
        for index in which:
            cell = self._cells[index]
            if cell.exchange is None or cell.verdict != OK:
                continue
            self._variables.enforce(cell.choice.cvars)
            try:
                self._sync.Barrier()  # a first rank may still be at work in this rank's window
                cell.exchange.prepare()
                self._synchronisation.loop.run(cell.exchange, 1)
                if cell.exchange.window is not None:
                    self._sync.Barrier()
                    cell.exchange.synchronise()
                if self._request.check and not cell.exchange.correct():
                    words = f"rank {self._sync.rank} found other data than expected"
                    wrong.append((index, ("wrong_result", words)))
            except MPI.Exception as exc:
                wrong.append((index, ("invalid", f"rank {self._sync.rank}: {exc.Get_error_string()}")))
        for verdicts in self._sync.allgather(wrong):
            for index, verdict in verdicts:  # the lowest rank's words count
                if self._cells[index].verdict == OK:
                    self._cells[index].verdict = verdict

    def _warm_up(self, cell: SweptCell) -> None:
        """Calls of a cell that are not counted; they also say what a call costs."""
        if cell.exchange is not None and cell.verdict == OK:
            self._variables.enforce(cell.choice.cvars)
            begin = time.perf_counter()
            self._synchronisation.loop.run(cell.exchange, WARM_UP)
            took = time.perf_counter() - begin
            cell.latest_s = took / WARM_UP
            cell.spent_s += took
            cell.spent_on += WARM_UP

    def _buffers(self, largest_bytes: int) -> Pool | None:
        """The buffers; none on any rank, and all cells refused, where one rank cannot have them."""
        pool, problem = None, ""
        if largest_bytes * self._sync.size > MOST_BYTES:
            problem = f"{largest_bytes} bytes from each of {self._sync.size} ranks are more than MPI counts"
        else:
            try:
                size = self._sync.size
                pool = Pool(self._operation, self._sync.rank, size, largest_bytes, self._memory)
            except (OSError, MemoryError) as exc:
                problem = f"rank {self._sync.rank} has no memory for messages of {largest_bytes} bytes: {exc}"
        problem = next(filter(None, self._sync.allgather(problem)), "")
        if problem:
            self._refuse_all(problem)
            return None
        return pool

    def _refuse_all(self, reason: str) -> None:
        for cell in self._cells:
            cell.verdict = ("invalid", reason)

    def _connect(self, choice: SweptChoice, pool: Pool) -> None:
        """The communicator of a choice, unless its setting has one; a refused setting marks its cells."""
        key = _setting(choice)
        if key in self._comms:
            return
        refusal = ""
        try:
            self._variables.enforce(choice.cvars)
        except StackError as exc:
            refusal = f"rank {self._sync.rank}: {exc.on_one_line}"
        refused = next(filter(None, self._sync.allgather(refusal)), "")
        if refused:
            for cell in self._cells:
                if cell.choice.cvars == choice.cvars:
                    cell.verdict = ("not_applied", refused)
            return
        comm = self._comms[key] = self._operation.connect(self._sync)
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        self._windows[key] = pool.window(comm)


def _setting(choice: SweptChoice) -> _Setting:
    return tuple(sorted(choice.cvars.items()))


def _took_at(known: Mapping[int, float], message_bytes: int) -> float:
    """Seconds of a first block at a message size, by those known, ascending."""
    below = [size for size in known if size <= message_bytes]
    if not known:
        return math.nan
    if not below:  # a larger message is not taken for cheaper
        return next(iter(known.values()))
    return known[below[-1]] * max(message_bytes, 1) / max(below[-1], 1)


def _rule(request: ProbeRequest, budget_s: float) -> StoppingRule:
    least = max(6, request.min_samples)  # fewer have no interval
    return StoppingRule(
        budget_s=max(budget_s, 1e-3),
        half_width=request.precision,
        min_samples=least,
        max_samples=max(least, request.max_samples),
    )
