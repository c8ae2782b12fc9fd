"""Names at whose word a library loads, starts or writes something are refused, whatever their case."""

import pytest

from autotune.space.obeyed import obeyed_by


@pytest.mark.parametrize(
    "name",
    [
        *("UCX_MEMTRACK_DEST", "UCC_PROFILE_FILE", "I_MPI_TUNING_BIN_DUMP", "TMP", "HYDRA_LAUNCHER"),
        *("OMPI_MCA_mca_component_path", "OMPI_MCA_mca_base_component_path", "HYDRA_LAUNCHER_EXEC"),
        *("UCX_PROTO_INFO_DIR", "UCX_POSIX_DIR", "UCX_MODULE_DIR", "UCX_VFS_SOCK_PATH", "UCX_GDB_COMMAND"),
        *("MPIR_CVAR_MEMDUMP", "MPIR_CVAR_COORDINATES_DUMP", "MPICH_NAMEPUB_DIR", "MPIR_CVAR_PMI_LIBRARY"),
        *("I_MPI_SHM_TRACE_DIRECTORY", "I_MPI_JOB_TRACE_LIBS", "I_MPI_HYDRA_GDB_REMOTE_SHELL", "I_MPI_STATS"),
        *("plm_ssh_agent", "pml_v_output", "FI_LOG_OUTPUT", "HYDRA_CONFIG_FILE", "LD_PRELOAD"),
    ],
)
def test_places_and_programs_are_refused_in_any_case_of_letters(name):
    assert obeyed_by(name)
    assert obeyed_by(name.lower())
    assert obeyed_by(name.upper())


@pytest.mark.parametrize(
    "name", ["shmem_mmap_backing_file_base_dir", "vprotocol_pessimist_sender_based_file", "orte_rankfile"]
)
def test_so_are_those_that_parameters_name_by_their_ending(name):
    assert obeyed_by(name)
    assert obeyed_by(f"OMPI_MCA_{name}")


@pytest.mark.parametrize(
    "name",
    [
        *("UCX_TLS", "UCX_RNDV_THRESH", "UCX_IB_NUM_PATHS", "opal_leave_pinned", "opal_common_ucx_tls"),
        *("coll_tuned_dynamic_rules_filename", "coll_han_use_dynamic_file_rules", "pml", "btl", "PML"),
        *("MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE", "I_MPI_ADJUST_ALLREDUCE", "I_MPI_TUNING_BIN"),
        *("OMP_NUM_THREADS", "FI_PROVIDER", "I_MPI_FABRICS", "I_MPI_PERHOST", "APP_DATA_DIR"),
    ],
)
def test_what_tunes_is_not(name):
    assert not obeyed_by(name)
