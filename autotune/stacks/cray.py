"""Variables of HPE Cray MPICH and of Slingshot's libfabric provider (used by step 12 and ``lint``).

Names and defaults as Cray MPICH 8.1.17 prints them under ``MPICH_ENV_DISPLAY=1``, the rest after the manuals
intro_mpi(3) and fi_cxi(7); never run here. It lets nobody choose algorithms by message size: what can be
said is which collectives go without its own optimisations, and the sizes at which these change.
"""

from collections.abc import Mapping

from autotune.collectives import COLLECTIVES as _ALL

OFF = "MPICH_COLL_OPT_OFF"
"""Collectives without Cray's own algorithms: a list of ``mpi_NAME``, or 1 for all."""

KNOBS: Mapping[str, str] = {
    OFF: "0",
    "MPICH_ALLGATHERV_VSHORT_MSG": "8192-16384",
    "MPICH_ALLGATHER_VSHORT_MSG": "8192-16384",
    "MPICH_ALLREDUCE_BLK_SIZE": "716800",
    "MPICH_ALLREDUCE_MAX_SMP_SIZE": "262144",
    "MPICH_ALLREDUCE_NO_SMP": "0",
    "MPICH_ALLTOALLV_THROTTLE": "8",
    "MPICH_ALLTOALL_BLK_SIZE": "16384",
    "MPICH_ALLTOALL_CHUNKING_MAX_NODES": "90",
    "MPICH_ALLTOALL_SHORT_MSG": "64-512",
    "MPICH_ALLTOALL_SYNC_FREQ": "1-24",
    "MPICH_ASYNC_PROGRESS": "0",
    "MPICH_BCAST_INTERNODE_RADIX": "4",
    "MPICH_BCAST_INTRANODE_RADIX": "4",
    "MPICH_BCAST_ONLY_TREE": "1",
    "MPICH_COLL_SYNC": "0",
    "MPICH_ENV_DISPLAY": "0",
    "MPICH_GATHERV_MIN_COMM_SIZE": "64",
    "MPICH_GATHERV_SHORT_MSG": "131072",
    "MPICH_GATHERV_SYNC_FREQ": "16",
    "MPICH_GPU_ALLREDUCE_USE_KERNEL": "0",
    "MPICH_GPU_IPC_THRESHOLD": "1024",
    "MPICH_GPU_SUPPORT_ENABLED": "0",
    "MPICH_OFI_NIC_MAPPING": "",
    "MPICH_OFI_NIC_POLICY": "NUMA",
    "MPICH_OFI_NUM_NICS": "",
    "MPICH_OFI_STARTUP_CONNECT": "0",
    "MPICH_RANK_REORDER_METHOD": "1",
    "MPICH_REDUCE_NO_SMP": "0",
    "MPICH_REDUCE_SCATTER_COMMUTATIVE_LONG_MSG_SIZE": "524288",
    "MPICH_REDUCE_SCATTER_MAX_COMMSIZE": "1000",
    "MPICH_SCATTERV_MIN_COMM_SIZE": "64",
    "MPICH_SCATTERV_SHORT_MSG": "2048-8192",
    "MPICH_SCATTERV_SYNCHRONOUS": "0",
    "MPICH_SCATTERV_SYNC_FREQ": "16",
    "MPICH_SHARED_MEM_COLL_CELLSZ": "256",
    "MPICH_SHARED_MEM_COLL_NCELLS": "8",
    "MPICH_SHARED_MEM_COLL_OPT": "1",
    "MPICH_SMP_SINGLE_COPY_MODE": "XPMEM",
    "MPICH_SMP_SINGLE_COPY_SIZE": "8192",
}
"""Variable that bears on speed → default; empty: none is printed."""

RENDEZVOUS, ALT_READ = "FI_CXI_RDZV_PROTO", "alt_read"
"""Slingshot's other rendezvous protocol, which a job must be given."""

NETWORK = "--network=disable_rdzv_get"
"""The option of ``srun`` and ``sbatch`` without which it is not there."""

COLLECTIVES = frozenset(_ALL)
"""Those that can go without, those with sizes of their own for each rank too (``MPICH_SCATTERV_*``)."""


def coupled(variables: Mapping[str, str]) -> str:
    """The option of Slurm that these variables mean nothing without; empty: none."""
    return NETWORK if variables.get(RENDEZVOUS) == ALT_READ else ""
