"""Cells of one (collective, communicator size) → raw samples: rounds of small blocks in shuffled order.

Rank 0 decides after each round which cells get how many more samples (``measure.stopping``) and informs the
others, so that all ranks agree whatever their clocks say. Nothing but calls happens inside of a block;
samples travel to rank 0 once a round.

Each distinct setting of control variables has a communicator of its own, duplicated while the setting is in
force: Open MPI reads its variables then. They are set again before each block, because MPICH reads its at
each call.

Notation: a *cell* is one (message size, choice) of a sweep; a *block* is a few calls of one cell in a row,
preceded by one that is not counted (it finds the caches full of the previous cell's data).
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from autotune.errors import StackError
from autotune.measure.stopping import CellStatus, StoppingRule, interleave, next_round
from autotune.probe.cores import Cores
from autotune.probe.exchange import Exchange, Pool
from autotune.probe.mpit import ControlVariables
from autotune.probe.operations import OPERATIONS
from autotune.probe.protocol import WARM_UP, CellSamples, ProbeRequest, SweptChoice
from autotune.probe.steadiness import Steadiness
from autotune.probe.synchronisation import Synchronisation, Timed

BLOCK = 50  # Samples in a row at most.
_MOST_BYTES = 2**31 - 1  # What the ``int`` counts and displacements of MPI hold.
_Setting: TypeAlias = tuple[tuple[str, int | str], ...]
_Verdict: TypeAlias = tuple[str, str]
_OK: _Verdict = ("ok", "")
_UNTIMED: _Verdict = ("invalid", "the launch's time was used up before its first timed call")


@dataclass(slots=True)
class SweptCell:
    """One message size with one choice."""

    message_bytes: int
    choice: SweptChoice
    verdict: _Verdict = _OK
    exchange: Exchange | None = None
    blocks: list[Timed] = field(default_factory=list)
    spent_s: float = 0.0
    spent_on: int = 0
    latest_s: float = 0.0
    extra: dict[str, float] = field(default_factory=dict)

    def samples(self, collective: str, comm_size: int) -> CellSamples:
        """Samples so far, on rank 0; a cell that was never timed cannot be used."""
        codes = [codes for _, codes in self.blocks if codes is not None]
        status, reason = self.verdict if self.blocks or self.verdict != _OK else _UNTIMED
        return CellSamples(
            collective=collective,
            comm_size=comm_size,
            message_bytes=self.message_bytes,
            values=dict(self.choice.values),
            samples_s=np.concatenate([times for times, _ in self.blocks] or [np.empty(0)]),
            status=status,
            reason=reason,
            validity=np.concatenate(codes) if codes else None,
            extra=self.extra,
        )


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
    ) -> None:
        """Make communicators, buffers and windows; on every rank of ``sync``, on which decisions travel."""
        self._request, self._sync, self._steadiness, self._cores = request, sync, steadiness, cores
        self._synchronisation, self._variables = synchronisation, variables
        self._operation = OPERATIONS[collective]
        choices = request.choices.get(collective) or (SweptChoice({}),)
        sizes = request.sizes_of(collective)
        self._cells = [SweptCell(size, choice) for size in sizes for choice in choices]
        self._comms: dict[_Setting, MPI.Intracomm] = {}
        self._windows: dict[_Setting, MPI.Win | None] = {}
        self._pool: Pool | None = None
        self._ends: Counter[CellStatus] = Counter()
        self._candidates: list[int] = []
        self.timed_s = 0.0
        """Duration of the rounds, without checks, warm-up and time lost to unsteady cores."""
        if sync.size < self._operation.least_ranks:
            self._refuse_all(f"{collective} needs {self._operation.least_ranks} ranks")
            return
        pool = self._pool = self._buffers(max(sizes))
        if pool is None:
            return
        for choice in choices:
            self._connect(choice, pool)
        for cell in self._cells:
            if cell.verdict == _OK:
                key = _setting(cell.choice)
                cell.exchange = pool.exchange(self._comms[key], cell.message_bytes, self._windows[key])

    def measure(self, budget_s: float, rng: np.random.Generator) -> tuple[CellSamples, ...]:
        """Raw samples of every cell; complete on rank 0, which alone draws the order of blocks."""
        self._check(range(len(self._cells)))
        self._warm_up()
        begin = self._spent_s
        self._sample(budget_s, rng)
        self.timed_s = self._spent_s - begin
        self._check(self._sync.bcast(self._candidates))
        return tuple(cell.samples(self._operation.name, self._sync.size) for cell in self._cells)

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
        usable = [index for index, cell in enumerate(self._cells) if cell.verdict == _OK]
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
        wrong: list[tuple[int, _Verdict]] = []
        for index in which:
            cell = self._cells[index]
            if cell.exchange is None or cell.verdict != _OK:
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
                if self._cells[index].verdict == _OK:
                    self._cells[index].verdict = verdict

    def _warm_up(self) -> None:
        """Calls of each cell that are not counted; they also say what a call costs."""
        for cell in self._cells:
            if cell.exchange is not None and cell.verdict == _OK:
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
        if largest_bytes * self._sync.size > _MOST_BYTES:
            problem = f"{largest_bytes} bytes from each of {self._sync.size} ranks are more than MPI counts"
        else:
            try:
                pool = Pool(self._operation, self._sync.rank, self._sync.size, largest_bytes)
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


def _rule(request: ProbeRequest, budget_s: float) -> StoppingRule:
    least = max(6, request.min_samples)  # fewer have no interval
    return StoppingRule(
        budget_s=max(budget_s, 1e-3),
        half_width=request.precision,
        min_samples=least,
        max_samples=max(least, request.max_samples),
    )
