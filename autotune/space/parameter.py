"""One knob: its values, what a change of it costs, and how it reaches the MPI stack (step 2 of the flow).

Notation: a *value* is a JSON scalar; a *point* assigns values to the parameters that are active in it.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from string import Formatter
from types import MappingProxyType

from autotune.errors import SpaceError, allowed, printable
from autotune.space.obeyed import obeyed_by

Value = str | int | float | bool  # What a parameter can be set to: a JSON scalar.

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEMENT = re.compile(r"[A-Za-z0-9_:=,./+-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FACTOR = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def size_in_bytes(text: Value) -> float | None:
    """The number that an ordered value stands for: ``"4k"`` → 4096.0, 7 → 7.0, ``"auto"`` → None.

    None too where a double has no such number: of some hundred digits, or infinite.
    """
    number = math.inf
    if isinstance(text, int | float):
        with suppress(OverflowError):
            number = float(text)
    elif match := _SIZE.fullmatch(text.strip()):
        number = float(match[1]) * _FACTOR[match[2].lower()]
    return number if math.isfinite(number) else None


def worded(value: object) -> str:
    """A value as programs and tables write it: truth values in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_words(kind: str, name: str, value: str) -> None:
    """Refuse names and values that scripts and command lines could take for something else.

    The kind is as in ``apply`` (``env``, ``mca``, ``cvar``, ``map_by``, ``bind_to``); of a placement the name
    is its kind again.

    Raises:
        SpaceError: no name of a variable or one that is obeyed, no placement, or control characters.
    """
    if not _VARIABLE.fullmatch(name):
        raise SpaceError(f"{name!r} is no name for {kind}", "letters, digits and _, the first no digit")
    if kind in ("env", "mca", "cvar") and (who := obeyed_by(name)):
        raise SpaceError(
            f"{name} is no variable of a space: it is obeyed by {who}", "set it in mpi.env, if at all"
        )
    if kind in ("map_by", "bind_to") and not _PLACEMENT.fullmatch(value):
        raise SpaceError(f"{kind} {value!r}", "a placement has letters, digits and any of : = , . / + - _")
    if _CONTROL.search(value) or printable(value) != value:
        raise SpaceError(f"{name}={value!r}: control characters", "values on one line")


def names_in(template: str, known: Iterable[str]) -> frozenset[str]:
    """Names in the fields of a template: each is a known name alone, ``{name}``; a brace is ``{{``.

    Raises:
        SpaceError: a brace without its other one, a field with anything but a name (an attribute, an index, a
            conversion, a format), or an unknown name.
    """
    try:
        parts = [part[1:] for part in Formatter().parse(template) if part[1] is not None]
    except ValueError as exc:
        raise SpaceError(f"the template {template!r}: {exc}", "{NAME}; a brace is {{") from exc
    if any(form or conversion for _, form, conversion in parts):
        raise SpaceError(
            f"the template {template!r} has more than a name in a field", "{NAME}, no : and no !"
        )
    named = frozenset(str(name) for name, _, _ in parts)
    if unknown := sorted(named - set(known)):
        raise SpaceError(
            f"the template {template!r} names {', '.join(unknown)}", allowed(unknown[0], sorted(known))
        )
    return named


class Level(StrEnum):
    """Cost of a change of the parameter while searching."""

    CALL = "call"  # Nothing: set inside a running MPI job, swept inside every launch.
    LAUNCH = "launch"  # One launch, seconds.
    BOOT = "boot"  # A firmware change and a reboot, minutes and an administrator.


@dataclass(frozen=True, slots=True)
class Parameter:
    """One knob of the MPI stack with a finite list of values."""

    name: str  # Unique in its space; a column of ``history``.
    values: tuple[Value, ...]  # All that may be tried, the default too; ascending where ``ordered``.
    default: Value  # What the stack does when it is not set. Choosing it sets nothing (see ``apply``).
    level: Level = Level.LAUNCH  # What a change costs while searching.
    per_size: bool = False  # Whether a deployed file can choose it per message size, or only per job.
    ordered: bool = False  # Whether its numbers lie on a scale; others (``auto``) are beside it.
    when: Mapping[str, tuple[Value | None, ...]] = field(default_factory=dict)
    """Active only where each named parameter has one of the listed values; None: also where there is no such
    parameter on this machine."""
    always: tuple[str, ...] = ()  # Collectives of which ``when`` asks nothing.
    apply: Mapping[str, object] = field(default_factory=dict)
    """How a value reaches the stack; the stack's module reads it (see ``docs/search_spaces.md``)."""
    requires: tuple[str, ...] = ()  # Facts of the machine (``doctor``) without which it is dropped.
    value_requires: Mapping[Value, tuple[str, ...]] = field(default_factory=dict)
    """Facts without which single values are dropped."""
    collectives: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """Where the values differ by collective: the values of each; empty = all values for all."""
    description: str = ""  # One line for the report.
    held_from: Value | None = None  # The stack's own value, where a parameter is held at another one.
    strong: bool = False  # Of a discovered one: it mattered elsewhere, so it goes before the long tail.

    def __post_init__(self) -> None:
        if not self.values:
            raise SpaceError(f"parameter {self.name!r} has no values", "give at least the default")
        if len({json.dumps(v) for v in self.values}) != len(self.values):
            raise SpaceError(f"parameter {self.name!r} lists a value twice: {list(self.values)}")
        if self.default not in self.values:
            raise SpaceError(
                f"parameter {self.name!r}: the default {self.default!r} is not among its values",
                allowed(self.default, self.values),
            )

    @property
    def unset(self) -> Value:
        """The value that needs no setting: the stack's own."""
        return self.default if self.held_from is None else self.held_from

    @property
    def numbers(self) -> tuple[float | None, ...]:
        """The position of each value on the scale, None for values beside it; all None if not ordered."""
        return tuple(size_in_bytes(v) if self.ordered else None for v in self.values)

    @property
    def scale(self) -> tuple[Value, ...]:
        """The values that lie on the ordered scale, ascending."""
        pairs = [(n, v) for n, v in zip(self.numbers, self.values, strict=True) if n is not None]
        return tuple(v for _, v in sorted(pairs, key=lambda pair: pair[0]))

    def positions(self) -> dict[Value, float]:
        """Position in [0, 1] of each value on the scale, on a log axis where all numbers are positive."""
        numbers = {v: n for v, n in zip(self.values, self.numbers, strict=True) if n is not None}
        if not numbers:
            return {}
        logarithmic = min(numbers.values()) > 0
        axis = {v: math.log2(n) if logarithmic else n for v, n in numbers.items()}
        low, high = min(axis.values()), max(axis.values())
        span = high - low or 1.0
        return {v: (x - low) / span for v, x in axis.items()}

    def check(self, value: Value) -> None:
        """Refuse a value that is not of this parameter.

        Raises:
            SpaceError: with the values that are allowed.
        """
        if value not in self.values:
            raise SpaceError(f"{self.name} = {value!r} is not in the space", allowed(value, self.values))


@dataclass(frozen=True)
class Point(Mapping[str, Value]):
    """An immutable, hashable assignment of values to parameters, in the order of their names."""

    items_: tuple[tuple[str, Value], ...] = ()  # Sorted (name, value) pairs.

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> "Point":
        """The point with these values.

        Raises:
            TypeError: one of them is no scalar, as in a damaged document.
        """
        point = cls(tuple(sorted(values.items())))
        hash(point)
        return point

    @cached_property
    def _values(self) -> Mapping[str, Value]:
        return MappingProxyType(dict(self.items_))

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self.items_)

    def __hash__(self) -> int:
        return hash(self.items_)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and self.items_ == other.items_

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.items_) or "(nothing set)"

    def replace(self, **changes: Value) -> "Point":
        """The same point with some values changed or added."""
        return Point.of({**self._values, **changes})

    def restricted(self, names: "Mapping[str, object] | set[str] | frozenset[str]") -> "Point":
        """The part of the point that concerns these parameters."""
        return Point(tuple(pair for pair in self.items_ if pair[0] in names))
