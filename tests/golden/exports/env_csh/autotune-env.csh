# autotune: campaign allreduce_8node, last launch 2026-11-20
# stack: Open MPI 5.0.11, UCX 1.20.1, pml ucx; 8 nodes, 64 ranks
# SIMULATED (LogGP)
# verified: 1.34× (1.31 … 1.37) on 16 fresh launches
# rules know ranks, not nodes: measured on 8 nodes, they hold on all
# measured with --map-by ppr:8:node, which belongs on the command line
# measured with --bind-to core, which belongs on the command line
# operations=commutative: wrong for operations of users that do not commute (MPI_Op_create): allreduce segmented_ring
#
# use: source /site/tuning/autotune-env.csh; mpirun --map-by ppr:8:node --bind-to core -x UCX_TLS -x UCX_RNDV_THRESH ./your_program
sh -c 'case "$(mpirun --version 2>/dev/null) " in *"(Open MPI) 5.0.11"[\!0-9A-Za-z.]*) ;; *) exit 1 ;; esac; lib=$(dirname "$(readlink -f "$(command -v mpirun)")")/../lib; pkg=$(ompi_info --parsable --path pkglibdir 2>/dev/null); ucp=; for f in "$lib"/libucp.so.0 "$lib"/openmpi/libucp.so.0; do [ \! -e "$f" ] || ucp=$f; done; [ -n "$ucp" ] || ucp=$(ldd "$lib"/openmpi/mca_pml_ucx.so "$lib"/libmpi.so "${pkg##*:}"/mca_pml_ucx.so 2>/dev/null | sed -n '"'"'s/^.*libucp[.]so.* => \(.*\) (0x.*$/\1/p'"'"' | head -n 1); [ -z "$ucp" ] || LC_ALL=C grep -aq '"'"'[^0-9.]1[.]20[.]1[^0-9.]'"'"' "$ucp" || exit 1; exit 0'
if ($status != 0) then
  sh -c 'echo '"'"'autotune: measured on Open MPI 5.0.11 over UCX 1.20.1, the mpirun in PATH is another one or missing: nothing is set'"'"' >&2'
  exit 1
endif
setenv OMPI_MCA_pml ucx
setenv OMPI_MCA_coll_han_priority 0
setenv OMPI_MCA_coll_tuned_use_dynamic_rules 1
setenv OMPI_MCA_coll_tuned_dynamic_rules_filename /site/tuning/coll_tuned_rules.conf
setenv UCX_TLS self,sm,rc
setenv UCX_RNDV_THRESH 64k
