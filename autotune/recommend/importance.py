"""Importance of parameters by the model that compares settings (after step 10, for the report).

``posterior`` compares settings by a Gaussian process over all settings that were launched. This module uses
the same process for two more results on one objective: how well it predicts a setting that is left out of the
fit, and how much of its mean changes with each parameter.

Notation: y is (n,), logarithms of scores less their median; K (n, n) their covariance with noise; f the
process's mean. Leave-one-out, with α = K⁻¹y: μᵢ = yᵢ − αᵢ / (K⁻¹)ᵢᵢ, σᵢ² = 1 / (K⁻¹)ᵢᵢ. The total effect of
parameter d is S_d = E[(f(x) − f(x with x_d drawn anew))²] / (2 Var f), over points x drawn from the space:
the share of the variation that would remain if all other parameters were held constant.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.history.objectives import Z95, Objective
from autotune.recommend.front import Candidate
from autotune.recommend.posterior import PRIORS, Process, distances, inverted
from autotune.space import Point, Space

_FEWEST = 6
"""Smallest number of settings to which the model is fitted."""
_DRAWN = 128
"""Points at which the total effects are averaged."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Importance:
    """Says how much one parameter matters by the model."""

    parameter: str  # Name of the parameter.
    share: float  # Total effect, 0 to about 1; with interactions the shares add up to more than 1.
    ratio: float  # Root mean square change of the score when the parameter is drawn anew, as a ratio.


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One setting with its score as the model predicts it from all other settings."""

    candidate: Candidate  # The setting and its measured scores.
    predicted: float  # Predicted score in the objective's unit.
    low: float  # Lower end of the 95 % interval for a measurement.
    high: float  # Upper end of the 95 % interval for a measurement.


@dataclass(frozen=True, slots=True)
class Learnt:
    """Says what the model has learnt about one objective."""

    importances: tuple[Importance, ...]  # The parameters that varied, the most important first.
    left_out: tuple[LeftOut, ...]  # The settings in order of the measured score.
    explained: float
    """Explained share of the variation of left-out settings, 1 − Σ(y − μ)² / Σ(y − ȳ)²; below 0: nothing is
    explained."""


def learnt(objective: Objective, index: int, space: Space, candidates: Sequence[Candidate]) -> Learnt | None:
    """Fit the model to an objective, whose index among the candidates' scores is ``index``.

    The result is None where there are too few settings, or settings or scores do not vary.
    """
    order = sorted(candidates, key=lambda candidate: candidate.scores[index].value)
    indices = np.linspace(0, len(order) - 1, min(len(order), PRIORS.fitted)).round().astype(int)
    sample = [order[i] for i in indices]
    names = [p.name for p in space.job if len({c.point.get(p.name) for c in sample}) > 1]
    logs = np.log([candidate.scores[index].value for candidate in sample])
    if len(sample) < _FEWEST or not names or not float(np.ptp(logs)):
        return None
    launches = np.array([candidate.launches for candidate in sample], dtype=float)
    points = [candidate.point.restricted(set(names)) for candidate in sample]
    centre = float(np.median(logs))
    y = logs - centre
    process = Process(distances(space, points), y, launches)
    v = process.fitted()
    _, _, noise = process.unpacked(v)
    inverse, _ = inverted(process.prior(v) + np.diag(noise**2 / launches))
    alpha = inverse @ y
    spread = 1.0 / np.diag(inverse)
    mean = y - alpha * spread
    left_out = tuple(
        LeftOut(candidate, *(math.exp(centre + m + z * math.sqrt(s)) for z in (0.0, -Z95, Z95)))
        for candidate, m, s in zip(sample, mean, spread, strict=True)
    )
    explained = 1 - float(np.sum((y - mean) ** 2) / np.sum((y - y.mean()) ** 2))
    return Learnt(_total_effects(space, names, points, process, v, alpha), left_out, explained)


def _total_effects(
    space: Space, names: Sequence[str], points: Sequence[Point], process: Process, v: Array, alpha: Array
) -> tuple[Importance, ...]:
    """Return the total effect of each parameter, the largest first.

    It is estimated by Jansen's estimator over random points of the space, the same points in each call.
    """
    rng = np.random.default_rng(0)
    drawn = [point.restricted(set(names)) for point in space.draw(rng, _DRAWN)]
    permuted = [drawn[i] for i in rng.permutation(len(drawn))]

    def mean_at(queries: Sequence[Point]) -> Array:
        """Return the process's mean at points.

        It is called for one parameter at a time, as the distances of all of them together need gigabytes.
        """
        to_points = distances(space, [*points, *queries], len(points))
        return np.asarray(Process(to_points, process.y, process.launches).prior(v) @ alpha)

    base = mean_at(drawn)
    steps = np.array([
        mean_at([
            point.replace(**{name: donor[name]}) if name in point and name in donor else point
            for point, donor in zip(drawn, permuted, strict=True)
        ])
        for name in names
    ]) - base  # fmt: skip
    variance = float(np.var(base)) or 1.0
    shares = np.mean(steps**2, axis=1) / (2 * variance)
    ratios = np.exp(np.sqrt(np.mean(steps**2, axis=1)))
    importances = [Importance(*row) for row in zip(names, shares.tolist(), ratios.tolist(), strict=True)]
    return tuple(sorted(importances, key=lambda importance: -importance.share))
