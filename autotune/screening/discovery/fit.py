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

from autotune.measure.location import normal_scale
from autotune.screening.discovery.runs import RULE

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class JointFit:
    """Every change's effect at each size."""

    effect: Floats  # Logarithm of the ratio of times, (n_changes, n_sizes); NaN where it was in too few runs.
    error: Floats  # Its standard error.
    p_any: Floats  # Probability of an effect as large at any size where there is none, (n_changes,).
    p_faster: Floats  # The same of a gain.
    sigma: Floats  # Standard deviation of launches, (n_sizes,).
    level: Floats  # The curve without any change, on usual cores.
    slopes: Floats  # How far times follow each figure of the cores, (n_figures, n_sizes).
    usual: Floats  # The median of each, (n_figures,).

    def steadied(self, curve: Sequence[float], cores: Sequence[float]) -> Floats:
        """A curve as it would have been on usual cores; as it is where nothing is known of its own."""
        apart = np.asarray(cores) - self.usual if len(cores) == len(self.usual) else 0 * self.usual
        return np.asarray(np.asarray(curve) - apart @ self.slopes)


def sparse_fit(x: Floats, y: Floats, rng: np.random.Generator, cores: Floats | None = None) -> JointFit:
    """Effects of all changes: ``x`` (n_runs, n_changes) is who makes which, ``y`` (n_runs, n_sizes) is ln t.

    ``rng`` permutes runs; ``cores`` are logarithms of figures of the cores, (n_runs, n_figures).
    """
    n = len(x)
    cores = np.zeros((n, 0)) if cores is None else cores
    usual, first = np.median(cores, axis=0), 1 + cores.shape[1]
    counts = x.sum(axis=0)
    usable = (counts > 0) & (counts < n)
    scale = np.sqrt(np.maximum(counts * (1 - counts / n), 1e-9))[:, None]
    chosen: list[int] = []

    def drawn(times: int) -> list[Floats]:
        """Scores of usable changes where launches are permuted, so that none of them does anything."""
        return [_scores(x, residuals[rng.permutation(n)] / sigma, scale)[usable] for _ in range(times)]

    while True:
        coefficients, residuals, sigma = _joint(np.column_stack([cores - usual, x[:, chosen]]), y)
        z = _scores(x, residuals / sigma, scale)
        z[~usable] = 0
        z[chosen] = 0
        best = int(np.abs(z).max(axis=1).argmax())
        highest = [np.abs(scores).max(initial=0) for scores in drawn(RULE.draws)]
        if len(chosen) >= n // 4 or np.abs(z[best]).max() <= np.quantile(highest, 1 - RULE.family):
            break
        chosen.append(best)
    effect = (x.T @ residuals) / np.maximum(counts, 1)[:, None]
    for row, change in enumerate(chosen):
        kept = residuals + np.outer(x[:, change], coefficients[first + row])
        z[change] = _scores(x[:, [change]], kept / sigma, scale[[change]])[0]
        effect[change] = coefficients[first + row]
    null = np.concatenate(drawn(RULE.final_draws))
    effect[~usable] = np.nan
    return JointFit(
        effect,
        sigma / scale,
        np.where(usable, _tail(np.abs(null).max(axis=1), np.abs(z).max(axis=1)), 1.0),
        np.where(usable, _tail((-null).max(axis=1), (-z).max(axis=1)), 1.0),
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
        sigma = np.maximum(normal_scale(np.abs(residuals)) * np.sqrt(n / freedom), 1e-4)
        weights = np.minimum(1, RULE.huber / np.maximum(np.abs(residuals) / sigma, 1e-9))
    return coefficients, residuals, sigma


def _drift(residuals: Floats) -> Floats:
    """How the machine's speed changes: the median of each launch's neighbours, about that of all."""
    from scipy.ndimage import median_filter

    if len(residuals) < 2 * RULE.neighbours:
        return np.zeros_like(residuals)
    moving: Floats = median_filter(residuals, size=(RULE.neighbours, 1), mode="nearest")
    return moving - np.median(moving, axis=0)


def _scores(x: Floats, scaled: Floats, scale: Floats) -> Floats:
    clipped = np.clip(scaled, -RULE.clip, RULE.clip)
    return np.asarray((x.T @ (clipped - clipped.mean(axis=0))) / scale)


def _tail(null: Floats, seen: Floats) -> Floats:
    """The share of the null that is as large, never zero."""
    above = len(null) - np.searchsorted(np.sort(null), seen, side="left")
    return np.asarray((above + 1) / (len(null) + 1))
