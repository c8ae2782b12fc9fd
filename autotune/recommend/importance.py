"""Importance of parameters by the model that judges recommendations (beside step 10, for the report).

``posterior`` judges settings by a Gaussian process over all that were launched. Here the same process is
asked two more things about one objective: how well it predicts a setting that it was not shown, and how much
of what it believes changes with each parameter.

Notation: y is (n,), logarithms of scores less their median; K (n, n) their covariance with noise; f the
process's mean. Leave-one-out, with α = K⁻¹y: μᵢ = yᵢ − αᵢ / (K⁻¹)ᵢᵢ, σᵢ² = 1 / (K⁻¹)ᵢᵢ. The total effect of
parameter d is S_d = E[(f(x) − f(x with x_d drawn anew))²] / (2 Var f), over points x drawn from the space:
the share of the variation that would be left if all other parameters were held.
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
"""Settings below which nothing is said."""
_DRAWN = 128
"""Points at which the total effects are averaged."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Importance:
    """One parameter in the eyes of the model."""

    parameter: str  # Its name.
    share: float  # Its total effect, 0 to about 1; with interactions they add up to more than 1.
    ratio: float  # Root mean square of what drawing it anew does to ln of the score, as a ratio.


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One setting as the model predicts it from all others."""

    candidate: Candidate  # The setting and its measured scores.
    predicted: float  # In the objective's unit.
    low: float  # Lower end of 95 % for what a measurement would show.
    high: float  # Upper end.


@dataclass(frozen=True, slots=True)
class Learnt:
    """The model's findings on one objective."""

    importances: tuple[Importance, ...]  # The parameters that varied, the most important first.
    left_out: tuple[LeftOut, ...]  # In order of the measured score.
    explained: float  # Of left-out settings' variation: 1 − Σ(y − μ)² / Σ(y − ȳ)²; < 0: nothing.


def learnt(objective: Objective, index: int, space: Space, judged: Sequence[Candidate]) -> Learnt | None:
    """The model fitted to an objective, the ``index``-th of their scores; None where settings are few."""
    order = sorted(judged, key=lambda candidate: candidate.scores[index].value)
    some = np.linspace(0, len(order) - 1, min(len(order), PRIORS.fitted)).round().astype(int)
    chosen = [order[i] for i in some]
    names = [p.name for p in space.job if len({c.point.get(p.name) for c in chosen}) > 1]
    logs = np.log([candidate.scores[index].value for candidate in chosen])
    if len(chosen) < _FEWEST or not names or not float(np.ptp(logs)):
        return None
    launches = np.array([candidate.launches for candidate in chosen], dtype=float)
    points = [candidate.point.restricted(set(names)) for candidate in chosen]
    centre = float(np.median(logs))
    y = logs - centre
    known = Process(distances(space, points), y, launches)
    v = known.fitted()
    _, _, noise = known.unpacked(v)
    inverse, _ = inverted(known.prior(v) + np.diag(noise**2 / launches))
    alpha = inverse @ y
    spread = 1.0 / np.diag(inverse)
    mean = y - alpha * spread
    left_out = tuple(
        LeftOut(one, *(math.exp(centre + m + z * math.sqrt(s)) for z in (0.0, -Z95, Z95)))
        for one, m, s in zip(chosen, mean, spread, strict=True)
    )
    explained = 1 - float(np.sum((y - mean) ** 2) / np.sum((y - y.mean()) ** 2))
    return Learnt(_total_effects(space, names, points, known, v, alpha), left_out, explained)


def _total_effects(
    space: Space, names: Sequence[str], points: Sequence[Point], known: Process, v: Array, alpha: Array
) -> tuple[Importance, ...]:
    """By Jansen's estimator over points of the space, the same ones each time."""
    rng = np.random.default_rng(0)
    drawn = [point.restricted(set(names)) for point in space.draw(rng, _DRAWN)]
    others = [drawn[i] for i in rng.permutation(len(drawn))]

    def believed(queries: Sequence[Point]) -> Array:
        """The mean there; a block of one parameter at a time, as all of them together need gigabytes."""
        apart = distances(space, [*points, *queries], len(points))
        return np.asarray(Process(apart, known.y, known.launches).prior(v) @ alpha)

    here = believed(drawn)
    steps = np.array([
        believed([
            one.replace(**{name: other[name]}) if name in one and name in other else one
            for one, other in zip(drawn, others, strict=True)
        ])
        for name in names
    ]) - here  # fmt: skip
    variance = float(np.var(here)) or 1.0
    shares = np.mean(steps**2, axis=1) / (2 * variance)
    ratios = np.exp(np.sqrt(np.mean(steps**2, axis=1)))
    found = [Importance(*row) for row in zip(names, shares.tolist(), ratios.tolist(), strict=True)]
    return tuple(sorted(found, key=lambda its: -its.share))
