"""Which calls the library refuses: each called once, nothing timed (the proof of exported rules).

Under rules whose algorithms do not exist MPI refuses exactly the calls that reach a row. What the probe and
the library do by collectives themselves, to agree on anything or to split a communicator, would be refused
with them; so here ranks agree on nothing: each makes the same calls in the same order, and a refusal comes
before any message, on all ranks alike.
"""

import time

import numpy as np
from mpi4py import MPI

from autotune.collectives import PATTERNS
from autotune.probe.exchange import Pool
from autotune.probe.operations import OPERATIONS
from autotune.probe.protocol import CellSamples, ProbeRequest


def reach(world: MPI.Intracomm, request: ProbeRequest) -> tuple[CellSamples, ...]:
    """Every collective at every size on every communicator, with one sample, or refused as ``invalid``."""
    cells: list[CellSamples] = []
    for comm_size in request.comm_sizes or (world.size,):
        comm = _first(world, comm_size)
        if comm is None:
            continue
        for collective in dict.fromkeys(request.collectives):
            cells += _calls(comm, collective, request.sizes_of(collective))
    return tuple(cells)


def _calls(comm: MPI.Intracomm, collective: str, sizes: tuple[int, ...]) -> list[CellSamples]:
    """One collective at its sizes; patterns obey no rules and are left out."""
    operation = OPERATIONS[collective]
    if collective in PATTERNS or comm.size < operation.least_ranks:
        return []
    pool = Pool(operation, comm.rank, comm.size, max(sizes))
    cells = []
    for size in sizes:
        exchange = pool.exchange(comm, size, None)
        exchange.prepare()
        call = operation.call(exchange)
        begun, reason = time.perf_counter(), ""
        try:
            call()
        except MPI.Exception as exc:
            reason = exc.Get_error_string()
        taken = np.array([] if reason else [time.perf_counter() - begun])
        cells.append(
            CellSamples(collective, comm.size, size, {}, taken, "invalid" if reason else "ok", reason)
        )
    return cells


def _first(world: MPI.Intracomm, size: int) -> MPI.Intracomm | None:
    """The first ranks of the world; None on the others. Made without a collective of the library's rules."""
    if size == world.size:
        comm = world
    elif world.rank >= size:
        return None
    else:
        comm = world.Create_group(world.Get_group().Incl(list(range(size))))
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    return comm
