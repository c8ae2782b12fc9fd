"""States of the paths through a script: the variables, and which conditions a path assumes to be true."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from autotune.lint.words import Value, Word

MOST_PATHS = 16
"""Maximum number of paths that are followed at once: as many as four ``if`` that each set something make."""

_TESTED = re.compile(
    r"""(?:\[\[?|test)\s+["']?x?(?P<subject>\$\w+|\$\{\w+(?::?-)?\})["']?\s*
    (?P<sign>==?|!=|-eq|-ne)\s*["']?x?(?P<value>[\w.+-]*)["']?\s*\]{0,2}""",
    re.VERBOSE,
)
"""A test that compares a variable with a word."""


@dataclass(frozen=True, slots=True)
class World:
    """State of one path through a script."""

    variables: Mapping[str, Value] = field(default_factory=dict)
    """The variables that are set so far, by name."""
    facts: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    """Assumptions of the path: maps each condition (subject, value) to whether it is assumed to be true."""
    exports_all: bool = False
    """Whether every variable that is set is exported, as after ``set -a``."""

    def with_value(self, name: str, words: Sequence[Word], line: int, *, exported: bool = False) -> "World":
        """Return the state after an assignment; a variable that is exported stays exported."""
        earlier = self.variables.get(name)
        visible = exported or self.exports_all or (earlier is not None and earlier.exported)
        facts = {
            key: so
            for key, so in self.facts.items()
            if not (name in key[0] and re.search(rf"\b{name}\b", key[0]))
        }
        return replace(
            self, variables={**self.variables, name: Value(tuple(words), line, visible)}, facts=facts
        )

    def exporting(self, name: str, *, on: bool) -> "World":
        """Return the state after ``export NAME``, or after ``export -n NAME``."""
        value = self.variables.get(name)
        if value is None or value.exported == on:
            return self
        return replace(self, variables={**self.variables, name: replace(value, exported=on)})

    def without(self, names: Iterable[str]) -> "World":
        """Return the state after ``unset``."""
        removed = set(names)
        return replace(self, variables={n: v for n, v in self.variables.items() if n not in removed})


def assumed(worlds: Iterable[World], condition: str, *, holds: bool) -> list[World]:
    """Return the paths on which a condition can be true (``holds``) or false, with that as an assumption."""
    subject, value = condition.strip(), ""
    if negated := subject.startswith("!"):
        subject = subject[1:].strip()
    if match := _TESTED.fullmatch(subject):
        negated ^= match["sign"] in ("!=", "-ne")
        subject, value = re.sub(r"\W", "", match["subject"]), f"={match['value']}"
    return [
        following for world in worlds if (following := _with_fact(world, subject, value, holds != negated))
    ]


def _with_fact(world: World, subject: str, value: str, so: bool) -> World | None:
    assumption = world.facts.get((subject, value))
    if (
        assumption is None
        and value
        and any(s == subject and v != value and so_ for (s, v), so_ in world.facts.items())
    ):
        assumption = False  # the path already assumes another value of the variable
    if assumption is not None:
        return world if assumption == so else None
    return replace(world, facts={**world.facts, (subject, value): so})


def joined(worlds: list[World], matters: Callable[[str, str], bool]) -> list[World]:
    """Return the paths after the end of a branch; paths that do not differ in a relevant variable are merged.

    ``matters`` returns whether a variable (name, value) is relevant.
    """
    if len(worlds) < 2:
        return worlds
    groups: dict[object, list[World]] = {}
    for world in worlds:
        relevant = {
            n: v for n, v in world.variables.items() if matters(n, v.words[0].text if v.words else "")
        }
        groups.setdefault((frozenset(relevant.items()), world.exports_all), []).append(world)
    return [_one(group) for group in islice(groups.values(), MOST_PATHS)]


def _one(worlds: list[World]) -> World:
    """Merge several paths into one; a variable with different values on these paths has an unknown value."""
    first, *further = worlds
    further = [world for world in further if world.variables is not first.variables]
    variables = dict(first.variables)
    for later in further:
        for name in {*variables, *later.variables}:
            value, other_value = variables.get(name), later.variables.get(name)
            if value != other_value:
                sure = value or other_value
                unknown = (Word(f"${name}", literal=False),)
                variables[name] = Value(unknown, sure.line if sure else 0, bool(sure and sure.exported))
    facts = {key: so for key, so in first.facts.items() if all(w.facts.get(key) == so for w in worlds)}
    return replace(first, variables=variables, facts=facts)
