"""How near and how fast the cores of the ranks are, whatever the stack is set to (step 6 of the flow).

The core-to-core latency is the round trip of one cache line between two processes that share it; the core
loop is a fixed piece of arithmetic. No knob of an MPI library moves either, so where one changes the machine
did. The host of a virtual machine runs its cores now below one cache and now apart, which makes small
messages three times slower for some seconds; now alone and now beside another thread of the same core, which
costs a fifth.
"""

import ctypes
import mmap
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import numpy as np
from mpi4py import MPI

from autotune.measure.machine import UsualCore

Measured = TypeVar("Measured")

_LIMIT_S = 5e-3
"""Of one look: ranks that share a core would take turns for ever."""
_SLEEP_S = 0.02
"""Between two looks: cores that idle for a moment are the ones that a host moves."""


class Cores:
    """The cores of the ranks, two neighbours on each node with a cache line of their own."""

    def __init__(self, world: MPI.Intracomm, kernel: ctypes.CDLL) -> None:
        """Pair the ranks; a collective call."""
        self._world, self._trip, self._loop = world, kernel.autotune_core_latency, kernel.autotune_core_loop
        self._trip.restype = self._loop.restype = ctypes.c_double
        node = world.Split_type(MPI.COMM_TYPE_SHARED)
        self._echoes = bool(node.rank % 2)
        self._line = _shared(node)
        self._memory = (ctypes.c_char * mmap.PAGESIZE).from_buffer(self._line) if self._line else None
        node.Free()

    def look(self) -> tuple[float, float]:
        """Seconds of the round trip and of the loop now, of the slowest ranks, the same on all.

        The first is 0 where no two ranks share a node.
        """
        trip_s, loop_s = 0.0, self._loop()
        if self._memory is not None:
            trip_s = self._trip(self._memory, ctypes.c_int(self._echoes), ctypes.c_double(_LIMIT_S))
        slowest = np.array([trip_s, loop_s])
        self._world.Allreduce(MPI.IN_PLACE, slowest, MPI.MAX)
        return float(slowest[0]), float(slowest[1])

    def steadily(
        self, measure: Callable[[], Measured], usual: UsualCore, patience_s: float
    ) -> tuple[Measured, dict[str, float]]:
        """What is measured while they are as usual, and figures as in ``measure.machine``.

        Waits for that, and measures again where they changed in between, until ``patience_s`` are over; a
        collective call.
        """
        began = time.monotonic()
        while True:
            before, waited_s = self.look(), self._since(began)
            if waited_s < usual.worth_s(*before, patience_s):
                time.sleep(_SLEEP_S)
                continue
            measured, after = measure(), self.look()
            slower = max(before[0], after[0]), max(before[1], after[1])
            if self._since(began) >= usual.worth_s(*slower, patience_s):
                return measured, usual.figures(*slower, waited_s)

    def _since(self, began: float) -> float:
        return float(self._world.bcast(time.monotonic() - began))


def _shared(node: MPI.Comm) -> mmap.mmap | None:
    """A page that this rank shares with its neighbour on the node; None: it has none, or may not see it."""
    partner, line, made = node.rank ^ 1, None, -1
    if node.rank % 2 == 0:
        with suppress(OSError, AttributeError):  # Linux alone has it
            made = os.memfd_create("autotune")
            os.truncate(made, mmap.PAGESIZE)
    own = Path(f"/proc/{os.getpid()}/fd/{made}")
    places = node.allgather((own, _identity(own)))
    if partner < node.size:
        path, theirs = places[min(node.rank, partner)]
        with suppress(OSError):  # in a container of its own the number may be another process's
            if theirs and _identity(path) == theirs:
                with path.open("r+b", buffering=0) as file:
                    line = mmap.mmap(file.fileno(), mmap.PAGESIZE)
    seen = node.allgather(line is not None)
    if made >= 0:
        os.close(made)
    return line if partner < node.size and seen[partner] else None


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode; None where there is no such file."""
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None
