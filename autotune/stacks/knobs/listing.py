"""List all variables that the libraries of an MPI declare, and say which of them a discovery would try.

A *layer* is one of these libraries: the MPI itself, or a library below it, such as UCX. A *discovery* finds
the variables that matter among all that are declared.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.collectives import COLLECTIVES, MEASURED
from autotune.errors import StackError, allowed
from autotune.stacks import dialect
from autotune.stacks.installation import Installation
from autotune.stacks.knobs import intelmpi, libfabric, mpich, openmpi, rules, ucx
from autotune.stacks.knobs.discover import Decision, decisions, discovered_space
from autotune.stacks.knobs.in_use import TWO_RANKS, between_nodes, openmpi_in_use
from autotune.stacks.knobs.knob import LAYERS, Knob
from autotune.stacks.knobs.rules import Class, Classed
from autotune.stacks.ports import Hearing, Placement
from autotune.stacks.stack import Stack

_OWN = ("openmpi", "mpich", "intelmpi")  # Layers that are MPI implementations, not libraries below an MPI.


_SIZES = (8, 64, 512, 4096, 32768, 262144, 1048576)
"""Message sizes in bytes that are tried as values of thresholds if the user names no sizes."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Holds the variables of one layer."""

    layer: str  # The library: one of ``LAYERS``.
    version: str  # Version of the library.
    knobs: tuple[Classed, ...]  # All variables of the library, in the library's order.

    @property
    def counts(self) -> dict[Class, int]:
        """The number of variables of each class."""
        counted = Counter(classed.klass for classed in self.knobs)
        return {klass: counted[klass] for klass in Class}

    @property
    def without_rule(self) -> tuple[str, ...]:
        """The names of the variables to which no rule of ``search_spaces/knobs`` applies."""
        return tuple(classed.knob.name for classed in self.knobs if classed.rule is None)


def listings(installation: Installation, layers: Sequence[str] = ()) -> tuple[Listing, ...]:
    """Return the variables of an MPI and of the libraries below it, as one listing for each library.

    All of ``layers`` must be installed. If ``layers`` is empty, every installed layer is listed.

    Raises:
        StackError: a library in ``layers`` is unknown or not installed, or the variables of an installed one
            cannot be read.
        SpaceError: a shipped rule file is wrong.
    """
    for layer in layers:
        if layer not in LAYERS:
            raise StackError(f"--stack {layer}", allowed(layer, LAYERS))
    listed = []
    for layer in layers or LAYERS:
        knobs = read(layer, installation)
        if knobs:
            classed = rules.classify(knobs, rules.load(layer))
            listed.append(Listing(layer, knobs[0].version, classed))
        elif layers:
            raise StackError(
                f"no {layer} belongs to {installation.mpirun}",
                "give another MPI by --mpirun, or leave --stack out to see what is there",
            )
    return tuple(listed)


def read(layer: str, installation: Installation) -> tuple[Knob, ...]:
    """Return the variables of one layer (one of ``LAYERS``); empty if the library is not installed.

    Raises:
        StackError: the library is installed, but its variables cannot be read.
    """
    if layer in _OWN:
        if layer != installation.flavour:
            return ()
        if layer == "intelmpi":
            surroundings = dialect(layer).surroundings(installation.mpirun)
            return intelmpi.read(installation.mpirun, installation.version, surroundings)
        return openmpi.read(installation.mpirun) if layer == "openmpi" else mpich.read(installation.library)
    folder = installation.library.parent  # UCX and others are next to libmpi, or in a folder for this MPI
    folders = (folder / "openmpi", folder / "mpich", folder)
    return libfabric.read(folders) if layer == "libfabric" else ucx.read(layer, folders)


def facts_here(
    installation: Installation, stack: Stack, placement: Placement = TWO_RANKS, launcher: object = None
) -> frozenset[str]:
    """Return the facts about a stack, and for Open MPI also facts about the components that a launch selects.

    If ``launcher`` can return what programs print (``Hearing``), it makes this launch at the placement.
    Otherwise two ranks are launched on this machine, and if the placement has several nodes, components that
    work only between nodes are assumed to be in use.

    Raises:
        StackError: the launch does not end, or does not print what it selects.
    """
    if installation.flavour != "openmpi":
        return stack.facts
    facts = stack.facts | openmpi_in_use(installation, stack.fixed, placement, launcher)
    between = placement.nodes > 1 and not isinstance(launcher, Hearing)
    return facts | between_nodes(stack.facts) if between else facts


def job_facts(nodes: int, collectives: Iterable[str]) -> frozenset[str]:
    """Return the facts about a job: its collectives, their patterns, and ``nodes:n`` for n = 1 … nodes."""
    facts = {f"nodes:{n}" for n in range(1, nodes + 1)}
    for name in collectives:
        # Collective components run only blocking collectives, and all blocking ones have the same pattern.
        collective = COLLECTIVES[name]
        pattern = "collective" if collective.collective else collective.pattern
        facts |= {f"collective:{name}", f"pattern:{pattern}"}
        facts |= {"pattern:two_sided"} if collective.two_sided else set()
    return frozenset(facts)


def decided(installation: Installation, stack: Stack, placement: Placement) -> tuple[Decision, ...]:
    """Return for each variable whether a discovery for all collectives would try it, and why.

    Raises:
        StackError: the variables of a library cannot be read, or a launch fails.
    """
    facts = facts_here(installation, stack, placement) | job_facts(placement.nodes, MEASURED)
    listed = [classed for listing in listings(installation) for classed in listing.knobs]
    return decisions(listed, discovered_space(listed, facts, _SIZES))
