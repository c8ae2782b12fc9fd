"""The loop that times calls through mpi4py, and a barrier made of sends and receives.

The MPI library's own barrier would affect the result: with another barrier algorithm the calls that follow it
take other times. So each call is preceded by a dissemination barrier on a separate communicator: in round k
rank r sends to rank r + 2ᵏ and receives from rank r − 2ᵏ, for ⌈log₂ p⌉ rounds. With start windows, each call
waits for an agreed moment instead.

References:
    D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", International Journal of
    Parallel Programming 17 (1988) 1–17.
"""

from __future__ import annotations

import time
from array import array
from operator import sub
from typing import TYPE_CHECKING, Protocol, TypeAlias

from mpi4py import MPI

if TYPE_CHECKING:
    from autotune.probe.exchange import Exchange

Times: TypeAlias = "array[float]"  # Moments or durations in seconds, double precision.


class Loop(Protocol):
    """A loop that times MPI calls."""

    name: str  # Name of the loop in ``ProbeResult.timing``.
    wait_s: float  # Seconds after an agreed start within which a waiting rank enters the call.

    def run(
        self, exchange: Exchange, calls: int, starts_s: Times | None = None, tight: bool = False
    ) -> tuple[Times, Times]:
        """Time calls, and return when each call began and ended on this rank: two rows of length ``calls``.

        If ``tight`` is true and the operation is ``in_a_row``, there is a barrier only before the first call,
        and every call gets the mean duration. The time of computation inside of a call is subtracted from the
        end of the call.

        Args:
            exchange: The call, with its buffers and communicator.
            calls: Number of calls.
            starts_s: Agreed start of each call on this rank's clock, in seconds; None: a barrier precedes
                each call.
            tight: Whether the barrier is the MPI library's own, on the call's communicator, and ``MPI_Wtime``
                is the clock; otherwise the barrier is ours, and CLOCK_MONOTONIC is the clock.

        Raises:
            MPI.Exception: If a call fails.
        """
        ...


def took(begins: Times, ends: Times) -> Times:
    """Return the duration of each call in seconds."""
    return array("d", map(sub, ends, begins))


def partners(rank: int, size: int) -> list[tuple[int, int]]:
    """Return (rank to send to, rank to receive from) for each round of the dissemination barrier."""
    return [((rank + (1 << k)) % size, (rank - (1 << k)) % size) for k in range((size - 1).bit_length())]


class PythonLoop:
    """Makes and times calls through mpi4py, whose own cost, about half a microsecond, is in every time."""

    name = "python"
    wait_s = 5e-6

    def __init__(self, sync: MPI.Intracomm) -> None:
        self._sync = sync
        self._partners = partners(sync.rank, sync.size)
        self._token, self._heard = bytearray(1), bytearray(1)

    def run(
        self, exchange: Exchange, calls: int, starts_s: Times | None = None, tight: bool = False
    ) -> tuple[Times, Times]:
        """Time calls as ``Loop.run`` describes."""
        call = exchange.operation.call(exchange)
        barrier = exchange.comm.Barrier if tight else self._barrier
        clock = MPI.Wtime if tight else time.perf_counter
        begins, ends = array("d"), array("d")
        if tight and exchange.operation.in_a_row:
            barrier()
            begin = clock()
            for _ in range(calls):
                call()
            each = (clock() - begin) / calls
            edges = array("d", (begin + each * index for index in range(calls + 1)))
            return edges[:-1], edges[1:]
        for index in range(calls):
            if starts_s is None:
                barrier()
            else:
                start = starts_s[index]
                while clock() < start:
                    pass
            begin = clock()
            call()
            end = clock()
            begins.append(begin)
            ends.append(end - exchange.away_s)
        return begins, ends

    def _barrier(self) -> None:
        sendrecv = self._sync.Sendrecv
        for to, heard_of in self._partners:
            sendrecv(self._token, to, 0, self._heard, heard_of, 0)
