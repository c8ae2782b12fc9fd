"""Decide where a predicted gain is too uncertain, so that the choice is left to the MPI library.

A shape is a collective, a number of nodes, a number of ranks per node and a message size. A shape that was
not measured gets a predicted choice if ``gain - z·sd > 0``, where ``gain`` is the expected gain and ``sd``
its standard deviation. The number ``z`` is calibrated by *episodes*: the model is fitted to the jobs below
one of the measured numbers of nodes, and tested on the jobs with that number of nodes or more. So an episode
extrapolates, as is necessary for the site's largest jobs. The ``z`` is the smallest number with which at most
``RISK`` of the predicted choices were slower than the default by more than ``LOSS``. One more loss than was
observed is counted (as conformal selection and risk control do, see `docs/sources.md`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.site.transfer import DEFAULT, Measured, Shape, Transfer, fitted

RISK = 0.05  # Share of the predicted choices that may be slower than the default by more than ``LOSS``.
LOSS = 0.05  # Relative slowdown against the library's default from which a choice counts as a loss.
GRID = tuple(np.geomspace(1, 16, 17).round(3).tolist())
"""Values of z that are tried. All are at least 1, even where no loss was observed, because small jobs cannot
show every loss that larger jobs would have."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The choice for one shape that was not measured."""

    shape: Shape
    choice: str  # Name of the chosen setting; ``DEFAULT`` leaves the choice to the library.
    gain: float = 0.0  # Expected ln(time of the default / time of the choice).
    low: float = 0.0  # Lower bound of the gain.


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a predicted choice, with one value of z, at one shape of one episode."""

    z: float  # The number of standard deviations that the predicted gain had to exceed.
    lost: bool  # Whether the choice was slower than the default by more than ``LOSS``.


Bounds = Mapping[Shape, Sequence[tuple[str, float, float]]]
"""Maps each shape to its possible choices: (name, expected gain, standard deviation of the gain)."""


def bounds(model: Transfer, shapes: Sequence[Shape]) -> Bounds:
    """Return the model's prediction for every choice at each shape, if the extrapolation is short enough.

    From a job with n nodes, the model predicts up to n² nodes: as many doublings beyond the job as there are
    from one node to the job.
    """
    predictions: dict[Shape, list[tuple[str, float, float]]] = {shape: [] for shape in shapes}
    for shape, predicted in predictions.items():
        for choice in model.choices(shape.collective):
            job = model.nearest(choice, shape)
            if job is not None and shape.nodes <= job[0] ** 2:
                (gain,), (sd,) = model.gains(choice, [shape])
                predicted.append((choice, float(gain), float(sd)))
    return predictions


def decide(predictions: Bounds, z: float | None) -> list[Decision]:
    """Return for each shape the choice with the largest lower bound of its gain, if that is positive.

    The bound is ``z`` standard deviations below the expected gain. If ``z`` is None, the accuracy of
    predictions is unknown, and every choice is left to the library.
    """
    decisions = []
    for shape, choices in predictions.items():
        known = [Decision(shape, name, gain, gain - z * sd) for name, gain, sd in choices if z is not None]
        decisions.append(max([Decision(shape, DEFAULT), *known], key=lambda decision: decision.low))
    return decisions


def outcomes(measured: Sequence[Measured]) -> list[Outcome]:
    """Return the outcome of each predicted choice, for every z at every shape of every episode."""
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
    """Return the smallest z with which the share of losses is at most ``RISK``.

    The result is None where no z is good enough, or where too few predictions were tested.
    """
    decided: dict[float, list[bool]] = {}
    for o in tested:
        decided.setdefault(o.z, []).append(o.lost)
    bounded = (z for z, lost in decided.items() if (sum(lost) + 1) / (len(lost) + 1) <= RISK)
    return min(bounded, default=None)


def of_sample(sample: Sequence[tuple[Decision, bool]], z: float) -> float | None:
    """Return the smallest z that would have kept the losses of a job's predictions below the limit.

    The choices in ``sample`` were predicted with ``z`` before the job was measured; each is paired with
    whether it was a loss. With the returned value, and with any larger one, at most ``RISK`` of the choices
    that would still have been predicted are losses. The result is at least ``z``; it is None if no value is
    large enough.
    """
    smallest = None
    for threshold in sorted({z, *(value for value in GRID if value > z)}, reverse=True):
        losses = [lost for one, lost in sample if one.gain > threshold * (one.gain - one.low) / z]
        if sum(losses) > RISK * len(losses):
            break
        smallest = threshold
    return smallest


def loss_removed(model: Transfer, decided: Iterable[Decision]) -> float:
    """Return the gain that measuring the decided shapes is expected to bring: a sum of logarithms.

    Each shape contributes the largest value of E[(gain of a choice − gain of the decision)₊] over all
    choices. This is the expected value of perfect information on that choice.
    """
    from scipy.stats import norm

    total = 0.0
    by_collective: dict[str, list[Decision]] = {}
    for decision in decided:
        by_collective.setdefault(decision.shape.collective, []).append(decision)
    for collective, decisions in by_collective.items():
        shapes = [decision.shape for decision in decisions]
        decided_gains, best = np.array([decision.gain for decision in decisions]), np.zeros(len(shapes))
        for choice in model.choices(collective):
            gain, sd = model.gains(choice, shapes)
            finite = np.isfinite(gain)
            u = (gain[finite] - decided_gains[finite]) / sd[finite]
            best[finite] = np.maximum(best[finite], sd[finite] * (norm.pdf(u) + u * norm.cdf(u)))
        total += float(best.sum())
    return total


def _times(measured: Iterable[Measured]) -> Mapping[Shape, Mapping[str, float]]:
    """Return the geometric mean of the times of each shape and choice, in seconds."""
    logs: dict[Shape, dict[str, list[float]]] = {}
    for m in measured:
        logs.setdefault(m.shape, {}).setdefault(m.choice, []).append(math.log(m.time_s))
    return {s: {c: math.exp(sum(v) / len(v)) for c, v in by_choice.items()} for s, by_choice in logs.items()}
