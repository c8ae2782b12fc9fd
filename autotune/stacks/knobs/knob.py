"""One variable (*knob*) that a communication library declares, with the library's description of it."""

from dataclasses import dataclass
from enum import StrEnum


class KnobKind(StrEnum):
    """Names the type of a variable's value, which determines the values that are tried."""

    BOOLEAN = "boolean"  # Two words, as the library spells them.
    ENUMERATOR = "enumerator"  # The value is one of the words that the library lists.
    INTEGER = "integer"  # A whole number, or one of the words that are allowed in its place.
    REAL = "real"  # A ratio or factor.
    BYTES = "bytes"  # A size or threshold.
    DURATION = "duration"  # A time with its unit.
    BANDWIDTH = "bandwidth"  # Bytes per second with their unit.
    LIST = "list"  # Words between commas.
    TEXT = "text"  # Anything.


class Way(StrEnum):
    """Says how the value of a variable is set; each member is a key under ``apply`` in a search space."""

    MCA = "mca"  # An MCA parameter of Open MPI.
    ENV = "env"  # An environment variable.


LAYERS = ("openmpi", "ucx", "ucc", "libfabric", "mpich", "intelmpi")
"""Libraries whose variables can be listed; each has a file of rules ``search_spaces/knobs/NAME.yaml``."""


@dataclass(frozen=True, slots=True)
class Knob:
    """Describes one declared variable of one library."""

    layer: str  # The library: one of ``LAYERS``.
    version: str  # Version of the library.
    name: str  # Name of the MCA parameter or environment variable.
    kind: KnobKind  # Type of the value.
    default: str  # Default value as the library prints it; empty if it prints none.
    documentation: str = ""  # The library's own description, on one line.
    allowed: tuple[str, ...] = ()
    """Words of an enumerator or list, or words allowed in place of a number (``auto``, ``inf``)."""
    keys: tuple[str, ...] = ()
    """Keys of a value that is a list of ``key:value`` pairs; ``kind`` is then the type of a pair's value."""
    component: str = ""
    """Part of the library that reads the variable (``btl:sm``, ``tcp``); for MPICH its category."""
    inherits: tuple[str, ...] = ()
    """Other variables that also set this variable, the most specific first; for an alias, the variable that
    it stands for."""
    children: tuple[str, ...] = ()  # Other variables that this variable sets.
    way: Way = Way.ENV  # How the value is set.
    deprecated: bool = False  # Whether the library advises against using the variable.

    @property
    def variable(self) -> str:
        """The name of the environment variable that sets the knob."""
        return f"OMPI_MCA_{self.name}" if self.way is Way.MCA else self.name


def on_one_line(text: str) -> str:
    """Return a text with every run of white space, line breaks included, replaced by one blank."""
    return " ".join(text.split())
