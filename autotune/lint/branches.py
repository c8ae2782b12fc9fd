"""Versions of Open MPI for which a branch is taken, read from its condition in Lua, Tcl or a shell.

Comparisons of a version with a number, a pattern or by order, joined by ``and`` and ``or``; whatever else a
condition says may hold or not. ``not`` and what is not understood leave the version open.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt

Version = tuple[int, int]

ALL: frozenset[Version] = frozenset({(3, 1), (4, 0), (4, 1), (5, 0), (6, 0)})
"""The versions that are distinguished; 3.1 stands for all older ones."""

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
"""Comparisons; without a sign one of equality."""
_WORDS = re.compile(r"open|mpi|ompi|version|ver|v|my|module|full|major|main|eb|[\W_\d]", re.IGNORECASE)
"""Parts of the names of variables that hold a version of Open MPI: another product's have more."""
_MENTIONED = re.compile(r"\$?\{?(\w*(?:ver|ompi\w*v|version)\w*)", re.IGNORECASE)
_OR = re.compile(r"\bor\b|\|\||\s-o\s")
_AND = re.compile(r"\band\b|&&|\s-a\s")
_NOT = re.compile(r"\bnot\b|(?:^|[\s(])!(?!=)")


@dataclass(frozen=True, slots=True)
class Branch:
    """Versions for which a branch may be taken."""

    versions: frozenset[Version] = ALL
    """Those that are possible."""
    says: bool = False
    """Whether some condition on the way asks for the version."""
    named: bool = True
    """Whether all of these do it by equality, so that each of the versions is meant."""

    def within(self, other: "Branch") -> "Branch":
        """Inside of another branch; two that exclude each other leave the version open."""
        both = self.versions & other.versions
        return Branch(both or ALL, self.says or other.says, self.named and other.named and bool(both))

    def beside(self, other: "Branch") -> "Branch":
        """One of two ways to the same place."""
        says = self.says and other.says
        return Branch(self.versions | other.versions, says, self.named and other.named)

    @property
    def open(self) -> bool:
        """Whether it makes no difference between versions."""
        return not self.says


NO_BRANCH = Branch()
_UNCLEAR = Branch(says=True, named=False)


def taken(condition: str) -> tuple[Branch, Branch]:
    """The branch where a condition holds, and the one where it does not."""
    if not _is_asked(condition):
        return NO_BRANCH, NO_BRANCH
    if _NOT.search(condition):
        return _UNCLEAR, _UNCLEAR
    holds: frozenset[Version] = frozenset()
    alone = not _AND.search(condition)
    for part in _OR.split(condition):
        sets, rest = _compared(part)
        if not sets:
            return _UNCLEAR, _UNCLEAR
        holds |= frozenset.intersection(*sets)
        alone &= not re.search(r"\w", re.sub(r"\b(?:if|then|test)\b", "", rest))
    fails = ALL - _surely(condition) if alone else ALL
    named = not any(sign in condition for sign in ("<", ">", "-ge", "-gt", "-le", "-lt", "~=", "!="))
    return Branch(holds or ALL, says=True, named=named), Branch(fails or ALL, says=True, named=False)


def on_path(facts: Mapping[tuple[str, str], bool]) -> Branch:
    """The branch that a path through a script is in, from the conditions that it took for granted."""
    branch = NO_BRANCH
    for (subject, value), so in facts.items():
        said = f"{subject} == {value.removeprefix('=')}" if value else subject
        said = re.sub(r"^(\S+) in (.*)$", lambda m: _cases(m[1], m[2]), said)
        branch = branch.within(taken(said)[0 if so else 1])
    return branch


def either(branches: Iterable[Branch]) -> Branch:
    """One of several ways to a place."""
    first, *others = branches
    for other in others:
        first = first.beside(other)
    return NO_BRANCH if first.versions == ALL and first.named else first


def _cases(subject: str, patterns: str) -> str:
    return " || ".join(f"{subject} == {pattern.strip()}" for pattern in patterns.split("|"))


def _is_ours(subject: str) -> bool:
    return not _WORDS.sub("", subject.partition("%")[0]) and bool(re.search(r"[a-z]", subject, re.IGNORECASE))


def _is_asked(condition: str) -> bool:
    return any(_is_ours(name) for name in _MENTIONED.findall(condition)) or bool(_compared(condition)[0])


def _compared(part: str) -> tuple[list[frozenset[Version]], str]:
    """The versions of each comparison in a part without ``or``, and what else is in it."""
    sets: list[frozenset[Version]] = []
    for form in _FORMS:
        for match in form.finditer(part):
            if _is_ours(match["subject"]):
                sign = match.groupdict().get("sign") or "=="
                sets.append(frozenset(one for one in ALL if _may(one, sign, match["number"])))
                part = part.replace(match[0], " ", 1)
    return sets, part


def _surely(condition: str) -> frozenset[Version]:
    """The versions for which a condition of comparisons holds whatever the patch level is."""
    patched = re.search(r"[1-9]\d*\.\d+\.\d", condition)
    sets = [one for part in _OR.split(condition) for one in _compared(part)[0]]
    return frozenset() if patched else frozenset().union(*sets)


def _may(version: Version, sign: str, number: str) -> bool:
    asked = tuple(int(part) for part in re.findall(r"\d+", number))
    if order := _ORDER.get(sign):
        shorter = asked[:2]
        mine = version[: len(shorter)]
        return bool(order(mine, shorter)) or (len(asked) > 2 and mine == shorter)
    same = (version[0] == 3 and asked[0] < 4) or version[: len(asked)] == asked[:2]
    return same != (sign in _UNEQUAL) or (len(asked) > 2 and same)
