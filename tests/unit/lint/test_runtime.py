"""Parameters of the launcher, from 4.1 to 5.0 and back."""

from pathlib import PurePath

import pytest

from autotune.lint import lint
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
