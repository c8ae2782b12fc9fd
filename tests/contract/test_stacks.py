"""What every MPI implementation promises: its words, and each point of each shipped space said in them."""

import shlex
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import ClassVar

import numpy as np
import pytest

from autotune.collectives import COLLECTIVES
from autotune.errors import StackError
from autotune.exporters import FORMATS
from autotune.history.trial import Phase, Rule, Subject, Trial
from autotune.lint.files import lint
from autotune.resources import folder
from autotune.space import Point, Space
from autotune.space.loader import load_space
from autotune.stacks import DIALECTS, dialect, implementations
from autotune.stacks.installation import Installation
from autotune.stacks.mpich_here import PROVIDERS, MpichStack
from autotune.stacks.ports import Placement, Rendering
from autotune.stacks.stack import Stack
from tests.covering import covering, needed_for
from tests.unit.stacks.test_openmpi import MACHINE


class Treed(MpichStack):
    """One whose library need not be there to know the tree in it."""

    _tree: ClassVar = {"collective=allreduce": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}}}


SPACES = {
    path.stem: load_space(path.read_text(), path.stem) for path in folder("search_spaces").glob("*.yaml")
}
_MPICH = Treed(
    Installation("mpich", "5.0.2", Path("/x/bin/mpiexec"), Path("/x/lib/libmpi.so.12"), "wheel"),
    dialect("mpich"),
    device="ofi",
    cores=4,
)
_INTEL = MpichStack(
    replace(_MPICH.installation, flavour="intelmpi", version="2021.18.1"),
    dialect("intelmpi"),
    device="ofi",
    fixed={"I_MPI_PIN": "1"},
    cores=4,
)
STACKS: dict[str, tuple[Stack, ...]] = {
    "openmpi": (
        MACHINE,
        replace(MACHINE, pml="ob1", fixed={}),
        replace(MACHINE, pml="ob1", fixed={"OMPI_MCA_pml": "ob1"}, ucx=None),
        replace(
            MACHINE,
            components={"coll": ("acoll", "han", "hcoll", "tuned", "ucc", "xhc"), "pml": ("ob1", "ucx")},
            numa_nodes=8,
            cores=128,
        ),
        replace(MACHINE, pml="cm", fixed={"OMPI_MCA_pml": "cm"}),
    ),
    "mpich": (_MPICH, replace(_MPICH, networked=True, providers=PROVIDERS, provider="tcp;ofi_rxm")),
    "intelmpi": (_INTEL, replace(_INTEL, networked=True, providers=("tcp", "shm"), provider="tcp")),
}
"""Described machines of each implementation that campaigns are made on: none of them is this one."""

MADE = [
    pytest.param(stack, SPACES[name], id=f"{flavour}-{number}-{name}")
    for flavour, stacks in STACKS.items()
    for number, stack in enumerate(stacks)
    for name in SPACES
    if SPACES[name].stack == flavour
]
SUBJECTS = {
    Subject.UNTOUCHED: (),
    Subject.SWEEP: (),
    Subject.DEPLOYED: (
        Rule("allreduce", 2, 0, Point()),
        Rule("allreduce", 2, 4096, Point.of({"algorithm": "ring"})),
    ),
}


def rendered(stack: Stack, space: Space, point: Point, subject: Subject) -> Rendering:
    rules = SUBJECTS[subject]
    if isinstance(stack, MpichStack) and stack.intel:  # it takes tables as a whole
        rules = tuple(replace(rule, choice=Point.of({"algorithm": "ring"})) for rule in rules)
    trial = Trial(1, Phase.SEARCH, point, subject, rules=rules)
    return stack.render(space, trial, [c for c in ("allreduce", "bcast") if c in COLLECTIVES])


def drawn(space: Space) -> list[Point]:
    """The default and points from everywhere."""
    return [space.default, *space.draw(np.random.default_rng(7), 60)]


def words_of(rendering: Rendering) -> Iterable[str]:
    return chain.from_iterable(
        [*rendering.env.items(), [rendering.map_by, rendering.bind_to], rendering.files]
    )


def test_every_implementation_that_campaigns_are_made_on_is_under_this_suite():
    assert {name for name in DIALECTS if dialect(name).campaigns} == set(STACKS)
    assert {space.stack for space in SPACES.values()} <= set(DIALECTS)


@pytest.mark.parametrize("name", DIALECTS)
class TestWords:
    """Known without any installation."""

    def test_every_point_of_every_space_has_words_on_one_line(self, name):
        words = dialect(name)
        for space in (space for space in SPACES.values() if space.stack == name):
            few = space.size <= 20_000
            for point in space.points() if few else space.draw(np.random.default_rng(0), 2_000):
                env, placement = words.environment(space, point, {})
                assert set(placement) <= {"map_by", "bind_to"}
                assert all(text and text.isprintable() for text in (*env, *placement.values()))
                assert all(text.isprintable() for text in env.values())

    def test_a_covering_meets_each_value(self, name):
        for space in (space for space in SPACES.values() if space.stack == name):
            points = covering(space)
            met = {item for point in points for item in point.items()}
            assert met == {(p.name, value) for p in space.job for value in p.values}
            assert all(point in space for point in points)

    def test_each_value_says_something_that_nothing_else_says(self, name):
        for space in (space for space in SPACES.values() if space.stack == name):
            if not any(parameter.apply for parameter in space.job):
                continue  # somebody's own program takes the values, or a model
            said = {}
            for parameter in space.job:
                for value in parameter.values:
                    wanted = needed_for(space, parameter.name, value)
                    env, place = dialect(name).environment(space, space.complete(wanted), {})
                    if value == parameter.default or parameter.level == "boot":  # firmware: nothing sets it
                        continue
                    words = frozenset({*env.items(), *place.items()})
                    assert words not in said, (parameter.name, value, said[words])
                    said[words] = parameter.name, value

    def test_nothing_that_lint_knows_is_wrong_with_any_value(self, name):
        for space in (space for space in SPACES.values() if space.stack == name == "openmpi"):
            for point in covering(space):
                env, _ = dialect(name).environment(space, point, {})
                script = "".join(f"export {n}={shlex.quote(v)}\n" for n, v in env.items())
                assert not lint({PurePath("env.sh"): script}, "openmpi5")

    def test_what_is_fixed_stays(self, name):
        fixed = {"UCX_NET_DEVICES": "mlx5_0:1"}
        for space in (space for space in SPACES.values() if space.stack == name):
            for point in drawn(space):
                env, _ = dialect(name).environment(space, point, fixed)
                assert fixed.items() <= env.items()
                assert env.keys() - fixed == dialect(name).environment(space, point, {})[0].keys()

    def test_default_formats_and_collectives_exist(self, name):
        assert set(dialect(name).formats) <= set(FORMATS)
        assert set(dialect(name).one_row) <= set(COLLECTIVES)

    def test_a_launcher_has_one_banner_and_one_line_of_options(self, name):
        words = dialect(name)
        assert (words.banner is not None) == (name in implementations())
        if words.banner is not None:
            assert words.banner.groups == 1
            options = words.mpirun_options(Placement(4, 2, 2), {"UCX_TLS": "self"})
            assert options == words.mpirun_options(Placement(4, 2, 2), {"UCX_TLS": "other"})
            assert all(isinstance(option, str) and option.isprintable() for option in options)

    def test_what_campaigns_are_not_made_on_is_refused(self, name):
        if not dialect(name).campaigns:
            installed = Installation(name, "1.0", Path("/x/bin/mpirun"), Path("/x/lib/libmpi.so"), "site")
            with pytest.raises(StackError, match=r"1\.0"):
                dialect(name).detect(installed, {}, {}, 2)


@pytest.mark.parametrize("stack, declared", MADE)
class TestStack:
    """Detected on a machine."""

    def test_what_is_available_is_part_of_the_space_and_stays_so(self, stack, declared):
        space = stack.available(declared)
        assert {p.name for p in space.parameters} <= {p.name for p in declared.parameters}
        for parameter in space.parameters:
            assert set(parameter.values) <= set(declared[parameter.name].values)
        again = stack.available(space)
        assert list(islice(again.points(), 50)) == list(islice(space.points(), 50))
        assert all(dropped.reason for dropped in space.dropped)

    @pytest.mark.parametrize("subject", SUBJECTS)
    def test_points_are_rendered_the_same_each_time_in_printable_words(self, stack, declared, subject):
        space = stack.available(declared)
        for point in drawn(space):
            rendering = rendered(stack, space, point, subject)
            assert rendering == rendered(stack, space, point, subject)
            assert all(text.isprintable() for text in words_of(rendering))
            assert stack.fixed.items() <= rendering.env.items()
            assert all("{directory}" not in value for value in rendering.expect.env.values())

    def test_an_untouched_launch_has_what_is_fixed_and_nothing_else(self, stack, declared):
        space = stack.available(declared)
        for point in drawn(space)[:5]:
            rendering = rendered(stack, space, point, Subject.UNTOUCHED)
            assert dict(rendering.env) == dict(stack.fixed)
            assert not (rendering.files or rendering.map_by or rendering.bind_to)
            assert not any(rendering.choices.values())

    def test_a_sweep_offers_what_the_space_has_each_once(self, stack, declared):
        space = stack.available(declared)
        for point in drawn(space)[:10]:
            for collective, choices in rendered(stack, space, point, Subject.SWEEP).choices.items():
                values = [Point.of(choice.values) for choice in choices]
                assert values == list(dict.fromkeys(space.choices(collective, point)))
                forced = {frozenset(choice.cvars) for choice in choices} - {frozenset()}
                assert len(forced) <= 1  # none inherits another's
            swept = rendered(stack, space, point, Subject.SWEEP)
            launched = [one.choices for one in swept.launches()]
            for (
                collective,
                choices,
            ) in swept.choices.items():  # each once, and none beside another's variables
                assert [c for part in launched for c in part.get(collective, ())] == list(choices)
                assert all(len({str(c.env) for c in part.get(collective, ())}) <= 1 for part in launched)

    def test_deployed_rules_lie_in_a_file_that_the_environment_names_or_in_variables(self, stack, declared):
        space = stack.available(declared)
        rendering = rendered(stack, space, space.default, Subject.DEPLOYED)
        assert rendering.files or rendering.env["I_MPI_ADJUST_ALLREDUCE"] == "8:0-4095;8:4096-2147483647"
        for name in rendering.files:
            assert f"{{directory}}/{name}" in rendering.env.values()

    def test_it_describes_itself(self, stack, declared):
        assert stack.description.isprintable()
        assert stack.facts
        assert all(what and finding for what, finding in stack.findings())
