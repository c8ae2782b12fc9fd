"""Planted knobs: artificial parameters of a simulated cluster, only few of which have an effect.

With planted knobs one can test how well a discovery finds the parameters that matter. A planted level (a knob
at one of its values) multiplies the time at each message size by a known factor.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune.errors import ScenarioError
from autotune.space import Value

Level = tuple[str, Value]  # A level: the name of a knob and one of its values.


@dataclass(frozen=True)
class Truth:
    """The true effects of all planted levels."""

    factors: Mapping[Level, tuple[float, ...]]
    """Maps a level to the factor by which it multiplies the time at each size; levels that are missing here
    have no effect."""
    fatal: frozenset[Level] = frozenset()  # Levels with which a launch ends without a result.
    hanging: frozenset[Level] = frozenset()  # Levels with which a launch never ends.
    together: Mapping[frozenset[Level], float] = field(default_factory=dict)
    """Maps a pair of levels to an additional factor, for all sizes, that applies if both levels are set."""
    only: Mapping[tuple[Level, str], tuple[float, ...]] = field(default_factory=dict)
    """Maps (level, collective or pattern) to an additional factor, for each size, on the time of this
    collective or pattern."""

    def fate(self, changes: Collection[Level]) -> str:
        """Return how a launch with these levels fails: ``crash`` or ``hang``; empty if it does not fail."""
        if self.fatal & set(changes):
            return "crash"
        return "hang" if self.hanging & set(changes) else ""

    def factor(self, changes: Collection[Level], n_sizes: int, collective: str = "") -> NDArray[np.float64]:
        """Return the factor by which these levels together multiply the time of a collective, (n_sizes,)."""
        product = np.ones(n_sizes)
        for change in changes:
            product = product * np.asarray(self.factors.get(change, 1.0))
            product = product * np.asarray(self.only.get((change, collective), 1.0))
        for pair, joint_factor in self.together.items():
            product = product * (joint_factor if pair <= set(changes) else 1.0)
        return product


NOTHING_PLANTED = Truth({})  # The effects if no planted level has an effect.
UNSET = "default"  # Default value of a planted knob.


def truth_from(declared: Mapping[str, object], n_sizes: int) -> Truth:
    """Return the effects of the planted knobs that a scenario declares in ``simulate.knobs``.

    Raises:
        ScenarioError: If an entry does not describe a planted knob.
    """
    factors: dict[Level, tuple[float, ...]] = {}
    only: dict[tuple[Level, str], tuple[float, ...]] = {}
    failing: dict[str, set[Level]] = {"fatal": set(), "hangs": set()}
    for name, levels in declared.items():
        if not isinstance(levels, Mapping):
            raise ScenarioError(
                f"simulate.knobs.{name}={levels!r}", "expected levels, e.g. {a: 0.8, b: fatal}"
            )
        for value, effect in levels.items():
            if isinstance(effect, str) and effect in failing:
                failing[effect].add((name, value))
                continue
            key = f"simulate.knobs.{name}.{value}"
            if isinstance(effect, Mapping):
                for collective, effect_on_it in effect.items():
                    only[(name, value), collective] = _factors(f"{key}.{collective}", effect_on_it, n_sizes)
            else:
                factors[name, value] = _factors(key, effect, n_sizes)
    return Truth(factors, frozenset(failing["fatal"]), frozenset(failing["hangs"]), only=only)


def _factors(key: str, effect: object, n_sizes: int) -> tuple[float, ...]:
    values: Sequence[Any] = [effect] * n_sizes
    if isinstance(effect, Sequence) and not isinstance(effect, str):
        values = effect
    if len(values) != n_sizes or not all(isinstance(f, int | float) and f > 0 for f in values):
        raise ScenarioError(
            f"{key}={effect!r}",
            "expected fatal, hangs, a factor on the time, one for each size, or these by collective",
        )
    return tuple(float(f) for f in values)
