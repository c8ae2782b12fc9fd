"""Calls every collective in many ways; ends with 1 where a result is wrong, or what is the program's changed.

Words: ``threads`` asks for MPI_THREAD_MULTIPLE; ``fast N`` makes N broadcasts of 64 KiB alone; ``bits``
prints a digest of all results' bits; ``kill@PHASE`` and ``abort@PHASE`` end it where the switcher does what
is named: ``begin``, ``try``, ``block``, ``settled`` or, beside ranks that wait in MPI_Finalize, ``end``.
"""

import hashlib
import itertools
import os
import signal
import sys
from pathlib import Path

import mpi4py

mpi4py.rc.thread_level = "multiple" if "threads" in sys.argv else "serialized"
import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402 - its threads are set before

world = MPI.COMM_WORLD


def check(fine, what):
    if not np.all(fine):
        sys.stderr.write(f"rank {world.rank}: wrong: {what}\n")
        sys.stderr.flush()
        world.Abort(1)


def exchange(comm, n, turn):
    """Each collective once, with n numbers a block."""
    rank, size, root = comm.rank, comm.size, turn % comm.size
    base = turn * 1000.0
    mine, every = np.full(n, base + rank), np.repeat(base + np.arange(size), n)
    got = np.zeros(n * size)
    comm.Barrier()
    sent = np.full(n, base + root) if rank == root else np.zeros(n)
    # Signatures match, counts and datatypes do not: one rank has all of it in one element.
    whole = MPI.DOUBLE.Create_contiguous(n).Commit()
    comm.Bcast([sent, 1, whole] if rank % 2 else [sent, n, MPI.DOUBLE], root)
    check(sent == base + root, f"bcast of {n}")
    comm.Allgather([mine, 1, whole] if rank % 2 else mine, got)
    check(got == every, f"allgather of {n}")
    got[:] = 0
    got[n * rank : n * (rank + 1)] = mine
    comm.Allgather(MPI.IN_PLACE, got)
    check(got == every, "allgather in place")
    comm.Gather(mine, [got, 1, whole] if rank == root else None, root)
    check(rank != root or np.all(got == every), "gather")
    comm.Scatter([every, 1, whole] if rank == root else None, sent, root)
    check(sent == mine, "scatter")
    comm.Alltoall(np.repeat(base + rank * size + np.arange(size), n), got)
    check(got == np.repeat(base + np.arange(size) * size + rank, n), "alltoall")
    total = base * size + size * (size - 1) / 2
    comm.Allreduce(mine, sent)
    check(sent == total, "allreduce")
    sent[:] = mine
    comm.Allreduce(MPI.IN_PLACE, sent, MPI.MAX)
    check(sent == base + size - 1, "allreduce in place")
    comm.Reduce(mine, sent, root=root)
    check(rank != root or np.all(sent == total), "reduce")
    comm.Reduce_scatter_block(np.tile(mine, size), sent)
    check(sent == total, "reduce_scatter_block")
    # Neither commutative nor predefined: it keeps the last.
    last = MPI.Op.Create(lambda a, b, t: None, commute=False)
    comm.Allreduce(mine, sent, last)
    last.Free()
    whole.Free()


def own(comm):
    """What of a communicator is the application's."""
    return comm.name, comm.Get_errhandler() == MPI.ERRORS_RETURN, comm.Get_topology()


OPERATIONS = (
    *(MPI.SUM, MPI.PROD, MPI.MAX, MPI.MIN, MPI.BAND, MPI.BXOR, MPI.BOR),
    *(MPI.LAND, MPI.LXOR, MPI.LOR),
)


def bits():
    """A digest of what all ranks have got: copies, reductions of whole numbers, sums of reals."""
    rng, digest = np.random.default_rng(world.rank), hashlib.sha256()
    for n in [1, 9, 700, 20000] * 8:
        mine = rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n)
        every, total = np.empty(n * world.size), np.empty(n)
        world.Allgather(mine, every)
        digest.update(every)
        world.Alltoall(every.copy(), every)
        digest.update(every)
        for op in (MPI.SUM, MPI.MAX):
            world.Allreduce(mine, total, op)
            digest.update(total)
        for kind in (np.int32, np.int64, np.uint64, np.uint8):  # the last is not switched, see switcher.c
            whole = rng.integers(0, 255, n).astype(kind) << (8 * np.dtype(kind).itemsize - 8)
            for op in OPERATIONS:
                got = whole.copy()
                world.Allreduce(whole, got, op)
                digest.update(got)
                world.Reduce(whole, got, op, root=n % world.size)
                digest.update(got if world.rank == n % world.size else b"")
    return "".join(world.allgather(digest.hexdigest()))


if "bits" in sys.argv:
    found = bits()
    if world.rank == 0:
        sys.stdout.write(f"bits {found}\n")
    sys.exit()

if "fast" in sys.argv:
    block = np.zeros(8192)
    for _ in range(int(sys.argv[sys.argv.index("fast") + 1])):
        world.Bcast(block)
    sys.exit()

copies = []
key = MPI.Comm.Create_keyval(copy_fn=lambda comm, key, value: copies.append(value) or value)
world.Set_attr(key, "mine")
half = world.Split(world.rank % 2, world.rank)
line = world.Create_cart([world.size])
line.name = "line"
before = own(line)
end, _, phase = next((word for word in sys.argv if "@" in word), "").partition("@")
here = Path(sys.argv[-1])  # a folder; what an abort finds in pipes is lost


def reached():
    """Whether the switcher is in the phase, by what rank 0 has written."""
    texts = [path.read_text() for path in Path(os.environ["AUTOTUNE_RUN"]).glob("*.run")]
    return phase == "begin" or any(f"\n{phase} " in text for text in texts)


def leave():
    """End as asked for."""
    (here / f"ended in {phase}").touch()
    if end == "abort":
        world.Abort(3)
    os.kill(os.getpid(), signal.SIGKILL)


last = world.rank == world.size - 1
for turn in itertools.count() if end and phase != "end" else ():  # however long it takes
    exchange(world, 3000 if turn % 2 else 1, turn % 3000)  # the longer make a candidate worth its trial soon
    if last and reached():
        leave()
for turn in range(40):
    for n in (1, 100, 3000):
        exchange(world, n, turn)
        if half.size > 1:
            exchange(half, n, turn)
    exchange(line, 7, turn)
    short = world.Dup()
    exchange(short, 5, turn)
    short.Free()
check(own(line) == before, "name, handler or topology")
check(len(copies) == 40, f"attributes copied {len(copies)} times, not by each of 40 duplicates")
try:
    line.Set_errhandler(MPI.ERRORS_RETURN)
    line.Bcast([np.zeros(1), MPI.DOUBLE], 99)
    check(False, "a root that is none")
except MPI.Exception as exc:
    check(exc.Get_error_class() == MPI.ERR_ROOT, f"error class {exc.Get_error_class()}")
pending = world.Ibarrier()
exchange(world, 64, 3)
pending.Wait()
if world.rank == 0:
    sys.stdout.write("all calls were right\n")
if last and phase == "end":
    leave()
