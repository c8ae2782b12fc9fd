"""Define the data type of a mistake in a file, and the MPI versions that files are checked for."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import PurePath

from autotune.errors import UserError, allowed
from autotune.lint.codes import CODES

STACKS = {"openmpi4": (4, 1), "openmpi5": (5, 0), "openmpi6": (6, 0)}
"""Maps the name of each MPI that files can be checked for to its version."""

DEFAULT = "openmpi5"
"""Name of the MPI that files are checked for if neither the user nor a file names one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake in a file: a text that the MPI would ignore, misread or refuse."""

    file: PurePath
    """Path of the file."""
    line: int
    """Number of the line, counted from 1; 0 means the file as a whole."""
    code: str
    """Kind of the mistake, one of ``codes.CODES``."""
    effect: str
    """Text that says what the MPI does with the mistake."""
    remedy: str
    """Text that says what to write instead."""
    sure: bool = True
    """Whether the finding is true wherever the file may be used. A finding that depends on more than the
    content of the file is shown as a note."""

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"{self.code!r} is no code of a finding")

    def __str__(self) -> str:
        note = "" if self.sure else "note: "
        return f"{self.file}:{self.line}: {self.code} {note}{self.effect}\n    {self.remedy}"


@dataclass(frozen=True, slots=True)
class Notes:
    """Collects the findings in one file while the file is read."""

    path: PurePath
    findings: list[Finding] = field(default_factory=list)
    """The findings, in the order in which they were made."""

    def note(self, code: str, line: int, effect: str, remedy: str) -> None:
        """Add a finding at a line."""
        self.findings.append(Finding(self.path, line, code, effect, remedy))

    def quoted(self, line: int, name: str, value: str) -> None:
        """Add a finding if a value is in quotes, for kinds of file whose reader does not remove quotes."""
        if value.startswith(("'", '"')):
            effect = f"quotes become part of the value: {name} is {value!r}"
            self.note("MPI205", line, effect, "write the value without quotes")

    def commented(self, line: int, name: str, value: str, sign: str) -> None:
        """Add a finding if a comment follows a value, for kinds of file where it becomes part of the value.

        Args:
            line: Number of the line.
            name: Name that the value is assigned to.
            value: The value.
            sign: Pattern of the beginning of a comment.
        """
        if re.search(sign, value):
            effect = f"a comment behind a value becomes part of it: {name} is {value!r}"
            self.note("MPI204", line, effect, "put comments on lines of their own")


def version_of(mpi: str) -> tuple[int, int]:
    """Return the version (major, minor) of an MPI in ``STACKS``.

    Raises:
        UserError: the name is unknown.
    """
    if mpi not in STACKS:
        raise UserError(f"--mpi {mpi}", allowed(mpi, STACKS))
    return STACKS[mpi]


def likely_name(name: str, names: Collection[str]) -> str:
    """Return the known name that ``name`` probably misspells; empty if there is none or ``name`` is known.

    A misspelling has, in one word of the name, one letter too many, too few or wrong, or two letters in the
    wrong order. Differences in digits and in words of fewer than three letters are no misspellings, because
    they distinguish names (``RC``, ``UD``, ``ipv4``). A word that is written in full, but abbreviated by the
    library (``THRESHOLD``), counts as a misspelling too.
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
