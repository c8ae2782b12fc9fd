-- autotune: campaign allreduce_8node, last launch 2026-11-20
-- stack: Open MPI 5.0.11, UCX 1.20.1, pml ucx; 8 nodes, 64 ranks
-- SIMULATED (LogGP)
-- verified: 1.34× (1.31 … 1.37) on 16 fresh launches
-- measured with --map-by ppr:8:node, which belongs on the command line
-- measured with --bind-to core, which belongs on the command line
--
-- use: module use /site/tuning; module load autotune; mpirun --map-by ppr:8:node --bind-to core -x UCX_TLS -x UCX_RNDV_THRESH … your_program
setenv("OMPI_MCA_pml", "ucx")
setenv("OMPI_MCA_coll_han_priority", "0")
setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1")
setenv("OMPI_MCA_coll_tuned_dynamic_rules_filename", "/site/tuning/coll_tuned_rules.conf")
setenv("UCX_TLS", "self,sm,rc")
setenv("UCX_RNDV_THRESH", "64k")
whatis("MPI collectives tuned by autotune: verified: 1.34× (1.31 … 1.37) on 16 fresh launches")
