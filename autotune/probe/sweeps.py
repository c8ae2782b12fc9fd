"""Run all sweeps of a launch, and share its time among them (step 6 of the data flow: the probe).

A *sweep* is the measurement of all cells of one collective and communicator size; a *cell* is one message
size with one choice, such as an algorithm. First each cell of every sweep is timed once, then rounds of
blocks of calls use the remaining time. No collective uses up the time of others: each has its share of the
remaining time, including its checks and warm-up, and leaves unused time to the next ones.
"""

import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from ctypes import CDLL
from dataclasses import replace
from typing import Any

from mpi4py import MPI

from autotune.measure.rows import mean, median
from autotune.probe.exchange import Memory
from autotune.probe.loops import Loop, PythonLoop
from autotune.probe.mpit import ControlVariables
from autotune.probe.native import NativeLoop
from autotune.probe.operations import OPERATIONS
from autotune.probe.protocol import NOT_TIMED, OTHER_SHARE, CellSamples, ProbeRequest
from autotune.probe.sweep import MOST_BYTES, Sweep
from autotune.probe.swept import NEVER_TIMED, TimedPart
from autotune.probe.synchronisation import BarrierSynchronisation, Synchronisation
from autotune.probe.tight import TightSweep

_SWEEPS: Mapping[str, type[Sweep]] = {"interleaved": Sweep, "tight": TightSweep}


def sweeps(
    world: MPI.Intracomm,
    request: ProbeRequest,
    kernel: CDLL | None,
    variables: ControlVariables,
    first_s: float | None = None,
) -> tuple[list[CellSamples], list[str], TimedPart]:
    """Run all sweeps, and return their samples, notes for the user, and when and how long calls were timed.

    Each sweep has its share of the whole time, with checks and warm-up; the next ones share the time that it
    leaves. All cells have their first block of calls before any cell has its second block. If ``first_s`` is
    given, the first blocks may take so many seconds in addition to the budget.
    """
    rng = random.Random(request.seed)  # noqa: S311 - the order of calls is no secret
    cells, notes, timed = list[CellSamples](), list[str](), list[TimedPart]()
    time_left = _TimeLeft(request.budget_s if first_s is None else first_s)
    all_sweeps = _begin_all(world, request, kernel, variables, time_left)
    untimed_note, reason = _untimed(
        world, [sweep for sweep in all_sweeps if sweep], request.budget_s, time_left.spent_s
    )
    if first_s is not None:
        time_left = _TimeLeft(request.budget_s)
    for number, sweep in enumerate(all_sweeps):
        if sweep is not None:
            share_s = time_left.share_s(len(all_sweeps) - number)
            samples = sweep.finish(share_s, rng, reason)
            sweep.close()
            timed.append(sweep.timed)
            notes += filter(None, [sweep.note])
            if request.other_loop:
                begin_s, other_loop = time_left.spent_s, request.other_loop
                other_sweep = _sweep(other_loop, request, sweep.operation.name, sweep.sync, kernel, variables)
                samples = tuple(_with_other_loop(samples, other_sweep.measure(share_s * OTHER_SHARE, rng)))
                other_sweep.close()
                timed.append(other_sweep.timed)
                time_left.add(time_left.spent_s - begin_s)  # time for the other loop is on top of the budget
            cells += samples
            sweep.sync.Free()
        wait_idle(world)
    return cells, [*notes, *filter(None, [untimed_note])], TimedPart.together(timed)


class _TimeLeft:
    """The remaining part of a budget, in seconds."""

    def __init__(self, budget_s: float) -> None:
        self._begin_s, self._budget_s = time.perf_counter(), budget_s

    @property
    def spent_s(self) -> float:
        return time.perf_counter() - self._begin_s

    def share_s(self, parts: int) -> float:
        return max(0.0, self._budget_s - self.spent_s) / parts

    def add(self, seconds: float) -> None:
        self._budget_s += seconds


def _begin_all(
    world: MPI.Intracomm,
    request: ProbeRequest,
    kernel: CDLL | None,
    variables: ControlVariables,
    time_left: _TimeLeft,
) -> list[Sweep | None]:
    """Create all sweeps and time the first blocks of their cells within the budget.

    A sweep is None if this rank is not in its communicator.
    """
    sizes = request.comm_sizes or (world.size,)
    tasks = [(collective, size) for collective in dict.fromkeys(request.collectives) for size in sizes]
    memory, sweeps = _memory_of(request, world.rank, tasks), list[Sweep | None]()
    for number, (collective, size) in enumerate(tasks):
        sweep, share_s = None, time_left.share_s(len(tasks) - number)
        if (sync := first_ranks(world, size)) is not None:
            begin_s = time_left.spent_s
            sweep = _sweep(request.loop, request, collective, sync, kernel, variables, memory)
            sweep.begin(share_s - (time_left.spent_s - begin_s))
        sweeps.append(sweep)
        wait_idle(world)
    while pending := world.bcast(
        [i for i, sweep in enumerate(sweeps) if sweep is not None and sweep.n_pending]
    ):
        if not world.bcast(time_left.share_s(1)):
            break
        for number, i in enumerate(pending):
            if (sweep := sweeps[i]) is not None:
                sweep.begin(time_left.share_s(len(pending) - number))
            wait_idle(world)
    return sweeps


def _sweep(
    loop: str,
    request: ProbeRequest,
    collective: str,
    sync: MPI.Intracomm,
    kernel: CDLL | None,
    variables: ControlVariables,
    memory: Memory | None = None,
) -> Sweep:
    way = _synchronisation(request, sync, kernel)
    return _SWEEPS[loop](request, collective, sync, way, variables, memory)


def _memory_of(request: ProbeRequest, rank: int, tasks: Sequence[tuple[str, int]]) -> Memory | None:
    """Return buffers for all sweeps; None if memory is short: then each sweep allocates its own."""
    pools = [(OPERATIONS[name], rank, size, max(request.sizes_of(name))) for name, size in tasks]
    try:
        return Memory(pool for pool in pools if rank < pool[2] and pool[2] * pool[3] <= MOST_BYTES)
    except (OSError, MemoryError):
        return None


def _untimed(
    world: MPI.Intracomm, sweeps: Sequence[Sweep], budget_s: float, spent_s: float
) -> tuple[str, str]:
    """Return a note for the user about cells without a first block, and the reason that each such cell gets.

    The note is empty if there are no such cells. Both texts come from rank 0, which is in every sweep.
    """
    pending = Counter[str]()
    for sweep in sweeps:
        pending[sweep.operation.name] += sweep.n_pending
    note, reason = "", NEVER_TIMED
    if world.rank == 0 and (untimed := pending.total()):
        needed_s = _rounded_up(spent_s + sum(sweep.needed_s(sweeps) for sweep in sweeps))
        names = ", ".join(f"{name} {count}" for name, count in pending.items() if count)
        reason = f"{NEVER_TIMED}: about probe.budget_s={needed_s:g} would do"
        note = f"{untimed} of {sum(sweep.cells for sweep in sweeps)} {NOT_TIMED} ({names}): "
        note += f"probe.budget_s={budget_s:g} is too short for a call of each; about {needed_s:g} would do"
    common_note, cell_reason = world.bcast((note, reason))
    return str(common_note), str(cell_reason)


def _with_other_loop(
    cells: Sequence[CellSamples], other_cells: Sequence[CellSamples]
) -> Iterator[CellSamples]:
    """Yield each cell, with the median and mean of its times in the other loop if it has any."""
    for cell, other_cell in zip(cells, other_cells, strict=True):
        times: Any = other_cell.samples_s
        if other_cell.status == "ok" and len(times):
            extra = {**cell.extra, "other_loop_s": median(times), "other_loop_mean_s": mean(times)}
            cell = replace(cell, extra=extra)
        yield cell


def loop_of(sync: MPI.Intracomm, kernel: CDLL | None) -> Loop:
    """Return the timing loop in C, or the one through mpi4py if there is no kernel."""
    return PythonLoop(sync) if kernel is None else NativeLoop(sync, kernel)


def _synchronisation(request: ProbeRequest, sync: MPI.Intracomm, kernel: CDLL | None) -> Synchronisation[Any]:
    if request.sync != "window":
        return BarrierSynchronisation(sync, loop_of(sync, kernel))
    from autotune.probe.window import WindowSynchronisation  # imported here, since few launches use it

    return WindowSynchronisation(sync, loop_of(sync, kernel))


def first_ranks(world: MPI.Intracomm, size: int) -> MPI.Intracomm | None:
    """Return a communicator of the first ranks, None on all others; all ranks must call this together."""
    comm = world.Split(0 if world.rank < size else MPI.UNDEFINED, world.rank)
    return comm if isinstance(comm, MPI.Intracomm) and comm != MPI.COMM_NULL else None


def wait_idle(world: MPI.Comm) -> None:
    """Wait for all ranks; early ranks sleep, to leave memory bandwidth and cores to those that measure."""
    meeting = world.Ibarrier()
    while not meeting.Test():
        time.sleep(1e-3)


def _rounded_up(seconds: float) -> float:
    if not 0 < seconds < math.inf:
        return seconds
    step: float = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return float(f"{math.ceil(seconds / step) * step:.3g}")
