"""Where a campaign's trials are made: who observes them, and what can be turned there.

A Hydra launcher plugin's ``connect(scenario)`` returns a ``Site``; nothing above it knows which one it is.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from autotune.campaign.description import SiteFacts, Stamp
from autotune.campaign.observing import Launches, Observers
from autotune.errors import ScenarioError
from autotune.measure.machine import disturbance
from autotune.probe.machine import counters
from autotune.resources import space_text
from autotune.scenario import Scenario
from autotune.space import Parameter, Space, Value, check_words
from autotune.space.given import fixed, text_of
from autotune.space.joined import DISCOVER, joined
from autotune.space.loader import load_space
from autotune.stacks import dialect
from autotune.stacks.cleared import check_forced
from autotune.stacks.installation import Installation, find
from autotune.stacks.knobs import asked, discovered_space, facts_here, listings
from autotune.stacks.ports import Launcher, Placement
from autotune.stacks.stack import Stack

_MEASURED = ("collective:", "pattern:")  # Facts of the scenario in place of the machine: what is measured.
_LOOK_S = 0.25
"""For which a machine is looked at, before anything is launched."""
Finding = tuple[str, str]  # What ``doctor`` shows: (what, finding).


@dataclass(frozen=True, slots=True)
class Site:
    """One place to make trials at."""

    observer: Observers  # Makes what observes them.
    space: Space  # What can be turned here, the scenario's fixed values applied; ``dropped`` says what cannot
    placement: Placement  # Where the ranks go unless a trial maps them.
    description: str  # What is measured there, such as MPI and UCX versions, in one line.
    stack: Stack | None = None  # The MPI that is launched; None: there is none, parameter files do nothing.
    findings: tuple[Finding, ...] = ()  # For ``doctor``.
    chosen: str = ""  # Which launcher was taken and why, where the user left that open.
    stamp: Stamp = field(default_factory=Stamp)  # Marks everything that comes from here, where no MPI runs.
    collective: tuple[str, ...] = ()  # What can be measured here, where the place decides it: a recording.
    sizes: tuple[int, ...] = ()  # Message sizes that can be measured here, likewise.
    has_defaults: bool = True  # Whether the stack's defaults can be launched; else nothing is compared.
    knobs: Space | None = None  # With ``space=discover``: what the stack says can be turned, beside the space
    at_once: bool = False  # Whether several launches can be alive at once on the same cores, and take turns.
    launched_by: Mapping[str, Any] = field(default_factory=dict)
    """The launcher's own configuration, so that it can be found again; empty: the default one."""
    launcher: Launcher | None = None  # What launches the stack; None: nothing does.

    @property
    def whole(self) -> Space:
        """Everything that a launch may set."""
        return joined(self.space, self.knobs) if self.knobs is not None else self.space

    @property
    def facts(self) -> SiteFacts:
        """Facts that a campaign keeps of the place."""
        stack, place = self.stack, self.placement
        fixed, coll = (stack.fixed, stack.coll) if stack else ({}, ())
        by = (self.launched_by, place.ranks, place.nodes, self.at_once)
        return SiteFacts(self.description, self.findings, fixed, coll, self.stamp, *by)

    def asked(self, scenario: Scenario) -> Scenario:
        """The scenario with what the place decides."""
        asked = replace(
            scenario, collective=self.collective or scenario.collective, sizes=self.sizes or scenario.sizes
        )
        if self.has_defaults:
            return asked
        baseline = replace(asked.baseline, launches=0, every=0)
        return replace(asked, baseline=baseline, verify=replace(asked.verify, enabled=False))


class Compose(Protocol):
    """Makes a scenario and its place of a configuration."""

    @property
    def origin(self) -> Mapping[str, Any]:
        """The scenario's name and the launcher: all another process needs to make the same."""

    def __call__(self, document: dict[str, Any], launches: bool = True) -> tuple[Scenario, Site]:
        """``launches``: whether something will be launched there; else what is there is looked at alone."""


def mpi_site(scenario: Scenario, connect: Callable[[Installation], Launcher]) -> Site:
    """The site of a real MPI: found, asked what it is, and the space cut to what it has.

    ``connect`` makes the launcher of the installation.

    Raises:
        StackError: no MPI, or one that fails; or the scenario forces an algorithm that is not cleared.
        SpaceError: the space cannot be read, or a fixed value is outside of it.
    """
    place = placement(scenario)
    installation = find(scenario.mpi.mpirun, scenario.mpi.origin, scenario.mpi.stack)
    local = place.ranks if place.nodes == 1 else 0
    mca = {str(k): text_of(v) for k, v in scenario.mpi.mca.items()}
    env = {str(k): text_of(v) for k, v in scenario.mpi.env.items()}
    for name, value in (*mca.items(), *env.items()):
        check_words("mpi.mca and mpi.env", name, value)
    check_forced(installation.flavour, installation.version, (*mca.items(), *env.items()))
    words = dialect(installation.flavour)
    if reproducible := "reproducible" in scenario.require:
        env = {**words.reproducible, **env}
    stack = replace(words.detect(installation, mca, env, local), nodes=place.nodes)
    launcher, knobs = connect(installation), None
    if scenario.space == DISCOVER:
        knobs = _knobs(scenario, installation, stack, place, launcher)
    offered = stack.available(named_space(scenario))
    space = fixed(words.sums_alike(offered) if reproducible else offered, scenario.fix)
    launcher = connect(installation)
    return Site(
        partial(Launches, stack, launcher, place),
        space,
        place,
        stack.description,
        stack,
        (*stack.findings(), *(machine_now() if place.nodes == 1 and not place.hosts else ())),
        knobs=knobs,
        at_once=launcher.at_once,
        launcher=launcher,
    )


def named_space(scenario: Scenario) -> Space:
    """The space that a scenario names, without the parameters of patterns that it does not measure.

    Raises:
        SpaceError: it cannot be read.
    """
    name = scenario.discover.space if scenario.space == DISCOVER else scenario.space
    measured = asked(scenario.cluster.nodes, scenario.collective)

    def unasked(parameter: Parameter, value: Value | None) -> str:
        needs = [t for t in parameter.requires if t.startswith(_MEASURED) and t not in measured]
        return f"needs {', '.join(needs)}" if needs and value is None else ""

    space = load_space(space_text(name), name).without(unasked)
    return replace(space, parameters=tuple(map(_without_measured, space.parameters)))


def _without_measured(parameter: Parameter) -> Parameter:
    return replace(parameter, requires=tuple(t for t in parameter.requires if not t.startswith(_MEASURED)))


def machine_now() -> tuple[Finding, ...]:
    """Other load on this machine, looked at for a moment; none where its kernel has no counters."""
    before, began_s = counters(), time.process_time()
    time.sleep(_LOOK_S)
    after, own_s = counters(), time.process_time() - began_s
    if before is None or after is None:
        return ()
    found = disturbance(before, after, own_s)
    said = ", ".join(found.words)
    return (("machine now", f"not quiet: {said}" if said else f"quiet, {found.cores} cores"),)


def _knobs(
    scenario: Scenario, installation: Installation, stack: Stack, place: Placement, launcher: Launcher
) -> Space:
    """Parameters that the installed libraries declare, as far as they are in effect in these launches."""
    in_use = facts_here(installation, stack, place, launcher)
    facts = in_use | asked(place.nodes, scenario.collective)
    listed = [classed for one in listings(installation) for classed in one.knobs]
    return discovered_space(listed, facts, scenario.sizes, scenario.discover.include)


def check_cores(scenario: Scenario) -> None:
    """Refuse more ranks than this machine has cores for, unless the scenario allows that.

    Raises:
        ScenarioError: there are more.
    """
    cores = len(os.sched_getaffinity(0))
    crowded = placement(scenario).oversubscribe and scenario.ranks is not None
    if crowded and not scenario.cluster.oversubscribe:
        raise ScenarioError(
            f"{scenario.ranks} ranks, but {cores} cores on this machine: ranks would wait for each other",
            f"cluster.ranks={cores} or fewer; or cluster.oversubscribe=true, to measure that all the same",
        )


def placement(scenario: Scenario) -> Placement:
    """Where the ranks go; without any word in the scenario, one rank on each core of this machine."""
    cores = len(os.sched_getaffinity(0))
    ranks = scenario.ranks or max(2, cores * scenario.cluster.nodes)
    nodes = scenario.cluster.nodes
    if ranks < nodes:
        raise ScenarioError(
            f"cluster.ranks={ranks} on cluster.nodes={nodes}", "needed: one rank a node at least"
        )
    return Placement(
        ranks=ranks,
        nodes=nodes,
        ppn=scenario.cluster.ppn or (-(-ranks // nodes) if nodes > 1 else 0),
        hosts=scenario.cluster.hosts,
        oversubscribe=nodes == 1 and not scenario.cluster.hosts and ranks > cores,
    )
