"""Measure all cells of one collective and communicator size: rounds of small blocks in shuffled order.

Notation: a *cell* is one message size with one choice, such as an algorithm. A *block* is a few calls of one
cell in a row. Unless the calls are long, a block begins with a call that is not counted, since caches then
contain the previous cell's data. A *sweep* is the measurement of all cells of one collective and communicator
size.

A sweep has two parts. ``begin`` checks each cell, in a call that is also its warm-up, and times its first
block, as far as the sweep's share of the launch's time permits (``first_blocks``). ``finish`` spends another
share of the time on rounds. A launch begins all of its sweeps before it finishes any, so that no cell has its
second block before all others had their first.

After each round rank 0 decides how many more samples each cell gets (``measure.stopping``) and informs the
other ranks, so that all ranks agree whatever their clocks show. Nothing but calls happens inside of a block;
samples are sent to rank 0 once a round.

Each distinct setting of control variables has its own communicator, which is duplicated while the setting is
in effect, because Open MPI reads its variables at that moment. The variables are set again before each block,
because MPICH reads its variables at each call.
"""

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from mpi4py import MPI

from autotune.errors import StackError
from autotune.measure.stopping import CellStatus, Random, StoppingRule, interleave, next_round, shuffled
from autotune.probe.exchange import Memory, Pool
from autotune.probe.first_blocks import next_first, pending_cells
from autotune.probe.mpit import ControlVariables
from autotune.probe.operations import OPERATIONS
from autotune.probe.protocol import CellSamples, ProbeRequest, SweptChoice
from autotune.probe.swept import NEVER_TIMED, OK, SweptCell, TimedPart, Verdict
from autotune.probe.synchronisation import Synchronisation

WARM_UP = 2  # Warm-up calls of each cell before the first timed turn, where jobs measure in turns.
_REFILL_S = 2e-4
"""Seconds in which a core's cache of 2 MB is refilled at 10 GB/s.

A call may take longer by this time after calls of another cell. If the requested precision of the call's time
is coarser, no warm-up call is made."""
BLOCK = 50  # Largest number of samples in a block.
MOST_BYTES = 2**31 - 1  # Largest value of the ``int`` counts and displacements of MPI.
_Setting: TypeAlias = tuple[tuple[str, int | str], ...]  # Pairs of a control variable and its value.


class Sweep:
    """The measurement of one collective on one communicator size."""

    def __init__(
        self,
        request: ProbeRequest,
        collective: str,
        sync: MPI.Intracomm,
        synchronisation: Synchronisation[Any],
        variables: ControlVariables,
        memory: Memory | None = None,
    ) -> None:
        """Create communicators, buffers and windows; called on every rank of ``sync``.

        Rank 0's decisions are broadcast on ``sync``. Sweeps with the same ``memory`` share their buffers, so
        only one of them may measure at a time.
        """
        self._request = request
        self.sync = sync  # The communicator of the ranks that are measured.
        self._synchronisation, self._variables = synchronisation, variables
        self.operation = OPERATIONS[collective]
        choices = request.choices.get(collective) or (SweptChoice({}),)
        sizes = request.sizes_of(collective)
        self._cells = [SweptCell(size, choice) for size in sizes for choice in choices]
        self._comms: dict[_Setting, MPI.Intracomm] = {}
        self._windows: dict[_Setting, MPI.Win | None] = {}
        self._pool: Pool | None = None
        self._memory = memory
        self._ends: Counter[CellStatus] = Counter()
        self.timed = TimedPart()
        self._warm = set[int]()  # indices of cells that need no warm-up call, the same on all ranks
        self._candidates: list[int] = []
        if sync.size < self.operation.least_ranks:
            self._refuse_all(f"{collective} needs {self.operation.least_ranks} ranks")
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
    def cells(self) -> int:
        """Return the number of cells of the sweep."""
        return len(self._cells)

    @property
    def n_pending(self) -> int:
        """Return the number of cells whose first block is still to come."""
        return len(pending_cells(self._cells))

    def begin(self, budget_s: float) -> None:
        """Check each pending cell and time its first block, one after the other, as long as time remains.

        The first pending cell is timed whatever the budget is, so that the cost of calls is known.
        """
        end_s, first = time.perf_counter() + budget_s, True
        while pending_cells(self._cells) and self.sync.bcast(first or time.perf_counter() < end_s):
            index, hopeless = self.sync.bcast(None if self.sync.rank else next_first(self._cells))
            cell = self._cells[index]
            if hopeless:
                cell.verdict = ("invalid", hopeless)
                continue
            begin_s, first = time.perf_counter(), False
            if not cell.started:
                self._check([index])
            if cell.verdict == OK:
                self._time_first(index)
            cell.started = True
            cell.took_s = cell.took_s or time.perf_counter() - begin_s

    def needed_s(self, other_sweeps: Iterable["Sweep"] = ()) -> float:
        """Return the seconds that the first blocks of all pending cells would take; valid on rank 0.

        A cell is expected to take as long as other cells of its message size. If none was measured, the time
        at the largest measured size below is scaled in proportion to the size. If this sweep has no times,
        the times of ``other_sweeps`` are used. The result is NaN if no sweep has times.
        """
        took_by_size = self._took_by_size()
        for sweep in other_sweeps:
            took_by_size = took_by_size or sweep._took_by_size()
        return sum(
            _took_at(took_by_size, self._cells[index].message_bytes) for index in pending_cells(self._cells)
        )

    def finish(self, budget_s: float, rng: Random, untimed: str = NEVER_TIMED) -> tuple[CellSamples, ...]:
        """Return raw samples of every cell; complete on rank 0, which alone draws the order of blocks.

        The result of one cell, drawn at random, is checked again within the budget. ``untimed`` is the reason
        that cells without a sample get.
        """
        self._refresh()
        recheck_s = max((cell.spent_s / cell.spent_on for cell in self._cells if cell.spent_on), default=0.0)
        self._sample(budget_s - recheck_s, rng)
        self._check(self.sync.bcast(shuffled(self._candidates, rng)[:1]))
        return tuple(cell.samples(self.operation.name, self.sync.size, untimed) for cell in self._cells)

    def measure(self, budget_s: float, rng: Random) -> tuple[CellSamples, ...]:
        """Time each cell's first block, however long it takes, and return raw samples as ``finish`` does."""
        self.begin(math.inf)
        return self.finish(budget_s, rng)

    def _took_by_size(self) -> dict[int, float]:
        """Return message size in bytes, ascending → mean duration of first blocks in seconds."""
        took: dict[int, list[float]] = {}
        for cell in self._cells:
            if cell.started:
                took.setdefault(cell.message_bytes, []).append(cell.took_s)
        return {size: sum(seconds) / len(seconds) for size, seconds in sorted(took.items())}

    def _time_first(self, index: int) -> None:
        self._warm = {index}
        self._run([(index, 1)])

    def _refresh(self) -> None:
        """Fill shared buffers with this operation's data, since another operation may have left NaN there."""
        usable = [cell.exchange for cell in self._cells if cell.exchange is not None and cell.verdict == OK]
        if self._memory is not None and usable and usable[-1].window is None:
            usable[-1].prepare()

    def close(self) -> None:
        """Free communicators, windows and buffers, and reset the control variables."""
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
        """Return, on rank 0, a text on how many cells ended before they were precise; empty if none did."""
        words = {
            CellStatus.ELIMINATED: "given up as too slow to win",
            CellStatus.SAMPLED_OUT: "at the largest number of samples before they were precise",
            CellStatus.OUT_OF_TIME: "out of time before they were precise",
        }
        counts = [f"{self._ends[status]} {text}" for status, text in words.items() if self._ends[status]]
        subject = f"{self.operation.name} on {self.sync.size} ranks, {len(self._cells)} cells"
        return f"{subject}: {', '.join(counts)}" if counts else ""

    @property
    def _long_s(self) -> float:
        """Return the seconds above which the duration of a call hardly depends on the content of caches."""
        return _REFILL_S / self._request.precision

    def _sample(self, budget_s: float, rng: Random) -> None:
        rule = _rule(self._request, budget_s)
        begin = time.perf_counter()
        while True:
            plan = None
            if self.sync.rank == 0:
                blocks = interleave(self._decide(rule, time.perf_counter() - begin), BLOCK, rng)
                plan = blocks, {i for i, cell in enumerate(self._cells) if cell.fastest_s > self._long_s}
            blocks, self._warm = self.sync.bcast(plan)
            if not blocks:
                break
            self._run(blocks)

    def _run(self, blocks: Sequence[tuple[int, int]]) -> None:
        """Run blocks (index of a cell, number of samples), and then send all samples to rank 0."""
        for index, count in blocks:
            cell = self._cells[index]
            if cell.exchange is None:
                raise StackError("a cell without a call cannot be timed")
            begin = time.perf_counter()
            self._variables.enforce(cell.choice.cvars)
            self._synchronisation.block(cell.exchange, count, index not in self._warm)
            took = time.perf_counter() - begin
            self.timed.add(took)
            cell.latest_s = took / count
            cell.spent_s += took
            cell.spent_on += count
        for (index, _), timed in zip(blocks, self._synchronisation.collect(), strict=self.sync.rank == 0):
            self._cells[index].add(timed)

    def _decide(self, rule: StoppingRule, elapsed_s: float) -> list[int]:
        usable = [index for index, cell in enumerate(self._cells) if cell.verdict == OK and cell.started]
        cells = [self._cells[index] for index in usable]
        decision = next_round(
            rule,
            [cell.valid for cell in cells],
            [cell.spent_s / cell.spent_on if cell.spent_on else math.nan for cell in cells],
            [cell.message_bytes for cell in cells],
            elapsed_s,
        )
        self._ends = Counter(decision.status)
        statuses = zip(usable, decision.status, strict=True)
        self._candidates = [index for index, status in statuses if status is not CellStatus.ELIMINATED]
        next_samples = dict(zip(usable, decision.next_samples, strict=True))
        return [next_samples.get(index, 0) for index in range(len(self._cells))]

    def _check(self, indices: Iterable[int]) -> None:
        """Call each of these cells once, untimed, and mark those with wrong data or a failed call."""
        wrong: list[tuple[int, Verdict]] = []
        for index in indices:
            cell = self._cells[index]
            if cell.exchange is None or cell.verdict != OK:
                continue
            self._variables.enforce(cell.choice.cvars)
            try:
                self.sync.Barrier()  # another rank may still be accessing this rank's window
                cell.exchange.prepare()
                begin = time.perf_counter()
                self._synchronisation.loop.run(cell.exchange, 1)
                cell.latest_s = time.perf_counter() - begin
                if cell.exchange.window is not None:
                    self.sync.Barrier()
                    cell.exchange.synchronise()
                if self._request.check and not cell.exchange.correct():
                    words = f"rank {self.sync.rank} found other data than expected"
                    wrong.append((index, ("wrong_result", words)))
            except MPI.Exception as exc:
                wrong.append((index, ("invalid", f"rank {self.sync.rank}: {exc.Get_error_string()}")))
        if not self.sync.allreduce(len(wrong)):  # only a number is sent, since this is done for every cell
            return
        for verdicts in self.sync.allgather(wrong):
            for index, verdict in verdicts:  # if several ranks have a verdict, the lowest rank's one counts
                if self._cells[index].verdict == OK:
                    self._cells[index].verdict = verdict

    def _buffers(self, largest_bytes: int) -> Pool | None:
        """Return the buffers for messages up to a size; if a rank cannot allocate them, None on all ranks."""
        pool, problem = None, ""
        if largest_bytes * self.sync.size > MOST_BYTES:
            problem = f"{largest_bytes} bytes from each of {self.sync.size} ranks are more than MPI counts"
        else:
            try:
                size = self.sync.size
                pool = Pool(self.operation, self.sync.rank, size, largest_bytes, self._memory)
            except (OSError, MemoryError) as exc:
                problem = f"rank {self.sync.rank} has no memory for messages of {largest_bytes} bytes: {exc}"
        problem = next(filter(None, self.sync.allgather(problem)), "")
        if problem:
            self._refuse_all(problem)
            return None
        return pool

    def _refuse_all(self, reason: str) -> None:
        for cell in self._cells:
            cell.verdict = ("invalid", reason)

    def _connect(self, choice: SweptChoice, pool: Pool) -> None:
        """Create the communicator for a choice's setting of control variables, unless it exists already.

        If a rank cannot set the variables, the cells of the choice are marked as not applied.
        """
        key = _setting(choice)
        if key in self._comms:
            return
        refusal = ""
        try:
            self._variables.enforce(choice.cvars)
        except StackError as exc:
            refusal = f"rank {self.sync.rank}: {exc.on_one_line}"
        refused = next(filter(None, self.sync.allgather(refusal)), "")
        if refused:
            for cell in self._cells:
                if cell.choice.cvars == choice.cvars:
                    cell.verdict = ("not_applied", refused)
            return
        comm = self._comms[key] = self.operation.connect(self.sync)
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        self._windows[key] = pool.window(comm)


def _setting(choice: SweptChoice) -> _Setting:
    return tuple(sorted(choice.cvars.items()))


def _took_at(took_by_size: Mapping[int, float], message_bytes: int) -> float:
    """Return how many seconds the first block at a message size will take; NaN if no duration is known.

    ``took_by_size`` maps message sizes in bytes, ascending, to the mean duration of first blocks in seconds.
    """
    below = [size for size in took_by_size if size <= message_bytes]
    if not took_by_size:
        return math.nan
    if not below:  # smaller messages are assumed to take as long as the smallest known size
        return next(iter(took_by_size.values()))
    return took_by_size[below[-1]] * max(message_bytes, 1) / max(below[-1], 1)


def _rule(request: ProbeRequest, budget_s: float) -> StoppingRule:
    min_samples = max(6, request.min_samples)  # fewer samples have no 95 % interval
    return StoppingRule(
        budget_s=max(budget_s, 1e-3),
        half_width=request.precision,
        min_samples=min_samples,
        max_samples=max(min_samples, request.max_samples),
    )
