"""Define the codes of findings: what each kind of mistake is called, and which codes a user selects.

``codes.toml`` is the table. Every module that makes findings names a code of it; a plugin without a suitable
one uses ``MPI990``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.errors import UserError, allowed
from autotune.resources import facts

UNUSED, UNKNOWN = "MPI901", "MPI902"
"""Codes of mistakes in suppressions: one that suppresses nothing, and one of an unknown code."""


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of finding."""

    name: str
    """The code, such as ``MPI101``; its first digit is the subject."""
    title: str
    """The mistake in a few words."""
    problem: str
    """Text that says what a stack does with the mistake, in Markdown."""
    right: str
    """Text that says what to write."""
    why: str
    """Text that says why a stack does so."""
    exceptions: str = ""
    """Text that says where the finding does not hold, or is a note; empty if it always holds."""
    tried: bool = False
    """Whether launches confirmed the problem."""
    beyond: bool = False
    """Whether the finding may depend on more than the file: on the machine, or on the files beside it."""

    @property
    def anchor(self) -> str:
        """Return the anchor of the code's section in ``docs/lint.md``."""
        return self.name.lower()

    @property
    def markdown(self) -> str:
        """Return the body of that section."""
        problem = f"{self.problem} Confirmed by launches." if self.tried else self.problem
        parts = {"Problem": problem, "Right": self.right, "Why": self.why, "Exceptions": self.exceptions}
        rows = (f"- **{name}.** {text}" for name, text in parts.items() if text)
        return "\n".join([f"**{self.title}.**", "", *rows])


_TABLE = facts("lint/codes")

GROUPS: Mapping[str, str] = _TABLE.pop("groups")
"""Maps the first digit of codes to their subject."""

CODES: Mapping[str, Code] = {
    name: Code(name, exceptions=entry.pop("except", ""), **entry) for name, entry in _TABLE.items()
}
"""Maps each code to its meaning, in ascending order."""


def chosen(select: Sequence[str], ignore: Sequence[str]) -> frozenset[str]:
    """Return the codes that a user wants to see.

    As in ruff, of two prefixes of a code the longer one decides, and of equal ones the one to ignore.

    Args:
        select: Codes or their beginnings, such as ``MPI1``; several may be joined by commas. Empty: all.
        ignore: Codes or beginnings that are left out.

    Raises:
        UserError: no code begins so.
    """
    wanted, unwanted = _prefixes("--select", select) or ["MPI"], _prefixes("--ignore", ignore)
    return frozenset(code for code in CODES if _longest(code, wanted) > _longest(code, unwanted))


def _prefixes(option: str, words: Sequence[str]) -> list[str]:
    prefixes = [part.strip() for word in words for part in word.split(",") if part.strip()]
    for prefix in prefixes:
        if not any(code.startswith(prefix) for code in CODES):
            hint = (
                f"{allowed(prefix, ('MPI', *(f'MPI{digit}' for digit in GROUPS)))}, or codes of docs/lint.md"
            )
            raise UserError(f"{option} {prefix}: no code begins so", hint)
    return prefixes


def _longest(code: str, prefixes: Sequence[str]) -> int:
    """Return the length of the longest of several prefixes with which a code begins; 0 if there is none."""
    return max((len(prefix) for prefix in prefixes if code.startswith(prefix)), default=0)


def page() -> Iterator[str]:
    """Yield the sections of all codes as they are in ``docs/lint.md``."""
    for digit, subject in GROUPS.items():
        yield f"## {subject}\n"
        for code in CODES.values():
            if code.name.startswith(f"MPI{digit}"):
                yield f"### {code.name}\n\n{code.markdown}\n"
