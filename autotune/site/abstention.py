"""Abstention: where to leave the choice to the library, by a bound of the gain calibrated on left-out nodes.

A choice is made where ``gain - z·sd > 0``. The ``z`` is the least one at which, in the episodes, at most
``RISK`` of the decided shapes lost more than ``LOSS``, counting one more loss than was observed (as conformal
selection and risk control do, see `docs/sources.md`). An *episode* knows the node counts below one of those
measured, and is tested at this one and all above it: it extrapolates, as is necessary for the site's largest
jobs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.site.transfer import DEFAULT, Measured, Shape, Transfer, fitted

RISK = 0.05  # Share of the cells decided by prediction that may lose.
LOSS = 0.05  # Relative slowdown against the library's default from which a choice counts as a loss.
GRID = tuple(np.geomspace(1, 16, 17).round(3).tolist())
"""Values of z that are tried. None is below 1, even where no loss was observed: what small jobs cannot show,
calibration on them cannot either."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision on one shape that was not measured."""

    shape: Shape
    choice: str  # Chosen setting; ``DEFAULT``: the library decides.
    gain: float = 0.0  # Expected ln(time of the default / time of the choice).
    low: float = 0.0  # Lower bound of the gain.


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a decision with one value of z at one shape of one episode."""

    z: float  # Standard deviations below the expected gain.
    lost: bool  # Whether the choice was slower than the default by more than ``LOSS``.


Bounds = Mapping[Shape, Sequence[tuple[str, float, float]]]
"""Shape → choices with expectation and standard deviation of their gain."""


def bounds(model: Transfer, shapes: Sequence[Shape]) -> Bounds:
    """Return the model's prediction for every choice at each shape, as far as it is reliable.

    The model extrapolates as many doublings beyond the nearest job's nodes as are between these and one node.
    """
    predictions: dict[Shape, list[tuple[str, float, float]]] = {}
    for shape in shapes:
        predictions[shape] = []
        for choice in model.choices(shape.collective):
            job = model.nearest(choice, shape)
            if job is not None and shape.nodes <= job[0] ** 2:
                (gain,), (sd,) = model.gains(choice, [shape])
                predictions[shape].append((choice, float(gain), float(sd)))
    return predictions


def decide(predictions: Bounds, z: float | None) -> list[Decision]:
    """Decide each shape: the choice with the best lower bound, or the library where none is positive.

    Args:
        predictions: Predictions for the shapes.
        z: Standard deviations below the expected gain; None: the accuracy of predictions is unknown, and the
            library decides everywhere.
    """
    decisions = []
    for shape, choices in predictions.items():
        best = Decision(shape, DEFAULT)
        for choice, gain, sd in choices:
            low = -math.inf if z is None else gain - z * sd
            if low > best.low:
                best = Decision(shape, choice, gain, low)
        decisions.append(best)
    return decisions


def outcomes(measured: Sequence[Measured]) -> list[Outcome]:
    """Return the outcome of each decision, for every z at every shape of every episode."""
    results: list[Outcome] = []
    for count in sorted({m.shape.nodes for m in measured})[1:]:
        truth = _times(m for m in measured if m.shape.nodes >= count)
        part = fitted([m for m in measured if m.shape.nodes < count])
        predictions = bounds(part, [s for s, times in truth.items() if DEFAULT in times])
        predictions = {s: [b for b in choices if b[0] in truth[s]] for s, choices in predictions.items()}
        for z in GRID:
            for decision in (d for d in decide(predictions, z) if d.choice != DEFAULT):
                times = truth[decision.shape]
                results.append(Outcome(z, times[decision.choice] > (1 + LOSS) * times[DEFAULT]))
    return results


def calibrated(tested: Iterable[Outcome]) -> float | None:
    """Return the least z at which the share of losses is bounded; None: none is, or the tests are too few."""
    decided: dict[float, list[bool]] = {}
    for o in tested:
        decided.setdefault(o.z, []).append(o.lost)
    bounded = (z for z, lost in decided.items() if (sum(lost) + 1) / (len(lost) + 1) <= RISK)
    return min(bounded, default=None)


def of_sample(sample: Sequence[tuple[Decision, bool]], z: float) -> float | None:
    """Return the least value from ``z`` on, at and above which few enough of a sample would have lost.

    Args:
        sample: Decisions that were made at ``z``, and whether each lost.
        z: The value at which they were made.

    Returns:
        ``z`` itself where few enough lost; None where too many lost at every value.
    """
    smallest = None
    for threshold in sorted({z, *(value for value in GRID if value > z)}, reverse=True):
        losses = [
            lost
            for decision, lost in sample
            if decision.gain > threshold * (decision.gain - decision.low) / z
        ]
        if sum(losses) > RISK * len(losses):
            break
        smallest = threshold
    return smallest


def loss_removed(model: Transfer, decided: Iterable[Decision]) -> float:
    """Return the expected gain from measuring shapes: the sum over shapes, on the log scale.

    For each shape it is the largest expectation of a choice's gain beyond that of the decision, where
    positive: the value of perfect information, choice by choice.
    """
    from scipy.stats import norm

    total = 0.0
    by_collective: dict[str, list[Decision]] = {}
    for decision in decided:
        by_collective.setdefault(decision.shape.collective, []).append(decision)
    for collective, decisions in by_collective.items():
        shapes, decided_gains = (
            [decision.shape for decision in decisions],
            np.array([decision.gain for decision in decisions]),
        )
        best = np.zeros(len(decisions))
        for choice in model.choices(collective):
            gain, sd = model.gains(choice, shapes)
            finite = np.isfinite(gain)
            u = (gain[finite] - decided_gains[finite]) / sd[finite]
            best[finite] = np.maximum(best[finite], sd[finite] * (norm.pdf(u) + u * norm.cdf(u)))
        total += float(best.sum())
    return total


def _times(measured: Iterable[Measured]) -> Mapping[Shape, Mapping[str, float]]:
    """Return geometric means of times by shape and choice, in seconds."""
    logs: dict[Shape, dict[str, list[float]]] = {}
    for m in measured:
        logs.setdefault(m.shape, {}).setdefault(m.choice, []).append(math.log(m.time_s))
    return {s: {c: math.exp(sum(v) / len(v)) for c, v in by_choice.items()} for s, by_choice in logs.items()}
