"""A program of known calls for the recorder: rank 0 tells what all ranks together have called, as JSON.

Into the file that is its first argument: output of ranks that abort may be lost. Words after it:
``abort`` ends it by MPI_Abort, ``kill`` by a signal, ``threads`` lets four threads call at once.
"""

import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path

import numpy as np
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
one, other = np.zeros(4), np.zeros(4)
told: Counter = Counter()


def calls(comm, form):
    """Collective → what calls it once, with 32 bytes a rank, block or peer."""
    n = comm.size
    many, others, counts = np.zeros(4 * n), np.zeros(4 * n), [4] * n
    parts = (counts, [32 * rank for rank in range(n)])
    given = {
        "Barrier": (),
        "Bcast": (one,),
        "Gather": (one, many),
        "Gatherv": (one, [many, counts]),
        "Scatter": (many, one),
        "Scatterv": ([many, counts], one),
        "Allgather": (one, many),
        "Allgatherv": (one, [many, counts]),
        "Alltoall": (many, others),
        "Alltoallv": ([many, counts], [others, counts]),
        "Alltoallw": ([many, parts, [MPI.DOUBLE] * n], [others, parts, [MPI.DOUBLE] * n]),
        "Reduce": (one, other),
        "Allreduce": (one, other),
        "Reduce_scatter": (many, other, counts),
        "Reduce_scatter_block": (many, other),
        "Scan": (one, other),
        "Exscan": (one, other),
    }
    names = {"blocking": "{}", "non-blocking": "I{}", "persistent": "{}_init"}
    for name, arguments in given.items():
        spelt = name.lower() if form == "non-blocking" else name
        yield name.lower(), getattr(comm, names[form].format(spelt)), arguments


def tell(name, kind, comm_size, size, count):
    told[name, kind, comm_size, size] += count


def everything(comm, ranks):
    """Each collective another number of times, in all forms that this MPI has."""
    for form in ("blocking", "non-blocking", "persistent"):
        if form == "persistent" and "persistent" not in sys.argv:
            continue
        for times, (name, call, arguments) in enumerate(calls(comm, form), start=1):
            if form == "persistent":
                request = call(*arguments)
                for _ in range(times):
                    request.Start()
                    request.Wait()
                request.Free()
            elif form == "non-blocking":
                MPI.Request.Waitall([call(*arguments) for _ in range(times)])
            else:
                for _ in range(times):
                    call(*arguments)
            tell(name, form, comm.size, 0 if name == "barrier" else 32, times * ranks)


def in_threads(n):
    """Threads at once, each with a communicator of its own."""
    comms = [WORLD.Dup() for _ in range(n)]

    def work(comm):
        mine, sums = np.zeros(4), np.zeros(4)
        for _ in range(200):
            comm.Allreduce(mine, sums)

    workers = [threading.Thread(target=work, args=(comm,)) for comm in comms]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    tell("allreduce", "blocking", WORLD.size, 32, 200 * n * WORLD.size)


everything(WORLD, WORLD.size)
parts = WORLD.Split(WORLD.rank % 2)  # of 3 ranks: one of 2 ranks, one of 1
for _ in range(3):
    parts.Allreduce(one, other)
    parts.Allreduce(np.zeros(4096), np.zeros(4096))
for size, ranks in ((2, 2), (1, 1)):
    tell("allreduce", "blocking", size, 32, 3 * ranks)
    tell("allreduce", "blocking", size, 32768, 3 * ranks)
parts.Free()
for _ in range(50):  # handles come back for other communicators
    copy = WORLD.Dup() if _ % 2 else WORLD.Split(WORLD.rank % 2)
    copy.Bcast(one)
    copy.Free()
tell("bcast", "blocking", WORLD.size, 32, 25 * WORLD.size)
tell("bcast", "blocking", 2, 32, 25 * 2)
tell("bcast", "blocking", 1, 32, 25)
copy = WORLD.Dup()  # calls that repeat the last of theirs, and ever others between them
for i in range(2500):
    WORLD.Allreduce(one, other)
    if i % 50 == 0:
        copy.Allreduce(one, other)
        WORLD.Allreduce(one[:1], other[:1])
        WORLD.Allreduce(one[:1], other[:1])
        WORLD.Allreduce(one[:1], other[:1])
tell("allreduce", "blocking", WORLD.size, 32, (2500 + 50) * WORLD.size)
tell("allreduce", "blocking", WORLD.size, 8, 150 * WORLD.size)
for i in range(10):  # datatypes whose handles come back for others of another size
    pair = MPI.DOUBLE.Create_contiguous(2 + i % 2).Commit()
    for _ in range(3):
        WORLD.Bcast([one, 1, pair])
    pair.Free()
tell("bcast", "blocking", WORLD.size, 20, 30 * WORLD.size)
if "threads" in sys.argv:
    in_threads(4)
if WORLD.rank == 0:
    Path(sys.argv[1]).write_text(json.dumps([[*key, count] for key, count in told.items()]))
if "abort" in sys.argv or "kill" in sys.argv:
    WORLD.Barrier()
    if WORLD.rank == 1:
        WORLD.Abort(3) if "abort" in sys.argv else os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
