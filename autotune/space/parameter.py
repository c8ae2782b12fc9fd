"""A parameter of a search space: its values, the cost of a change, and how a value is set in the MPI stack.

The module belongs to step 2 of the data flow, the search space. Notation: a *value* is a JSON scalar; a
*point* assigns values to parameters. A parameter is *active* in a point if the parameter's condition on the
other values holds.
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

Value = str | int | float | bool  # Value of a parameter: a JSON scalar.

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEMENT = re.compile(r"[A-Za-z0-9_:=,./+-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FACTOR = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def size_in_bytes(text: Value) -> float | None:
    """Return the number that a value means: 4096.0 for ``"4k"``, 7.0 for 7, None for ``"auto"``.

    The result is also None for infinity and for numbers that do not fit into a double.
    """
    number = math.inf
    if isinstance(text, int | float):
        with suppress(OverflowError):
            number = float(text)
    elif match := _SIZE.fullmatch(text.strip()):
        number = float(match[1]) * _FACTOR[match[2].lower()]
    return number if math.isfinite(number) else None


def worded(value: object) -> str:
    """Return a value as text in the form of programs' options and tables: truth values are in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_words(kind: str, name: str, value: str) -> None:
    """Raise an error for names and values that scripts or command lines could misinterpret.

    Args:
        kind: Kind of ``apply``: ``env``, ``mca``, ``cvar``, ``map_by`` or ``bind_to``.
        name: Name of the variable; for a placement (``map_by``, ``bind_to``) the kind of the placement.
        value: Value of the variable, or the placement.

    Raises:
        SpaceError: the name cannot be that of a variable, or the module ``obeyed`` lists it; or the value is
            not a placement, or contains control characters.
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
        SpaceError: a brace is not closed, a field contains more than a name (such as an attribute, an index,
            a conversion or a format), or a name is not in ``known_names``.
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
    """Cost of changing a parameter during a search."""

    CALL = "call"  # A change costs nothing: each launch sets and measures all values while the job runs.
    LAUNCH = "launch"  # A change costs a new launch, which takes seconds.
    BOOT = "boot"
    """A change costs minutes for a change of the firmware and a reboot, and needs an administrator."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the MPI stack, with a finite list of values."""

    name: str  # Name, which is unique in the space, and which is also a column in tables of the history.
    values: tuple[Value, ...]
    """All values that may be tried, including the default; ascending if ``ordered``."""
    default: Value  # Default of the MPI; choosing it sets nothing (see ``apply``).
    level: Level = Level.LAUNCH  # Cost of a change during a search.
    per_size: bool = False
    """Whether an exported file can set the parameter per message size instead of only per job."""
    ordered: bool = False
    """Whether the numbers among the values form a scale; other values (``auto``) are not on this scale."""
    when: Mapping[str, tuple[Value | None, ...]] = field(default_factory=dict)
    """Condition: maps the names of other parameters to their accepted values.

    The parameter is active only if each of these other parameters has an accepted value. If None is accepted,
    the condition also holds if this machine does not have the other parameter."""
    always: tuple[str, ...] = ()
    """Collectives for which the parameter is active even if the condition ``when`` does not hold."""
    apply: Mapping[str, object] = field(default_factory=dict)
    """How a value is set in the MPI stack, in the form that ``docs/search_spaces.md`` describes."""
    requires: tuple[str, ...] = ()  # Facts about the machine (see ``doctor``) that the parameter needs.
    value_requires: Mapping[Value, tuple[str, ...]] = field(default_factory=dict)
    """Maps a value to the facts about the machine that the value needs."""
    collectives: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """Maps a collective to its values; empty if all values are valid for all collectives."""
    description: str = ""  # Description in one line, which reports show.
    held_from: Value | None = None
    """Default of the MPI, if the scenario fixes the parameter at another value."""
    strong: bool = False
    """Whether the parameter is a discovered knob that mattered on other machines, and is tried early."""

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
        """The default of the MPI, which is in effect without any setting."""
        return self.default if self.held_from is None else self.held_from

    @property
    def numbers(self) -> tuple[float | None, ...]:
        """The number that each value means; None for a value that is no number, or if not ``ordered``."""
        return tuple(size_in_bytes(v) if self.ordered else None for v in self.values)

    @property
    def scale(self) -> tuple[Value, ...]:
        """The values that are numbers, in ascending order; empty if the parameter is not ``ordered``."""
        pairs = [(n, v) for n, v in zip(self.numbers, self.values, strict=True) if n is not None]
        return tuple(v for _, v in sorted(pairs, key=lambda pair: pair[0]))

    def positions(self) -> dict[Value, float]:
        """Map each value on the scale to its position from 0 to 1.

        Positions are logarithmic if all numbers are positive.
        """
        numbers = {v: n for v, n in zip(self.values, self.numbers, strict=True) if n is not None}
        if not numbers:
            return {}
        logarithmic = min(numbers.values()) > 0
        axis = {v: math.log2(n) if logarithmic else n for v, n in numbers.items()}
        low, high = min(axis.values()), max(axis.values())
        span = high - low or 1.0
        return {v: (x - low) / span for v, x in axis.items()}

    def check(self, value: Value) -> None:
        """Raise an error if a value is not one of this parameter's values.

        Raises:
            SpaceError: the value is not allowed; the message lists the allowed values.
        """
        if value not in self.values:
            raise SpaceError(f"{self.name} = {value!r} is not in the space", allowed(value, self.values))


@dataclass(frozen=True)
class Point(Mapping[str, Value]):
    """An immutable, hashable mapping of names of parameters to values, sorted by name."""

    items_: tuple[tuple[str, Value], ...] = ()  # (name, value) pairs, sorted by name.

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> "Point":
        """Return the point with these values, given by the names of parameters.

        Raises:
            TypeError: a value is not a scalar, as may occur in a damaged document.
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
        """Return the point with some values changed or added."""
        return Point.of({**self._values, **changes})

    def restricted(self, names: "Mapping[str, object] | set[str] | frozenset[str]") -> "Point":
        """Return the point reduced to the parameters with these names."""
        return Point(tuple(pair for pair in self.items_ if pair[0] in names))
