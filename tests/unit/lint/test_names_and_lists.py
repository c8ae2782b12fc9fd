"""Names that no library reads, lists that name nothing, and what a launcher or a release makes of settings.

Each case stands for its kind; what was tried by launches is said beside it.
"""

from pathlib import PurePath

import pytest

from autotune.lint.files import kind_of, lint

FIVE = "module load OpenMPI/5.0.3\n"


def linted(text, name="job.sh", mpi="", **here):
    return lint({PurePath(name): text}, mpi, **here)


def findings(text, name="job.sh", mpi="", **here):
    return [(f.line, f.effect) for f in linted(text, name, mpi, **here) if f.sure]


# Environment files hold the variables of every program.

MIXED = "UCX_TLS=rc,sm,self\nUCX_NET_DEVICES=mlx5_0:1\nOMPI_MCA_pml=ucx\nNCCL_DEBUG=INFO\n"


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("etc/environment", MIXED, "environment"),
        ("mpi.env", MIXED, "environment"),
        ("slurm-env", "PATH=/usr/bin\nUCX_TLS=tcp\n", "environment"),
        ("mpi.conf", "OMPI_MCA_pml=ucx\nUCX_TLS=rc\nhttp_proxy=http://p:1\n", "environment"),
        ("job.env", "UCX_TLS=rc\n", "environment"),
        ("ucx.conf", MIXED, "ucx"),
        ("site-ucx.conf", "UCX_TLS=rc\nUCX_NET_DEVICES=mlx5_0:1\n", "ucx"),
        ("openmpi-mca-params.conf", "OMPI_MCA_pml=ucx\nUCX_TLS=rc\n", "mca"),
        ("params", "pml=ucx\nOMPI_MCA_btl=self\nbtl_tcp_links=2\n", "mca"),
        ("nccl.conf", "NCCL_DEBUG=INFO\nUCX_TLS=rc\n", "other"),
        ("run", "UCX_TLS=rc\nmpirun ./a\n", "shell"),
    ],
)
def test_an_environment_file_is_told_by_its_name_or_by_all_of_its_names(name, text, kind):
    assert kind_of(PurePath(name), text) == kind


def test_an_environment_file_is_judged_as_the_same_variables_exported():
    assert findings(MIXED, "etc/environment") == []
    text = f"{MIXED}UCX_LOG=info\nOMPI_MCA_BTL=self\nUCX_RNDV_SCHEME='get_zcpy'\n"
    said = findings(text, "mpi.env")
    assert [line for line, _ in said] == [5, 6]


# UCX 1.20.1 looks for one device of that name, and says that it is not available.


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("=mlx5_0:mlx5_1:mlx5_3", "one device that is called '=mlx5_0:mlx5_1:mlx5_3'"),
        ("eth0 lo", "called 'eth0 lo'"),
        ("eth0;lo", "called 'eth0;lo'"),
        ("mlx5_0:1,mlx5_1:", "called 'mlx5_1:'"),
        ("mlx5_0:1,mlx5_1:1", ""),
        ("eth0,ib0", ""),
        ("all", ""),
        ("^mlx5_0:1", ""),
        ("mlx5_[0-3]:1", ""),
    ],
)
def test_a_list_of_devices(value, said):
    made = findings(f"export UCX_NET_DEVICES='{value}'\nmpirun ./a\n")
    assert [said in effect for _, effect in made] == ([True] if said else [])


@pytest.mark.parametrize("value", ["mlx5_0", "mlx5_0:1,mlx5_bond_0", "bnxt_re0"])
def test_a_device_of_verbs_has_a_port_before_ucx_1_21(value):
    line = f"export UCX_NET_DEVICES={value}\nmpirun --mca pml ucx ./a\n"
    said = "UCX before 1.21 knows no device"
    assert any(said in effect for _, effect in findings(f"module load UCX/1.16.0\n{line}"))
    assert not findings(line) and any(said in f.effect for f in linted(line))  # which UCX is not said
    assert not findings(f"module load UCX/1.22.0\n{line}")


# OMPI_MCA_PML=nonexistent runs, OMPI_MCA_pml=nonexistent aborts.


@pytest.mark.parametrize(
    ("text", "name", "remedy"),
    [
        ("export OMPI_MCA_COLL_HCOLL_ENABLE=0\nmpirun ./a\n", "job.sh", "write coll_hcoll_enable"),
        ("export OMPI_MCA_BTL_SM_USE_KNEM=1\nmpirun ./a\n", "job.sh", "write btl_sm_use_knem"),
        ("mpirun --mca Btl_Tcp_If_Include eth0 ./a\n", "job.sh", "write btl_tcp_if_include"),
        ("MTL = ofi\n", "mca-params.conf", "write mtl"),
        ("MCA_BASE_ENV_LIST = A=1\n", "mca-params.conf", "write mca_base_env_list"),
        (f"{FIVE}export PRTE_MCA_PLM_SSH_AGENT=ssh\nmpirun ./a\n", "job.sh", "PRTE_MCA_plm_ssh_agent"),
        ("export OMPI_MCA_PLM_RSH_AGENT=ssh\nmpirun ./a\n", "job.sh", "write plm_rsh_agent"),
    ],
)
def test_a_parameter_in_capitals_is_read_by_nobody(text, name, remedy):
    assert [f.remedy for f in linted(text, name) if "small letters" in f.effect] in (
        [remedy],
        [f"write {remedy}"],
    )


def test_capitals_that_are_nobodys_parameter_are_left_alone():
    assert not findings("export OMPI_MCA_MY_OWN=1\nmpirun ./a\n")


@pytest.mark.parametrize(
    ("line", "close"),
    [
        ("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITM=ring", "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"),
        ("MPIR_CVAR_OFI_ENABLE_TAGGED=1", "MPIR_CVAR_CH4_OFI_ENABLE_TAGGED"),
        ("MPIR_CVAR_CH4_NETMODE=ofi", "MPIR_CVAR_CH4_NETMOD"),
        ("MPIR_CVAR_CH4_NETMOD=ofi", ""),
        ("MPIR_CVAR_BCAST_INTRA_ALGORITHM=binomial", ""),
    ],
)
def test_a_name_of_mpich(line, close):
    made = linted(f"module load mpich/4.3.0\nexport {line}\nmpiexec -n 4 ./a\n")
    assert [f.remedy for f in made if "knows no" in f.effect and f.sure] == (
        [f"did you mean {close}?"] if close else []
    )


@pytest.mark.parametrize(
    ("line", "said", "remedy"),
    [
        ("I_MPI_FABRICZ=ofi", "knows no I_MPI_FABRICZ", "I_MPI_FABRICS?"),
        ("I_MPI_PIN_DOMIAN=core", "knows no", "I_MPI_PIN_DOMAIN?"),
        ("I_MPI_ADJUST_ALREDUCE=2", "knows no", "I_MPI_ADJUST_ALLREDUCE?"),
        ("I_MPI_FABRICS_LIST=tcp", "since 2019", "FI_PROVIDER"),
        ("I_MPI_DAPL_PROVIDER=ofa-v2-mlx5_0-1u", "since 2019", "FI_PROVIDER"),
        ("I_MPI_TMI_PROVIDER=psm2", "since 2019", "FI_PROVIDER"),
        ("I_MPI_PIN_DOMAIN=core", "", ""),
        ("I_MPI_ADJUST_ALLREDUCE_NODE_KARY_RADIX=4", "", ""),
    ],
)
def test_a_name_of_intel_mpi(line, said, remedy):
    """2021.18.1 says of the first three "not supported", of the others "removed" or "not supported"."""
    made = [f for f in linted(f"module load impi/2021.9\nexport {line}\nmpirun -n 4 ./a\n") if f.sure]
    assert [(said in f.effect, remedy in f.remedy) for f in made] == ([(True, True)] if said else [])


def test_a_name_of_the_old_intel_mpi_is_right_there():
    assert not linted("module load impi/2018.4\nexport I_MPI_DAPL_PROVIDER=a\nmpirun -n 4 ./a\n")
    (note,) = linted("export I_MPI_DAPL_PROVIDER=a\nmpirun -n 4 ./a\n")
    assert not note.sure


# Slurm connects ranks of Open MPI 5 by PMIx alone.


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"{FIVE}srun --mpi=pmi2 ./a\n", [2]),
        (f"{FIVE}export SLURM_MPI_TYPE=pmi2\nsrun -n 4 ./a\n", [3]),
        (f"{FIVE}SLURM_MPI_TYPE=pmi2 srun -n 4 ./a\n", [2]),
        (f"{FIVE}export SLURM_MPI_TYPE=pmi2\nsrun --mpi=pmix ./a\n", []),
        (f"{FIVE}srun --mpi=pmix_v4 ./a\n", []),
        (f"{FIVE}srun --mpi=none ./a\n", []),
        (f"{FIVE}srun -n 1 --mpi=pmi2 ./a\n", []),
        (f"{FIVE}srun --mpi=pmi2 apptainer exec a.sif ./a\n", []),
        ("module load OpenMPI/4.1.6\nsrun --mpi=pmi2 ./a\n", []),
        ("module load intel-mpi\nsrun --mpi=pmi2 ./a\n", []),
        ("srun --mpi=pmi2 ./a\n", []),
    ],
)
def test_how_srun_starts_ranks_of_open_mpi_5(text, lines):
    assert [line for line, effect in findings(text) if "PMIx alone" in effect] == lines


def test_srun_without_any_plugin_is_a_note():
    made = linted(f"{FIVE}srun --mpi=none -n 4 ./a\n")
    assert [f.sure for f in made if "PMIx alone" in f.effect] == [False]


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("srun --export=A,OMPI_MCA_btl=self,vader,tcp ./a", "vader"),
        ("srun --export=ALL,UCX_TLS=rc,sm ./a", "sm"),
        ("srun --export ALL,UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1 ./a", "mlx5_1:1"),
        ("#SBATCH --export=ALL,UCX_TLS=rc,sm", "sm"),
        ("sbatch --export=ALL,UCX_TLS=rc,sm job.sh", "sm"),
        ("sbatch --export=ALL,N=4,UCX_LOG_LEVEL=warn job.sh", ""),
        ('#SBATCH --export="ALL,UCX_TLS=rc,sm"', "sm"),
        ("srun --export=ALL,UCX_TLS=rc,UCX_LOG_LEVEL=warn,PATH ./a", ""),
        ("srun --export=\"ALL,UCX_TLS='rc,sm'\" ./a", ""),
        ("srun --export=ALL,MODE=a,b ./a", ""),
        ("mpirun -x UCX_TLS=rc,sm ./a", ""),
        ("mpiexec -genvlist UCX_TLS,PATH -n 2 ./a", ""),
    ],
)
def test_a_value_in_a_list_of_slurm_ends_at_its_comma(line, rest):
    made = [effect for _, effect in findings(f"#!/bin/bash\n{line}\n") if "ends at its comma" in effect]
    assert [f"takes {rest} for" in effect for effect in made] == ([True] if rest else [])


@pytest.mark.parametrize(
    ("text", "name", "lines"),
    [
        (f"{FIVE}mpirun --mca io_ompio_cycle_buffer_size 1024 -np 64 ./a\n", "job.sh", [2]),
        (f"{FIVE}mpirun --mca io_romio341_priority 90 -np 64 ./a\n", "job.sh", [2]),
        ("io_ompio_num_aggregators = 4\n", "openmpi/5.0.2/etc/openmpi-mca-params.conf", [1]),
        ("--mca io_ompio_num_aggregators 4\n", "openmpi-5.0.5/io.tune", [1]),
        (f"{FIVE}export OMPI_MCA_io_ompio_cycle_buffer_size=1\nmpirun -np 64 ./a\n", "job.sh", []),
        (f"{FIVE}mpirun --mca io ompio -np 64 ./a\n", "job.sh", []),
        ("module load OpenMPI/5.0.6\nmpirun --mca io_ompio_a 1 -np 64 ./a\n", "job.sh", []),
        ("module load OpenMPI/4.1.6\nmpirun --mca io_ompio_a 1 -np 64 ./a\n", "job.sh", []),
        (f"{FIVE}module load OpenMPI/5.0.8\nmpirun --mca io_ompio_a 1 ./a\n", "job.sh", []),
        ("mpirun --mca io_ompio_cycle_buffer_size 1024 ./a\n", "job.sh", []),
    ],
)
def test_what_a_release_does_not_obey(text, name, lines):
    """open-mpi/ompi#12682: 5.0.0 to 5.0.5 take ``io_*`` for parameters of the launcher."""
    assert [line for line, effect in findings(text, name) if "12682" in effect] == lines
