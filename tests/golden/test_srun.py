"""The command lines of ``srun``, and which of Slurm's plugins starts an MPI."""

import pytest

from autotune.errors import StackError
from autotune.stacks.ports import Placement
from hydra_plugins.autotune._commands import mpi_plugin, mpirun_argv, srun_argv

PROGRAM = ("/opt/my python/bin/python", "-m", "autotune.probe", "/shared/it's $(touch pwned)\nhere")
START = ["srun", "--mpi=pmix", "--export=ALL", "--kill-on-bad-exit=1", "--input=none"]
LISTED = (
    "MPI plugin types are...\n\tcray_shasta\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions: pmix_v4\n"
)


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        (Placement(8, 8, 1), ["--nodes=8", "--ntasks=8", "--ntasks-per-node=1"]),
        (
            Placement(4, 2, 2, hosts=("cn0", "cn3")),
            ["--nodes=2", "--ntasks=4", "--nodelist=cn0,cn3", "--ntasks-per-node=2"],
        ),
        (
            Placement(4, 2, 2, map_by="numa", bind_to="core"),
            [
                *("--nodes=2", "--ntasks=4", "--ntasks-per-node=2"),
                *("--distribution=block:cyclic", "--cpu-bind=cores"),
            ],
        ),
        (Placement(4, 1, oversubscribe=True), ["--nodes=1", "--ntasks=4", "--overcommit"]),
    ],
)
def test_srun(placement, expected):
    assert srun_argv("pmix", placement, PROGRAM, ("--mem=0",)) == [*START, *expected, "--mem=0", *PROGRAM]


def test_words_of_mpirun_that_srun_lacks_are_named():
    with pytest.raises(StackError, match="srun has no word for map_by='ppr:2:numa'") as caught:
        srun_argv("pmix", Placement(4, 2, 2, map_by="ppr:2:numa"), PROGRAM)
    assert "launch.with=mpirun" in str(caught.value)


@pytest.mark.parametrize(
    ("flavour", "listed", "plugin"),
    [
        ("openmpi", LISTED, "pmix"),
        ("mpich", LISTED, "pmi2"),
        ("openmpi", "MPI plugin types are...\n\tnone\n\tpmi2\n", ""),
    ],
)
def test_the_plugin_that_both_sides_have(flavour, listed, plugin):
    assert mpi_plugin(listed, flavour) == plugin


def test_mpirun_on_named_hosts_gets_names_of_variables_and_never_values():
    env = {"UCX_TLS": "self,tcp $(touch pwned)", "PATH": "/a b", "OMPI_MCA_pml": "ucx"}
    assert mpirun_argv("openmpi", "/opt/mpirun", Placement(4, 2, 2, hosts=("cn0", "cn3")), env, PROGRAM) == [
        *("/opt/mpirun", "-np", "4", "--host", "cn0:2,cn3:2", "--map-by", "ppr:2:node"),
        *("-x", "PATH", "-x", "UCX_TLS"),
        *PROGRAM,
    ]
