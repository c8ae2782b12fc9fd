"""Programs of different kinds for ``diagnose``: which one is the first argument."""

import sys
import tempfile
import time

import numpy as np
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size


def computed(seconds):
    """Keep the core busy for so long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def imbalance(rounds=200, late=1):
    """One rank computes longer than the others before each sum."""
    mine, total = np.ones(1), np.zeros(1)
    for _ in range(rounds):
        computed(0.006 if late == RANK else 0.001)
        WORLD.Allreduce(mine, total)


def rotating(rounds=200):
    """In turn each rank computes longer than the others before a sum."""
    mine, total = np.ones(1), np.zeros(1)
    for i in range(rounds):
        computed(0.006 if i % SIZE == RANK else 0.001)
        WORLD.Allreduce(mine, total)


def derived(rounds=200, size=1 << 15):
    """Neighbours send every other number of an array; in turns with one datatype of MPI's own."""
    strided = MPI.DOUBLE.Create_vector(size, 1, 2).Commit()
    given, got = np.zeros(2 * size), np.zeros(2 * size)
    other = (RANK + 1) % SIZE
    for i in range(rounds):
        kind, n = (strided, 1) if i % 4 else (MPI.DOUBLE, size)
        WORLD.Sendrecv([given, n, kind], other, 0, [got, n, kind], other, 0)


def halo(rounds=2000, size=64 << 10):
    """Neighbours exchange their borders and compute little between."""
    sent, got = ([np.zeros(size, np.uint8) for _ in range(2)] for _ in range(2))
    left, right = (RANK - 1) % SIZE, (RANK + 1) % SIZE
    for _ in range(rounds):
        requests = [WORLD.Irecv(got[0], left, 0), WORLD.Irecv(got[1], right, 1)]
        requests += [WORLD.Isend(sent[0], right, 0), WORLD.Isend(sent[1], left, 1)]
        MPI.Request.Waitall(requests)
        computed(20e-6)


def compute():
    """A program that hardly communicates."""
    computed(1.5)
    WORLD.Barrier()


def files(rounds=60):
    """Each rank writes its part of a file together with the others."""
    with tempfile.NamedTemporaryFile() as file:
        path = WORLD.bcast(file.name)
        together = MPI.File.Open(WORLD, path, MPI.MODE_WRONLY)
        part = np.zeros(4 << 20, np.uint8)
        for _ in range(rounds):
            together.Write_at_all(RANK * part.nbytes, part)
        together.Close()


def one_sided(rounds=50_000, size=64 << 10):
    """Ranks put into each other's memory between fences."""
    window, part = MPI.Win.Allocate(size, comm=WORLD), np.zeros(size, np.uint8)
    window.Fence()
    for _ in range(rounds):
        window.Put(part, (RANK + 1) % SIZE)
        window.Fence()
    window.Free()


def sums(rounds=1500, size=32 << 10):
    """Nothing but sums of vectors: what is won at them is won of the run."""
    mine, total = np.ones(size // 8), np.zeros(size // 8)
    for _ in range(rounds):
        WORLD.Allreduce(mine, total)


globals()[sys.argv[1]](*map(int, sys.argv[2:]))
