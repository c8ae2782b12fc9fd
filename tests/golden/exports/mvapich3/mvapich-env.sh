# autotune: campaign bcast_4node, last launch 2026-11-20
# stack: MVAPICH 4.1; 4 nodes, 16 ranks
# UNVERIFIED
# rules know ranks, not nodes: measured on 4 nodes, they hold on all
# FORMAT CHECKED, NEVER RUN HERE: written after the library's sources and documents
# its rules hold for messages of all sizes, also beyond those measured: it has no word for an end
#
# use: . /site/tuning/mvapich-env.sh; mpiexec ./your_program
export UCX_TLS=rc,self
export MVP_ALLREDUCE_INTRA_ALGORITHM=ring
export MVP_BARRIER_INTRA_ALGORITHM=k_dissemination
export MVP_BCAST_INTRA_ALGORITHM=osu_pairwise
