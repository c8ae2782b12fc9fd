"""What each rank runs where a library says nothing of its choice: which pieces an allreduce is reduced in.

Arguments: message sizes in bytes. For each communicator of 2, 3, … ranks rank 0 prints ``RANKS BYTES KIND``:
``whole`` where some rank reduced the whole vector at once (recursive doubling), ``parts`` where no piece was
longer than its share of one rank (ring), ``other`` in between.
"""

import sys

import numpy as np
from mpi4py import MPI

COMM = MPI.COMM_WORLD
DOUBLE_BYTES = 8
pieces = []


def add(there, here, _):
    """Add, and note how much."""
    a, b = np.frombuffer(there, "d"), np.frombuffer(here, "d")
    pieces.append(b.nbytes)
    b += a


def kind(longest: int, size: int, ranks: int) -> str:
    """What the longest piece tells of the algorithm."""
    if longest == size:
        return "whole"
    return "parts" if longest <= size // ranks + ranks * DOUBLE_BYTES else "other"


OPERATION = MPI.Op.Create(add, commute=True)
for ranks in range(2, COMM.size + 1):
    some = COMM.Split(0 if COMM.rank < ranks else MPI.UNDEFINED)
    for size in map(int, sys.argv[1:]):
        if some != MPI.COMM_NULL:
            pieces.clear()
            result = np.zeros(size // DOUBLE_BYTES)
            some.Allreduce(np.ones_like(result), result, OPERATION)
            longest = some.allreduce(max(pieces, default=0), MPI.MAX)
            if some.rank == 0:
                sys.stdout.write(f"{ranks} {size} {kind(longest, size, ranks)}\n")
                sys.stdout.flush()
    COMM.Barrier()
