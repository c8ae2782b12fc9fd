"""One number out of several objectives, by what somebody wants of each (beside the Pareto front, step 10).

Notation: d in [0, 1] is the desirability of one response, 0 unacceptable and 1 as good as wanted; D is the
geometric mean of the d's, weighted by importance, so that one unacceptable response spoils everything.

References:
    Derringer & Suich (1980), Simultaneous optimization of several response variables, Journal of Quality
    Technology 12, 214–219, eqs. 1–4; importance as in Derringer (1994), Quality Progress 27, 51–58.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotune.errors import UserError, allowed


@dataclass(frozen=True, slots=True)
class Desire:
    """What is wanted of one response.

    Less is better with ``high`` alone, more is better with ``low`` alone, and with both the target itself is.
    """

    target: float
    """At this value the response is as good as wanted."""
    low: float | None = None
    """At this value and below it is unacceptable; None: never too low."""
    high: float | None = None
    """At this value and above it is unacceptable; None: never too high."""
    shape: float = 1.0
    """Exponent: above 1 only values near the target count as good, below 1 most acceptable ones do."""
    weight: float = 1.0
    """Importance against the other responses."""

    def __post_init__(self) -> None:
        """Check that there is a way from bad to good.

        Raises:
            UserError: neither bound, bounds not around the target, or a shape or weight that is not positive.
        """
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if self.low is None and self.high is None:
            raise UserError(
                f"target {self.target:g} without a bound", "say which low or high is unacceptable"
            )
        if not low < self.target < high:
            raise UserError(f"target {self.target:g} does not lie between {low:g} and {high:g}")
        if not (0 < self.shape < math.inf and 0 < self.weight < math.inf):
            raise UserError(f"shape {self.shape:g} and weight {self.weight:g} must be positive")

    def of(self, values: ArrayLike) -> NDArray[np.float64]:
        """The desirability of each value, 0 where it is nan."""
        y = np.asarray(values, dtype=float)
        with np.errstate(invalid="ignore"):
            rising = np.ones_like(y) if self.low is None else (y - self.low) / (self.target - self.low)
            falling = np.ones_like(y) if self.high is None else (self.high - y) / (self.high - self.target)
            d = np.clip(np.minimum(rising, falling), 0.0, 1.0) ** self.shape
        return np.where(np.isnan(y), 0.0, d)


def desirability(desires: Mapping[str, Desire], values: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
    """D of each point, (n_points,) in [0, 1], from values (n_points,) by response.

    Raises:
        UserError: nothing is wanted, or a response that is wanted has no values.
    """
    if not desires:
        raise UserError("no desire is given, so nothing can be compared")
    for name in desires:
        if name not in values:
            raise UserError(f"no values of {name!r}", allowed(name, values))
    total = sum(desire.weight for desire in desires.values())
    each = [desire.of(values[name]) ** (desire.weight / total) for name, desire in desires.items()]
    return np.asarray(np.prod(each, axis=0), dtype=np.float64)
