"""One thing that is wrong in a file, and for which stack."""

from dataclasses import dataclass
from pathlib import PurePath

from autotune.errors import UserError, allowed

STACKS = {"openmpi4": (4, 1), "openmpi5": (5, 0), "openmpi6": (6, 0)}
"""Stacks whose reading is known, with their version."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the stack would not do as it is written."""

    file: PurePath
    """Where."""
    line: int
    """Counted from 1; 0: the file as a whole."""
    effect: str
    """What the stack would do."""
    remedy: str
    """What to write in its place."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.effect}\n    {self.remedy}"


def version_of(mpi: str) -> tuple[int, int]:
    """The version of a stack.

    Raises:
        UserError: a stack that is not known.
    """
    if mpi not in STACKS:
        raise UserError(f"--mpi {mpi}", allowed(mpi, STACKS))
    return STACKS[mpi]
