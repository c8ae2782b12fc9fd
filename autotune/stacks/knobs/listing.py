"""All variables that the libraries of one MPI declare, classed, and which of them a discovery would turn."""

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

_OWN = ("openmpi", "mpich", "intelmpi")  # Flavours of an installation that are also a layer by themselves.


_SIZES = (8, 64, 512, 4096, 32768, 262144, 1048576)
"""Message sizes in bytes at which thresholds get levels where the user names no sizes."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Holds the variables of one layer."""

    layer: str  # Which library: one of ``LAYERS``.
    version: str  # Version of the library.
    knobs: tuple[Classed, ...]  # All its variables, in the library's order.

    @property
    def counts(self) -> dict[Class, int]:
        """The number of variables of each class."""
        counted = Counter(classed.klass for classed in self.knobs)
        return {klass: counted[klass] for klass in Class}

    @property
    def without_rule(self) -> tuple[str, ...]:
        """The names of variables that no rule matches."""
        return tuple(classed.knob.name for classed in self.knobs if classed.rule is None)


def listings(installation: Installation, layers: Sequence[str] = ()) -> tuple[Listing, ...]:
    """Return the listings of the layers of an installation.

    Args:
        installation: The MPI whose libraries are asked.
        layers: Layers that must be there; empty: all of ``LAYERS`` that are installed.

    Raises:
        StackError: a layer is unknown, is not installed although it is in ``layers``, or cannot be asked.
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
    """Return the variables of one layer; none where it is not installed.

    Raises:
        StackError: the library is there and cannot be asked.
    """
    if layer in _OWN:
        if layer != installation.flavour:
            return ()
        if layer == "intelmpi":
            surroundings = dialect(layer).surroundings(installation.mpirun)
            return intelmpi.read(installation.mpirun, installation.version, surroundings)
        return openmpi.read(installation.mpirun) if layer == "openmpi" else mpich.read(installation.library)
    folder = installation.library.parent  # libraries below an MPI are in a folder of its own, or beside it
    folders = (folder / "openmpi", folder / "mpich", folder)
    return libfabric.read(folders) if layer == "libfabric" else ucx.read(layer, folders)


def facts_here(
    installation: Installation, stack: Stack, placement: Placement = TWO_RANKS, launcher: object = None
) -> frozenset[str]:
    """Return the facts of a stack, and for Open MPI also those about what its launches select.

    A launcher that returns what programs print (``Hearing``) makes these launches at the placement. Otherwise
    two ranks on this machine are launched; for several nodes, what only these can use is then taken to be in
    use.

    Raises:
        StackError: such a launch does not end, or does not print what it selects.
    """
    if installation.flavour != "openmpi":
        return stack.facts
    facts = stack.facts | openmpi_in_use(installation, stack.fixed, placement, launcher)
    between = placement.nodes > 1 and not isinstance(launcher, Hearing)
    return facts | between_nodes(stack.facts) if between else facts


def job_facts(nodes: int, collectives: Iterable[str]) -> frozenset[str]:
    """Return the facts of a job that is tuned: node counts up to its own, its collectives and patterns."""
    facts = {f"nodes:{n}" for n in range(1, nodes + 1)}
    for name in collectives:
        # Only blocking collectives go through components of collectives, so they share one pattern.
        collective = COLLECTIVES[name]
        pattern = "collective" if collective.collective else collective.pattern
        facts |= {f"collective:{name}", f"pattern:{pattern}"}
        facts |= {"pattern:two_sided"} if collective.two_sided else set()
    return frozenset(facts)


def decided(
    installation: Installation, stack: Stack, placement: Placement = TWO_RANKS, launcher: object = None
) -> tuple[Decision, ...]:
    """Return what a discovery for all collectives at a placement decides on each variable.

    The arguments are those of ``facts_here``.

    Raises:
        StackError: a library, or a launch, does not answer.
    """
    facts = facts_here(installation, stack, placement, launcher) | job_facts(placement.nodes, MEASURED)
    listed = [classed for listing in listings(installation) for classed in listing.knobs]
    return decisions(listed, discovered_space(listed, facts, _SIZES))
