"""The program of ``conf=hybrid`` times steps in which threads multiply matrices and then ranks sum a vector.

    mpirun --map-by slot:PE=THREADS python -m autotune.probe.hybrid THREADS BYTES

The total work does not depend on the number of ranks. The more ranks there are, the more take part in the
sum; the more threads a rank has, the longer it waits for its slowest thread. Rank 0 prints the median
duration of a step as JSON.
"""

import json
import os
import sys
import time

_ROWS, _STEPS = 512, 30
"""Number of rows of the whole matrix product, which takes one core a few milliseconds; number of steps."""


def main() -> int:
    """Time the steps, and return the exit status: 2 if the arguments are wrong, 1 if a result is wrong."""
    try:
        threads, n_bytes = map(int, sys.argv[1:])
    except ValueError:
        sys.stderr.write("usage: python -m autotune.probe.hybrid THREADS BYTES\n")
        return 2
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    import numpy as np  # here, since its linear algebra reads the environment when it is loaded
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    rows = max(1, _ROWS // world.size)
    own_rows, square = np.ones((rows, _ROWS)), np.full((_ROWS, _ROWS), 1.0 / _ROWS)
    vector, total = np.ones(max(1, n_bytes // 8)), np.empty(max(1, n_bytes // 8))
    durations_s = []
    for _ in range(_STEPS):
        world.Barrier()
        begin = time.perf_counter()
        own_rows = own_rows @ square
        world.Allreduce(vector, total)
        durations_s.append(world.allreduce(time.perf_counter() - begin, MPI.MAX))
    right = bool((total == world.size).all() and np.allclose(own_rows, 1.0))
    if world.rank == 0 and right:
        sys.stdout.write(json.dumps({"step_s": float(np.median(durations_s)), "ranks": world.size}) + "\n")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
