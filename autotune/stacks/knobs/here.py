"""What a discovery on this machine would turn, and why it leaves the rest alone (used by ``doctor``)."""

from collections.abc import Iterable

from autotune.collectives import MEASURED
from autotune.stacks.installation import Installation
from autotune.stacks.knobs.discover import Decision, decisions, discovered_space
from autotune.stacks.knobs.in_use import openmpi_in_use
from autotune.stacks.knobs.listing import listings
from autotune.stacks.ports import Stack

_SIZES = (8, 64, 512, 4096, 32768, 262144, 1048576)
"""Message sizes in bytes, at which thresholds get levels."""


def facts_here(installation: Installation, stack: Stack) -> frozenset[str]:
    """The facts of a stack, with what launches of two ranks select where it does not say so itself.

    Raises:
        StackError: such a launch does not end, or does not say it.
    """
    in_use = openmpi_in_use(installation, stack.fixed) if installation.flavour == "openmpi" else frozenset()
    return stack.facts | in_use


def asked(nodes: int, collectives: Iterable[str]) -> frozenset[str]:
    """The facts of what is to be tuned: so many nodes, which are also fewer, and the collectives."""
    enough = (f"nodes:{n}" for n in range(1, nodes + 1))
    return frozenset((*enough, *(f"collective:{name}" for name in collectives)))


def decided(installation: Installation, stack: Stack, nodes: int) -> tuple[Decision, ...]:
    """What a discovery for all collectives on so many nodes would do with each variable.

    Raises:
        StackError: a library, or a launch of two ranks, does not answer.
    """
    facts = facts_here(installation, stack) | asked(nodes, MEASURED)
    listed = [classed for one in listings(installation) for classed in one.knobs]
    return decisions(listed, discovered_space(listed, facts, _SIZES))
