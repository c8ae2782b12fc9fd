"""The cells of one job of a heat, measured in its turns → raw samples with the round of each.

A turn visits some cells, each for a slice of time: blocks of calls as in ``sweep``, or calls back to back as
in ``tight``. All jobs visit the same message sizes in the same rounds, so that a ratio of two of them is one
of times that were taken some milliseconds apart. The first turn checks results and warms up; it is not timed.

The jobs agree on nothing while they measure but on when the heat's time is over, so that their numbers of
rounds differ by one at most.
"""

from collections.abc import Sequence
from ctypes import CDLL
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from autotune.errors import StackError
from autotune.measure.machine import UsualCore
from autotune.probe.exchange import Exchange
from autotune.probe.mpit import ControlVariables
from autotune.probe.protocol import BESIDE_BYTES, CellSamples, Heat, ProbeRequest
from autotune.probe.steadiness import Steadiness
from autotune.probe.sweep import Sweep
from autotune.probe.sweeps import loop_of, wait_idle
from autotune.probe.swept import OK, SweptCell
from autotune.probe.synchronisation import BarrierSynchronisation, Timed
from autotune.probe.turns import Turns

_PERIOD = 24  # Visits of each cell after which the order repeats.
_LEAST_VISITS = 3  # Of each cell, however long they take: two in its loop and one in the other.
_MOST_CALLS = 5000  # In a slice: arrays of a fixed size, 40 kB, however short a call is.


@dataclass(frozen=True, slots=True)
class _Visit:
    """One block of calls."""

    cell: int
    round: int


class TightBlocks(BarrierSynchronisation):
    """Calls back to back: a sample is the mean of a block's calls on the slowest rank."""

    def block(self, exchange: Exchange, count: int) -> None:
        """As in ``Synchronisation``."""
        first = max(1, count // 10)
        begins, ends = self.loop.run(exchange, first + count, tight=True)
        mean = np.mean((ends - begins)[first:], keepdims=True)
        self._blocks.append(mean * exchange.operation.share(self._sync.rank))


_LOOPS = {"interleaved": BarrierSynchronisation, "tight": TightBlocks}


class HeatSweep(Sweep):
    """One collective on one communicator size, in turns."""

    loops: list[BarrierSynchronisation]
    """The way in which calls are timed, and the other way where cells are measured in it too."""

    def prepare(self) -> None:
        """Check results and warm up, before anything is timed."""
        self._check(range(len(self._cells)))
        for cell in self._cells:
            self._warm_up(cell)
        self._visits: tuple[list[_Visit], list[_Visit]] = ([], [])

    def turn(self, sizes: Sequence[int], round_: int, slice_s: float, other_loop: bool) -> None:
        """One block of each choice at some message sizes, on every rank of the communicator."""
        chosen = [
            (index, cell)
            for size in sizes
            for index, cell in enumerate(self._cells)
            if cell.message_bytes == size and cell.exchange is not None and cell.verdict == OK
        ]
        counts = [_calls(cell, slice_s) for _, cell in chosen] if self._sync.rank == 0 else None
        visits, self._synchronisation = self._visits[other_loop], self.loops[other_loop]
        for (index, _), count in zip(chosen, self._sync.bcast(counts), strict=True):
            self._time([(index, count)], len(visits))
            visits.append(_Visit(index, round_))

    def collected(self) -> tuple[CellSamples, ...]:
        """Samples of all turns, complete on rank 0; results are checked again."""
        others = self._of_loop(1) if len(self.loops) > 1 else []
        for visit, samples in self._of_loop(0):
            self._cells[visit.cell].blocks.append(samples)
        self._check([i for i, cell in enumerate(self._cells) if cell.exchange is not None])
        for index, cell in enumerate(self._cells):
            if medians := [float(np.median(times)) for visit, (times, _) in others if visit.cell == index]:
                cell.extra["other_loop_s"] = float(np.median(medians))
        return tuple(
            replace(cell.samples(self._operation.name, self._sync.size), rounds=self._rounds(index, cell))
            for index, cell in enumerate(self._cells)
        )

    def _of_loop(self, loop: int) -> list[tuple[_Visit, Timed]]:
        """On rank 0 the samples of each visit in one of the loops; nothing elsewhere."""
        visits = self._visits[loop]
        collected = self.loops[loop].collect() if visits else []
        return list(zip(visits, collected, strict=True)) if self._sync.rank == 0 else []

    def _rounds(self, index: int, cell: SweptCell) -> NDArray[np.int32]:
        rounds = [visit.round for visit in self._visits[0] if visit.cell == index]
        lengths = [len(times) for times, _ in cell.blocks]
        return np.repeat(np.array(rounds[: len(lengths)], np.int32), lengths)


def _calls(cell: SweptCell, slice_s: float) -> int:
    """As many calls as fit into a slice, by what those of the last block took."""
    return int(min(max(1.0, slice_s / max(cell.latest_s, 1e-9)), _MOST_CALLS))


@dataclass(frozen=True, slots=True)
class HeatResult:
    """The samples of one job's turns."""

    cells: tuple[CellSamples, ...]  # Of the request, complete on rank 0.
    beside: tuple[CellSamples, ...]  # Of the patterns beside it, likewise.
    taken_out: dict[str, str]  # Jobs that did not end their turns, and why.


@dataclass(frozen=True, slots=True)
class _Part:
    """One round's measurements."""

    sweep: int
    sizes: tuple[int, ...]
    other_loop: bool = False


def measure_heat(
    world: MPI.Intracomm, request: ProbeRequest, heat: Heat, kernel: CDLL | None, variables: ControlVariables
) -> HeatResult:
    """Samples of all cells, and what became of jobs that were taken out.

    Raises:
        StackError: this job cannot take part, or was taken out.
    """
    if request.sync != "barrier":
        raise StackError("a heat needs probe.sync=barrier", "windows need clocks that a turn has no time for")
    turns = Turns(world, kernel, heat)
    turn = turns.wait()
    asked = _sweeps(world, request, kernel, variables)
    others: list[HeatSweep | None] = []
    if request.beside and world.size > 1:
        glance = replace(
            request, collectives=request.beside, sizes_bytes=BESIDE_BYTES, choices={}, comm_sizes=()
        )
        others = _sweeps(world, glance, kernel, variables)
    sweeps = [*asked, *others]
    for sweep in sweeps:
        if sweep is not None:
            sweep.prepare()
        wait_idle(world)
    visits = _plan(request, len(asked), len(others), heat)
    plan, least = list(chain.from_iterable(visits)), sum(map(len, visits[:_LEAST_VISITS]))
    turns.leave(turn, last=False)
    round_, last = 0, False
    while not last:
        turn = turns.wait()
        last = bool(world.bcast(turns.over and round_ + 1 >= least))
        part = plan[round_ % len(plan)]
        if (sweep := sweeps[part.sweep]) is not None:
            sweep.turn(part.sizes, round_, heat.slice_s, part.other_loop)
        world.Barrier()
        turns.leave(turn, last)
        round_ += 1
    taken_out = turns.close()
    cells: list[list[CellSamples]] = [[], []]
    for number, sweep in enumerate(sweeps):
        cells[number >= len(asked)] += sweep.collected() if sweep is not None else ()
        wait_idle(world)
    for sweep in sweeps:
        if sweep is not None:
            sweep.close()
    return HeatResult(tuple(cells[0]), tuple(cells[1]), taken_out)


def _sweeps(
    world: MPI.Intracomm, request: ProbeRequest, kernel: CDLL | None, variables: ControlVariables
) -> list[HeatSweep | None]:
    """A sweep for each collective and communicator size; None where this rank has no part in it."""
    sweeps: list[HeatSweep | None] = []
    for collective in dict.fromkeys(request.collectives):
        for size in request.comm_sizes or (world.size,):
            comm = world.Split(0 if world.rank < size else MPI.UNDEFINED, world.rank)
            if not isinstance(comm, MPI.Intracomm) or comm == MPI.COMM_NULL:
                sweeps.append(None)
                continue
            loops = [_LOOPS[loop](comm, loop_of(comm, kernel)) for loop in _loops(request)]
            steady = Steadiness(UsualCore(), 0.0)
            sweep = HeatSweep(request, collective, comm, loops[0], variables, steady, None)
            sweep.loops = loops
            sweeps.append(sweep)
    return sweeps


def _loops(request: ProbeRequest) -> tuple[str, ...]:
    """The request's loop, and the other one where it is measured too."""
    return tuple(filter(None, (request.loop, request.other_loop)))


def _plan(request: ProbeRequest, n_asked: int, n_beside: int, heat: Heat) -> list[list[_Part]]:
    """The rounds of each visit of all cells, in an order that is drawn.

    Of each three visits one is in the other loop, and patterns beside the request are measured in one of six:
    they are shown, and decide nothing.
    """
    rng = np.random.default_rng([heat.seed, 1])
    collectives = tuple(dict.fromkeys(request.collectives))
    each = n_asked // len(collectives)
    loops = (False, True)[: len(_loops(request))]
    visits: list[list[_Part]] = []
    for visit in range(_PERIOD):
        parts = []
        for number in range(n_asked):
            sizes = rng.permutation(request.sizes_of(collectives[number // each])).tolist()
            pieces = -(-len(sizes) // heat.sizes_a_turn)
            loop = loops[-1] and visit % 3 == 2
            parts += [_Part(number, tuple(sizes[piece::pieces]), loop) for piece in range(pieces)]
        if visit % 6 == 1:
            beside = range(n_asked, n_asked + n_beside)
            parts += [_Part(number, BESIDE_BYTES, loop) for number in beside for loop in loops]
        visits.append([parts[i] for i in rng.permutation(len(parts))])
    return visits
