"""Everything that the libraries of one MPI declare, classed, and what a discovery here would turn of it."""

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

_OWN = ("openmpi", "mpich", "intelmpi")  # Flavours of an installation whose own variables are a layer.


_SIZES = (8, 64, 512, 4096, 32768, 262144, 1048576)
"""Message sizes in bytes, at which thresholds get levels where none are asked for."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The variables of one layer."""

    layer: str  # One of ``LAYERS``.
    version: str  # Of the library.
    knobs: tuple[Classed, ...]  # All of them, in the library's order.

    @property
    def counts(self) -> dict[Class, int]:
        """How many there are of each class."""
        counted = Counter(classed.klass for classed in self.knobs)
        return {klass: counted[klass] for klass in Class}

    @property
    def without_rule(self) -> tuple[str, ...]:
        """Names that no rule knows."""
        return tuple(classed.knob.name for classed in self.knobs if classed.rule is None)


def listings(installation: Installation, layers: Sequence[str] = ()) -> tuple[Listing, ...]:
    """The layers of an installation that are there; one that is asked for and not there is an error.

    Raises:
        StackError: an unknown layer, one that is not installed, or one that cannot be asked.
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
    """The variables of one layer; none where it is not installed.

    Raises:
        StackError: it is there and cannot be asked.
    """
    if layer in _OWN:
        if layer != installation.flavour:
            return ()
        if layer == "intelmpi":
            own = dialect(layer).surroundings(installation.mpirun)
            return intelmpi.read(installation.mpirun, installation.version, own)
        return openmpi.read(installation.mpirun) if layer == "openmpi" else mpich.read(installation.library)
    beside = installation.library.parent  # libraries below an MPI are in a folder of its own, or beside it
    folders = (beside / "openmpi", beside / "mpich", beside)
    return libfabric.read(folders) if layer == "libfabric" else ucx.read(layer, folders)


def facts_here(
    installation: Installation, stack: Stack, placement: Placement = TWO_RANKS, launcher: object = None
) -> frozenset[str]:
    """The facts of a stack, with what launches select where it does not say so itself.

    A launcher that returns what programs print makes them at the placement. Else they are of two ranks here,
    and for several nodes what only these can use is taken for used.

    Raises:
        StackError: such a launch does not end, or does not say it.
    """
    if installation.flavour != "openmpi":
        return stack.facts
    facts = stack.facts | openmpi_in_use(installation, stack.fixed, placement, launcher)
    apart = placement.nodes > 1 and not isinstance(launcher, Hearing)
    return facts | between_nodes(stack.facts) if apart else facts


def asked(nodes: int, collectives: Iterable[str]) -> frozenset[str]:
    """The facts of what is to be tuned: so many nodes, also fewer, what is called, and who sends to whom."""
    facts = {f"nodes:{n}" for n in range(1, nodes + 1)}
    for name in collectives:
        # Who sends to whom; what blocks until all are done goes by components that nothing else does.
        its = COLLECTIVES[name]
        pattern = "collective" if its.collective else its.pattern
        facts |= {f"collective:{name}", f"pattern:{pattern}"}
        facts |= {"pattern:two_sided"} if its.two_sided else set()
    return frozenset(facts)


def decided(
    installation: Installation, stack: Stack, placement: Placement = TWO_RANKS, launcher: object = None
) -> tuple[Decision, ...]:
    """The decision of a discovery for all collectives at a placement on each variable; see ``facts_here``.

    Raises:
        StackError: a library, or a launch, does not answer.
    """
    facts = facts_here(installation, stack, placement, launcher) | asked(placement.nodes, MEASURED)
    listed = [classed for one in listings(installation) for classed in one.knobs]
    return decisions(listed, discovered_space(listed, facts, _SIZES))
