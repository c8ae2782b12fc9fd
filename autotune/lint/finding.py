"""One thing that is wrong in a file, and for which stack."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import PurePath

from autotune.errors import UserError, allowed

STACKS = {"openmpi4": (4, 1), "openmpi5": (5, 0), "openmpi6": (6, 0)}
"""Stacks whose reading is known, with their version."""

DEFAULT = "openmpi5"
"""The one that is meant where nobody says."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the stack would not do as it is written."""

    file: PurePath
    """Where."""
    line: int
    """Counted from 1; 0: the file as a whole."""
    effect: str
    """The stack's reaction."""
    remedy: str
    """The correct spelling or setting."""
    sure: bool = True
    """Whether it holds wherever the file may be used; what depends on more than the file says is a note."""

    def __str__(self) -> str:
        note = "" if self.sure else "note: "
        return f"{self.file}:{self.line}: {note}{self.effect}\n    {self.remedy}"


@dataclass(frozen=True, slots=True)
class Notes:
    """Findings in one file, collected while it is read."""

    path: PurePath
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
    """The known name that one is a slip of the hand away from; empty for none, or itself.

    A slip is one letter too many, too few, another one, or two that changed places, in one word of the name;
    digits and words of fewer than three letters distinguish names (``RC``, ``UD``, ``ipv4``). So is a word in
    full that the library cuts short (``THRESHOLD``).
    """
    if name in known:
        return ""
    near = (one for one in known if -2 < len(name) - len(one) < 4)
    return next((one for one in near if _is_slip(name, one)), "")


def _is_slip(name: str, other: str) -> bool:
    if name.replace("_", "") == other.replace("_", ""):
        return True
    begins = _shared(name, other)
    ends = _shared(name[begins:][::-1], other[begins:][::-1])
    mine, its = name[begins : len(name) - ends], other[begins : len(other) - ends]
    word = _around(other, begins)
    if any(not c.isalpha() for c in mine + its) or len(word) < 3:
        return False
    in_full = not its and len(word) > 5 and (not ends or name[len(name) - ends] == "_")
    return in_full or max(len(mine), len(its)) == 1 or (len(mine) == 2 and mine == its[::-1])


def _shared(a: str, b: str) -> int:
    """How many letters two names have in common at their beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _around(name: str, at: int) -> str:
    """The word of a name at an index."""
    return name[name.rfind("_", 0, at) + 1 : at] + name[at:].partition("_")[0]
