"""Describe a call of a collective, and the algorithm that a tuning file selects for it, with the reasons."""

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
"""Maps each meaning of a message size (``Size``) to the quantity that the size counts, in words."""

CHOSEN = tuple(
    c.name for c in COLLECTIVES.values() if c.mpich or c.intel or (c.openmpi and c.openmpi.algorithms)
)
"""Collectives for which some library offers a choice of algorithms."""


def collective_named(text: str) -> str:
    """Return the collective with this name or alias.

    Raises:
        UserError: no collective has this name or alias.
    """
    if name := called(text):
        return name
    raise UserError(f"there is no collective {text!r}", allowed(text, COLLECTIVES))


@dataclass(frozen=True, slots=True)
class Asked:
    """Describes one call of a collective."""

    collective: str
    ranks: int  # Ranks of the communicator.
    nbytes: int  # Message size in bytes, as the OSU benchmarks count it: see ``COUNTS``.
    ppn: int = 0  # Ranks on a node; 0: all ranks are on one node.

    @property
    def nodes(self) -> int:
        """The number of nodes that the call runs on."""
        return -(-self.ranks // self.ppn) if self.ppn else 1

    @property
    def total_bytes(self) -> int:
        """The size of the blocks of all ranks together, in bytes."""
        return self.nbytes * self.ranks

    @property
    def counted(self) -> str:
        """The quantity that the message size counts, in words."""
        return COUNTS[COLLECTIVES[self.collective].size]


@dataclass(slots=True)
class Answer:
    """Holds the algorithm that a tuning file selects for a call, and the reasons."""

    collective: str
    """Name of the collective."""
    algorithm: str = ""
    """Name of the algorithm; empty: the library decides by itself."""
    line: int = 0
    """Number of the file's line that selects the algorithm; 0: no line does."""
    component: str = ""
    """Component of the library that runs the call."""
    why: list[str] = field(default_factory=list)
    """The reasons, one line each."""
