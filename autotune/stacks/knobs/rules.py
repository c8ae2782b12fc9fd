"""``search_spaces/knobs/*.yaml``: which variables may be turned, and why the others may not.

A file is a mapping of rules, each with patterns. A variable belongs to the rule that names it in full, else
to the rule with a pattern that it matches. Two such rules are an error, unless one of them declares by
``over`` that it is the more specific one: the order of the rules means nothing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from fnmatch import translate
from functools import cached_property
from typing import Any

import yaml

from autotune.collectives import MEASURED
from autotune.errors import SpaceError, allowed
from autotune.resources import rules_text
from autotune.stacks.knobs.knob import Knob, KnobKind

_COLLECTIVE = "(?i:(?P<collective>" + "|".join(sorted(MEASURED, key=len, reverse=True)) + "))"
"""Replacement for ``{collective}`` in a pattern."""

_PLACE = "0collective0"  # In its place while a glob becomes an expression.


class Class(StrEnum):
    """Permission to change a variable."""

    PERFORMANCE = "performance"  # It can change the speed of messages and collectives: turned.
    PROTECTED = "protected"  # Correctness, resources, addresses, paths, security: never touched.
    DIAGNOSTICS = "diagnostics"  # Logs, checks, counters: never touched.
    UNKNOWN = "unknown"  # Left alone unless the user names it.


@dataclass(frozen=True)
class KnobRule:
    """One entry of a rule file."""

    name: str  # Unique in its file.
    klass: Class  # Of the variables that match.
    reason: str  # Why, for people.
    patterns: tuple[str, ...]  # Names, globs with ``{collective}``, or regular expressions between slashes.
    over: tuple[str, ...] = ()  # Rules than which this one is more specific.
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """In effect only where these parameters have one of these values."""
    needs: tuple[str, ...] = ()
    """Facts without which a variable has no effect; ``{component}``, ``{collective}`` are filled in."""
    left_to: str = ""  # Who turns the variables in place of a job-wide parameter; empty: nobody.
    kind: KnobKind | None = None  # What the variables hold, where the library's type does not say it.
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """In place of levels from the type: each with the facts that it needs."""
    without: tuple[str, ...] = ()  # Words that the syntax allows and the library refuses.
    strong: Mapping[str, str] = field(default_factory=dict)
    """Which of its variables matter most elsewhere, as patterns → who says so: a discovery begins there."""

    @cached_property
    def _expressions(self) -> tuple[re.Pattern[str], ...]:
        globs = (p for p in self.patterns if not re.fullmatch(r"\w+", p))
        return tuple(re.compile(_expression(p)) for p in globs)

    def is_strong(self, name: str) -> bool:
        """Whether the variable is one of those that matter most elsewhere."""
        return any(name == p or re.fullmatch(_expression(p), name) for p in self.strong)

    def names(self, name: str) -> bool:
        """Whether the rule lists this very name."""
        return name in self.patterns

    def match(self, name: str) -> re.Match[str] | None:
        """The match of one of its patterns."""
        return next((m for e in self._expressions if (m := e.fullmatch(name))), None)


@dataclass(frozen=True, slots=True)
class Classed:
    """A knob with what its rule says."""

    knob: Knob  # As the rule refines it.
    klass: Class  # What may be done with it.
    reason: str  # Why.
    rule: KnobRule | None = None  # Which one; None: no rule knows the variable.
    collective: str = ""  # The collective that its name says, where the pattern asks for it.

    @property
    def needs(self) -> tuple[str, ...]:
        """Facts without which it has no effect."""
        fields = {"component": self.knob.component.rpartition(":")[2], "collective": self.collective}
        return tuple(need.format_map(fields) for need in (self.rule.needs if self.rule else ()))


def load(layer: str) -> tuple[KnobRule, ...]:
    """The shipped rules of a layer.

    Raises:
        SpaceError: the file is missing or wrong.
    """
    return parse(rules_text(layer), layer)


def parse(text: str, name: str) -> tuple[KnobRule, ...]:
    """The rules that a YAML text declares.

    Raises:
        SpaceError: unknown keys or values, or ``over`` names no rule; the message says where.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise SpaceError(f"rules {name!r} are no YAML: {exc}") from exc
    if not isinstance(document, Mapping):
        raise SpaceError(f"rules {name!r} must be a mapping of rules", "NAME: {class, reason, match}")
    rules = tuple(_rule(str(key), declared, name) for key, declared in document.items())
    known = {rule.name for rule in rules}
    for rule in rules:
        for other in rule.over:
            if other not in known:
                raise SpaceError(f"rules {name!r}, {rule.name}: over {other!r}", allowed(other, known))
    return rules


def classify(knobs: Iterable[Knob], rules: Sequence[KnobRule]) -> tuple[Classed, ...]:
    """Each knob with the one rule that it belongs to; unknown where there is none.

    Raises:
        SpaceError: a variable matches two rules of which none is declared more specific.
    """
    return tuple(_classed(knob, rules) for knob in knobs)


def _classed(knob: Knob, rules: Sequence[KnobRule]) -> Classed:
    matching = [rule for rule in rules if rule.names(knob.name)]
    matching = matching or [rule for rule in rules if rule.match(knob.name)]
    first = [r for r in matching if all(other.name in r.over for other in matching if other is not r)]
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


_KEYS = tuple({"klass": "class", "patterns": "match"}.get(f.name, f.name) for f in fields(KnobRule)[1:])
"""Keys of a rule in a file, where its name is the key above them."""


def _rule(name: str, declared: Any, where: str) -> KnobRule:
    here = f"rules {where!r}, {name}"
    if not isinstance(declared, Mapping):
        raise SpaceError(f"{here} must be a mapping", f"with the keys {', '.join(_KEYS)}")
    for key in declared:
        if key not in _KEYS:
            raise SpaceError(f"{here} has an unknown key {key!r}", allowed(key, _KEYS))
    for key in ("class", "reason", "match"):
        if not declared.get(key):
            raise SpaceError(f"{here} has no {key!r}", "each rule says class, reason and match")
    for key, values in (("class", Class), ("kind", KnobKind)):
        if declared.get(key, values) not in (values, *values):
            raise SpaceError(f"{here}: {key} {declared[key]!r}", allowed(declared[key], values))
    strong = declared.get("strong", {})
    if not (isinstance(strong, Mapping) and all(isinstance(source, str) for source in strong.values())):
        raise SpaceError(f"{here}: strong must be a mapping", "of patterns to the source that says so")
    return KnobRule(
        name=name,
        klass=Class(declared["class"]),
        reason=" ".join(str(declared["reason"]).split()),
        patterns=_texts(declared["match"]),
        over=_texts(declared.get("over", ())),
        when={str(k): _texts(v) for k, v in declared.get("when", {}).items()},
        needs=_texts(declared.get("needs", ())),
        left_to=str(declared.get("left_to", "")),
        kind=KnobKind(declared["kind"]) if "kind" in declared else None,
        levels=_levels(declared.get("levels", {})),
        without=_texts(declared.get("without", ())),
        strong={str(pattern): source for pattern, source in strong.items()},
    )


def _levels(declared: Any) -> dict[str, tuple[str, ...]]:
    if isinstance(declared, Mapping):
        return {str(level): _texts(needs) for level, needs in declared.items()}
    return dict.fromkeys(_texts(declared), ())


def _texts(declared: Any) -> tuple[str, ...]:
    return tuple(map(str, declared)) if isinstance(declared, list | tuple) else (str(declared),)
