# autotune: campaign bcast_4node, last launch 2026-11-20
# stack: MPICH 5.0.2; 4 nodes, 16 ranks
# UNVERIFIED
# rules know ranks, not nodes: measured on 4 nodes, they hold on all
# its rules hold for messages of all sizes, also beyond those measured: it has no word for an end
#
# use: . /site/tuning/mpich-env.sh; mpiexec ./your_program
export UCX_TLS=rc,self
export MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=ring
export MPIR_CVAR_BARRIER_INTRA_ALGORITHM=k_dissemination
