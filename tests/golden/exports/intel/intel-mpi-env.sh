# autotune: campaign bcast_4node, last launch 2026-11-20
# stack: Intel MPI 2021.12; 4 nodes, 16 ranks
# UNVERIFIED
#
# use: . /site/tuning/intel-mpi-env.sh; mpiexec …
export UCX_TLS=rc,self
export I_MPI_ADJUST_ALLREDUCE='2:1024-65535@3-7;7:65536-2147483647@3-7'
export I_MPI_ADJUST_BCAST=3:0-2147483647@9-31
