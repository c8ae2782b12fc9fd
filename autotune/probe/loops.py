"""The timed loop over mpi4py, and a barrier made of sends and receives.

The library's own barrier is part of what is measured: with another barrier algorithm other times come out
for what follows it. So each call is preceded by a dissemination barrier on a communicator of its own:
in round k rank r notifies rank r + 2ᵏ and hears of rank r − 2ᵏ, for ⌈log₂ p⌉ rounds. Or, where start windows
are used, each call waits for an agreed moment.

References:
    D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", International Journal of
    Parallel Programming 17 (1988) 1–17.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

if TYPE_CHECKING:
    from autotune.probe.exchange import Exchange

Times: TypeAlias = NDArray[np.float64]


class Loop(Protocol):
    """A way to time calls."""

    name: str  # As the result names it.
    wait_s: float  # Within which a rank that waits for an agreed moment enters the call.

    def run(
        self, exchange: Exchange, calls: int, starts_s: Times | None = None, tight: bool = False
    ) -> tuple[Times, Times]:
        """When each call began and ended on this rank: two arrays ``(calls,)``, seconds of CLOCK_MONOTONIC.

        Calls start at agreed moments on this rank's clock, shape ``(calls,)``; None: after a barrier each,
        which is the library's own on the call's communicator where the loop is ``tight``; its moments are
        those of ``MPI_Wtime``. Of calls ``in_a_row`` it is before the first alone, and each has the mean as
        its time. What a call computes is taken off its end.

        Raises:
            MPI.Exception: a call failed.
        """
        ...


def partners(rank: int, size: int) -> list[tuple[int, int]]:
    """(rank to notify, rank to wait for) in each round of the dissemination barrier."""
    return [((rank + (1 << k)) % size, (rank - (1 << k)) % size) for k in range((size - 1).bit_length())]


class PythonLoop:
    """Calls through mpi4py: its own cost, about half a microsecond, is in every time."""

    name = "python"
    wait_s = 5e-6

    def __init__(self, sync: MPI.Intracomm) -> None:
        """Prepare the barrier, on a communicator of the ranks that are measured."""
        self._sync = sync
        self._partners = partners(sync.rank, sync.size)
        self._token, self._heard = np.zeros(1, np.uint8), np.zeros(1, np.uint8)

    def run(
        self, exchange: Exchange, calls: int, starts_s: Times | None = None, tight: bool = False
    ) -> tuple[Times, Times]:
        """As in ``Loop``."""
        call = exchange.operation.call(exchange)
        barrier = exchange.comm.Barrier if tight else self._barrier
        clock = MPI.Wtime if tight else time.perf_counter
        begins, ends = np.empty(calls), np.empty(calls)
        if tight and exchange.operation.in_a_row:
            barrier()
            begin = clock()
            for _ in range(calls):
                call()
            edges = np.linspace(begin, clock(), calls + 1)
            return edges[:-1], edges[1:]
        agreed = None if starts_s is None else starts_s.tolist()
        for index in range(calls):
            if agreed is None:
                barrier()
            else:
                start = agreed[index]
                while clock() < start:
                    pass
            begin = clock()
            call()
            end = clock()
            begins[index], ends[index] = begin, end - exchange.away_s
        return begins, ends

    def _barrier(self) -> None:
        sendrecv = self._sync.Sendrecv
        for to, heard_of in self._partners:
            sendrecv(self._token, to, 0, self._heard, heard_of, 0)
