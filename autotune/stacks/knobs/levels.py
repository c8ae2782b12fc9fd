"""Choose the values (*levels*) of a knob that are worth trying, by the type of its value.

A *knob* is a variable that a library declares. Numbers are spaced on a log scale around the default.
Thresholds are also tried at the message sizes that are measured, since all thresholds between two
neighbouring measured sizes have the same effect. Words that the syntax allows in place of a number (``auto``,
``inf``) come last.
"""

import math
import re
from collections.abc import Iterable, Sequence

from autotune.space import Value, size_in_bytes
from autotune.stacks.knobs.knob import Knob, KnobKind

UNSAID = "default"  # Word for a default whose value the library does not print.

_NEAR = (0.25, 0.5, 1, 2, 4)  # Factors by which a default count or ratio is multiplied.
_SIZES = (1 / 16, 1 / 4, 1, 4, 16)  # Factors by which a default size is multiplied.
_COSTS = (0.125, 0.5, 1, 2, 8)
"""Factors by which the library's estimate of a cost is multiplied: estimates are often wrong by a factor of
two."""
_COUNTS = (1, 4, 16)  # Levels of a count whose default is no positive number.
_RATIOS = (0.25, 1, 4)  # Levels of a ratio whose default is no positive number.
_APART = 4  # A measured size that is closer than this factor to another level does not become a level.
_FAR = 64  # A measured size that is further than this factor from the default does not become a level.
_UNBOUNDED = 1 << 30  # Sizes in bytes from here on mean "no limit".
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(\D.*)?")


def levels(knob: Knob, sizes: Sequence[int]) -> tuple[Value, ...]:
    """Return the values of a knob to try, including its default; a text has no other value than its default.

    ``sizes`` are the message sizes in bytes that are tuned; thresholds are tried at these too.
    """
    if knob.keys:
        return _of_pairs(knob, sizes)
    default = default_level(knob)
    match knob.kind:
        case KnobKind.BOOLEAN | KnobKind.ENUMERATOR:
            return tuple(dict.fromkeys((*knob.allowed, default)))
        case KnobKind.LIST:
            return (default, *_neighbours(str(default), knob.allowed))
        case KnobKind.TEXT:
            return (default,)
        case KnobKind.BYTES:
            return _ordered(_bytes(default, sizes), default, knob.allowed)
        case KnobKind.INTEGER:
            counts = [max(1, math.ceil(number)) for number in _around(default, _COUNTS)]
            return _ordered(counts, default, knob.allowed)
        case KnobKind.REAL:
            ratios = [float(f"{number:.3g}") for number in _around(default, _RATIOS)]
            return _ordered(ratios, default, knob.allowed)
        case KnobKind.DURATION | KnobKind.BANDWIDTH:
            return tuple(dict.fromkeys((*_scaled(str(default), _COSTS), default, *knob.allowed)))


def default_level(knob: Knob) -> Value:
    """Return the default as a level, where possible as a number.

    If the library prints no default, the level is an empty text for words, lists and texts, else ``UNSAID``.
    """
    if not knob.default and knob.kind in (KnobKind.LIST, KnobKind.TEXT, KnobKind.ENUMERATOR):
        return knob.default
    if not knob.default:
        return UNSAID
    if knob.kind is KnobKind.ENUMERATOR and knob.default not in knob.allowed:
        matching = [word for word in knob.allowed if word.startswith(knob.default)]  # UCX prints "no" as "n"
        return matching[0] if len(matching) == 1 else knob.default
    if knob.kind in (KnobKind.BYTES, KnobKind.INTEGER, KnobKind.REAL) and not knob.keys:
        number = _number(knob.default)
        if number is not None:
            return int(number) if knob.kind is not KnobKind.REAL and number == int(number) else number
    return knob.default


def is_ordered(knob: Knob) -> bool:
    """Whether the levels of a knob are numbers that a model can put on a scale."""
    return knob.kind in (KnobKind.BYTES, KnobKind.INTEGER, KnobKind.REAL) and not knob.keys


def _number(text: str) -> int | float | None:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d+\.\d+", text) else size_in_bytes(text)


def _bytes(default: Value, sizes: Sequence[int]) -> list[Value]:
    """Return levels in bytes: multiples of the default, and the measured sizes that are not close to them."""
    multiples: list[int] = []
    low, high = 1, _UNBOUNDED
    if isinstance(default, int) and 0 < default < _UNBOUNDED:
        multiples = list(dict.fromkeys(max(1, round(default * factor)) for factor in _SIZES))
        low, high = max(1, default // _FAR), default * _FAR
    for size in sorted(set(sizes)):
        if low <= size <= high and all(max(size, c) >= _APART * min(size, c) for c in multiples):
            multiples.append(size)
    return list(multiples)


def _around(default: Value, otherwise: Sequence[float]) -> Sequence[float]:
    """Return multiples of the default if it is a positive number, else ``otherwise``."""
    if isinstance(default, int | float) and 0 < default < _UNBOUNDED:
        return [default * factor for factor in _NEAR]
    return otherwise


def _ordered(numbers: Iterable[Value], default: Value, words: Iterable[str]) -> tuple[Value, ...]:
    """Return the numbers and the default in ascending order, followed by the words."""
    default_words = [default] if isinstance(default, str) else []
    scale = {n for n in (*numbers, default) if not isinstance(n, str)}
    return tuple(dict.fromkeys((*sorted(scale), *default_words, *words)))


def _scaled(quantity: str, factors: Iterable[float]) -> list[str]:
    """Return a number with its unit, multiplied by each factor; an empty list for zero or a word."""
    match = _QUANTITY.fullmatch(quantity)
    if match is None or float(match[1]) == 0:
        return []
    return [
        quantity if factor == 1 else f"{float(f'{float(match[1]) * factor:.4g}'):g}{match[2] or ''}"
        for factor in factors
    ]


def _neighbours(default: str, allowed: Sequence[str]) -> list[str]:
    """Return the variants of a list that lack one of its members, or have one further allowed word."""
    members = [word for word in default.split(",") if word]
    without = (
        [",".join(m for m in members if m != removed) for removed in members] if len(members) > 1 else []
    )
    plus = [",".join((*members, new)) for new in allowed if new not in members]
    return list(dict.fromkeys((*without, *plus)))


def _of_pairs(knob: Knob, sizes: Sequence[int]) -> tuple[Value, ...]:
    """Return the levels of a list of ``key:value`` pairs.

    All values are changed together; costs are also changed one by one.
    """
    pairs = dict(item.partition(":")[::2] for item in knob.default.split(","))
    if knob.kind is KnobKind.BYTES:
        first = Knob(knob.layer, knob.version, knob.name, knob.kind, next(iter(pairs.values()), ""))
        common = default_level(first)
        numbers = _bytes(common, sizes)
        return (knob.default, *numbers, *(word for word in knob.allowed if word != common))
    together = [",".join(f"{k}:{_times(v, f)}" for k, v in pairs.items()) for f in _COSTS if f != 1]
    alone = [
        ",".join(f"{k}:{_times(v, factor) if k == key else v}" for k, v in pairs.items())
        for key in pairs
        for factor in (_COSTS[0], _COSTS[-1])
    ]
    return tuple(dict.fromkeys((knob.default, *together, *(alone if len(pairs) > 1 else ()))))


def _times(quantity: str, factor: float) -> str:
    return next(iter(_scaled(quantity, (factor,))), quantity)
