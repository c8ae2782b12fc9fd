"""All sweeps of a launch: how they share its time (step 6 of the flow).

First each cell of every collective and communicator size is called once under the clock, then what time is
left goes to rounds. No collective uses up what others need: it has its share of what is left, with its checks
and warm-up, and hands on what it leaves.
"""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from ctypes import CDLL
from dataclasses import replace
from typing import Any

import numpy as np
from mpi4py import MPI

from autotune.probe.cores import Cores
from autotune.probe.exchange import Memory
from autotune.probe.loops import Loop, PythonLoop
from autotune.probe.mpit import ControlVariables
from autotune.probe.native import NativeLoop
from autotune.probe.operations import OPERATIONS
from autotune.probe.protocol import NOT_TIMED, OTHER_SHARE, CellSamples, ProbeRequest
from autotune.probe.steadiness import Steadiness
from autotune.probe.sweep import MOST_BYTES, Sweep
from autotune.probe.swept import NEVER_TIMED
from autotune.probe.synchronisation import BarrierSynchronisation, Synchronisation, WindowSynchronisation
from autotune.probe.tight import TightSweep

_SWEEPS: Mapping[str, type[Sweep]] = {"interleaved": Sweep, "tight": TightSweep}


def sweeps(
    world: MPI.Intracomm,
    request: ProbeRequest,
    kernel: CDLL | None,
    variables: ControlVariables,
    steadiness: Steadiness,
    first_s: float | None = None,
) -> tuple[list[CellSamples], list[str]]:
    """All sweeps, sharing the time; and what there is to say of them.

    Each collective on each communicator size has its share of the whole time, with checks and warm-up; what
    one leaves the next ones share. All first blocks come before all others; where ``first_s`` is given they
    have that time beside the budget.
    """
    rng, cells, notes = np.random.default_rng(request.seed), list[CellSamples](), list[str]()
    time_left = _TimeLeft(request.budget_s if first_s is None else first_s, steadiness)
    made = _begun(world, request, kernel, variables, steadiness, time_left)
    said, reason = _untimed(world, [sweep for sweep in made if sweep], request.budget_s, time_left.spent_s)
    if first_s is not None:
        time_left = _TimeLeft(request.budget_s, steadiness)
    for number, sweep in enumerate(made):
        if sweep is not None:
            share_s = time_left.share_s(len(made) - number)
            found = sweep.finish(share_s, rng, reason)
            sweep.close()
            notes += filter(None, [sweep.note])
            if request.other_loop:
                begin_s, other = time_left.spent_s, request.other_loop
                again = _sweep(other, request, sweep.operation, sweep.sync, kernel, variables, steadiness)
                found = _beside(found, again.measure(share_s * OTHER_SHARE, rng))
                again.close()
                time_left.add(time_left.spent_s - begin_s)  # it has a time of its own, on top
            cells += found
            sweep.sync.Free()
        wait_idle(world)
    return cells, [*notes, *filter(None, [said])]


class _TimeLeft:
    """The rest of a time, on a clock that stands while cores are waited for."""

    def __init__(self, budget_s: float, steadiness: Steadiness) -> None:
        self._steadiness, self._begin_s, self._budget_s = steadiness, self._now_s(steadiness), budget_s

    @property
    def spent_s(self) -> float:
        """Seconds since it began."""
        return self._now_s(self._steadiness) - self._begin_s

    def share_s(self, parts: int) -> float:
        """Seconds of one of so many parts of what is left."""
        return max(0.0, self._budget_s - self.spent_s) / parts

    def add(self, seconds: float) -> None:
        """Lengthen it."""
        self._budget_s += seconds

    @staticmethod
    def _now_s(steadiness: Steadiness) -> float:
        return time.perf_counter() - steadiness.lost_s


def _begun(
    world: MPI.Intracomm,
    request: ProbeRequest,
    kernel: CDLL | None,
    variables: ControlVariables,
    steadiness: Steadiness,
    time_left: _TimeLeft,
) -> list[Sweep | None]:
    """All sweeps with their first blocks, as far as the time reaches; None where this rank has no part."""
    sizes = request.comm_sizes or (world.size,)
    tasks = [(collective, size) for collective in dict.fromkeys(request.collectives) for size in sizes]
    memory, sweeps = _memory_of(request, world.rank, tasks), list[Sweep | None]()
    for number, (collective, size) in enumerate(tasks):
        sync = world.Split(0 if world.rank < size else MPI.UNDEFINED, world.rank)
        sweep, share_s = None, time_left.share_s(len(tasks) - number)
        if isinstance(sync, MPI.Intracomm) and sync != MPI.COMM_NULL:
            begin_s = time_left.spent_s
            sweep = _sweep(request.loop, request, collective, sync, kernel, variables, steadiness, memory)
            sweep.begin(share_s - (time_left.spent_s - begin_s))
        sweeps.append(sweep)
        wait_idle(world)
    while left := world.bcast([i for i, sweep in enumerate(sweeps) if sweep is not None and sweep.waiting]):
        if not world.bcast(time_left.share_s(1)):
            break
        for number, i in enumerate(left):
            if (sweep := sweeps[i]) is not None:
                sweep.begin(time_left.share_s(len(left) - number))
            wait_idle(world)
    return sweeps


def _sweep(
    loop: str,
    request: ProbeRequest,
    collective: str,
    sync: MPI.Intracomm,
    kernel: CDLL | None,
    variables: ControlVariables,
    steadiness: Steadiness,
    memory: Memory | None = None,
) -> Sweep:
    cores = Cores(sync, kernel, steadiness) if kernel else None
    way = _synchronisation(request, sync, kernel)
    return _SWEEPS[loop](request, collective, sync, way, variables, steadiness, cores, memory)


def _memory_of(request: ProbeRequest, rank: int, tasks: Sequence[tuple[str, int]]) -> Memory | None:
    """Buffers for whichever sweep needs most; None: there is no room, and each sees for itself."""
    known = [(OPERATIONS[name], rank, size, max(request.sizes_of(name))) for name, size in tasks]
    try:
        return Memory(one for one in known if rank < one[2] and one[2] * one[3] <= MOST_BYTES)
    except (OSError, MemoryError):
        return None


def _untimed(
    world: MPI.Intracomm, sweeps: Sequence[Sweep], budget_s: float, spent_s: float
) -> tuple[str, str]:
    """A sentence on the cells without a first block, empty where all have one, and the reason of each.

    Rank 0 knows: it has its part in every sweep.
    """
    waiting = Counter[str]()
    for sweep in sweeps:
        waiting[sweep.operation] += sweep.waiting
    said, reason = "", NEVER_TIMED
    if world.rank == 0 and (untimed := waiting.total()):
        needed_s = _rounded_up(spent_s + sum(sweep.needed_s(sweeps) for sweep in sweeps))
        names = ", ".join(f"{name} {count}" for name, count in waiting.items() if count)
        reason = f"{NEVER_TIMED}: about probe.budget_s={needed_s:g} would do"
        said = f"{untimed} of {sum(sweep.cells for sweep in sweeps)} {NOT_TIMED} ({names}): "
        said += f"probe.budget_s={budget_s:g} is too short for a call of each; about {needed_s:g} would do"
    sentence, why = world.bcast((said, reason))
    return str(sentence), str(why)


def _beside(cells: Sequence[CellSamples], others: Sequence[CellSamples]) -> tuple[CellSamples, ...]:
    """The cells, each with the location of the same one in the other loop, where there is any."""
    return tuple(
        replace(cell, extra={**cell.extra, "other_loop_s": float(np.median(other.valid_s))})
        if other.status == "ok" and len(other.valid_s)
        else cell
        for cell, other in zip(cells, others, strict=True)
    )


def loop_of(sync: MPI.Intracomm, kernel: CDLL | None) -> Loop:
    """The loop in C, or through mpi4py where there is no kernel."""
    return PythonLoop(sync) if kernel is None else NativeLoop(sync, kernel)


def _synchronisation(request: ProbeRequest, sync: MPI.Intracomm, kernel: CDLL | None) -> Synchronisation[Any]:
    way = WindowSynchronisation if request.sync == "window" else BarrierSynchronisation
    return way(sync, loop_of(sync, kernel))


def wait_idle(world: MPI.Comm) -> None:
    """Meet all ranks; those that come early sleep, to leave memory and cores to those that measure."""
    meeting = world.Ibarrier()
    while not meeting.Test():
        time.sleep(1e-3)


def _rounded_up(seconds: float) -> float:
    """The next larger number of two digits: an estimate claims no more."""
    if not 0 < seconds < math.inf:
        return seconds
    step: float = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return float(f"{math.ceil(seconds / step) * step:.3g}")
