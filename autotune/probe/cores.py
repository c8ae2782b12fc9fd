"""How far apart the cores of neighbouring ranks are, whatever the stack is set to (step 6 of the flow).

The core-to-core latency is the round trip of one cache line between two processes that share it. No knob of
an MPI library moves it, so where it changes the machine did: the host of a virtual machine runs its cores now
below one cache and now apart, which makes small messages three times slower, for some seconds.
"""

import ctypes
import mmap
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from mpi4py import MPI

from autotune.measure.machine import NEAR

Measured = TypeVar("Measured")

_LIMIT_S = 5e-3
"""Of one look: ranks that share a core would take turns for ever."""
_SLEEP_S = 0.02
"""Between two looks: cores that idle for a moment are the ones that a host moves."""


class Cores:
    """The cores of the ranks, two neighbours on each node with a cache line of their own."""

    def __init__(self, world: MPI.Intracomm, kernel: ctypes.CDLL) -> None:
        """Pair the ranks; a collective call."""
        self._world, self._look = world, kernel.autotune_core_latency
        self._look.restype = ctypes.c_double
        node = world.Split_type(MPI.COMM_TYPE_SHARED)
        self._echoes = bool(node.rank % 2)
        self._line = _shared(node)
        self._memory = (ctypes.c_char * mmap.PAGESIZE).from_buffer(self._line) if self._line else None
        node.Free()

    def latency_s(self) -> float:
        """Of the two that are furthest apart now, the same on all ranks; 0 where no two share a node."""
        own_s = 0.0
        if self._memory is not None:
            own_s = self._look(self._memory, ctypes.c_int(self._echoes), ctypes.c_double(_LIMIT_S))
        return float(self._world.allreduce(own_s, MPI.MAX))

    def near(
        self, measure: Callable[[], Measured], usual_s: float, patience_s: float
    ) -> tuple[Measured, dict[str, float]]:
        """What is measured while they are as near as usual, and figures as in ``measure.machine``.

        Waits for that, and measures again where they were moved in between, until ``patience_s`` are over;
        a collective call.
        """
        began = time.monotonic()
        while True:
            apart_s, waited_s = self.latency_s(), self._since(began)
            if apart_s > NEAR * usual_s > 0 and waited_s < patience_s:
                time.sleep(_SLEEP_S)
                continue
            measured = measure()
            apart_s = max(apart_s, self.latency_s())
            if not apart_s > NEAR * usual_s > 0 or self._since(began) >= patience_s:
                break
        if not apart_s:
            return measured, {}
        ratio = apart_s / usual_s if usual_s else 1.0
        return measured, {"core_latency_s": apart_s, "cores_apart": ratio, "waited_s": waited_s}

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
