"""Knobs of which a few matter, planted: for a simulated cluster, and to measure how well they are found.

Times here are factors on a curve: a planted level multiplies the time at each size.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

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

    def fate(self, changes: Collection[Level]) -> str:
        """How these levels end a launch, as in ``Faults``: ``crash`` or ``hang``; empty: not at all."""
        if self.fatal & set(changes):
            return "crash"
        return "hang" if self.hanging & set(changes) else ""

    def factor(self, changes: Collection[Level], n_sizes: int) -> NDArray[np.float64]:
        """The product of what the levels do, at each size."""
        product = np.ones(n_sizes)
        for change in changes:
            product = product * np.asarray(self.factors.get(change, 1.0))
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
            at = (
                effect if isinstance(effect, Sequence) and not isinstance(effect, str) else [effect] * n_sizes
            )
            if len(at) != n_sizes or not all(isinstance(f, int | float) and f > 0 for f in at):
                raise ScenarioError(
                    f"simulate.knobs.{name}.{value}={effect!r}",
                    "expected fatal, hangs, a factor on the time, or one for each size",
                )
            factors[(name, value)] = tuple(float(f) for f in at)
    return Truth(factors, frozenset(bad["fatal"]), frozenset(bad["hangs"]))
