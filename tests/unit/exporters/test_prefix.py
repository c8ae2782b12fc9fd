"""What a site's tree refuses, and what its module files ask for."""

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import UserError
from autotune.exporters.prefix import site_tree
from autotune.space import Point
from tests.golden.test_exports import MPICH_BY_SIZE, OPENMPI


def module_files(module):
    files = site_tree(OPENMPI, Path("/opt/tuned"), module).files
    return [text for path, text in files.items() if path.parent == Path("/opt/tuned/modulefiles/autotune")]


def test_modules_conflict_with_each_other_and_want_the_mpi():
    in_tcl, in_lua = module_files("mpi/openmpi")
    assert in_tcl.startswith("#%Module")
    assert '\nconflict autotune\nprereq "mpi/openmpi"\n' in in_tcl
    assert '\nconflict("autotune")\nprereq("mpi/openmpi")\n' in in_lua
    for text in module_files(""):
        assert "prereq" not in text


def test_every_way_in_says_how_to_take_it_back():
    tree = site_tree(OPENMPI, Path("/opt/it's"), "openmpi")
    ways = [text for path, text in tree.files.items() if "openmpi" in path.name or path.suffix == ".sh"]
    assert len(ways) == 3
    assert all(tree.back in text and all(use in text for use in tree.uses) for text in ways)


@pytest.mark.parametrize("stack", ["", "SIMULATED (LogGP) cluster, Open MPI 5 modelled", "MPICH 5.0.2"])
def test_a_guard_needs_a_version_that_was_measured(stack):
    with pytest.raises(UserError, match="not measured on a version of Open MPI"):
        site_tree(replace(OPENMPI, provenance=replace(OPENMPI.provenance, stack=stack)), Path("/opt"), "")


def test_other_mpis_and_paths_that_no_list_holds_are_refused():
    family = replace(MPICH_BY_SIZE.provenance, family="mpich")
    with pytest.raises(UserError, match="was measured on MPICH"):
        site_tree(replace(MPICH_BY_SIZE, provenance=family), Path("/opt"), "")
    for prefix in ("/opt:2", "/opt/$USER", "/opt/{a}"):
        with pytest.raises(UserError, match=r"cannot be found below a directory with [:${]"):
            site_tree(OPENMPI, Path(prefix), "")


def test_where_the_defaults_stay_there_is_nothing_to_load():
    defaults = replace(OPENMPI, rules=(), point=Point(), provenance=replace(OPENMPI.provenance, env=()))
    with pytest.raises(UserError, match="the stack's own defaults stay"):
        site_tree(defaults, Path("/opt"), "")
