"""Find the versions of Open MPI for which a branch is taken, from its condition in Lua, Tcl or a shell.

This module understands comparisons of a version with a number, with a pattern or by order, joined by ``and``
and ``or``; other parts of a condition are assumed to be true or false. If a condition contains ``not``, or no
such comparison, the branch may be taken for any version.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt

Version = tuple[int, int]

ALL: frozenset[Version] = frozenset({(3, 1), (4, 0), (4, 1), (5, 0), (6, 0)})
"""The versions that are distinguished; 3.1 represents all versions before 4.0."""

_ORDER = {">=": ge, ">": gt, "<=": le, "<": lt, "-ge": ge, "-gt": gt, "-le": le, "-lt": lt}
_UNEQUAL = frozenset({"~=", "!=", "ne", "-ne"})
_NUMBER = r"[1-9]\d*(?:(?:%?\\?\.)[\dx*]+)*"
_SUBJECT = (
    r"(?:convertToCanonical\()?[\[\"'{]*(?P<subject>\$?\{?\w+(?:%%?[^}\s]*)?(?:::?-)?\}?(?:\(\))?)[\]\"'})]*"
)
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"package vcompare {_SUBJECT}\s+[\"'{{]?(?P<number>{_NUMBER})[\"'}}]?\]\s*(?P<sign>[<>=!]=?)\s*0",
        rf"string match\s+[\"'{{]?(?P<number>{_NUMBER})\*?[\"'}}]?\s+{_SUBJECT}",
        rf"string\.(?:match|find)\(\s*{_SUBJECT}\s*,\s*[\"']\^(?P<number>{_NUMBER})",
        rf"{_SUBJECT}:(?:match|find)\([\"']\^(?P<number>{_NUMBER})",
        rf"{_SUBJECT}\s*(?P<sign>=~|==?|~=|!=|[<>]=?|eq\b|ne\b|-eq|-ne|-[gl][te])\s*"
        rf"(?:convertToCanonical\()?[\"'{{]?\^?(?P<number>{_NUMBER})[.%*\"'}})]*",
    )
)
"""Syntax of comparisons; one without the group ``sign`` tests for equality."""
_WORDS = re.compile(r"open|mpi|ompi|version|ver|v|my|module|full|major|main|eb|[\W_\d]", re.IGNORECASE)
"""Parts of names of variables that contain a version of Open MPI; a name with any other part is that of
another product's version."""
_MENTIONED = re.compile(r"\$?\{?(\w*(?:ver|ompi\w*v|version)\w*)", re.IGNORECASE)
_OR = re.compile(r"\bor\b|\|\||\s-o\s")
_AND = re.compile(r"\band\b|&&|\s-a\s")
_NOT = re.compile(r"\bnot\b|(?:^|[\s(])!(?!=)")


@dataclass(frozen=True, slots=True)
class Branch:
    """The versions of Open MPI for which a branch of a script may be taken."""

    versions: frozenset[Version] = ALL
    """The possible versions."""
    says: bool = False
    """Whether some condition on the way to the branch tests the version."""
    named: bool = True
    """Whether all these conditions test for equality, so that the author meant each of the versions."""

    def within(self, outer: "Branch") -> "Branch":
        """Return this branch nested in another one; if they exclude each other, any version is possible."""
        shared = self.versions & outer.versions
        return Branch(shared or ALL, self.says or outer.says, self.named and outer.named and bool(shared))

    def beside(self, alternative: "Branch") -> "Branch":
        """Return the branch of a place that is reached through this branch or another one."""
        says = self.says and alternative.says
        return Branch(self.versions | alternative.versions, says, self.named and alternative.named)

    @property
    def open(self) -> bool:
        """Whether the branch does not depend on the version."""
        return not self.says


NO_BRANCH = Branch()
_UNCLEAR = Branch(says=True, named=False)


def taken(condition: str) -> tuple[Branch, Branch]:
    """Return the branch that is taken if a condition is true, and the one taken if it is false."""
    if not _is_asked(condition):
        return NO_BRANCH, NO_BRANCH
    if _NOT.search(condition):
        return _UNCLEAR, _UNCLEAR
    holds: frozenset[Version] = frozenset()
    alone = not _AND.search(condition)
    for part in _OR.split(condition):
        sets, remainder = _compared(part)
        if not sets:
            return _UNCLEAR, _UNCLEAR
        holds |= frozenset.intersection(*sets)
        alone &= not re.search(r"\w", re.sub(r"\b(?:if|then|test)\b", "", remainder))
    fails = ALL - _surely(condition) if alone else ALL
    by_equality = not any(sign in condition for sign in ("<", ">", "-ge", "-gt", "-le", "-lt", "~=", "!="))
    return Branch(holds or ALL, says=True, named=by_equality), Branch(fails or ALL, says=True, named=False)


def on_path(facts: Mapping[tuple[str, str], bool]) -> Branch:
    """Return the branch that a path through a script is in.

    Args:
        facts: Maps each condition (test, value) on the path to whether the path assumes it to be true.
    """
    branch = NO_BRANCH
    for (subject, value), so in facts.items():
        condition = f"{subject} == {value.removeprefix('=')}" if value else subject
        condition = re.sub(r"^(\S+) in (.*)$", lambda m: _cases(m[1], m[2]), condition)
        branch = branch.within(taken(condition)[0 if so else 1])
    return branch


def either(branches: Iterable[Branch]) -> Branch:
    """Return the branch of a place that is reached through any of several branches."""
    first, *further = branches
    for alternative in further:
        first = first.beside(alternative)
    return NO_BRANCH if first.versions == ALL and first.named else first


def _cases(subject: str, patterns: str) -> str:
    return " || ".join(f"{subject} == {pattern.strip()}" for pattern in patterns.split("|"))


def _is_ours(subject: str) -> bool:
    return not _WORDS.sub("", subject.partition("%")[0]) and bool(re.search(r"[a-z]", subject, re.IGNORECASE))


def _is_asked(condition: str) -> bool:
    return any(_is_ours(name) for name in _MENTIONED.findall(condition)) or bool(_compared(condition)[0])


def _compared(part: str) -> tuple[list[frozenset[Version]], str]:
    """Return the versions for which each comparison is true, and the text around the comparisons.

    ``part`` is a part of a condition without ``or``.
    """
    sets: list[frozenset[Version]] = []
    for form in _FORMS:
        for match in form.finditer(part):
            if _is_ours(match["subject"]):
                sign = match.groupdict().get("sign") or "=="
                sets.append(frozenset(version for version in ALL if _may(version, sign, match["number"])))
                part = part.replace(match[0], " ", 1)
    return sets, part


def _surely(condition: str) -> frozenset[Version]:
    """Return the versions for which a condition of comparisons is true at any patch level."""
    patched = re.search(r"[1-9]\d*\.\d+\.\d", condition)
    sets = [versions for part in _OR.split(condition) for versions in _compared(part)[0]]
    return frozenset() if patched else frozenset().union(*sets)


def _may(version: Version, sign: str, number: str) -> bool:
    stated = tuple(int(part) for part in re.findall(r"\d+", number))
    if order := _ORDER.get(sign):
        shorter = stated[:2]
        compared = version[: len(shorter)]
        return bool(order(compared, shorter)) or (len(stated) > 2 and compared == shorter)
    equal = (version[0] == 3 and stated[0] < 4) or version[: len(stated)] == stated[:2]
    return equal != (sign in _UNEQUAL) or (len(stated) > 2 and equal)
