"""What floating-point sums come to, as digests: ``SIZE DIGEST`` for each number of elements given.

Operands span 16 orders of magnitude, so that another order of additions gives another result.
"""

import hashlib
import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
for size in map(int, sys.argv[1:]):
    rng = np.random.default_rng(world.rank)
    mine = (rng.standard_normal(size) * 10.0 ** rng.integers(-8, 8, size)).astype(np.float32)
    summed, reduced = np.empty_like(mine), np.zeros_like(mine)
    world.Allreduce(mine, summed)
    world.Reduce(mine, reduced, root=0)
    alike = world.allreduce(int(world.bcast(summed.tobytes()) == summed.tobytes())) == world.size
    if world.rank == 0:
        digest = hashlib.sha256(summed.tobytes() + reduced.tobytes()).hexdigest()[:16]
        sys.stdout.write(f"{size} {digest if alike else 'not alike on all ranks'}\n")
