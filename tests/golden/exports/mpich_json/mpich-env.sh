# autotune: campaign bcast_4node, last launch 2026-11-20
# stack: MPICH 5.0.2; 4 nodes, 16 ranks
# UNVERIFIED
# rules know ranks, not nodes: measured on 4 nodes, they hold on all
#
# use: . /site/tuning/mpich-env.sh; mpiexec ./your_program
export UCX_TLS=rc,self
export MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=/site/tuning/mpich-selection.json
