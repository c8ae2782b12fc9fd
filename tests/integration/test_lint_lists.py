"""Lists of components and values do to a real Open MPI and UCX what ``lint`` says of them."""

import os
import sys
from pathlib import PurePath

import pytest

from autotune.lint.files import lint
from tests.program import ran

INIT = "from mpi4py import MPI; print(MPI.Get_library_version())"


def start(**env):
    """One process that comes up, or does not, with these parameters."""
    return ran([sys.executable, "-c", INIT], env=os.environ | env)


@pytest.fixture(scope="module", autouse=True)
def open_mpi_5():
    if "Open MPI v5." not in (up := start()).stdout:
        pytest.skip(f"mpi4py found no Open MPI 5 here: {up.stdout[:60]}{up.stderr[-200:]}")


@pytest.mark.parametrize(
    ("name", "value", "comes_up"),
    [
        ("btl", "vader,openib,self", False),
        ("btl", "self,^openib", False),
        ("btl", "^self,^openib", False),
        ("btl", "SELF,sm", False),
        ("btl", "self, sm", False),
        ("btl", "^openib", True),
        ("btl", "vader,self", True),
        ("btl", "self,,sm", True),
        ("coll", "tuned", False),
        ("coll", "^libnbc", False),
        ("coll", "basic,libnbc,tuned", True),
        ("osc", "pt2pt", False),
        ("btl_base_verbose", "blah", False),
    ],
)
def test_a_list_is_judged_as_open_mpi_takes_it(name, value, comes_up):
    done = start(**{f"OMPI_MCA_{name}": value})
    assert (done.returncode == 0) == comes_up, done.stderr
    if name != "btl_base_verbose":
        here = {"btl": ("self", "sm", "tcp"), "coll": ("basic", "libnbc", "tuned"), "osc": ("rdma", "sm")}
        found = lint({PurePath("mca-params.conf"): f"{name} = {value}\n"}, components=here)
        assert any("aborts" in f.effect for f in found) != comes_up
