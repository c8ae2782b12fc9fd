"""The timing loop in C (the *kernel*): built once with the MPI library's own compiler, called through ctypes.

mpi4py adds about half a microsecond to a call, several times the duration of a small collective over shared
memory. The source is compiled with the ``mpicc`` that is installed next to the MPI library that this process
has loaded. The compiled kernel is saved in the user's cache directory under a name derived from the source,
the MPI library and its version. A saved kernel is refused unless it calls that very library and nobody else
can have written the file.

One rank of each node compiles, under a lock; the others wait until it is done.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from pathlib import Path
from typing import Any

from mpi4py import MPI

from autotune.errors import StackError
from autotune.probe.exchange import Exchange, address
from autotune.probe.loops import Times, partners
from autotune.probe.messages import WINDOW
from autotune.probe.mpit import library_of
from autotune.probe.operations import OPERATIONS
from autotune.probe.own_files import opened_own

_NUMBERS = {name: number for number, name in enumerate(OPERATIONS)}
_LIBRARYS_OWN, _IN_A_ROW = -1, -2
"""Numbers of rounds that, in kernel.c, mean ``MPI_Barrier`` instead of our own barrier: before each call, or
only before the first call."""


class _Exchange(ctypes.Structure):
    """The C struct of an exchange (a call with its buffers), as in kernel.c."""

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
    """Makes and times calls from a loop in C."""

    name = "native"
    wait_s = 1e-6

    def __init__(self, sync: MPI.Intracomm, kernel: ctypes.CDLL) -> None:
        self._sync, self._kernel = sync, kernel
        pairs = partners(sync.rank, sync.size)
        self._tell, self._hear = (array("i", [pair[side] for pair in pairs]) for side in (0, 1))
        self._barrier = _Barrier(MPI._addressof(sync), len(pairs), address(self._tell), address(self._hear))
        self._bound: dict[int, tuple[_Exchange, Exchange, list[array[int]]]] = {}

    def run(
        self, exchange: Exchange, calls: int, starts_s: Times | None = None, tight: bool = False
    ) -> tuple[Times, Times]:
        """Time calls as ``Loop.run`` describes."""
        barrier = self._barrier
        if tight:
            rounds = _IN_A_ROW if exchange.operation.in_a_row else _LIBRARYS_OWN
            barrier = _Barrier(MPI._addressof(exchange.comm), rounds, None, None)
        return self._timed(
            calls,
            self._kernel.autotune_time,
            ctypes.byref(self._bind(exchange)),
            ctypes.byref(barrier),
            ctypes.c_void_p(None if starts_s is None else address(starts_s)),
        )

    def run_nothing(self, calls: int) -> tuple[Times, Times]:
        """Time the loop itself, without a call between the two readings of the clock."""
        return self._timed(calls, self._kernel.autotune_time_nothing, ctypes.byref(self._barrier))

    def _timed(self, calls: int, function: Any, *arguments: Any) -> tuple[Times, Times]:
        """Run a loop of the kernel, and return when each call began and ended."""
        begins, ends = (array("d", bytes(8 * calls)) for _ in range(2))
        code = function(
            *arguments, ctypes.c_int(calls), ctypes.c_void_p(address(begins)), ctypes.c_void_p(address(ends))
        )
        if code != MPI.SUCCESS:
            raise MPI.Exception(code)
        return begins, ends

    def _bind(self, exchange: Exchange) -> _Exchange:
        """Return the C struct of an exchange, created once and stored with the memory that it points to."""
        entry = self._bound.get(id(exchange))
        if entry is None:
            comm, n = exchange.comm, exchange.elements
            peers = exchange.operation.peers(comm.rank, comm.size)
            blocks = max(comm.size, len(peers))
            lists = [
                array("i", [n] * blocks),
                array("i", range(0, n * blocks, n) if n else [0] * blocks),
                array("i", peers),
            ]
            bound = _Exchange(
                _NUMBERS[exchange.operation.name],
                comm.rank,
                comm.size,
                n,
                address(exchange.send),
                address(exchange.recv),
                address(lists[0]),
                address(lists[1]),
                MPI._addressof(comm),
                MPI._addressof(exchange.datatype),
                MPI._addressof(exchange.sum),
                MPI._addressof(exchange.window) if exchange.window is not None else None,
                address(lists[2]),
                len(peers),
                n * exchange.send.itemsize,
                exchange.compute_s,
            )
            entry = self._bound[id(exchange)] = (bound, exchange, lists)
        return entry[0]


def load(world: MPI.Intracomm, library: Path, fallback: Path) -> ctypes.CDLL:
    """Return the kernel (the timing loop in C), compiled first if needed; all ranks must call this together.

    ``library`` is the MPI library that this process has loaded. The kernel is saved in the directory
    ``fallback`` if the user's cache cannot be written.

    Raises:
        StackError: If there is no compiler, it fails, or it belongs to another MPI. All ranks raise it.
    """
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    path, problem = "", ""
    if node.rank == 0:
        from autotune.probe.compiling import compiled  # imported here, since the other ranks do not compile

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
    for rank, reason in enumerate(world.allgather(problem)):
        if reason:
            raise StackError(f"rank {rank}: {reason}")
    if kernel is None:
        raise StackError("no kernel")  # not reached: a rank without a kernel has a problem
    return kernel


def source() -> str:
    """Return the kernel's source with the operations numbered as in ``OPERATIONS``."""
    numbered = ", ".join(f"OP_{name.upper()}" for name in OPERATIONS)
    parts = (Path(__file__).with_name(name) for name in ("kernel.c", "turns.c"))
    head = f"#define _GNU_SOURCE\nenum operation {{ {numbered} }};\nenum {{ WINDOW = {WINDOW} }};\n"
    return head + "".join(part.read_text(encoding="utf-8") for part in parts)


def _bound_to(library: Path, path: str) -> ctypes.CDLL:
    """Load the kernel if it calls this MPI library and nobody else could have written it."""
    with opened_own(Path(path)) as descriptor:  # the file that was checked is the one that is loaded
        kernel = ctypes.CDLL(f"/proc/self/fd/{descriptor}")
    kernel.autotune_library.restype = ctypes.c_void_p
    bound = library_of(kernel.autotune_library())
    if bound != library:
        raise StackError(f"the compiler found belongs to {bound}, loaded is {library}")
    return kernel
