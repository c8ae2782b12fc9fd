"""What each rank runs in the tests of exported files: ``COLLECTIVE:BYTES …``; rank 0 says how each ended.

With ``--strict`` a call that fails on any rank ends the launch.
"""

import sys

import numpy as np
from mpi4py import MPI

COMM = MPI.COMM_WORLD
COMM.Set_errhandler(MPI.ERRORS_RETURN)
CLASSES = {getattr(MPI, name): name for name in dir(MPI) if name.startswith("ERR_") or name == "SUCCESS"}


def call(collective: str, count: int) -> None:
    """One call with ``count`` doubles per rank or per block."""
    n = COMM.size
    one, many = np.zeros(count), np.zeros(count * n)
    other, others = np.zeros(count), np.zeros(count * n)
    counts = [count] * n
    calls = {
        "allreduce": lambda: COMM.Allreduce(one, other),
        "reduce": lambda: COMM.Reduce(one, other),
        "bcast": lambda: COMM.Bcast(one),
        "allgather": lambda: COMM.Allgather(one, others),
        "allgatherv": lambda: COMM.Allgatherv(one, [others, counts]),
        "alltoall": lambda: COMM.Alltoall(many, others),
        "alltoallv": lambda: COMM.Alltoallv([many, counts], [others, counts]),
        "gather": lambda: COMM.Gather(one, others),
        "scatter": lambda: COMM.Scatter(many, one),
        "reduce_scatter": lambda: COMM.Reduce_scatter(many, one, counts),
        "reduce_scatter_block": lambda: COMM.Reduce_scatter_block(many, one),
        "scan": lambda: COMM.Scan(one, other),
        "exscan": lambda: COMM.Exscan(one, other),
        "barrier": lambda: COMM.Barrier(),
    }
    calls[collective]()


strict = "--strict" in sys.argv
for argument in sys.argv[1 + strict :]:
    name, size = argument.split(":")
    try:
        call(name, int(size) // 8)
        ended = "SUCCESS"
    except MPI.Exception as exc:
        ended = CLASSES[exc.Get_error_class()]
    if strict and ended != "SUCCESS":
        sys.stderr.write(f"rank {COMM.rank}: {argument} {ended}\n")
        sys.stderr.flush()
        COMM.Abort(1)
    if COMM.rank == 0:
        sys.stdout.write(f"{argument} {ended}\n")
        sys.stdout.flush()
