# autotune: campaign bcast_4node, last launch 2026-11-20
# stack: Intel MPI 2021.12; 4 nodes, 16 ranks
# UNVERIFIED
# rules know ranks, not nodes: measured on 4 nodes, they hold on all
# for communicators of 4 ranks; Intel MPI obeys it in those of any size
# its rules hold for messages of all sizes, also beyond those measured: it has no word for an end
#
# use: . /site/tuning/intel-mpi-env-4.sh; mpiexec ./your_program
export UCX_TLS=rc,self
export I_MPI_ADJUST_ALLREDUCE='1:0-1023;2:1024-65535;7:65536-2147483647'
