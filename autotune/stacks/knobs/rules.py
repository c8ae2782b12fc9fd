"""Read ``search_spaces/knobs/*.yaml``: which variables may be changed, and why the others may not.

A file is a mapping of rules, each with patterns. A variable belongs to the rule that has its full name, else
to the rule with a pattern that matches its name. It is an error if two rules match, unless one of them
declares by ``over`` that it is more specific than the other: the order of the rules has no meaning.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import translate
from functools import cached_property
from typing import Any

import yaml

from autotune.collectives import MEASURED
from autotune.errors import SpaceError, allowed
from autotune.resources import rules_text
from autotune.stacks.knobs.knob import Knob, KnobKind
from autotune.structure import Document

_COLLECTIVE = "(?i:(?P<collective>" + "|".join(sorted(MEASURED, key=len, reverse=True)) + "))"
"""Regular expression that replaces ``{collective}`` in a pattern."""

_PLACE = "0collective0"  # Replaces ``{collective}`` while a glob is translated into a regular expression.


class Class(StrEnum):
    """Says whether a variable may be changed."""

    PERFORMANCE = "performance"  # May be changed: it can affect the speed of messages and collectives.
    PROTECTED = "protected"  # Never changed: it affects correctness, resources, addresses, paths or security.
    DIAGNOSTICS = "diagnostics"  # Never changed: it controls logs, checks or counters.
    UNKNOWN = "unknown"  # Changed only if the user names it: no rule matches it.


@dataclass(frozen=True)
class KnobRule:
    """Holds one entry of a rule file."""

    name: str  # Name of the rule, unique in its file.
    klass: Class = field(metadata={"key": "class"})  # Class of the variables that match.
    reason: str  # Why the variables are of this class, in words for users.
    patterns: tuple[str, ...] = field(metadata={"key": "match"})
    """Names, globs with ``{collective}``, or regular expressions between slashes."""
    over: tuple[str, ...] = ()  # Names of less specific rules, over which this one takes precedence.
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Maps other parameters to tuples of values. The variables have an effect only if each of these
    parameters has one of the values in its tuple."""
    needs: tuple[str, ...] = ()
    """Facts without which a variable has no effect; ``{component}`` and ``{collective}`` are placeholders."""
    left_to: str = ""  # What sets the variables instead of a job-wide parameter, in words; empty: nothing.
    kind: KnobKind | None = None  # Type of the values; None: the type that the library declares is exact.
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Maps each value to try to the facts that it needs; empty: the values follow from the type."""
    without: tuple[str, ...] = ()  # Words that the syntax allows, but the library refuses.
    strong: Mapping[str, str] = field(default_factory=dict)
    """Maps a pattern of variables that mattered most on other machines to the source of this claim; a
    discovery begins with these variables."""

    @cached_property
    def _expressions(self) -> tuple[re.Pattern[str], ...]:
        globs = (p for p in self.patterns if not re.fullmatch(r"\w+", p))
        return tuple(re.compile(_expression(p)) for p in globs)

    def is_strong(self, name: str) -> bool:
        """Whether a pattern in ``strong`` matches a name: the variable mattered most on other machines."""
        return any(name == p or re.fullmatch(_expression(p), name) for p in self.strong)

    def names(self, name: str) -> bool:
        """Whether the rule lists exactly this name."""
        return name in self.patterns

    def match(self, name: str) -> re.Match[str] | None:
        """Return the match of the first pattern that matches a name; None if no pattern matches."""
        return next((m for e in self._expressions if (m := e.fullmatch(name))), None)


@dataclass(frozen=True, slots=True)
class Classed:
    """Holds a knob with its class and the rule that it belongs to."""

    knob: Knob  # The knob; a rule can replace its type and its allowed words.
    klass: Class  # Whether the knob may be changed.
    reason: str  # Why the knob is of this class, in words.
    rule: KnobRule | None = None  # The rule that the knob belongs to; None: no rule matches its name.
    collective: str = ""  # The collective in the knob's name, if the rule's pattern has ``{collective}``.

    @property
    def needs(self) -> tuple[str, ...]:
        """The facts without which the knob has no effect."""
        fields = {"component": self.knob.component.rpartition(":")[2], "collective": self.collective}
        return tuple(need.format_map(fields) for need in (self.rule.needs if self.rule else ()))


def load(layer: str) -> tuple[KnobRule, ...]:
    """Return the shipped rules of a layer.

    Raises:
        SpaceError: the file of the rules is missing or wrong.
    """
    return parse(rules_text(layer), layer)


def parse(text: str, name: str) -> tuple[KnobRule, ...]:
    """Return the rules that a YAML text declares; error messages refer to the text by ``name``.

    Raises:
        SpaceError: a key or a value is unknown, or ``over`` names no rule; the message says where.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise SpaceError(f"rules {name!r} are no YAML: {exc}") from exc
    if not isinstance(document, Mapping):
        raise SpaceError(f"rules {name!r} must be a mapping of rules", "NAME: {class, reason, match}")
    whole = Document("the file", lambda message, hint: SpaceError(f"rules {name!r}: {message}", hint))
    rules = tuple(_rule(str(key), declared, whole) for key, declared in document.items())
    names = {rule.name for rule in rules}
    for rule in rules:
        for general in rule.over:
            if general not in names:
                raise SpaceError(f"rules {name!r}, {rule.name}: over {general!r}", allowed(general, names))
    return rules


def classify(knobs: Iterable[Knob], rules: Sequence[KnobRule]) -> tuple[Classed, ...]:
    """Return each knob with the one rule that it belongs to, or with class ``unknown`` if no rule matches.

    Raises:
        SpaceError: a knob matches two rules, and neither declares that it is the more specific one.
    """
    return tuple(_classed(knob, rules) for knob in knobs)


def _classed(knob: Knob, rules: Sequence[KnobRule]) -> Classed:
    matching = [rule for rule in rules if rule.names(knob.name)]
    matching = matching or [rule for rule in rules if rule.match(knob.name)]
    first = [r for r in matching if all(rival.name in r.over for rival in matching if rival is not r)]
    if not matching:
        return Classed(knob, Class.UNKNOWN, "no rule names it")
    if len(first) != 1:
        raise SpaceError(
            f"{knob.name} matches the rules {', '.join(rule.name for rule in matching)}",
            "say in one of them which it is more specific than: over: [NAME]",
        )
    rule = first[0]
    kind = rule.kind or knob.kind
    words = ("0", "1") if kind is KnobKind.BOOLEAN and not knob.allowed else knob.allowed
    knob = replace(knob, kind=kind, allowed=tuple(word for word in words if word not in rule.without))
    matched = rule.match(knob.name)
    collective = (matched.groupdict().get("collective") if matched else "") or ""
    return Classed(knob, rule.klass, rule.reason, rule, collective.lower())


def _expression(pattern: str) -> str:
    if pattern.startswith("/") and pattern.endswith("/"):
        return pattern[1:-1]
    return translate(pattern.replace("{collective}", _PLACE)).replace(_PLACE, _COLLECTIVE)


def _rule(name: str, declared: Any, document: Document) -> KnobRule:
    if isinstance(declared, Mapping):
        declared = {**declared, "name": name}
        if "reason" in declared:
            declared["reason"] = " ".join(str(declared["reason"]).split())
        if not isinstance(levels := declared.get("levels", {}), Mapping):
            declared["levels"] = dict.fromkeys(levels if isinstance(levels, list) else [levels], ())
    return document.structured(KnobRule, declared, name)
