# autotune: campaign bcast_4node, last launch 2026-11-20
# stack: MVAPICH2 2.3.7; 4 nodes, 16 ranks
# UNVERIFIED
# rules know ranks, not nodes: measured on 4 nodes, they hold on all
# FORMAT CHECKED, NEVER RUN HERE: written after the library's sources and documents
# its rules hold for messages of all sizes, also beyond those measured: it has no word for an end
#
# use: . /site/tuning/mvapich2-env.sh; mpiexec ./your_program
export UCX_TLS=rc,self
export MV2_INTER_ALLREDUCE_TUNING=4
