"""One variable that a communication library declares: what it says about itself."""

from dataclasses import dataclass
from enum import StrEnum


class KnobKind(StrEnum):
    """Type of a variable's value; its levels follow from it."""

    BOOLEAN = "boolean"  # Two words, as the library spells them.
    ENUMERATOR = "enumerator"  # One of the words it lists.
    INTEGER = "integer"  # A number of things, or words beside it.
    REAL = "real"  # A ratio or factor.
    BYTES = "bytes"  # A size or threshold.
    DURATION = "duration"  # A time with its unit.
    BANDWIDTH = "bandwidth"  # Bytes per second with their unit.
    LIST = "list"  # Words between commas.
    TEXT = "text"  # Anything.


class Way(StrEnum):
    """How a value reaches the library; the kinds of ``apply`` in a search space."""

    MCA = "mca"  # An MCA parameter of Open MPI.
    ENV = "env"  # An environment variable.


LAYERS = ("openmpi", "ucx", "ucc", "libfabric", "mpich", "intelmpi")
"""Libraries that can be asked, each with a rule file of its name."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One declared variable of one library."""

    layer: str  # Which library: one of ``LAYERS``.
    version: str  # Of the library.
    name: str  # As it is set: an MCA name, or an environment variable.
    kind: KnobKind  # What it holds.
    default: str  # As the library prints it; empty where it does not say.
    documentation: str = ""  # The library's own text, on one line.
    allowed: tuple[str, ...] = ()  # Words of an enumerator or list, or beside a number (``auto``, ``inf``).
    keys: tuple[str, ...] = ()  # Of a list of ``key:value`` pairs, the keys; ``kind`` is then that of a value
    level: int = 0  # Whom it is meant for: 1 to 3 users, 4 to 6 tuners, 7 to 9 developers; 0 = not said.
    component: str = ""  # Its part of the library: ``btl:sm``, ``tcp``; a category of MPICH.
    inherits: tuple[str, ...] = ()  # Variables that set this one too, the nearest first, or alias it.
    children: tuple[str, ...] = ()  # Variables that this one sets.
    way: Way = Way.ENV  # How it is set.
    deprecated: bool = False  # Whether the library says that it is not to be used any more.

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"OMPI_MCA_{self.name}" if self.way is Way.MCA else self.name


def on_one_line(text: str) -> str:
    """Documentation without its line breaks."""
    return " ".join(text.split())
