"""The list of components that Open MPI prints has one reader, whatever else stands in it."""

import pytest

from autotune.stacks import openmpi
from autotune.stacks.knobs import openmpi as knobs
from autotune.stacks.ompi_info import components_in

LISTED = """package:Open MPI
mca:pml:ucx:version:mca:2.1.0
mca:pml:ucx:version:api:2.1.0
mca:pml:ob1:version:component:5.0.11
mca:coll:base:param:coll_base_verbose:value:0
mca:coll:tuned:version:mca:2.1.0
"""


@pytest.mark.parametrize(
    ("text", "components"),
    [(LISTED, {"pml": ("ucx", "ob1"), "coll": ("tuned",)}), ("sh: ompi_info: not found\n", {})],
)
def test_each_component_is_listed_once(text, components):
    assert components_in(text) == components


def test_it_is_the_only_reader():
    assert openmpi.components_in is knobs.components_in is components_in
