"""The exact command line of every launcher: one fully specified launch, one minimal one, one hostile one."""

import pytest

from autotune.errors import StackError
from autotune.stacks.ports import Placement
from hydra_plugins.autotune._commands import mpirun_argv

FULL = Placement(
    ranks=16, nodes=2, ppn=8, map_by="numa", bind_to="core", hosts=("n1", "n2"), oversubscribe=True
)
ENV = {"UCX_TLS": "self,sm", "OMPI_MCA_pml": "ucx", "A": "1"}
PROGRAM = ("python", "-m", "autotune.probe", "/launch")


@pytest.mark.parametrize(
    ("flavour", "placement", "env", "extra", "line"),
    [
        ("openmpi", Placement(2), {}, (), "mpirun -np 2 python -m autotune.probe /launch"),
        (
            "openmpi",
            FULL,
            ENV,
            ("--tag-output",),
            "mpirun -np 16 --host n1:8,n2:8 --oversubscribe --map-by numa --bind-to core -x A -x UCX_TLS "
            "--tag-output python -m autotune.probe /launch",
        ),
        (
            "openmpi",
            Placement(16, nodes=2, ppn=8),
            {},
            (),
            "mpirun -np 16 --map-by ppr:8:node python -m autotune.probe /launch",
        ),
        ("mpich", Placement(2), {}, (), "mpirun -n 2 python -m autotune.probe /launch"),
        (
            "mpich",
            FULL,
            ENV,
            (),
            "mpirun -n 16 -hosts n1,n2 -ppn 8 -map-by numa -bind-to core -genvlist A,UCX_TLS "
            "python -m autotune.probe /launch",
        ),
    ],
)
def test_command_line(flavour, placement, env, extra, line):
    assert mpirun_argv(flavour, "mpirun", placement, env, PROGRAM, extra) == line.split(" ")


def test_values_of_variables_never_stand_in_a_command_line():
    env = {"UCX_TLS": "$(touch /tmp/owned) ; `id` \n 'x'"}
    argv = mpirun_argv("openmpi", "/opt/my mpi/mpirun", Placement(2), env, PROGRAM)
    assert argv[0] == "/opt/my mpi/mpirun"
    assert not any("$(" in word or "`" in word for word in argv)


def test_an_unknown_flavour_lists_the_known_ones():
    with pytest.raises(StackError, match="openmpi, mpich, intelmpi"):
        mpirun_argv("lam", "mpirun", Placement(2), {}, PROGRAM)
