"""A sparse, robust, additive fit of whole curves, with more columns than rows (step 3 of the flow).

Notation: ``X`` is (n_runs, n_changes), 1 where a run makes the change; ``Y`` is (n_runs, n_sizes), logarithms
of times; ``Z`` is (n_changes, n_sizes), a change's sum of scaled residuals over its standard deviation;
``C`` is (n_runs, n_figures), how far apart and how slow the cores were in each run.

Changes enter one at a time, the largest first, and all of them are fitted again together, so that a
dominating one does not hide the others. Launches differ by heavy tails: residuals are clipped, and what is
significant is read off permutations of the runs, which keep the correlation of the sizes of a launch.
What times follow of ``C`` is fitted along with the changes (analysis of covariance: Cochran,
Biometrics 13:261, 1957), since no change moves it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_CLIP = 3.0
"""Standard deviations beyond which a residual counts no further."""
_HUBER = 1.5
"""Standard deviations beyond which a run counts less in the joint fit."""
_FAMILY = 0.05
"""Chance that a change enters the joint fit where none matters."""
_DRAWS, _FINAL_DRAWS = 60, 200
"""Permutations for each entry, and for the probabilities at the end."""
_NEIGHBOURS = 41
"""Launches over which the machine's speed is taken to be the same."""
_LEAST = 1
"""Runs of a change without which nothing is said about it."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Every change's effect at each size."""

    effect: Floats
    """Logarithm of the ratio of times, (n_changes, n_sizes); NaN where it was in too few runs."""
    error: Floats
    """Its standard error."""
    p_any: Floats
    """Probability of an effect as large at any size where there is none, (n_changes,)."""
    p_faster: Floats
    """The same of a gain."""
    sigma: Floats
    """Standard deviation of launches, (n_sizes,)."""
    level: Floats
    """The curve without any change, on usual cores."""
    slopes: Floats
    """How far times follow each figure of the cores, (n_figures, n_sizes)."""
    usual: Floats
    """The median of each, (n_figures,)."""

    def steadied(self, curve: Sequence[float], cores: Sequence[float]) -> Floats:
        """A curve as it would have been on usual cores; as it is where nothing is known of its own."""
        apart = np.asarray(cores) - self.usual if len(cores) == len(self.usual) else 0 * self.usual
        steady: Floats = np.asarray(curve) - apart @ self.slopes
        return steady


def sparse_fit(x: Floats, y: Floats, rng: np.random.Generator, cores: Floats | None = None) -> Fit:
    """Effects of all changes.

    Args:
        x: 1 where a run makes a change, (n_runs, n_changes).
        y: Logarithms of times, (n_runs, n_sizes).
        rng: Permutes runs.
        cores: Logarithms of what tells of the cores, (n_runs, n_figures); None: nothing does.
    """
    n = len(x)
    cores = np.zeros((n, 0)) if cores is None else cores
    usual, first = np.median(cores, axis=0), 1 + cores.shape[1]
    counts = x.sum(axis=0)
    usable = (counts >= _LEAST) & (counts <= n - _LEAST)
    scale = np.sqrt(np.maximum(counts * (1 - counts / n), 1e-9))[:, None]
    chosen: list[int] = []
    while True:
        coefficients, residuals, sigma = _joint(np.column_stack([cores - usual, x[:, chosen]]), y)
        z = _scores(x, residuals / sigma, scale)
        z[~usable] = 0
        z[chosen] = 0
        best = int(np.abs(z).max(axis=1).argmax())
        highest = [
            np.abs(_scores(x, residuals[rng.permutation(n)] / sigma, scale)[usable]).max(initial=0)
            for _ in range(_DRAWS)
        ]
        if len(chosen) >= n // 4 or np.abs(z[best]).max() <= np.quantile(highest, 1 - _FAMILY):
            break
        chosen.append(best)
    effect = (x.T @ residuals) / np.maximum(counts, 1)[:, None]
    for row, change in enumerate(chosen):
        kept = residuals + np.outer(x[:, change], coefficients[first + row])
        z[change] = _scores(x[:, [change]], kept / sigma, scale[[change]])[0]
        effect[change] = coefficients[first + row]
    draws = [_scores(x, residuals[rng.permutation(n)] / sigma, scale)[usable] for _ in range(_FINAL_DRAWS)]
    null_any = np.sort(np.concatenate([np.abs(d).max(axis=1) for d in draws]))
    null_faster = np.sort(np.concatenate([(-d).max(axis=1) for d in draws]))
    effect[~usable] = np.nan
    return Fit(
        effect,
        sigma / scale,
        np.where(usable, _tail(null_any, np.abs(z).max(axis=1)), 1.0),
        np.where(usable, _tail(null_faster, (-z).max(axis=1)), 1.0),
        sigma,
        coefficients[0],
        coefficients[1:first],
        usual,
    )


def false_discovery_set(p: Floats, rate: float) -> NDArray[np.bool_]:
    """Which are discoveries at this rate of false ones, after Benjamini and Hochberg (1995)."""
    from scipy.stats import false_discovery_control

    return np.asarray(false_discovery_control(p) <= rate) if len(p) else np.zeros(0, dtype=bool)


def _joint(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Huber's fit of each size on the chosen columns: coefficients, residuals, scales."""
    from scipy.stats import median_abs_deviation

    n, design = len(y), np.column_stack([np.ones(len(y)), x])
    weights = np.ones_like(y)
    start = np.vstack([np.median(y, axis=0), np.zeros((x.shape[1], y.shape[1]))])
    coefficients, drift = start, np.zeros_like(y)
    for _ in range(6):
        for s in range(y.shape[1]):
            root = np.sqrt(weights[:, s])
            steady = (y[:, s] - drift[:, s]) * root
            coefficients[:, s] = np.linalg.lstsq(design * root[:, None], steady, rcond=None)[0]
        drift = _drift(y - design @ coefficients)
        residuals = y - drift - design @ coefficients
        freedom = max(n - design.shape[1], 1)
        around_zero = np.vstack([residuals, -residuals])
        scale = median_abs_deviation(around_zero, axis=0, scale="normal")
        sigma = np.maximum(scale * np.sqrt(n / freedom), 1e-4)
        weights = np.minimum(1, _HUBER / np.maximum(np.abs(residuals) / sigma, 1e-9))
    return coefficients, residuals, sigma


def _drift(residuals: Floats) -> Floats:
    """How the machine's speed changes: the median of each launch's neighbours, about that of all."""
    from scipy.ndimage import median_filter

    if len(residuals) < 2 * _NEIGHBOURS:
        return np.zeros_like(residuals)
    moving: Floats = median_filter(residuals, size=(_NEIGHBOURS, 1), mode="nearest")
    return moving - np.median(moving, axis=0)


def _scores(x: Floats, scaled: Floats, scale: Floats) -> Floats:
    clipped = np.clip(scaled, -_CLIP, _CLIP)
    z: Floats = (x.T @ (clipped - clipped.mean(axis=0))) / scale
    return z


def _tail(null: Floats, seen: Floats) -> Floats:
    """The share of the null that is as large, never zero."""
    above = len(null) - np.searchsorted(null, seen, side="left")
    tail: Floats = (above + 1) / (len(null) + 1)
    return tail
