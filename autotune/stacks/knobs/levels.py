"""Which values of a knob are worth trying, from its type.

Numbers stand on a log scale around the default, thresholds also at the measured sizes: between two of these
sizes a threshold changes nothing. Words that the syntax allows beside numbers (``auto``, ``inf``) follow.
"""

import math
import re
from collections.abc import Iterable, Sequence

from autotune.space import Value, size_in_bytes
from autotune.stacks.knobs.knob import Knob, KnobKind

UNSAID = "default"  # Stands for a default that the library does not print.

_NEAR = (0.25, 0.5, 1, 2, 4)  # Factors on a count.
_SIZES = (1 / 16, 1 / 4, 1, 4, 16)  # Factors on a size.
_COSTS = (0.125, 0.5, 1, 2, 8)  # Factors on an estimated cost, which is seldom right to a factor of two.
_COUNTS = (1, 4, 16)  # Of what has no number by default.
_RATIOS = (0.25, 1, 4)  # Of a factor that is zero by default.
_APART = 4  # Measured sizes closer than this factor share a level.
_FAR = 64  # Measured sizes further than this factor from the default are not levels.
_UNBOUNDED = 1 << 30  # Sizes from here on mean "no limit".
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(\D.*)?")


def levels(knob: Knob, sizes: Sequence[int]) -> tuple[Value, ...]:
    """Values to try, the default among them, or alone where the type says nothing; sizes in bytes."""
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
    """The default as a level: a number where it is one."""
    if not knob.default and knob.kind in (KnobKind.LIST, KnobKind.TEXT, KnobKind.ENUMERATOR):
        return knob.default
    if not knob.default:
        return UNSAID
    if knob.kind is KnobKind.ENUMERATOR and knob.default not in knob.allowed:
        meant = [word for word in knob.allowed if word.startswith(knob.default)]  # UCX prints "no" as "n"
        return meant[0] if len(meant) == 1 else knob.default
    if knob.kind in (KnobKind.BYTES, KnobKind.INTEGER, KnobKind.REAL) and not knob.keys:
        number = _number(knob.default)
        if number is not None:
            return int(number) if knob.kind is not KnobKind.REAL and number == int(number) else number
    return knob.default


def is_ordered(knob: Knob) -> bool:
    """Whether its numbers lie on a scale that a model can use."""
    return knob.kind in (KnobKind.BYTES, KnobKind.INTEGER, KnobKind.REAL) and not knob.keys


def _number(text: str) -> int | float | None:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d+\.\d+", text) else size_in_bytes(text)


def _bytes(default: Value, sizes: Sequence[int]) -> list[Value]:
    """Multiples of the default and the measured sizes, thinned so that no two are close."""
    chosen: list[int] = []
    low, high = 1, _UNBOUNDED
    if isinstance(default, int) and 0 < default < _UNBOUNDED:
        chosen = list(dict.fromkeys(max(1, round(default * factor)) for factor in _SIZES))
        low, high = max(1, default // _FAR), default * _FAR
    for size in sorted(set(sizes)):
        if low <= size <= high and all(max(size, c) >= _APART * min(size, c) for c in chosen):
            chosen.append(size)
    return list(chosen)


def _around(default: Value, otherwise: Sequence[float]) -> Sequence[float]:
    """Multiples of a default that is a number, and what stands for them where it is none."""
    if isinstance(default, int | float) and 0 < default < _UNBOUNDED:
        return [default * factor for factor in _NEAR]
    return otherwise


def _ordered(numbers: Iterable[Value], default: Value, words: Iterable[str]) -> tuple[Value, ...]:
    """Numbers ascending, the default among them, words behind."""
    beside = [default] if isinstance(default, str) else []
    scale = {n for n in (*numbers, default) if not isinstance(n, str)}
    return tuple(dict.fromkeys((*sorted(scale), *beside, *words)))


def _scaled(quantity: str, factors: Iterable[float]) -> list[str]:
    """A number with its unit, times each factor; nothing of a word."""
    match = _QUANTITY.fullmatch(quantity)
    if match is None or float(match[1]) == 0:
        return []
    return [
        quantity if factor == 1 else f"{float(f'{float(match[1]) * factor:.4g}'):g}{match[2] or ''}"
        for factor in factors
    ]


def _neighbours(default: str, known: Sequence[str]) -> list[str]:
    """The list without each of its members, and with each further one, in the library's order."""
    members = [word for word in default.split(",") if word]
    without = [",".join(m for m in members if m != gone) for gone in members] if len(members) > 1 else []
    plus = [",".join((*members, new)) for new in known if new not in members]
    return list(dict.fromkeys((*without, *plus)))


def _of_pairs(knob: Knob, sizes: Sequence[int]) -> tuple[Value, ...]:
    """Levels of ``key:value`` pairs: all keys together, and where values are costs each key on its own."""
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
