"""One time axis for all ranks of a communicator: that of rank 0.

Each other rank exchanges a burst of messages with rank 0, now and then during the launch; the arithmetic is
``measure.windows``. With synchronised start windows nothing but the clock brings ranks together, so that no
barrier's pattern of release is in what follows.
"""

import time

import numpy as np
from mpi4py import MPI

from autotune.measure.windows import Clock, ClockOffset, clock_drift, clock_offset
from autotune.probe.loops import Times

_EXCHANGES = 30
_OFTEN_ENOUGH_S = 0.25


class SharedClock:
    """The clock of rank 0 as this rank knows it."""

    def __init__(self, sync: MPI.Intracomm) -> None:
        """Estimate the offset for the first time; on every rank that shares the clock."""
        self._sync = sync
        node = sync.Split_type(MPI.COMM_TYPE_SHARED)
        self._same_node = 0 in node.allgather(sync.rank)
        node.Free()
        self._offsets: list[ClockOffset] = []
        self._estimated_s = -np.inf
        self.model = Clock(0.0, 0.0, 0.0, 0.0)
        """Of this rank's clock; on rank 0 the identity."""
        self.refresh()

    def refresh(self) -> None:
        """Estimate again, if the last time is long ago; on every rank alike."""
        due = self._sync.bcast(time.perf_counter() - self._estimated_s > _OFTEN_ENOUGH_S)
        if not due:
            return
        for rank in range(1, self._sync.size):
            if self._sync.rank == 0:
                self._answer(rank)
            elif self._sync.rank == rank:
                offset = clock_offset(*self._ask())
                if self._same_node and abs(offset.offset_s) <= offset.bound_s:
                    continue  # one kernel, one clock: nothing to estimate, and no doubt left
                self._offsets.append(offset)
                self.model = clock_drift(self._offsets)
        self._estimated_s = time.perf_counter()

    def _answer(self, rank: int) -> None:
        heard, now = np.empty(1), np.empty(1)
        for _ in range(_EXCHANGES):
            self._sync.Recv(heard, rank)
            now[0] = time.perf_counter()
            self._sync.Send(now, rank)

    def _ask(self) -> tuple[Times, Times, Times]:
        sent, remote, received = np.empty(_EXCHANGES), np.empty(_EXCHANGES), np.empty(_EXCHANGES)
        question = np.zeros(1)
        for index in range(_EXCHANGES):
            sent[index] = time.perf_counter()
            self._sync.Send(question, 0)
            self._sync.Recv(remote[index : index + 1], 0)
            received[index] = time.perf_counter()
        return sent, remote, received
