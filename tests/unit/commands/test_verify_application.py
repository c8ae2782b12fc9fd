"""``verify --app`` with a launcher of another MPI than the campaign's."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.commands.verify_application import _check_same_mpi
from autotune.errors import UserError
from autotune.stacks.installation import Installation


@pytest.mark.parametrize(
    ("stack", "measured", "fits"),
    [
        ("openmpi", "Open MPI 4.1.4", True),
        ("openmpi", "Open MPI 5.0.11", False),
        ("mpich", "MPICH 4.0.2", False),
        ("recorded", "", True),
    ],
)
def test_files_of_another_mpi_are_not_put_into_force(stack, measured, fits):
    here = Installation("openmpi", "4.1.4", Path("/usr/bin/mpirun"), Path("/usr/lib/libmpi.so.40"), "site")
    site = SimpleNamespace(findings=(("MPI", measured),))
    campaign = SimpleNamespace(about=SimpleNamespace(site=site, space=SimpleNamespace(stack=stack)))
    if fits:
        _check_same_mpi(campaign, here)
        return
    with pytest.raises(UserError, match=r"openmpi 4\.1\.4, the campaign was measured on") as refused:
        _check_same_mpi(campaign, here)
    assert measured in refused.value.message
