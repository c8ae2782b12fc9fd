"""Describe where a campaign's trials are made: who observes them, and which parameters can be set there.

A Hydra launcher plugin's ``connect(scenario)`` returns a ``Bench``; the rest of the program does not know
which plugin made it.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from autotune.campaign.observing import Launches, Observers
from autotune.campaign.spec import BenchFacts, Stamp
from autotune.errors import ScenarioError
from autotune.measure.machine import disturbance
from autotune.probe.machine import counters
from autotune.resources import space_text
from autotune.resources.secret import environment_without_secrets
from autotune.scenario import COMMUTATIVE, Scenario
from autotune.space import Parameter, Space, Value, check_words
from autotune.space.given import fixed, text_of
from autotune.space.joined import DISCOVER, joined
from autotune.space.loader import load_space
from autotune.stacks import dialect
from autotune.stacks.cleared import check_forced, cleared
from autotune.stacks.installation import Installation, find
from autotune.stacks.knobs import discovered_space, facts_here, job_facts, listings
from autotune.stacks.ports import Launcher, Placement
from autotune.stacks.stack import Stack

_MEASURED = ("collective:", "pattern:")
"""Prefixes of the requirements on what the scenario measures; the other requirements concern the machine."""
_LOOK_S = 0.25
"""Time in seconds for which a machine is watched before anything is launched."""
Finding = tuple[str, str]  # A line that ``doctor`` shows: (subject, finding).


@dataclass(frozen=True, slots=True)
class Bench:
    """Describe a place where trials are launched."""

    observer: Observers  # Makes the observer of a campaign's trials.
    space: Space
    """The parameters that can be set here, with the scenario's fixed values applied; ``space.dropped`` lists
    those that cannot."""
    placement: Placement  # Nodes and cores of the ranks, unless a trial sets a mapping.
    description: str  # The software that is measured, such as MPI and UCX versions, in one line.
    stack: Stack | None = None
    """The MPI that is launched; None: no MPI is launched, so parameter files have no effect."""
    findings: tuple[Finding, ...] = ()  # Findings about the place, for ``doctor``.
    chosen: str = ""  # Which launcher was chosen and why, if the user named none; else empty.
    stamp: Stamp = field(default_factory=Stamp)
    """Mark that all results from this place carry if they come from a model or a recorded table, and not from
    a real MPI."""
    collective: tuple[str, ...] = ()
    """The only collectives that can be measured here, as with a recorded table; empty: any."""
    sizes: tuple[int, ...] = ()  # The only message sizes that can be measured here; empty: any.
    has_defaults: bool = True
    """Whether the stack's defaults can be launched; if not, there is no baseline and no verification."""
    knobs: Space | None = None
    """With ``space=discover``: the parameters that the stack declares, besides ``space``; else None."""
    at_once: bool = False  # Whether several launches can be alive at once on the same cores, in turns.
    launched_by: Mapping[str, Any] = field(default_factory=dict)
    """Configuration from which the same launcher can be made again; empty: the default launcher."""
    launcher: Launcher | None = None  # Starts launches of the stack; None: there is no stack to launch.

    @property
    def whole(self) -> Space:
        """Return the space of everything that a launch may set."""
        return joined(self.space, self.knobs) if self.knobs is not None else self.space

    @property
    def facts(self) -> BenchFacts:
        """Return the facts that a campaign stores about this place."""
        stack, place = self.stack, self.placement
        fixed, coll = (stack.fixed, stack.coll) if stack else ({}, ())
        details = (self.launched_by, place.ranks, place.nodes, self.at_once)
        environment = environment_without_secrets(fixed)
        return BenchFacts(self.description, self.findings, environment, coll, self.stamp, *details)

    def asked(self, scenario: Scenario) -> Scenario:
        """Return the scenario with the options that this place determines, such as collectives and sizes."""
        scenario_here = replace(
            scenario, collective=self.collective or scenario.collective, sizes=self.sizes or scenario.sizes
        )
        if self.has_defaults:
            return scenario_here
        baseline = replace(scenario_here.baseline, launches=0)
        return replace(scenario_here, baseline=baseline, verify=replace(scenario_here.verify, enabled=False))


class Compose(Protocol):
    """Make a scenario and its bench from a configuration."""

    @property
    def origin(self) -> Mapping[str, Any]:
        """Return the names of scenario and launcher, from which another process can make an equal bench."""

    def __call__(self, document: dict[str, Any], launches: bool = True) -> tuple[Scenario, Bench]:
        """Return the scenario and the bench of a configuration.

        ``launches`` says whether anything will be launched on the bench. If not, the launcher does not
        prepare itself.
        """


def mpi_bench(scenario: Scenario, connect: Callable[[Installation], Launcher]) -> Bench:
    """Find and query a real MPI, and return its bench, whose space has only what this MPI supports.

    Args:
        scenario: The request.
        connect: Makes the launcher of an installation.

    Raises:
        StackError: no MPI is found, or the MPI fails; or the scenario forces an algorithm that the
            conformance table does not clear (the algorithm was never checked, or failed the check).
        SpaceError: the space cannot be read, or a fixed value is outside of it.
    """
    place = placement(scenario)
    installation = find(scenario.mpi.mpirun, scenario.mpi.origin, scenario.mpi.stack)
    local = place.ranks if place.nodes == 1 else 0
    mca = {str(k): text_of(v) for k, v in scenario.mpi.mca.items()}
    env = {str(k): text_of(v) for k, v in scenario.mpi.env.items()}
    for name, value in (*mca.items(), *env.items()):
        check_words("mpi.mca and mpi.env", name, value)
    commutative = scenario.operations == COMMUTATIVE
    check_forced(installation.flavour, installation.version, (*mca.items(), *env.items()), commutative)
    words = dialect(installation.flavour)
    if reproducible := "reproducible" in scenario.require:
        env = {**words.reproducible, **env}
    detected = words.detect(installation, mca, env, local)
    stack = replace(detected, nodes=place.nodes, commutative=commutative)
    launcher, knobs = connect(installation), None
    if scenario.space == DISCOVER:
        knobs = _knobs(scenario, installation, stack, place, launcher)
    offered = stack.available(named_space(scenario))
    space = fixed(words.sums_alike(offered) if reproducible else offered, scenario.fix)
    launcher = connect(installation)
    return Bench(
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
    """Return the space that a scenario names, without parameters of calls that the scenario does not measure.

    Raises:
        SpaceError: the space cannot be read.
    """
    name, *others = (scenario.discover.space,) if scenario.space == DISCOVER else (scenario.space, DISCOVER)
    measured = job_facts(scenario.cluster.nodes, scenario.collective)

    def missing(parameter: Parameter, value: Value | None) -> str:
        needs = [t for t in parameter.requires if t.startswith(_MEASURED) and t not in measured]
        return f"needs {', '.join(needs)}" if needs and value is None else ""

    space = load_space(space_text(name, *others), name).without(missing)
    return replace(space, parameters=tuple(map(_without_measured, space.parameters)))


def _without_measured(parameter: Parameter) -> Parameter:
    return replace(parameter, requires=tuple(t for t in parameter.requires if not t.startswith(_MEASURED)))


def machine_now() -> tuple[Finding, ...]:
    """Watch this machine for a moment and return the load of other processes as a finding.

    The result is empty if the kernel has no counters.
    """
    counts_before, began_s = counters(), time.process_time()
    time.sleep(_LOOK_S)
    counts_after, own_s = counters(), time.process_time() - began_s
    if counts_before is None or counts_after is None:
        return ()
    load = disturbance(counts_before, counts_after, own_s)
    text = ", ".join(load.words)
    return (("machine now", f"not quiet: {text}" if text else f"quiet, {load.cores} cores"),)


def _knobs(
    scenario: Scenario, installation: Installation, stack: Stack, place: Placement, launcher: Launcher
) -> Space:
    """Return the parameters that the installed libraries declare and that affect these launches."""
    in_use = facts_here(installation, stack, place, launcher)
    facts = in_use | job_facts(place.nodes, scenario.collective)
    knobs = [classed for listing in listings(installation) for classed in listing.knobs]
    declared = discovered_space(knobs, facts, scenario.sizes, scenario.discover.include)
    return cleared(declared, installation.flavour, installation.version, stack.commutative)


def check_cores(scenario: Scenario) -> None:
    """Refuse more ranks than this machine has cores, unless the scenario allows that.

    Raises:
        ScenarioError: there are more ranks than cores.
    """
    cores = len(os.sched_getaffinity(0))
    crowded = placement(scenario).oversubscribe and scenario.ranks is not None
    if crowded and not scenario.cluster.oversubscribe:
        raise ScenarioError(
            f"{scenario.ranks} ranks, but {cores} cores on this machine: ranks would wait for each other",
            f"cluster.ranks={cores} or fewer; or cluster.oversubscribe=true, to measure that all the same",
        )


def placement(scenario: Scenario) -> Placement:
    """Return the placement of the ranks; by default each core has one rank, and a job at least two.

    Raises:
        ScenarioError: there are fewer ranks than nodes.
    """
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
