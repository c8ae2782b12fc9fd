"""What the timing of a call costs itself: reported beside the times, never taken off them."""

import numpy as np
from mpi4py import MPI

from autotune.probe.exchange import Pool
from autotune.probe.loops import Loop
from autotune.probe.native import NativeLoop
from autotune.probe.operations import OPERATIONS

_CALLS = 500


def overhead_s(loop: Loop, collective: str) -> float:
    """Median seconds of a timed call in which nothing travels, by a loop on a communicator of one rank.

    In C: no call at all, which leaves two readings of the clock. Through mpi4py: the same call on a
    communicator of one rank, which is mpi4py's own work and the library's way in and out.
    """
    if isinstance(loop, NativeLoop):
        begins, ends = loop.run_nothing(_CALLS)
        return float(np.median(ends - begins))
    operation = OPERATIONS[collective]
    comm = MPI.COMM_SELF.Dup()
    pool = Pool(operation, 0, 1, 8)
    window = pool.window(comm)
    begins, ends = loop.run(pool.exchange(comm, 8, window), _CALLS)
    if window is not None:
        window.Unlock_all()
        window.Free()
    comm.Free()
    return float(np.median(ends - begins))
