"""Measure the cells of one job of a heat in the job's turns, and return raw samples with the round of each.

A *heat* is a group of jobs that are alive at once on the same cores and measure in turns. A *cell* is one
message size with one choice of algorithm. A turn measures some cells, each for a slice of time: in blocks of
calls as in ``sweep``, or with calls back to back as in ``tight``. All jobs measure the same message sizes in
the same rounds, so that the ratio of two jobs' times compares times that were taken some milliseconds apart.
The first turn checks results and warms up; it is not timed.

While the jobs measure, the only thing that they agree on is when the heat's time is over. So their numbers of
rounds differ by one at most.
"""

from __future__ import annotations

import random
import time
from array import array
from collections.abc import Callable, Sequence
from ctypes import CDLL
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise, repeat
from typing import Any

from mpi4py import MPI

from autotune.errors import StackError
from autotune.measure.rows import mean, median
from autotune.measure.stopping import shuffled
from autotune.probe.exchange import Exchange
from autotune.probe.first_blocks import next_first, pending_cells
from autotune.probe.loops import took
from autotune.probe.mpit import ControlVariables
from autotune.probe.protocol import TIMED_S, CellSamples, Heat, ProbeRequest, TakenOut
from autotune.probe.sweep import BLOCK, WARM_UP, Sweep
from autotune.probe.sweeps import first_ranks, loop_of, wait_idle
from autotune.probe.swept import OK, SweptCell, TimedPart
from autotune.probe.synchronisation import BarrierSynchronisation, Timed
from autotune.probe.turns import Turns

_PERIOD = 24  # Visits of each cell (blocks of calls in one turn) after which the order repeats.
_LEAST_VISITS = 3
"""Least number of visits of each cell, however long they take: two in the loop of the request and one in the
other loop (the interleaved or the tight one)."""
_MOST_CALLS = 5000  # Largest number of calls in a slice, which limits arrays of times to 40 kB.
_WARM_SHARE = 2
"""The first 1/``_WARM_SHARE`` of a slice (a cell's time in one turn) warms up and is not timed.

At 1 MiB, calls from the fifth on take as long as later calls within 1 % (a slice has 9 calls; the first call
takes 2.1 times as long). With UCX that holds only from the 64th call on, after UCX's ring of messages was
used once (at 8 KiB, earlier calls take 1.3 times as long). The table shows by how much the measured ratio of
UCX's time to the default's differs from the ratio in the later half of slices of 3 ms. It has slices of three
lengths, three warm-ups (no call, three calls, half of the slice), and for each of these the sizes 8, 32,
128 KiB and 1 MiB. It is computed from the times of single calls in the tight loop, on two quiet cores of an
AMD EPYC, Open MPI 5.0.11, 57 visits, November 2026:

    slice    0.3 ms                    1 ms                      3 ms
    0 calls  −9.2  −10.1  −9.8  −12.5  −3.0  −3.5  −3.3  −4.4 %  −1.0  −1.2  −1.1  −1.7 %
    3 calls  −10.1  −9.4  −8.5   −0.9  −3.2  −3.2  −2.6  +0.6    −1.1  −1.1  −0.9  +0.1
    a half   +0.7   −3.0  −2.7   +0.5   0.0  −0.2   0.0  +0.5    (the reference)
"""
_PIECES = 8
"""Largest number of samples of a visit in the tight loop, and least number of calls in each sample.

A visit is divided into samples so that a preempted rank disturbs only one of them. In three heats, each
beside some twenty busy processes, the ratio of two jobs at 8 B had a standard deviation of 11 %; with one
sample for each visit, the ratio varied by a factor of ten. At 8 KiB and more, samples of so many calls take
too long for this."""
_LEAST_CALLS = 8
"""Least number of calls in a slice, if so many fit into four slices. Half of them warm up, which is enough at
1 MiB."""
_FALLING, _IN_A_ROW, _MOST_DOUBLINGS = 1.02, 4, 2
"""``_FALLING`` is the ratio of the times of earlier calls to those of later calls above which calls count as
still becoming faster. After ``_IN_A_ROW`` visits in a row with such calls, a cell's slice is doubled, at most
``_MOST_DOUBLINGS`` times. Noise that is as often up as down causes four such visits in a row in 6 % of all
cases, which costs nothing but time. Doublings are limited because turns of 3 ms and more for each size were
preempted beside a busy process."""


@dataclass(frozen=True, slots=True)
class _Visit:
    """One block of calls: the index of its cell, and the round of turns in which it was measured."""

    cell: int
    round: int


@dataclass(slots=True)
class _Slice:
    """The time of one cell in each turn of the tight loop, as rank 0 adapts it."""

    doublings: int = 0  # Number of times that the slice was doubled.
    falls: int = 0  # Visits in a row in which calls were still becoming faster.
    first: int = 0  # Index of the first visit that counts: in earlier visits the slice was too short.

    def learn(self, falling: float, visit: int) -> None:
        """Double the slice if, in several visits in a row, calls became faster until the timed part began.

        ``falling`` is the ratio of the mean time of warm-up calls to the mean time of timed calls in the
        visit with the index ``visit``.
        """
        self.falls = self.falls + 1 if falling > _FALLING else 0
        if self.falls == _IN_A_ROW and self.doublings < _MOST_DOUBLINGS:
            self.doublings, self.falls, self.first = self.doublings + 1, 0, visit + 1


class TightBlocks(BarrierSynchronisation):
    """Times calls back to back: each sample is the mean of several consecutive calls on the slowest rank.

    ``falling`` is the mean time of the warm-up's later calls, divided by that of the timed calls, on this
    rank; 1 means that calls do not become faster. ``call_s`` is the duration of a timed call with its
    barrier, in seconds.
    """

    falling, call_s = 1.0, 0.0

    def block(self, exchange: Exchange, count: int, warm_up: bool = True) -> None:
        """Time a block as ``Synchronisation.block`` describes; with ``warm_up`` its first half is untimed."""
        warm_calls, pieces, self.falling = max(1, count // _WARM_SHARE) if warm_up else 0, 1, 1.0
        if exchange.operation.in_a_row:  # the clock is read before the first call and after the last one
            if warm_calls:
                self.loop.run(exchange, warm_calls, tight=True)
            begins, ends = self.loop.run(exchange, max(1, count - warm_calls), tight=True)
            times = took(begins, ends)
            self.call_s = (ends[-1] - begins[0]) / len(times)
        else:
            begins, ends = self.loop.run(exchange, max(warm_calls + 1, count), tight=True)
            all_times = took(begins, ends)
            times = all_times[warm_calls:]
            pieces = max(1, min(_PIECES, len(times) // _PIECES))
            self.call_s = (ends[-1] - begins[warm_calls]) / len(times)
            if warm_calls >= 2 and (timed_mean_s := mean(times)) > 0:
                self.falling = mean(all_times[warm_calls // 2 : warm_calls]) / timed_mean_s
        share = exchange.operation.share(self._sync.rank)
        edges = [len(times) * i // pieces for i in range(pieces + 1)]
        means = (share * mean(times[begin:end]) for begin, end in pairwise(edges))
        self._blocks.append(array("d", means))


_LOOPS = {"interleaved": BarrierSynchronisation, "tight": TightBlocks}


class HeatSweep(Sweep):
    """One collective on one communicator size, measured by a job that takes turns with others.

    A turn runs the same loop as a launch without other jobs. Its first part is not timed, because caches then
    contain another job's data. In the tight loop this part is the first half of each cell's slice of time, in
    the interleaved loop the first half of the passes over the turn's cells.
    """

    loops: list[BarrierSynchronisation]
    """The loop of the request (interleaved or tight), then the other loop if cells are measured in both."""

    def prepare(self, heat: Heat) -> None:
        """Check each cell's result, warm up, and estimate how long its calls take, before any timed turn.

        As in a launch without other jobs, a choice that was too slow at a smaller message size is left out.
        """
        while pending_cells(self._cells):
            index, hopeless = self.sync.bcast(None if self.sync.rank else next_first(self._cells))
            cell = self._cells[index]
            if hopeless:
                cell.verdict = ("invalid", hopeless)
                continue
            if not cell.started:
                self._check([index])
            if cell.verdict == OK:
                self._learn(index, heat.slice_s / 4)
            cell.started = True
        self._visits: tuple[list[_Visit], list[_Visit]] = ([], [])
        self._slices = [_Slice() for _ in self._cells]
        self._slice_s, self._rng = heat.slice_s, random.Random(f"passes {heat.seed}")  # noqa: S311 - no secret

    def turn(self, sizes: Sequence[int], round_: int, other_loop: bool) -> None:
        """Measure all choices at these message sizes in one turn; every rank of the communicator calls it."""
        indices = [
            index
            for size in sizes
            for index, cell in enumerate(self._cells)
            if cell.message_bytes == size and cell.exchange is not None and cell.verdict == OK
        ]
        synchronisation, visits = self.loops[other_loop], self._visits[other_loop]
        long = {index for index in indices if self._is_long(index)}
        if isinstance(synchronisation, TightBlocks):
            longest_s = self._slice_s * 2**_MOST_DOUBLINGS
            calls = [
                max(
                    _calls(self._cells[index], self._slice_s * 2 ** self._slices[index].doublings),
                    min(_LEAST_CALLS, _calls(self._cells[index], longest_s)),
                )
                for index in indices
            ]
            calls, long = self.sync.bcast((calls, long))
            for index, count in zip(indices, calls, strict=True):
                self._timed_call(index, count, synchronisation, visits, warm_up=index not in long)
                self._cells[index].latest_s = synchronisation.call_s
                self._slices[index].learn(synchronisation.falling, len(visits))
                visits.append(_Visit(index, round_))
            return
        calls = [min(BLOCK, _calls(self._cells[index], self._slice_s)) for index in indices]
        short = [(i, count) for i, count in zip(indices, calls, strict=True) if i not in long]
        pass_s = sum(count * self._cells[i].latest_s for i, count in short)
        passes = max(2, int(len(short) * self._slice_s / max(pass_s, 1e-9)))
        calls, passes, long = self.sync.bcast((calls, passes, long))
        for number in range(passes):
            for place in shuffled(range(len(indices)), self._rng):
                index, count = indices[place], calls[place]
                if index in long and number != passes - 1:
                    continue
                if number < passes // _WARM_SHARE:
                    self._call(index, count, synchronisation.loop.run)
                else:
                    self._timed_call(index, count, synchronisation, visits, warm_up=index not in long)
                    visits.append(_Visit(index, round_))

    def _is_long(self, index: int) -> bool:
        """Return whether a cell's last calls took so long on this rank that the cell needs no warm-up."""
        return self._cells[index].latest_s > self._long_s

    def _timed_call(
        self,
        index: int,
        count: int,
        synchronisation: BarrierSynchronisation,
        visits: list[_Visit],
        *,
        warm_up: bool,
    ) -> None:
        spent_s = self._call(index, count, partial(synchronisation.block, warm_up=warm_up))
        self.timed.add(spent_s)
        if visits is self._visits[0]:
            extra = self._cells[index].extra
            extra[TIMED_S] = extra.get(TIMED_S, 0.0) + spent_s

    def collected(self) -> tuple[CellSamples, ...]:
        """Check the results of short calls again, and return the samples of all turns, complete on rank 0."""
        main_visits, other_visits = self._of_loop(0), self._of_loop(1) if len(self.loops) > 1 else {}
        usable = [i for i, cell in enumerate(self._cells) if cell.exchange is not None]
        self._check(self.sync.bcast([i for i in usable if not self._is_long(i)]))
        samples = []
        for index, cell in enumerate(self._cells):
            for _, timed in main_visits.get(index, []):
                cell.add(timed)
            if visits := [times for _, (times, _) in other_visits.get(index, [])]:
                cell.extra["other_loop_s"] = median(map(median, visits))
                cell.extra["other_loop_mean_s"] = median(map(mean, visits))
            rounds = [repeat(round_, len(times)) for round_, (times, _) in main_visits.get(index, [])]
            # Here this is an ``array``; the program that reads the result gets numpy arrays.
            numbers: Any = array("i", chain.from_iterable(rounds))
            samples_of_cell = cell.samples(self.operation.name, self.sync.size)
            samples.append(replace(samples_of_cell, rounds=numbers))
        return tuple(samples)

    def _of_loop(self, loop: int) -> dict[int, list[tuple[int, Timed]]]:
        """Return, on rank 0, index of a cell → (round, samples) of each of its visits in one of the loops."""
        visits, by_cell = self._visits[loop], dict[int, list[tuple[int, Timed]]]()
        collected = self.loops[loop].collect() if visits else []
        if self.sync.rank == 0:
            adapted = isinstance(self.loops[loop], TightBlocks)
            last = {visit.cell: number for number, visit in enumerate(visits)}
            for number, (visit, timed) in enumerate(zip(visits, collected, strict=True)):
                first = self._slices[visit.cell].first if adapted else 0
                if number >= min(first, last[visit.cell]):
                    by_cell.setdefault(visit.cell, []).append((visit.round, timed))
        return by_cell

    def _call(self, index: int, count: int, run: Callable[[Exchange, int], object]) -> float:
        cell = self._cells[index]
        if cell.exchange is None:
            raise StackError("a cell without a call cannot be timed")
        self._variables.enforce(cell.choice.cvars)
        begin_s = time.perf_counter()
        run(cell.exchange, count)
        spent_s = time.perf_counter() - begin_s
        cell.latest_s = spent_s / count
        return spent_s

    def _learn(self, index: int, enough_s: float) -> None:
        """Estimate the duration of a warm call, by more and more calls until they take ``enough_s``."""
        cell, count = self._cells[index], self.sync.bcast(1 if self._is_long(index) else WARM_UP)
        self._call(index, count, self._synchronisation.loop.run)
        cell.fastest_s = min(cell.fastest_s, cell.latest_s)
        while count := self.sync.bcast(0 if count * cell.latest_s > enough_s else 4 * count):
            if count > _MOST_CALLS:
                break
            self._call(index, count, self._synchronisation.loop.run)
            cell.fastest_s = min(cell.fastest_s, cell.latest_s)


def _calls(cell: SweptCell, slice_s: float) -> int:
    return int(min(max(1.0, slice_s / max(cell.latest_s, 1e-9)), _MOST_CALLS))


@dataclass(frozen=True, slots=True)
class _Part:
    sweep: int
    sizes: tuple[int, ...]
    other_loop: bool = False


def measure_heat(
    world: MPI.Intracomm, request: ProbeRequest, heat: Heat, kernel: CDLL | None, variables: ControlVariables
) -> tuple[list[CellSamples], list[CellSamples], TimedPart, dict[str, TakenOut]]:
    """Take this job's turns in a heat.

    Returns:
        The samples of the request's own cells and of the operations of ``ProbeRequest.beside``, both complete
        on rank 0; when timed calls began and how long they took; each job that was taken out → the reason.

    Raises:
        StackError: If this job cannot take part, or was taken out.
    """
    if request.sync != "barrier":
        raise StackError("a heat needs probe.sync=barrier", "windows need clocks that a turn has no time for")
    turns = Turns(world, kernel, heat)
    turn = turns.wait()
    request_sweeps = _sweeps(world, request, kernel, variables)
    other_requests = request.other_calls(world.size)
    other_sweeps = [
        sweep
        for other_request in other_requests
        for sweep in _sweeps(world, other_request, kernel, variables)
    ]
    sweeps = [*request_sweeps, *other_sweeps]
    for sweep in sweeps:
        if sweep is not None:
            sweep.prepare(heat)
        wait_idle(world)
    visits = _plan(
        request,
        len(request_sweeps),
        [other_request.sizes_of(other_request.collectives[0]) for other_request in other_requests],
        heat,
    )
    plan, least_rounds = list(chain.from_iterable(visits)), sum(map(len, visits[:_LEAST_VISITS]))
    turns.leave(turn, last=False)
    round_, last = 0, False
    while not last:
        turn = turns.wait()
        last = bool(world.bcast(turns.over and round_ + 1 >= least_rounds))
        part = plan[round_ % len(plan)]
        if (sweep := sweeps[part.sweep]) is not None:
            sweep.turn(part.sizes, round_, part.other_loop)
        world.Barrier()
        turns.leave(turn, last)
        round_ += 1
    taken_out = turns.close()
    cells: list[list[CellSamples]] = [[], []]
    for number, sweep in enumerate(sweeps):
        cells[number >= len(request_sweeps)] += sweep.collected() if sweep is not None else ()
        wait_idle(world)
    for sweep in sweeps:
        if sweep is not None:
            sweep.close()
            sweep.sync.Free()
    timed = TimedPart.together(sweep.timed for sweep in sweeps if sweep is not None)
    return cells[0], cells[1], timed, taken_out


def _sweeps(
    world: MPI.Intracomm, request: ProbeRequest, kernel: CDLL | None, variables: ControlVariables
) -> list[HeatSweep | None]:
    """Create a sweep for each collective and communicator size; None if the communicator lacks this rank."""
    sweeps: list[HeatSweep | None] = []
    for collective in dict.fromkeys(request.collectives):
        for size in request.comm_sizes or (world.size,):
            if (comm := first_ranks(world, size)) is None:
                sweeps.append(None)
                continue
            loops = [_LOOPS[loop](comm, loop_of(comm, kernel)) for loop in _loops(request)]
            sweep = HeatSweep(request, collective, comm, loops[0], variables)
            sweep.loops = loops
            sweeps.append(sweep)
    return sweeps


def _loops(request: ProbeRequest) -> tuple[str, ...]:
    return tuple(filter(None, (request.loop, request.other_loop)))


def _plan(
    request: ProbeRequest, n_own: int, other_sizes: Sequence[tuple[int, ...]], heat: Heat
) -> list[list[_Part]]:
    """Return a list for each visit of all cells: the parts that single turns measure, in random order.

    In one of three visits the cells are measured in the other loop. The operations of
    ``ProbeRequest.beside``, with the sizes ``other_sizes``, are measured in one of six visits, alternately in
    the two loops: five such operations at three sizes take a fifth of a heat's time if the request has nine
    message sizes. ``n_own`` is the number of sweeps for the request's own collectives.
    """
    rng = random.Random(f"sizes {heat.seed}")  # noqa: S311 - the order of measurements is no secret
    collectives = tuple(dict.fromkeys(request.collectives))
    n_comm_sizes = n_own // len(collectives)
    loops = (False, True)[: len(_loops(request))]
    visits: list[list[_Part]] = []
    for visit in range(_PERIOD):
        parts = []
        for number in range(n_own):
            sizes = shuffled(request.sizes_of(collectives[number // n_comm_sizes]), rng)
            pieces = -(-len(sizes) // heat.sizes_a_turn)
            loop = loops[-1] and visit % 3 == 2
            parts += [_Part(number, tuple(sizes[piece::pieces]), loop) for piece in range(pieces)]
        if visit % 6 == 1:
            tight = loops[-1] and visit % 12 > 6
            parts += [_Part(number, sizes, tight) for number, sizes in enumerate(other_sizes, start=n_own)]
        visits.append(shuffled(parts, rng))
    return visits
