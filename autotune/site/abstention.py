"""When the library decides: a bound of the gain that leaving out whole node counts calibrated.

A choice is made where ``gain - z·sd > 0``. The ``z`` is the least at which, in the episodes, at most ``RISK``
of the shapes decided lost more than ``LOSS``, counting one more loss than was seen (as conformal selection
and risk control do, see `docs/sources.md`). An *episode* knows the counts below one of those measured, and is
judged at this one and all above it: it extrapolates, as the site's largest jobs ask for.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.site.transfer import DEFAULT, Measured, Shape, Transfer, fitted

RISK = 0.05  # Of the cells decided by prediction, so many may lose.
LOSS = 0.05  # A loss: slower than the library's default by more than this.
GRID = tuple(np.geomspace(1, 16, 17).round(3).tolist())
"""Values of z that are tried. Where no loss was seen is no reason to ask for less than one: what small jobs
cannot show, calibration on them cannot either."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One shape that was not measured."""

    shape: Shape
    choice: str  # ``DEFAULT``: the library decides.
    gain: float = 0.0  # Expected ln(time of the default / time of the choice).
    low: float = 0.0  # Its lower bound.


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision for one value of z at one shape of one episode."""

    z: float
    lost: bool


Bounds = Mapping[Shape, Sequence[tuple[str, float, float]]]
"""Shape → choices with expectation and standard deviation of their gain."""


def bounds(model: Transfer, shapes: Sequence[Shape]) -> Bounds:
    """The model's prediction for every choice at each shape, as far as it is reliable.

    It goes as many doublings beyond the nearest job's nodes as lie between these and one node.
    """
    said: dict[Shape, list[tuple[str, float, float]]] = {}
    for shape in shapes:
        said[shape] = []
        for choice in model.choices(shape.collective):
            job = model.nearest(choice, shape)
            if job is not None and shape.nodes <= job[0] ** 2:
                (gain,), (sd,) = model.gains(choice, [shape])
                said[shape].append((choice, float(gain), float(sd)))
    return said


def decide(said: Bounds, z: float | None) -> list[Decision]:
    """The choice with the best lower bound at each shape; the library's where none is positive.

    Args:
        said: of the shapes to decide.
        z: standard deviations below the expected gain; None: nothing is known of predictions, none is made.
    """
    made = []
    for shape, choices in said.items():
        best = Decision(shape, DEFAULT)
        for choice, gain, sd in choices:
            low = -math.inf if z is None else gain - z * sd
            if low > best.low:
                best = Decision(shape, choice, gain, low)
        made.append(best)
    return made


def outcomes(measured: Sequence[Measured]) -> list[Outcome]:
    """Every z at every shape of every episode."""
    found: list[Outcome] = []
    for count in sorted({m.shape.nodes for m in measured})[1:]:
        truth = _times(m for m in measured if m.shape.nodes >= count)
        part = fitted([m for m in measured if m.shape.nodes < count])
        said = bounds(part, [s for s, times in truth.items() if DEFAULT in times])
        said = {s: [b for b in choices if b[0] in truth[s]] for s, choices in said.items()}
        for z in GRID:
            for made in (d for d in decide(said, z) if d.choice != DEFAULT):
                times = truth[made.shape]
                found.append(Outcome(z, times[made.choice] > (1 + LOSS) * times[DEFAULT]))
    return found


def calibrated(seen: Iterable[Outcome]) -> float | None:
    """The least z at which the share of losses is bounded; None: at none, or too little was tested."""
    decided: dict[float, list[bool]] = {}
    for o in seen:
        decided.setdefault(o.z, []).append(o.lost)
    bounded = (z for z, lost in decided.items() if (sum(lost) + 1) / (len(lost) + 1) <= RISK)
    return min(bounded, default=None)


def of_sample(sample: Sequence[tuple[Decision, bool]], z: float) -> float | None:
    """The least value from ``z`` on, at and above which few enough of a measured sample would have lost.

    Args:
        sample: decisions that were made at ``z``, and whether each lost.
        z: then.

    Returns:
        ``z`` itself where few enough lost; None: at every value too many did.
    """
    least = None
    for at in sorted({z, *(one for one in GRID if one > z)}, reverse=True):
        lost = [it for made, it in sample if made.gain > at * (made.gain - made.low) / z]
        if sum(lost) > RISK * len(lost):
            break
        least = at
    return least


def loss_removed(model: Transfer, decided: Iterable[Decision]) -> float:
    """Expect what measuring shapes gains beyond what was decided: the sum of gains, on the log scale.

    Of each shape the best choice's expectation of its positive part counts, less what the decision gains
    already: the value of perfect information, choice by choice.
    """
    from scipy.stats import norm

    total = 0.0
    by_collective: dict[str, list[Decision]] = {}
    for made in decided:
        by_collective.setdefault(made.shape.collective, []).append(made)
    for collective, mine in by_collective.items():
        shapes, has = [one.shape for one in mine], np.array([one.gain for one in mine])
        best = np.zeros(len(mine))
        for choice in model.choices(collective):
            gain, sd = model.gains(choice, shapes)
            known = np.isfinite(gain)
            u = (gain[known] - has[known]) / sd[known]
            best[known] = np.maximum(best[known], sd[known] * (norm.pdf(u) + u * norm.cdf(u)))
        total += float(best.sum())
    return total


def _times(measured: Iterable[Measured]) -> Mapping[Shape, Mapping[str, float]]:
    """Geometric means by shape and choice."""
    logs: dict[Shape, dict[str, list[float]]] = {}
    for m in measured:
        logs.setdefault(m.shape, {}).setdefault(m.choice, []).append(math.log(m.time_s))
    return {s: {c: math.exp(sum(v) / len(v)) for c, v in by.items()} for s, by in logs.items()}
