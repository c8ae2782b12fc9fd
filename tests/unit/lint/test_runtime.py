"""Parameters of the launcher, from 4.1 to 5.0 and back."""

import re
import subprocess
from pathlib import PurePath

import pytest

from autotune.lint.files import lint
from autotune.lint.runtime import COMPONENTS, PRRTE
from autotune.stacks.installation import find
from tests.unit.lint.test_lint import found

MOVED = [
    (
        "rmaps_base_mapping_policy",
        "ppr:2:node",
        "mpirun --map-by ppr:2:node, or export PRTE_MCA_rmaps_default_m",
    ),
    (
        "hwloc_base_binding_policy",
        "none",
        "mpirun --bind-to none, or export PRTE_MCA_hwloc_default_binding_policy",
    ),
    ("orte_tmpdir_base", "/scratch", "export PRTE_MCA_prte_tmpdir_base=/scratch"),
    ("orte_base_help_aggregate", "0", "nothing in its place"),
    ("plm_rsh_agent", "ssh", "export PRTE_MCA_plm_ssh_agent=ssh"),
    ("plm_rsh_no_tree_spawn", "1", "export PRTE_MCA_plm_ssh_no_tree_spawn=1"),
    ("oob_tcp_if_include", "eth0", "export PRTE_MCA_oob_tcp_if_include=eth0"),
    ("rmaps_default_mapping_policy", "core", "export PRTE_MCA_rmaps_default_mapping_policy=core"),
]


@pytest.mark.parametrize(("name", "value", "remedy"), MOVED, ids=[name for name, _, _ in MOVED])
@pytest.mark.parametrize(
    ("file", "line"),
    [("x.conf", "{} = {}\n"), ("x.sh", "export OMPI_MCA_{}={}\n"), ("x.tune", "--mca {} {}\n")],
    ids=["file", "environment", "tune"],
)
def test_5_0_ignores_parameters_of_the_launcher(file, line, name, value, remedy):
    (only,) = lint({PurePath(file): line.format(name, value)})
    assert "silently ignored" in only.effect
    assert remedy in only.remedy


@pytest.mark.parametrize(
    ("name", "ignored"),
    [
        ("rmaps_base_mapping_policy", True),
        ("hwloc_base_binding_policy", True),
        ("rmaps_default_mapping_policy", False),
        ("plm_rsh_agent", False),  # mpirun translates it
        ("oob_tcp_if_include", False),
    ],
)
def test_on_the_command_line_5_0_knows_its_own_names(name, ignored):
    assert bool(found(f"mpirun --mca {name} x ./a\n", name="job.sh")) == ignored


def test_4_1_keeps_its_names_and_ignores_those_of_5_0():
    assert found("rmaps_base_mapping_policy = core\noob_tcp_if_include = eth0\n", "openmpi4") == []
    (only,) = lint({PurePath("x.conf"): "plm_ssh_agent = ssh\n"}, "openmpi4")
    assert "write plm_rsh_agent" in only.remedy


def test_components_that_are_gone():
    assert "has no btl_openib" in found("btl_openib_want_fork_support = 1\n")[0][1]
    assert found("btl_openib_want_fork_support = 1\n", "openmpi4") == []


PRRTES = [
    ("rmaps_default_mapping_policy", "foo", "mpirun aborts", "package"),
    ("rmaps", "foo", "no rmaps 'foo': mpirun aborts", "round_robin"),
    ("oob_tcp_disable_family", "IPv6", "silently ignored", "PRTE_MCA_oob_tcp_disable_ipv6_family=1"),
    ("rmaps_base_mapping_policy", "core", "silently ignored", "PRTE_MCA_rmaps_default_mapping_policy=core"),
    ("btl", "self", "for it is Open MPI's", "OMPI_MCA_btl=self"),
    ("oob_tcp_if_incude", "eth0", "silently ignored", "did you mean oob_tcp_if_include?"),
]


@pytest.mark.parametrize(("name", "value", "effect", "remedy"), PRRTES, ids=[one[0] for one in PRRTES])
@pytest.mark.parametrize(
    ("file", "line"),
    [
        (".prte/mca-params.conf", "{} = {}\n"),
        ("etc/prte-mca-params.conf", "{}={}\n"),
        ("x.sh", "export PRTE_MCA_{}={}\n"),
        ("y.sh", "mpirun --prtemca {} {} -n 2 ./a\n"),
    ],
)
def test_what_reaches_prrte(file, line, name, value, effect, remedy):
    (only,) = lint({PurePath(file): line.format(name, value)})
    assert effect in only.effect and remedy in only.remedy
    good = ["rmaps_default_mapping_policy core", "oob_tcp_if_include eth0", "plm ssh", "ras ^slurm"]
    text = "".join(line.format(*one.split()) for one in good)
    assert lint({PurePath(file): text}) == ()


def test_names_of_variables_in_prrtes_own_file():
    file = {PurePath(".prte/mca-params.conf"): "PRTE_MCA_plm = ssh\nOMPI_MCA_btl = self\n"}
    assert [f.remedy for f in lint(file)] == ["write plm = ssh", "export OMPI_MCA_btl=self"]


@pytest.mark.mpi
def test_the_names_are_those_of_prte_info():
    said = subprocess.run(
        [find(origin="wheel").mpirun.with_name("prte_info"), "--all"], capture_output=True, text=True
    )
    listed = set(
        re.findall(r'^ *MCA [a-z]+: "([a-z]\w+)"', said.stdout.partition("mca_base_param_files")[2], re.M)
    )
    assert len(listed) > 100
    assert {n for n in listed if n.startswith(("plm", "oob", "ras", "rmaps", "prte_"))} <= PRRTE | set(
        COMPONENTS
    )
