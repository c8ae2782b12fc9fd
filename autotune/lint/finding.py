"""One thing that is wrong in a file, and for which stack."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import PurePath

from autotune.errors import UserError, allowed

STACKS = {"openmpi4": (4, 1), "openmpi5": (5, 0), "openmpi6": (6, 0)}
"""Stacks whose reading is known, with their version."""

DEFAULT = "openmpi5"
"""The one that is meant where nobody says."""

IGNORED = "the whole file is silently ignored"
"""What becomes of a rules file that does not make sense to its reader."""


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


@dataclass(frozen=True, slots=True)
class Notes:
    """What is wrong in one file, as it is read."""

    path: PurePath
    """Of the file."""
    findings: list[Finding] = field(default_factory=list)
    """In the order in which they were made."""

    def note(self, line: int, effect: str, remedy: str) -> None:
        """Something is wrong at a line."""
        self.findings.append(Finding(self.path, line, effect, remedy))

    def quoted(self, line: int, name: str, value: str) -> None:
        """Note a value in quotes where they are not taken off."""
        if value.startswith(("'", '"')):
            effect = f"quotes become part of the value: {name} is {value!r}"
            self.note(line, effect, "write the value without quotes")

    def commented(self, line: int, name: str, value: str, sign: str) -> None:
        """Note a comment behind a value where it is not taken for one."""
        if re.search(sign, value):
            effect = f"a comment behind a value becomes part of it: {name} is {value!r}"
            self.note(line, effect, "put comments on lines of their own")


def version_of(mpi: str) -> tuple[int, int]:
    """The version of a stack.

    Raises:
        UserError: a stack that is not known.
    """
    if mpi not in STACKS:
        raise UserError(f"--mpi {mpi}", allowed(mpi, STACKS))
    return STACKS[mpi]


def meant(name: str, known: Collection[str]) -> str:
    """The known name that one resembles so closely that it can only be a slip; empty for none, or itself."""
    if name in known:
        return ""
    if close := get_close_matches(name, known, n=1, cutoff=0.9):
        return close[0]
    # Letters that changed places count twice above: too much in a short name.
    return next((k for k in get_close_matches(name, known, n=3, cutoff=0.8) if sorted(k) == sorted(name)), "")
