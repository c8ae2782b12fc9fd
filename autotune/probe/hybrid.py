"""A hybrid step, timed: threads of each rank multiply matrices, then ranks sum a vector (``conf=hybrid``).

    mpirun --map-by slot:PE=THREADS python -m autotune.probe.hybrid THREADS BYTES

All ranks together have the same to compute, however many they are; more ranks are more partners of the sum,
more threads a longer wait for the slowest of them. Rank 0 prints the median step as JSON.
"""

import json
import os
import sys
import time

_ROWS, _STEPS = 512, 30
"""Rows of the whole product, a few milliseconds of a core's; steps of which the median is taken."""


def main() -> int:
    """Time the steps; 2 where the words are wrong, 1 where a sum is."""
    try:
        threads, n_bytes = map(int, sys.argv[1:])
    except ValueError:
        sys.stderr.write("usage: python -m autotune.probe.hybrid THREADS BYTES\n")
        return 2
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    import numpy as np  # after that, since libraries of linear algebra read it as they are loaded
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    rows = max(1, _ROWS // world.size)
    mine, square = np.ones((rows, _ROWS)), np.full((_ROWS, _ROWS), 1.0 / _ROWS)
    vector, total = np.ones(max(1, n_bytes // 8)), np.empty(max(1, n_bytes // 8))
    took = []
    for _ in range(_STEPS):
        world.Barrier()
        begun = time.perf_counter()
        mine = mine @ square
        world.Allreduce(vector, total)
        took.append(world.allreduce(time.perf_counter() - begun, MPI.MAX))
    right = bool((total == world.size).all() and np.allclose(mine, 1.0))
    if world.rank == 0 and right:
        sys.stdout.write(json.dumps({"step_s": float(np.median(took)), "ranks": world.size}) + "\n")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
