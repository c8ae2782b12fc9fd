"""How near and how fast the cores of the ranks are, whatever the stack is set to (step 6 of the flow).

The core-to-core latency is the round trip of one cache line between two processes that share it; the core
loop is a fixed piece of arithmetic. No knob of an MPI library moves either, so where one changes the machine
did. The host of a virtual machine runs its cores now below one cache and now apart, which makes small
messages three times slower; now alone and now beside another thread of the same core, which costs a fifth,
and makes times vary ten times as much. Either lasts for a tenth of a second to some seconds, so it is looked
at before and after each small part of a sweep, not of a launch.
"""

import ctypes
import mmap
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from mpi4py import MPI

from autotune.probe.steadiness import Steadiness

_LIMIT_S = 5e-3  # For one look: ranks that share a core would take turns without end.
_SLEEP_S = 0.02  # Between two looks: cores that idle for a moment are the ones that a host moves.


class Cores:
    """The cores of some ranks, two neighbours on each node with a cache line of their own."""

    def __init__(self, comm: MPI.Intracomm, kernel: ctypes.CDLL, steadiness: Steadiness) -> None:
        """Pair the ranks; a collective call."""
        self._comm, self._trip, self._loop = comm, kernel.autotune_core_latency, kernel.autotune_core_loop
        self._trip.restype = self._loop.restype = ctypes.c_double
        self._steadiness = steadiness
        node = comm.Split_type(MPI.COMM_TYPE_SHARED)
        self._echoes = node.rank % 2
        self._line = _shared(node)
        self._memory = ctypes.c_int.from_buffer(self._line) if self._line else None
        node.Free()

    def steadily(self, measure: Callable[[], None]) -> None:
        """Measure while they are as usual; a collective call.

        Waits for that, and measures again where they changed in between, as long as patience lasts.
        """
        steadiness, done = self._steadiness, False
        while not done:
            began = time.monotonic()
            before = self._look()
            if done := self._agreed(steadiness.goes_on(*before)):
                measure()
                after = self._look()
                if done := self._agreed(steadiness.goes_on(*after)):
                    steadiness.keep(before, after)
            else:
                time.sleep(_SLEEP_S)
            if not done:
                steadiness.lost_s += time.monotonic() - began

    def _look(self) -> tuple[float, float]:
        """Seconds of the round trip and of the loop now, of the slowest ranks, the same on all.

        The first is 0 where no two ranks share a node.
        """
        slowest = np.array([0.0, self._loop()])
        if self._memory is not None:
            slowest[0] = self._round_trip(self._memory)
        self._comm.Allreduce(MPI.IN_PLACE, slowest, MPI.MAX)
        return float(slowest[0]), float(slowest[1])

    def _round_trip(self, line: ctypes.c_int) -> float:
        """Seconds, 0 on the rank that answers.

        Who waits for the other one lets MPI go on now and then: the other may need that to come.
        """
        trip_s = -1.0
        while trip_s < 0:
            trip_s = self._trip(ctypes.byref(line), self._echoes, ctypes.c_double(_LIMIT_S))
            self._comm.Iprobe()
        while not self._echoes and line.value:
            self._comm.Iprobe()
        return trip_s

    def _agreed(self, mine: bool) -> bool:
        """The first rank's answer, whose patience counts."""
        return bool(self._comm.bcast(mine))


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
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None
