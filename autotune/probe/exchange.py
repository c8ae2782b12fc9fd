"""Create the buffers, communicator and window of an MPI call, before anything is timed."""

from __future__ import annotations

import ctypes
import mmap
import time
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mpi4py import MPI

from autotune.probe import patterns
from autotune.probe.declared import Blocks, Operation

View: TypeAlias = "memoryview[Any]"
"""View of the memory that a call sends from or receives into; MPI reads the elements' type from the view."""


_NOTHING = ctypes.c_char * 0  # A C type of 0 bytes, which can be placed in any buffer, even in an empty one.


@dataclass(slots=True)
class Exchange:
    """Everything that one MPI call needs on this rank, allocated before the call is timed."""

    operation: Operation  # The operation that is called.
    comm: MPI.Intracomm  # The communicator of the call.
    send: View  # Blocks to send, one after the other: ``n_sent · n_elements`` elements.
    recv: View  # Memory for the blocks to receive, one after the other.
    elements: int  # Number of elements of one block.
    datatype: MPI.Datatype  # MPI type of an element.
    sum: MPI.Op  # The reduction operation.
    window: MPI.Win | None = None
    """Window of a one-sided operation; with epochs of the kind ``flush``, an epoch with all ranks is open."""
    compute_s: float = 0.0  # Duration of the computation inside of a call, in seconds; it is not timed.
    away_s: float = 0.0  # Duration of the computation in the last call, in seconds.
    requests: list[Any] = field(default_factory=list)  # Persistent requests that were created for the call.

    def prepare(self) -> None:
        """Fill the send buffer with the data to send, and the receive buffer with data to be overwritten."""
        rank, size = self.comm.rank, self.comm.size
        self._lay(self.send, [((rank,), to) for to in self.operation.sends(rank, size)])
        initial = self.operation.initial(rank, size)
        if initial:
            self._lay(self.recv, initial)
        else:
            fill(self.recv, 0xFF)  # as floating-point numbers these bytes are NaN: no correct result

    def correct(self) -> bool:
        """Return whether the receive buffer has the content that the call must produce."""
        expected = self.operation.receives(self.comm.rank, self.comm.size)
        return all(content.tobytes() == block for content, block in self._blocks(self.recv, expected))

    def compute(self) -> None:
        """Keep the core busy outside of MPI, as an application's computation does."""
        begin = end = time.perf_counter()
        while end < begin + self.compute_s:
            end = time.perf_counter()
        self.away_s = end - begin

    def synchronise(self) -> None:
        """Make data that other ranks wrote into this rank's window visible; called after a barrier."""
        if self.window is None or self.operation.epoch == "fence":
            return
        if self.operation.epoch == "lock":
            self.window.Lock(self.comm.rank)
        self.window.Sync()
        if self.operation.epoch == "lock":
            self.window.Unlock(self.comm.rank)

    def close(self) -> None:
        """Free the persistent requests that were created for the call."""
        while self.requests:
            self.requests.pop().Free()

    def _lay(self, buffer: View, blocks: Blocks) -> None:
        for place, block in self._blocks(buffer, blocks):
            place[:] = block

    def _blocks(self, buffer: View, blocks: Blocks) -> Iterator[tuple[View, bytes]]:
        """Yield the part of a buffer where each block is, and the content that the block must have."""
        memory, n_bytes = buffer.cast("B"), self.elements * buffer.itemsize
        for place, (sources, destination) in enumerate(blocks):
            block = patterns.block(sources, destination, n_bytes)
            yield memory[place * n_bytes : (place + 1) * n_bytes], block


class Memory:
    """Buffers that the pools of several operations share, large enough for each of these pools."""

    def __init__(self, pools: Iterable[tuple[Operation, int, int, int]]) -> None:
        """Allocate buffers for pools of (operation, rank, communicator size, largest message in bytes)."""
        sent = received = 0
        for operation, rank, size, largest_bytes in pools:
            blocks = (0, 0) if operation.exposes else _blocks_of(operation, rank, size)
            sent, received = max(sent, blocks[0] * largest_bytes), max(received, blocks[1] * largest_bytes)
        self.send, self.recv = buffer(sent), buffer(received)

    def holds(self, sent: int, received: int) -> bool:
        """Return whether the buffers are large enough for so many bytes to send and to receive."""
        return sent <= self.send.nbytes and received <= self.recv.nbytes


class Pool:
    """The buffers of one operation on one rank, large enough for all of its message sizes."""

    def __init__(
        self, operation: Operation, rank: int, size: int, largest_bytes: int, memory: Memory | None = None
    ) -> None:
        """Use parts of the shared buffers in ``memory``, or allocate buffers if it is None or too small."""
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

    def _window_memory(self, n_bytes: int) -> View:
        """Return memory allocated by MPI, as the standard advises: some libraries access it directly.

        The memory begins at a page, as in ``buffer``, since the operating system copies page by page.
        """
        allocated: Any = MPI.Alloc_mem(n_bytes + mmap.PAGESIZE)
        self._allocated.append(allocated)
        memory = memoryview(allocated).cast("B")
        fill(memory, 0)
        begin = -address(memory) % mmap.PAGESIZE
        return memory[begin : begin + n_bytes]

    def free(self) -> None:
        """Free the memory that MPI allocated; its windows must be closed before."""
        while self._allocated:
            MPI.Free_mem(self._allocated.pop())

    def window(self, comm: MPI.Intracomm) -> MPI.Win | None:
        """Create the window that the operation needs; return None if it needs none."""
        if not self._operation.exposes:
            return None
        window = MPI.Win.Create(self._send if self._operation.exposes == "send" else self._recv, comm=comm)
        window.Set_errhandler(MPI.ERRORS_RETURN)
        if self._operation.epoch == "flush":
            window.Lock_all()
        return window

    def close(self, window: MPI.Win | None) -> None:
        """Free a window; all ranks must call this together."""
        if window is not None:
            if self._operation.epoch == "flush":
                window.Unlock_all()
            window.Free()

    def exchange(self, comm: MPI.Intracomm, message_bytes: int, window: MPI.Win | None) -> Exchange:
        """Return the exchange for one message size on one communicator."""
        kind = patterns.element_type(message_bytes)
        return Exchange(
            operation=self._operation,
            comm=comm,
            send=(send := self._send[: self._sent * message_bytes].cast(kind)),
            recv=self._recv[: self._received * message_bytes].cast(kind),
            elements=message_bytes // send.itemsize,
            datatype=MPI.FLOAT if kind == "f" else MPI.UINT8_T,
            sum=MPI.SUM,
            window=window,
            compute_s=self._operation.compute_s(message_bytes),
        )


def _blocks_of(operation: Operation, rank: int, size: int) -> tuple[int, int]:
    """Return the numbers of blocks that a rank sends and receives.

    The second number is at least 1: rank 0 of an exclusive scan receives nothing, but must pass a buffer.
    """
    return len(operation.sends(rank, size)), max(1, len(operation.receives(rank, size)))


def buffer(n_bytes: int) -> View:
    """Return page-aligned memory with every page touched, so that no timed call pays for page faults."""
    memory = memoryview(mmap.mmap(-1, max(n_bytes, 1)))
    fill(memory, 0)
    return memory[:n_bytes]


def address(memory: View | array[Any]) -> int:
    """Return the address of the first byte of a buffer."""
    return ctypes.addressof(_NOTHING.from_buffer(memory))


def fill(memory: View, byte: int) -> None:
    """Set every byte of a buffer to one value."""
    ctypes.memset(address(memory), byte, memory.nbytes)
