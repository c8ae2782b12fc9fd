"""Paths through a script: what each has set, and what it took for granted where the script branches."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from autotune.lint.words import Value, Word

MOST_PATHS = 16
"""Paths that are followed at once: four branches that each set something, in every combination."""

_TESTED = re.compile(
    r"""(?:\[\[?|test)\s+["']?x?(?P<subject>\$\w+|\$\{\w+(?::?-)?\})["']?\s*
    (?P<sign>==?|!=|-eq|-ne)\s*["']?x?(?P<value>[\w.+-]*)["']?\s*\]{0,2}""",
    re.VERBOSE,
)
"""A variable that is compared with a word."""


@dataclass(frozen=True, slots=True)
class World:
    """Variables set so far on one path through a script."""

    variables: Mapping[str, Value] = field(default_factory=dict)
    """By name."""
    facts: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    """Assumptions of the path: (test, value) → whether it holds."""
    exports_all: bool = False
    """After ``set -a``."""

    def with_value(self, name: str, words: Sequence[Word], line: int, *, exported: bool = False) -> "World":
        """After an assignment; a name that is exported stays so."""
        before = self.variables.get(name)
        seen = exported or self.exports_all or (before is not None and before.exported)
        facts = {
            key: so
            for key, so in self.facts.items()
            if not (name in key[0] and re.search(rf"\b{name}\b", key[0]))
        }
        return replace(self, variables={**self.variables, name: Value(tuple(words), line, seen)}, facts=facts)

    def exporting(self, name: str, *, on: bool) -> "World":
        """After ``export NAME``, or ``export -n NAME``."""
        value = self.variables.get(name)
        if value is None or value.exported == on:
            return self
        return replace(self, variables={**self.variables, name: replace(value, exported=on)})

    def without(self, names: Iterable[str]) -> "World":
        """After ``unset``."""
        gone = set(names)
        return replace(self, variables={n: v for n, v in self.variables.items() if n not in gone})


def assumed(worlds: Iterable[World], condition: str, *, holds: bool) -> list[World]:
    """The paths on which a condition may hold, or not, and which then took it for granted."""
    subject, value = condition.strip(), ""
    if negated := subject.startswith("!"):
        subject = subject[1:].strip()
    if match := _TESTED.fullmatch(subject):
        negated ^= match["sign"] in ("!=", "-ne")
        subject, value = re.sub(r"\W", "", match["subject"]), f"={match['value']}"
    return [after for world in worlds if (after := _with_fact(world, subject, value, holds != negated))]


def _with_fact(world: World, subject: str, value: str, so: bool) -> World | None:
    known = world.facts.get((subject, value))
    if (
        known is None
        and value
        and any(s == subject and v != value and so_ for (s, v), so_ in world.facts.items())
    ):
        known = False  # it is something else
    if known is not None:
        return world if known == so else None
    return replace(world, facts={**world.facts, (subject, value): so})


def joined(worlds: list[World], matters: Callable[[str, str], bool]) -> list[World]:
    """The paths where arms meet again; those that differ in nothing that matters become one."""
    if len(worlds) < 2:
        return worlds
    groups: dict[object, list[World]] = {}
    for world in worlds:
        kept = {n: v for n, v in world.variables.items() if matters(n, v.words[0].text if v.words else "")}
        groups.setdefault((frozenset(kept.items()), world.exports_all), []).append(world)
    return [_one(group) for group in islice(groups.values(), MOST_PATHS)]


def _one(worlds: list[World]) -> World:
    """Paths as one: where they differ, nothing is known."""
    first, *others = worlds
    others = [world for world in others if world.variables is not first.variables]
    variables = dict(first.variables)
    for other in others:
        for name in {*variables, *other.variables}:
            mine, its = variables.get(name), other.variables.get(name)
            if mine != its:
                sure = mine or its
                unknown = (Word(f"${name}", literal=False),)
                variables[name] = Value(unknown, sure.line if sure else 0, bool(sure and sure.exported))
    facts = {key: so for key, so in first.facts.items() if all(w.facts.get(key) == so for w in worlds)}
    return replace(first, variables=variables, facts=facts)
