"""Buffers, communicator and window of a call, all of them made before anything is timed."""

import mmap
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from autotune.probe import patterns
from autotune.probe.declared import Blocks, Operation


@dataclass(slots=True)
class Exchange:
    """Everything one call works on, on this rank: allocated before it is timed."""

    operation: Operation  # What is called.
    comm: MPI.Intracomm  # On which.
    send: NDArray[Any]  # Blocks one after the other, shape ``(n_sent · n_elements,)``.
    recv: NDArray[Any]  # The same for what is received.
    elements: int  # Of one block.
    datatype: MPI.Datatype  # Of an element.
    sum: MPI.Op  # The reduction.
    window: MPI.Win | None = (
        None  # Of the one-sided operations; with ``flush`` in an epoch open to all ranks.
    )
    compute_s: float = 0.0  # What is computed inside of a call, which is none of its time.
    away_s: float = 0.0  # How long the last call computed.
    requests: list[Any] = field(default_factory=list)  # Persistent ones that the call made.

    def prepare(self) -> None:
        """Fill the send buffer, and the receive buffer with what must not be left there."""
        rank, size = self.comm.rank, self.comm.size
        self._lay(self.send, [((rank,), to) for to in self.operation.sends(rank, size)])
        before = self.operation.before(rank, size)
        if before:
            self._lay(self.recv, before)
        else:
            self.recv.view(np.uint8)[:] = 0xFF  # not a number in floating point

    def correct(self) -> bool:
        """Whether the receive buffer holds what it must."""
        wanted = self.operation.receives(self.comm.rank, self.comm.size)
        return all(np.array_equal(held, block) for held, block in self._blocks(self.recv, wanted))

    def compute(self) -> None:
        """Keep the core busy outside of MPI, as an application's computation does."""
        begin = end = time.perf_counter()
        while end < begin + self.compute_s:
            end = time.perf_counter()
        self.away_s = end - begin

    def synchronise(self) -> None:
        """Make this rank's memory show what was written into its window; after a barrier."""
        if self.window is None or self.operation.epoch == "fence":
            return
        if self.operation.epoch == "lock":
            self.window.Lock(self.comm.rank)
        self.window.Sync()
        if self.operation.epoch == "lock":
            self.window.Unlock(self.comm.rank)

    def close(self) -> None:
        """Free what the call made."""
        while self.requests:
            self.requests.pop().Free()

    def _lay(self, buffer: NDArray[Any], blocks: Blocks) -> None:
        for place, block in self._blocks(buffer, blocks):
            place[:] = block

    def _blocks(self, buffer: NDArray[Any], blocks: Blocks) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """The place of each block in a buffer, and what it must hold."""
        for place, (sources, destination) in enumerate(blocks):
            part = buffer[place * self.elements : (place + 1) * self.elements]
            yield part, patterns.block(sources, destination, part.nbytes)


class Memory:
    """Buffers that the pools of several operations share: as large as the largest of them needs."""

    def __init__(self, pools: Iterable[tuple[Operation, int, int, int]]) -> None:
        """Make them for pools of (operation, rank, communicator size, largest message in bytes).

        Raises:
            OSError, MemoryError: there is no room.
        """
        sent = received = 0
        for operation, rank, size, largest_bytes in pools:
            blocks = (0, 0) if operation.exposes else _blocks_of(operation, rank, size)
            sent, received = max(sent, blocks[0] * largest_bytes), max(received, blocks[1] * largest_bytes)
        self.send, self.recv = buffer(sent), buffer(received)

    def holds(self, sent: int, received: int) -> bool:
        """Whether it has room for so many bytes."""
        return sent <= self.send.nbytes and received <= self.recv.nbytes


class Pool:
    """The buffers of one operation on one rank, large enough for all of its message sizes."""

    def __init__(
        self, operation: Operation, rank: int, size: int, largest_bytes: int, memory: "Memory | None" = None
    ) -> None:
        """Take the buffers out of a memory that several pools share; None: make them."""
        self._operation = operation
        self._sent, self._received = _blocks_of(operation, rank, size)
        self._allocated: list[MPI.buffer] = []
        sent, received = self._sent * largest_bytes, self._received * largest_bytes
        if operation.exposes:
            self._send, self._recv = self._window_memory(sent), self._window_memory(received)
        elif memory is not None and memory.holds(sent, received):
            self._send, self._recv = memory.send[:sent], memory.recv[:received]
        else:
            self._send, self._recv = buffer(sent), buffer(received)

    def _window_memory(self, n_bytes: int) -> NDArray[np.uint8]:
        """Memory of MPI's own, as the standard advises for windows: some libraries copy into it directly.

        Page-aligned as that of ``buffer``: what the kernel copies costs by the page.
        """
        allocated: Any = MPI.Alloc_mem(n_bytes + mmap.PAGESIZE)
        self._allocated.append(allocated)
        memory: NDArray[np.uint8] = np.frombuffer(allocated, np.uint8)
        memory[:] = 0
        begin = -memory.ctypes.data % mmap.PAGESIZE
        return memory[begin : begin + n_bytes]

    def free(self) -> None:
        """Give memory of MPI's own back, when its windows are closed."""
        while self._allocated:
            MPI.Free_mem(self._allocated.pop())

    def window(self, comm: MPI.Intracomm) -> MPI.Win | None:
        """The window that the operation needs; None where it needs none."""
        if not self._operation.exposes:
            return None
        window = MPI.Win.Create(self._send if self._operation.exposes == "send" else self._recv, comm=comm)
        window.Set_errhandler(MPI.ERRORS_RETURN)
        if self._operation.epoch == "flush":
            window.Lock_all()
        return window

    def close(self, window: MPI.Win | None) -> None:
        """Free a window; collective."""
        if window is not None:
            if self._operation.epoch == "flush":
                window.Unlock_all()
            window.Free()

    def exchange(self, comm: MPI.Intracomm, message_bytes: int, window: MPI.Win | None) -> Exchange:
        """The call for one message size on one communicator."""
        dtype = patterns.element_type(message_bytes)
        return Exchange(
            operation=self._operation,
            comm=comm,
            send=self._send[: self._sent * message_bytes].view(dtype),
            recv=self._recv[: self._received * message_bytes].view(dtype),
            elements=message_bytes // dtype.itemsize,
            datatype=MPI.FLOAT if dtype == np.float32 else MPI.UINT8_T,
            sum=MPI.SUM,
            window=window,
            compute_s=self._operation.compute_s(message_bytes),
        )


def _blocks_of(operation: Operation, rank: int, size: int) -> tuple[int, int]:
    """Blocks that a rank sends and receives.

    At least one is received: rank 0 of an exclusive scan gets nothing, yet has to give a buffer.
    """
    return len(operation.sends(rank, size)), max(1, len(operation.receives(rank, size)))


def buffer(n_bytes: int) -> NDArray[np.uint8]:
    """Page-aligned memory with every page touched: no timed call pays for it. Shape ``(n_bytes,)``."""
    pages = np.frombuffer(mmap.mmap(-1, max(n_bytes, 1)), np.uint8)
    pages[:] = 0
    return pages[:n_bytes]
