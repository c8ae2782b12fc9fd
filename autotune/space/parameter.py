"""One parameter of a search space: its values, what a change costs, and how a value is set in the MPI stack.

This belongs to step 2 of the data flow, the search space. Notation: a *value* is a JSON scalar; a *point*
assigns values to parameters. A parameter is *active* in a point if the condition on the other values holds.
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

Value = str | int | float | bool  # A value of a parameter: a JSON scalar.

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEMENT = re.compile(r"[A-Za-z0-9_:=,./+-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FACTOR = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def size_in_bytes(text: Value) -> float | None:
    """Return the number that a value means: 4096.0 for ``"4k"``, 7.0 for 7, None for ``"auto"``.

    The result is also None for infinity, and for numbers that are too large for a double.
    """
    number = math.inf
    if isinstance(text, int | float):
        with suppress(OverflowError):
            number = float(text)
    elif match := _SIZE.fullmatch(text.strip()):
        number = float(match[1]) * _FACTOR[match[2].lower()]
    return number if math.isfinite(number) else None


def worded(value: object) -> str:
    """Return the text of a value as in programs' options and tables, with truth values in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_words(kind: str, name: str, value: str) -> None:
    """Raise an error for names and values that scripts and command lines could misinterpret.

    Args:
        kind: A kind of ``apply``: ``env``, ``mca``, ``cvar``, ``map_by`` or ``bind_to``.
        name: Name of the variable; for a placement (``map_by``, ``bind_to``) the kind again.
        value: Value of the variable, or the placement.

    Raises:
        SpaceError: the name is not that of a variable, or the module ``obeyed`` lists it; or the value is no
            placement, or has control characters.
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


def names_in(template: str, known_names: Iterable[str]) -> frozenset[str]:
    """Return the names in the fields of a template such as ``-x {name}``; a literal brace is written ``{{``.

    Raises:
        SpaceError: a brace is not closed, a field contains more than a name (an attribute, an index, a
            conversion, a format), or a name is not in ``known_names``.
    """
    try:
        parts = [part[1:] for part in Formatter().parse(template) if part[1] is not None]
    except ValueError as exc:
        raise SpaceError(f"the template {template!r}: {exc}", "{NAME}; a brace is {{") from exc
    if any(form or conversion for _, form, conversion in parts):
        raise SpaceError(
            f"the template {template!r} has more than a name in a field", "{NAME}, no : and no !"
        )
    names = frozenset(str(name) for name, _, _ in parts)
    if unknown := sorted(names - set(known_names)):
        raise SpaceError(
            f"the template {template!r} names {', '.join(unknown)}", allowed(unknown[0], sorted(known_names))
        )
    return names


class Level(StrEnum):
    """The effort that a change of a parameter costs while searching."""

    CALL = "call"  # A change costs nothing: every launch sets and measures all values while the job runs.
    LAUNCH = "launch"  # A change costs a new launch, which takes seconds.
    BOOT = "boot"  # A change costs minutes, for firmware and a reboot, and needs an administrator.


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the MPI stack, with a finite list of values."""

    name: str  # Name, unique in its space; it is also a column of tables of the history.
    values: tuple[Value, ...]  # All values that may be tried, with the default; ascending if ``ordered``.
    default: Value  # The MPI's default. Choosing this value sets nothing (see ``apply``).
    level: Level = Level.LAUNCH  # What a change costs while searching.
    per_size: bool = False  # Whether a deployed file can set it per message size, or only per job.
    ordered: bool = False  # Whether its numbers form a scale; other values (``auto``) are not on the scale.
    when: Mapping[str, tuple[Value | None, ...]] = field(default_factory=dict)
    """Condition: maps names of other parameters to accepted values.

    The parameter is active only if each of those has one of its accepted values. None among them means that
    the condition also holds if this machine does not have that parameter."""
    always: tuple[str, ...] = ()  # Collectives for which the parameter is active regardless of ``when``.
    apply: Mapping[str, object] = field(default_factory=dict)
    """How a value is set in the MPI stack, as ``docs/search_spaces.md`` describes."""
    requires: tuple[str, ...] = ()  # Facts of the machine (see ``doctor``) that the parameter needs.
    value_requires: Mapping[Value, tuple[str, ...]] = field(default_factory=dict)
    """Maps a value to the facts of the machine without which this value is not available."""
    collectives: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """Maps a collective to its values; empty: all values are for all collectives."""
    description: str = ""  # Description in one line, which reports show.
    held_from: Value | None = None  # The MPI's default, if the scenario fixes the parameter at another value.
    strong: bool = False  # Whether a discovered knob mattered on other machines, so that it is tried early.

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
        """The MPI's default, which needs no setting."""
        return self.default if self.held_from is None else self.held_from

    @property
    def numbers(self) -> tuple[float | None, ...]:
        """The number of each value; None for a value that is not on a scale, or if not ``ordered``."""
        return tuple(size_in_bytes(v) if self.ordered else None for v in self.values)

    @property
    def scale(self) -> tuple[Value, ...]:
        """The values that are numbers, in ascending order; empty if the parameter is not ``ordered``."""
        pairs = [(n, v) for n, v in zip(self.numbers, self.values, strict=True) if n is not None]
        return tuple(v for _, v in sorted(pairs, key=lambda pair: pair[0]))

    def positions(self) -> dict[Value, float]:
        """Return value → position in [0, 1] on the scale, a logarithmic one if all numbers are positive."""
        numbers = {v: n for v, n in zip(self.values, self.numbers, strict=True) if n is not None}
        if not numbers:
            return {}
        logarithmic = min(numbers.values()) > 0
        axis = {v: math.log2(n) if logarithmic else n for v, n in numbers.items()}
        low, high = min(axis.values()), max(axis.values())
        span = high - low or 1.0
        return {v: (x - low) / span for v, x in axis.items()}

    def check(self, value: Value) -> None:
        """Raise an error if a value is not among the values of this parameter.

        Raises:
            SpaceError: the value is not allowed; the message lists the allowed ones.
        """
        if value not in self.values:
            raise SpaceError(f"{self.name} = {value!r} is not in the space", allowed(value, self.values))


@dataclass(frozen=True)
class Point(Mapping[str, Value]):
    """An immutable, hashable mapping of parameters to values, in the order of their names."""

    items_: tuple[tuple[str, Value], ...] = ()  # (name, value) pairs, sorted by name.

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> "Point":
        """Return the point with these values by the names of parameters.

        Raises:
            TypeError: a value is no scalar, as in a damaged document.
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

    def __eq__(self, point: object) -> bool:
        return isinstance(point, Point) and self.items_ == point.items_

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.items_) or "(nothing set)"

    def replace(self, **changes: Value) -> "Point":
        """Return the same point with some values changed or added."""
        return Point.of({**self._values, **changes})

    def restricted(self, names: "Mapping[str, object] | set[str] | frozenset[str]") -> "Point":
        """Return the point without parameters other than these."""
        return Point(tuple(pair for pair in self.items_ if pair[0] in names))
