"""Check which calls the MPI library refuses, to prove that exported rules apply; nothing is timed.

If a rules file names algorithms that do not exist, MPI refuses exactly the calls to which one of its rows
applies. The probe and the library also use collectives to exchange data between ranks or to split a
communicator, and these would be refused as well. So here ranks exchange nothing: each makes the same calls in
the same order, and all ranks refuse a call in the same way, before any message is sent.
"""

import time
from array import array
from typing import Any

from mpi4py import MPI

from autotune.probe.exchange import Pool
from autotune.probe.operations import OPERATIONS
from autotune.probe.protocol import CellSamples, ProbeRequest


def reach(world: MPI.Intracomm, request: ProbeRequest) -> tuple[CellSamples, ...]:
    """Call every collective once at every message size on every communicator size.

    Returns:
        A cell for each call; its status is ``invalid`` if the library refused the call.
    """
    cells: list[CellSamples] = []
    for comm_size in request.comm_sizes or (world.size,):
        comm = _first_ranks(world, comm_size)
        if comm is None:
            continue
        for collective in dict.fromkeys(request.collectives):
            cells += _calls(comm, collective, request.sizes_of(collective))
    return tuple(cells)


def _calls(comm: MPI.Intracomm, collective: str, sizes: tuple[int, ...]) -> list[CellSamples]:
    """Call one collective at each message size; patterns are left out, since no rules apply to them."""
    from autotune.collectives import PATTERNS  # imported here, since launches that measure do not need it

    operation = OPERATIONS[collective]
    if collective in PATTERNS or comm.size < operation.least_ranks:
        return []
    pool = Pool(operation, comm.rank, comm.size, max(sizes))
    cells = []
    for size in sizes:
        exchange = pool.exchange(comm, size, None)
        exchange.prepare()
        call = operation.call(exchange)
        begin, reason = time.perf_counter(), ""
        try:
            call()
        except MPI.Exception as exc:
            reason = exc.Get_error_string()
        samples_s: Any = array("d", [] if reason else [time.perf_counter() - begin])
        cells.append(
            CellSamples(collective, comm.size, size, {}, samples_s, "invalid" if reason else "ok", reason)
        )
    return cells


def _first_ranks(world: MPI.Intracomm, size: int) -> MPI.Intracomm | None:
    """Return a communicator of the first ranks, made without a collective to which the library's rules apply.

    The other ranks get None.
    """
    if size == world.size:
        comm = world
    elif world.rank >= size:
        return None
    else:
        comm = world.Create_group(world.Get_group().Incl(list(range(size))))
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    return comm
