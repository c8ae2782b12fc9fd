"""Knobs of which a few matter, planted: for a simulated cluster, and to measure how well they are found.

Times here are factors on a curve: a planted level multiplies the time at each size.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune.errors import ScenarioError
from autotune.space import Value

Level = tuple[str, Value]  # (knob, value).


@dataclass(frozen=True)
class Truth:
    """The planted effect of every level."""

    factors: Mapping[Level, tuple[float, ...]]  # Level → factor on the time at each size; others: none.
    fatal: frozenset[Level] = frozenset()  # Levels with which a launch ends without a result.
    hanging: frozenset[Level] = frozenset()  # Levels with which a launch does not end.
    together: Mapping[frozenset[Level], float] = field(default_factory=dict)
    """Pairs of levels → a further factor at all sizes."""
    only: Mapping[tuple[Level, str], tuple[float, ...]] = field(default_factory=dict)
    """(Level, a collective or pattern) → a further factor on its time at each size."""

    def fate(self, changes: Collection[Level]) -> str:
        """How these levels end a launch, as in ``Faults``: ``crash`` or ``hang``; empty: not at all."""
        if self.fatal & set(changes):
            return "crash"
        return "hang" if self.hanging & set(changes) else ""

    def factor(self, changes: Collection[Level], n_sizes: int, collective: str = "") -> NDArray[np.float64]:
        """The product of what the levels do to a collective, at each size."""
        product = np.ones(n_sizes)
        for change in changes:
            product = product * np.asarray(self.factors.get(change, 1.0))
            product = product * np.asarray(self.only.get((change, collective), 1.0))
        for pair, more in self.together.items():
            product = product * (more if pair <= set(changes) else 1.0)
        return product


NOTHING_PLANTED = Truth({})  # No knob does anything.
UNSET = "default"  # The default of a planted knob.


def truth_from(declared: Mapping[str, object], n_sizes: int) -> Truth:
    """The planted knobs that a scenario's ``simulate.knobs`` declares.

    Raises:
        ScenarioError: something that is no knob.
    """
    factors: dict[Level, tuple[float, ...]] = {}
    only: dict[tuple[Level, str], tuple[float, ...]] = {}
    bad: dict[str, set[Level]] = {"fatal": set(), "hangs": set()}
    for name, levels in declared.items():
        if not isinstance(levels, Mapping):
            raise ScenarioError(
                f"simulate.knobs.{name}={levels!r}", "expected levels, e.g. {a: 0.8, b: fatal}"
            )
        for value, effect in levels.items():
            if isinstance(effect, str) and effect in bad:
                bad[effect].add((name, value))
                continue
            where = f"simulate.knobs.{name}.{value}"
            if isinstance(effect, Mapping):
                for collective, its in effect.items():
                    only[(name, value), collective] = _factors(f"{where}.{collective}", its, n_sizes)
            else:
                factors[name, value] = _factors(where, effect, n_sizes)
    return Truth(factors, frozenset(bad["fatal"]), frozenset(bad["hangs"]), only=only)


def _factors(where: str, effect: object, n_sizes: int) -> tuple[float, ...]:
    """A factor at each size, as a user wrote it."""
    at: Sequence[Any] = [effect] * n_sizes
    if isinstance(effect, Sequence) and not isinstance(effect, str):
        at = effect
    if len(at) != n_sizes or not all(isinstance(f, int | float) and f > 0 for f in at):
        raise ScenarioError(
            f"{where}={effect!r}",
            "expected fatal, hangs, a factor on the time, one for each size, or these by collective",
        )
    return tuple(float(f) for f in at)
