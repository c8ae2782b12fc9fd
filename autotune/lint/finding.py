"""One mistake in a file, and the stacks that mistakes are known for."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import PurePath

from autotune.errors import UserError, allowed

STACKS = {"openmpi4": (4, 1), "openmpi5": (5, 0), "openmpi6": (6, 0)}
"""Stack whose way to read files is known → its version."""

DEFAULT = "openmpi5"
"""The stack that is judged for where neither user nor file names one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Describes something in a file that the stack would not do as it is written."""

    file: PurePath
    """The file."""
    line: int
    """Number of the line, counted from 1; 0: the file as a whole."""
    effect: str
    """The behaviour of the stack, in words."""
    remedy: str
    """The correct spelling or setting, in words."""
    sure: bool = True
    """Whether it holds wherever the file may be used; one that depends on more than the file is a note."""

    def __str__(self) -> str:
        note = "" if self.sure else "note: "
        return f"{self.file}:{self.line}: {note}{self.effect}\n    {self.remedy}"


@dataclass(frozen=True, slots=True)
class Notes:
    """Collects the findings in one file while it is read."""

    path: PurePath
    findings: list[Finding] = field(default_factory=list)
    """The findings, in the order in which they were made."""

    def note(self, line: int, effect: str, remedy: str) -> None:
        """Add a finding at a line."""
        self.findings.append(Finding(self.path, line, effect, remedy))

    def quoted(self, line: int, name: str, value: str) -> None:
        """Add a finding if a value is in quotes, for files whose reader does not take quotes off."""
        if value.startswith(("'", '"')):
            effect = f"quotes become part of the value: {name} is {value!r}"
            self.note(line, effect, "write the value without quotes")

    def commented(self, line: int, name: str, value: str, sign: str) -> None:
        """Add a finding if a comment follows a value, for files whose reader makes it a part of the value.

        Args:
            line: Number of the line.
            name: Name that the value is assigned to.
            value: The value.
            sign: Pattern of the beginning of a comment.
        """
        if re.search(sign, value):
            effect = f"a comment behind a value becomes part of it: {name} is {value!r}"
            self.note(line, effect, "put comments on lines of their own")


def version_of(mpi: str) -> tuple[int, int]:
    """Return the version of a stack.

    Raises:
        UserError: the stack is not known.
    """
    if mpi not in STACKS:
        raise UserError(f"--mpi {mpi}", allowed(mpi, STACKS))
    return STACKS[mpi]


def likely_name(name: str, names: Collection[str]) -> str:
    """Return the known name that a name is probably a misspelling of; empty for none and for a known name.

    A misspelling has, in one word of the name, one letter too many, too few or wrong, or two letters in the
    wrong order. Digits and words of fewer than three letters distinguish names (``RC``, ``UD``, ``ipv4``). A
    word in full that the library cuts short (``THRESHOLD``) counts as a misspelling too.
    """
    if name in names:
        return ""
    near = (candidate for candidate in names if -2 < len(name) - len(candidate) < 4)
    return next((candidate for candidate in near if _is_slip(name, candidate)), "")


def _is_slip(name: str, correct: str) -> bool:
    if name.replace("_", "") == correct.replace("_", ""):
        return True
    begins = _shared(name, correct)
    ends = _shared(name[begins:][::-1], correct[begins:][::-1])
    extra, missing = name[begins : len(name) - ends], correct[begins : len(correct) - ends]
    word = _around(correct, begins)
    if any(not c.isalpha() for c in extra + missing) or len(word) < 3:
        return False
    in_full = not missing and len(word) > 5 and (not ends or name[len(name) - ends] == "_")
    return in_full or max(len(extra), len(missing)) == 1 or (len(extra) == 2 and extra == missing[::-1])


def _shared(a: str, b: str) -> int:
    """Return how many letters two names have in common at their beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _around(name: str, at: int) -> str:
    """Return the word of a name that is at an index."""
    return name[name.rfind("_", 0, at) + 1 : at] + name[at:].partition("_")[0]
