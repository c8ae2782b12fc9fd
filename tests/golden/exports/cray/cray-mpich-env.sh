# autotune: campaign cray_8node, last launch 2026-11-20
# stack: HPE Cray MPICH 8.1.32; 8 nodes, 64 ranks
# UNVERIFIED
# FORMAT CHECKED, NEVER RUN HERE: written after the library's sources and documents
# its rules hold for messages of all sizes, also beyond those measured: it has no word for an end
#
# use: . /site/tuning/cray-mpich-env.sh; MPICH_ENV_DISPLAY=1 srun --network=disable_rdzv_get … your_program
# FI_CXI_RDZV_PROTO=alt_read works in jobs with --network=disable_rdzv_get alone
export FI_CXI_RDZV_PROTO=alt_read
export MPICH_BCAST_INTERNODE_RADIX=8
export MPICH_COLL_OPT_OFF=mpi_allreduce
