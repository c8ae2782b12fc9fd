"""Findings that hold for one version of Open MPI stand in the branch for it alone, in modules and scripts."""

from pathlib import PurePath

import pytest

from autotune.lint.branches import ALL, on_path, taken
from autotune.lint.files import lint

OLD, NEW = {(3, 1), (4, 0), (4, 1)}, {(5, 0), (6, 0)}


def lines(text, name, mpi="", sure=True):
    return [f.line for f in lint({PurePath(name): text}, mpi) if f.sure or not sure]


@pytest.mark.parametrize(
    ("condition", "holds", "fails"),
    [
        ('ompiv == "2.1" or ompiv == "3.1"', {(3, 1)}, ALL - {(3, 1)}),
        ('ompiv == "4.0" or ompiv == "4.1"', {(4, 0), (4, 1)}, ALL - {(4, 0), (4, 1)}),
        ('v == "2.1" or (v == "1.10" and arch == "avx512")', {(3, 1)}, ALL),
        ('(ompiv == "4.1" or ompiv == "5.0") and cluster == "a"', {(4, 1), (5, 0)}, ALL),
        ('version >= "5.0"', NEW, OLD),
        ('ompiv ~= "5.0"', ALL - {(5, 0)}, {(5, 0)}),
        ('string.match(version, "^4%.1")', {(4, 1)}, ALL - {(4, 1)}),
        ('v:match("^5")', {(5, 0)}, ALL - {(5, 0)}),
        ('convertToCanonical(myModuleVersion()) >= convertToCanonical("5.0")', NEW, OLD),
        ("{[string match 5.* $version]}", {(5, 0)}, ALL - {(5, 0)}),
        ("[package vcompare $version 5.0] >= 0", NEW, OLD),
        ('[ "$OMPI_VERSION" = "4.1.6" ]', {(4, 1)}, ALL),
        ("[[ $OMPI_VERSION == 5* ]]", {(5, 0)}, ALL - {(5, 0)}),
        ("[ ${OMPI_VERSION%%.*} -ge 5 ]", NEW, OLD),
        ('not (version == "5.0")', ALL, ALL),
        ("is_new(version)", ALL, ALL),
    ],
)
def test_the_versions_for_which_a_condition_may_hold_and_fail(condition, holds, fails):
    taken_here, left = taken(condition)
    assert taken_here.says and (taken_here.versions, left.versions) == (holds, fails)


@pytest.mark.parametrize("condition", ['cluster == "a"', 'gcc_version == "12.3"', "[ $cudaver = 12.1 ]", ""])
def test_a_condition_on_anything_else_says_nothing_of_the_version(condition):
    assert not taken(condition)[0].says


def test_a_path_is_in_all_branches_that_it_took():
    facts = {("OMPI_VERSION", "=4.1.6"): True, ("$CLUSTER", "=a"): True}
    assert on_path(facts).versions == {(4, 1)}
    assert on_path({("$VERSION in 4.*|3.*", ""): False}).versions == NEW


LUA = """local ompiv = ...
if ompiv == "2.1" or ompiv == "3.1" then
   setenv("OMPI_MCA_oob", "^ud")
   setenv("OMPI_MCA_mtl", "^mxm")
elseif ompiv == "4.0" or ompiv == "4.1" then
   setenv("OMPI_MCA_btl", "^openib,ofi")
   if cluster == "beluga" then
      setenv("OMPI_MCA_plm_rsh_agent", "ssh")
   end
elseif ompiv == "5.0" then
   setenv("OMPI_MCA_btl", "^ofi")
   setenv("OMPI_MCA_plm_rsh_agent", "ssh")
end
setenv("OMPI_MCA_plm_slurm_args", "--whole")
"""


def test_a_module_in_lua_is_judged_arm_by_arm():
    """After ComputeCanada/software-stack-config, lmod/openmpi_custom.lua."""
    assert lines(LUA, "openmpi_custom.lua") == [12, 14]
    assert lines(LUA, "openmpi_custom.lua", "openmpi4") == []
    assert lines(LUA, "openmpi_custom.lua", "openmpi5") == [12, 14]


TCL = """#%Module
set version 5.0.3
if {{ {condition} }} {{
    setenv OMPI_MCA_plm_rsh_agent ssh
}} else {{
    setenv OMPI_MCA_btl_openib_allow_ib 1
}}
"""


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ('$version == "4.1.6"', []),
        ("[string match 4.* $version]", []),
        ("[package vcompare $version 5.0] < 0", [6]),
        ("[package vcompare $version 5.0] >= 0", [4]),
        ("[is_old $version]", []),
    ],
)
def test_a_module_in_tcl_is_judged_arm_by_arm(condition, found):
    assert lines(TCL.format(condition=condition), "openmpi/5.0.3") == found


def test_arms_of_a_switch_in_tcl():
    text = """#%Module
switch -glob $version {
    4.* {
        setenv OMPI_MCA_plm_rsh_agent ssh
    }
    5.* {
        setenv OMPI_MCA_plm_rsh_agent ssh
    }
    default {
        setenv OMPI_MCA_plm_rsh_agent ssh
    }
}
"""
    assert lines(text, "openmpi/5.0.3") == [7]


IF = """#!/bin/bash
VERSION=$1
module load openmpi/$VERSION
if {condition}; then
    export OMPI_MCA_plm_rsh_agent=ssh
else
    export OMPI_MCA_btl_openib_allow_ib=1
fi
mpirun -n 4 ./a
"""


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("[[ $VERSION == 4* ]]", []),
        ('[ "$VERSION" = "4.1.6" ]', []),
        ("[ ${VERSION%%.*} -lt 5 ]", [7]),
        ("[ ${VERSION%%.*} -ge 5 ]", [5]),
        ("is_old $VERSION", []),
    ],
)
def test_arms_of_a_script(condition, found):
    assert lines(IF.format(condition=condition), "job.sh") == found


def test_arms_of_a_case():
    text = """#!/bin/bash
case $OMPI_VERSION in
    4.*|3.*) export OMPI_MCA_plm_rsh_agent=ssh ;;
    5.*) export OMPI_MCA_plm_rsh_agent=ssh ;;
    *) export OMPI_MCA_plm_rsh_agent=ssh ;;
esac
mpirun -n 4 ./a
"""
    assert lines(text, "job.sh") == [4, 5]  # 6.0 is what is left
    assert lines(text.replace("|3.*", ""), "job.sh") == [4]


def test_what_no_version_reads_is_found_in_every_arm():
    text = LUA.replace('"OMPI_MCA_mtl", "^mxm"', '"OMPI_MCA_COLL_HCOLL_ENABLE", "0"')
    assert lines(text, "openmpi_custom.lua") == [4, 12, 14]
