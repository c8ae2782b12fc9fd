"""A call that a tuning file is asked for, and the answer: which algorithm of which component."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from autotune.collectives import COLLECTIVES, Size, called
from autotune.errors import UserError, allowed

COUNTS = {
    Size.VECTOR: "the vector of each rank",
    Size.BLOCK: "the block of one rank",
    Size.PEER: "the block for each other rank",
    Size.MESSAGE: "the message",
    Size.NONE: "nothing: it carries no data",
}
"""The quantity that a message size counts, in words."""

CHOSEN = tuple(
    c.name for c in COLLECTIVES.values() if c.mpich or c.intel or (c.openmpi and c.openmpi.algorithms)
)
"""Collectives for which any library lets somebody choose."""


def collective_named(text: str) -> str:
    """The collective that somebody calls so.

    Raises:
        UserError: there is none.
    """
    if name := called(text):
        return name
    raise UserError(f"there is no collective {text!r}", allowed(text, COLLECTIVES))


@dataclass(frozen=True, slots=True)
class Asked:
    """One call."""

    collective: str
    ranks: int
    nbytes: int  # As the OSU benchmarks count them: see ``COUNTS``.
    ppn: int = 0  # Ranks of a node; 0: all on one.

    @property
    def nodes(self) -> int:
        """Nodes that it runs on."""
        return -(-self.ranks // self.ppn) if self.ppn else 1

    @property
    def total_bytes(self) -> int:
        """The blocks of all ranks together."""
        return self.nbytes * self.ranks

    @property
    def counted(self) -> str:
        """The quantity that its size counts, in words."""
        return COUNTS[COLLECTIVES[self.collective].size]


@dataclass(slots=True)
class Answer:
    """The decision on a call, and the reasons."""

    collective: str
    algorithm: str = ""  # Empty: the library decides by itself.
    line: int = 0  # That says so; 0: none says anything.
    component: str = ""  # Component of the library that runs it.
    why: list[str] = field(default_factory=list)  # One reason a line.


def last_up_to(bounds: Sequence[int], value: int) -> int:
    """Where a search from the front ends that goes on while bounds are not larger; the first, below all."""
    at = 0
    for i, bound in enumerate(bounds):
        if bound > value:
            break
        at = i
    return at
