"""Trials in Open MPI's words, on a described machine that is not this one."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.campaign.bench import named_space
from autotune.errors import SpaceError
from autotune.history.trial import Phase, Rule, Subject, Trial
from autotune.space import Parameter, Point, Space
from autotune.space.loader import load_space
from autotune.stacks.installation import Installation
from autotune.stacks.openmpi import RULES_FILE, OpenMpiDialect, OpenMpiStack
from autotune.stacks.ucx import Ucx

environment = OpenMpiDialect().environment
MACHINE = OpenMpiStack(
    installation=Installation(
        "openmpi", "5.0.11", Path("/o/bin/mpirun"), Path("/o/lib/libmpi.so.40"), "site"
    ),
    components={"coll": ("han", "tuned"), "pml": ("ob1", "ucx")},
    enumerators={"allreduce": {"ignore": 0, "basic_linear": 1, "recursive_doubling": 3, "ring": 4}},
    ucx=Ucx("1.20.1", ("self", "tcp", "sysv", "posix", "cma", "rc_mlx5"), ("tcp/eth0",)),
    pml="ucx",
    fixed={"OMPI_MCA_pml": "ucx"},
    numa_nodes=2,
    cores=8,
)
ASKED = SimpleNamespace(space="openmpi_ucx_local", collective=["allreduce"], cluster=SimpleNamespace(nodes=1))
NAMED = named_space(ASKED)
SPACE = MACHINE.available(NAMED)


def trial(point, subject=Subject.SWEEP, rules=()):
    return Trial(1, Phase.SEARCH, point, subject, rules=rules)


def test_the_library_is_not_asked_for_what_the_launcher_reads():
    said = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": "core"}
    stack = replace(MACHINE, fixed={"OMPI_MCA_btl": "^ofi", **said})
    expect = stack.render(SPACE, trial(SPACE.default, Subject.UNTOUCHED), ["allreduce"]).expect
    assert expect.cvars == {"btl": "^ofi"}
    assert "OMPI_MCA_rmaps_base_oversubscribe" in expect.env


def test_facts_name_what_a_space_can_ask_for():
    assert {
        "coll:han",
        "pml:ucx",
        "pml_built:ob1",
        "ucx_tl:sm",
        "ucx_tl:rc",
        "numa:2",
        "openmpi:5",
    } <= MACHINE.facts
    assert not {"pml:ob1", "numa:3"} & MACHINE.facts  # ob1 is there, but not in use


def test_only_algorithms_that_the_library_lists_are_offered():
    offered = ("default", "linear", "recursive_doubling")
    assert SPACE["algorithm"].collectives["allreduce"] == offered
    theirs = replace(MACHINE, commutative=True).available(NAMED)
    assert theirs["algorithm"].collectives["allreduce"] == (*offered, "ring")


def test_the_untouched_launch_sets_nothing_but_what_the_scenario_fixes():
    found = MACHINE.render(SPACE, trial(SPACE.default, Subject.UNTOUCHED), ["allreduce"])
    assert dict(found.env) == {"OMPI_MCA_pml": "ucx"}
    assert not found.choices
    assert found.expect.cvars == {"pml": "ucx"}
    assert found.expect.ucx


def test_a_default_sets_nothing_and_anything_else_what_the_space_says():
    point = SPACE.complete({"UCX_TLS": "self,posix", "coll_han": "off", "map_by": "numa", "bind_to": "none"})
    found = MACHINE.render(SPACE, trial(point), ["allreduce"])
    assert dict(found.env) == {
        "OMPI_MCA_pml": "ucx",
        "UCX_TLS": "self,posix",
        "OMPI_MCA_coll_han_priority": "0",
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
    }
    assert (found.map_by, found.bind_to) == ("numa", "none")


def plain(**fixed):
    """A machine on which Open MPI takes ob1 by itself."""
    machine = replace(MACHINE, pml=fixed.get("OMPI_MCA_pml", "ob1"), fixed=fixed)
    return machine, machine.available(NAMED)


def test_where_ucx_has_to_be_chosen_the_untouched_launch_goes_without_it():
    machine, space = plain()
    untouched = machine.render(space, trial(space.default, Subject.UNTOUCHED), ["allreduce"])
    assert not untouched.env
    assert not untouched.expect.ucx
    assert not any(name.startswith("UCX_") for name in space.default)
    chosen = machine.render(
        space, trial(space.complete({"pml": "ucx", "UCX_TLS": "self,sysv"})), ["allreduce"]
    )
    assert chosen.env["OMPI_MCA_pml"] == "ucx"
    assert chosen.env["UCX_TLS"] == "self,sysv"
    assert chosen.expect.ucx
    assert "pml ob1 by default" in machine.description


def test_a_pml_that_the_scenario_fixes_is_no_choice_any_more():
    _, space = plain(OMPI_MCA_pml="ucx")
    assert space["pml"].values == ("ucx",)
    assert space.default["UCX_TLS"] == "all"
    assert SPACE["pml"].unset == "ucx"  # so that nothing is set that the untouched launch lacks
    _, without = plain(OMPI_MCA_pml="ob1")
    assert not any(p.name.startswith("UCX_") for p in without.parameters)
    assert {"UCX_TLS", "UCX_RNDV_THRESH"} <= {d.parameter for d in without.dropped}
    assert "pml = ob1" in {d.parameter: d.reason for d in without.dropped}["UCX_TLS"]


def test_every_choice_but_the_default_writes_every_variable_so_that_none_inherits():
    """The default writes none: what a site's own file forces is what a rules file falls back to as well."""
    choices = MACHINE.render(SPACE, trial(SPACE.default), ["allreduce"]).choices["allreduce"]
    assert [c.values["algorithm"] for c in choices] == ["default", "linear", "recursive_doubling"]
    assert [c.cvars.get("coll_tuned_allreduce_algorithm") for c in choices] == [None, 1, 3]
    default, *others = MACHINE.render(SPACE, trial(SPACE.default), ["bcast"]).choices["bcast"]
    assert not default.cvars
    assert {frozenset(c.cvars) for c in others} == {
        frozenset({"coll_tuned_bcast_algorithm", "coll_tuned_bcast_algorithm_segmentsize"})
    }


def test_a_deployed_subject_brings_its_rules_file():
    rules = (Rule("allreduce", 2, 0, Point.of({"algorithm": "ring"})),)
    found = MACHINE.render(SPACE, trial(SPACE.default, Subject.DEPLOYED, rules), ["allreduce"])
    assert found.env["OMPI_MCA_coll_tuned_dynamic_rules_filename"] == f"{{directory}}/{RULES_FILE}"
    assert " 4 0 0" in found.files[RULES_FILE]
    assert not found.choices
    assert "coll_tuned_dynamic_rules_filename" not in found.expect.cvars


def test_a_held_value_is_set_although_nothing_else_can_be_chosen():
    held = SPACE.fix({"UCX_TLS": "self,posix"}).fix({"coll_han": "on"})
    found = MACHINE.render(held, trial(held.default), ["allreduce"])
    assert found.env["UCX_TLS"] == "self,posix"
    assert "OMPI_MCA_coll_han_priority" not in found.env
    freed = MACHINE.render(held.fix({"UCX_TLS": "self,posix"}), trial(held.default), ["allreduce"])
    assert freed.env["UCX_TLS"] == "self,posix"


def test_two_parameters_can_share_one_variable():
    text = """
parameters:
  INTRA: {values: [auto, 4k], apply: {env: {UCX_RNDV_THRESH: "intra:{INTRA},inter:{INTER}"}}}
  INTER: {values: [auto, 8k], apply: {env: {UCX_RNDV_THRESH: "intra:{INTRA},inter:{INTER}"}}}
"""
    space = load_space(text, "shared")
    assert environment(space, space.complete({"INTER": "8k"}), {})[0] == {
        "UCX_RNDV_THRESH": "intra:auto,inter:8k"
    }
    assert environment(space, space.default, {})[0] == {}


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{nothing}", r"the template '\{nothing\}' names nothing"),
        ("{value", r"the template '\{value': expected '}'"),
    ],
)
def test_a_template_that_names_nothing_known_or_has_no_end_is_refused(template, said):
    space = Space("bad", (Parameter("A", ("x", "y"), "x", apply={"env": {"A": template}}),))
    with pytest.raises(SpaceError, match=f"A: {said}"):
        environment(space, space.complete({"A": "y"}), {})
