"""The timed loop in C: built once with the MPI library's own compiler, called through ctypes.

mpi4py adds about half a microsecond to a call, several times what a small collective takes over shared
memory. The source is compiled with the ``mpicc`` beside the library which this process has loaded,
kept in the user's cache directory under a name made of source, library and its version, and refused unless it
is bound to that very library and nobody else can have written it.

One rank of each node compiles, under a lock; the others wait for it.
"""

import ctypes
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from autotune.collectives import MEASURED
from autotune.errors import StackError
from autotune.probe.compiling import compiled
from autotune.probe.exchange import Exchange
from autotune.probe.loops import Times, partners
from autotune.probe.messages import WINDOW
from autotune.probe.mpit import library_of
from autotune.probe.own_files import opened_own

_LIBRARYS_OWN, _IN_A_ROW = -1, -2  # Rounds of a barrier that is ``MPI_Barrier``, as in kernel.c.


class _Exchange(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int) for name in ("operation", "rank", "size", "count")),
        *((name, ctypes.c_void_p) for name in ("send", "recv", "counts", "places")),
        *((name, ctypes.c_void_p) for name in ("comm", "datatype", "sum", "window", "peers")),
        ("n_peers", ctypes.c_int),
        ("bytes", ctypes.c_size_t),
        ("compute_s", ctypes.c_double),
    )


class _Barrier(ctypes.Structure):
    _fields_ = (
        ("comm", ctypes.c_void_p),
        ("rounds", ctypes.c_int),
        ("tell", ctypes.c_void_p),
        ("hear", ctypes.c_void_p),
    )


class NativeLoop:
    """Calls from a loop in C."""

    name = "native"
    wait_s = 1e-6

    def __init__(self, sync: MPI.Intracomm, kernel: ctypes.CDLL) -> None:
        """Prepare the barrier, on a communicator of the ranks that are measured."""
        self._sync, self._kernel = sync, kernel
        pairs = np.array(partners(sync.rank, sync.size), np.int32).reshape(-1, 2)
        self._tell, self._hear = pairs[:, 0].copy(), pairs[:, 1].copy()
        self._barrier = _Barrier(
            MPI._addressof(sync), len(pairs), self._tell.ctypes.data, self._hear.ctypes.data
        )
        self._bound: dict[int, tuple[_Exchange, Exchange, NDArray[np.int32]]] = {}

    def run(
        self, exchange: Exchange, calls: int, starts_s: Times | None = None, tight: bool = False
    ) -> tuple[Times, Times]:
        """As in ``Loop``."""
        barrier = self._barrier
        if tight:
            rounds = _IN_A_ROW if exchange.operation.in_a_row else _LIBRARYS_OWN
            barrier = _Barrier(MPI._addressof(exchange.comm), rounds, None, None)
        return self._timed(
            calls,
            self._kernel.autotune_time,
            ctypes.byref(self._bind(exchange)),
            ctypes.byref(barrier),
            ctypes.c_void_p(None if starts_s is None else starts_s.ctypes.data),
        )

    def run_nothing(self, calls: int) -> tuple[Times, Times]:
        """The same without a call between the two readings of the clock."""
        return self._timed(calls, self._kernel.autotune_time_nothing, ctypes.byref(self._barrier))

    def _timed(self, calls: int, function: Any, *arguments: Any) -> tuple[Times, Times]:
        begins, ends = np.empty(calls), np.empty(calls)
        code = function(
            *arguments,
            ctypes.c_int(calls),
            ctypes.c_void_p(begins.ctypes.data),
            ctypes.c_void_p(ends.ctypes.data),
        )
        if code != MPI.SUCCESS:
            raise MPI.Exception(code)
        return begins, ends

    def _bind(self, exchange: Exchange) -> _Exchange:
        """The exchange as the kernel takes it, made once; what it points to is kept with it."""
        known = self._bound.get(id(exchange))
        if known is None:
            comm, n = exchange.comm, exchange.elements
            peers = exchange.operation.peers(comm.rank, comm.size)
            blocks = max(comm.size, len(peers))
            rows = (
                [n] * blocks,
                [n * place for place in range(blocks)],
                [*peers, *[0] * (blocks - len(peers))],
            )
            lists = np.array(rows, np.int32)
            bound = _Exchange(
                MEASURED.index(exchange.operation.name),
                comm.rank,
                comm.size,
                n,
                exchange.send.ctypes.data,
                exchange.recv.ctypes.data,
                lists[0].ctypes.data,
                lists[1].ctypes.data,
                MPI._addressof(comm),
                MPI._addressof(exchange.datatype),
                MPI._addressof(exchange.sum),
                MPI._addressof(exchange.window) if exchange.window is not None else None,
                lists[2].ctypes.data,
                len(peers),
                n * exchange.send.itemsize,
                exchange.compute_s,
            )
            known = self._bound[id(exchange)] = (bound, exchange, lists)
        return known[0]


def load(world: MPI.Intracomm, library: Path, fallback: Path) -> ctypes.CDLL:
    """The kernel, compiled on each node if it is not there yet; on every rank alike.

    It is kept in the fallback directory where the user's cache cannot be written.

    Raises:
        StackError: no compiler, it failed, or it belongs to another MPI; on all ranks if on any.
    """
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    path, problem = "", ""
    if node.rank == 0:
        try:
            version, search = MPI.Get_library_version(), [os.environ.get("PATH", "")]
            path = str(compiled("kernel", [source()], library, search, fallback, version=version))
        except StackError as exc:
            problem = exc.message
    path, problem = node.bcast((path, problem))
    node.Free()
    kernel = None
    if not problem:
        try:
            kernel = _bound_to(library, path)
        except (StackError, OSError) as exc:
            problem = str(exc)
    for rank, theirs in enumerate(world.allgather(problem)):
        if theirs:
            raise StackError(f"rank {rank}: {theirs}")
    if kernel is None:
        raise StackError("no kernel")  # not reached: a rank without one has a problem
    return kernel


def source() -> str:
    """The kernel's source with the operations numbered as in ``collectives.MEASURED``."""
    numbered = ", ".join(f"OP_{name.upper()}" for name in MEASURED)
    parts = (files("autotune.probe").joinpath(name) for name in ("kernel.c", "turns.c"))
    head = f"#define _GNU_SOURCE\nenum operation {{ {numbered} }};\nenum {{ WINDOW = {WINDOW} }};\n"
    return head + "".join(part.read_text(encoding="utf-8") for part in parts)


def _bound_to(library: Path, path: str) -> ctypes.CDLL:
    """The kernel, loaded, if it calls this library and no other."""
    with opened_own(Path(path)) as descriptor:  # what was looked at is what is loaded
        kernel = ctypes.CDLL(f"/proc/self/fd/{descriptor}")
    kernel.autotune_library.restype = ctypes.c_void_p
    bound = library_of(kernel.autotune_library())
    if bound != library:
        raise StackError(f"the compiler found belongs to {bound}, loaded is {library}")
    return kernel
