"""Fit the effects of changes: a sparse, robust, additive fit, even if there are more changes than runs.

Place in the flow of ``autotune/__init__.py``: step 3, screening.

Notation: ``X``, (n_runs, n_changes), is 1 where a run makes a change and 0 elsewhere. ``Y``, (n_runs,
n_sizes), contains logarithms of times. ``Z``, (n_changes, n_sizes), is the sum of the scaled residuals of the
runs that make a change, divided by the standard deviation of this sum.

Changes are added to the fit one at a time, the change with the largest effect first, and all added changes
are fitted again together, so that a dominating change does not hide others. Differences between launches have
heavy tails. Therefore residuals are clipped, and significance is determined by permuting the runs, which
preserves the correlation between the sizes of a launch.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.measure.location import normal_scale
from autotune.screening.discovery.runs import RULE

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class JointFit:
    """The effect of every change at each message size, as ``sparse_fit`` estimates it."""

    effect: Floats
    """Logarithm of the ratio of times with and without the change, (n_changes, n_sizes); NaN for a change
    that no run made, or that all runs made."""
    error: Floats  # Standard error of the effect, (n_changes, n_sizes).
    p_any: Floats
    """p-value of each change, (n_changes,): the probability that a change without an effect would show, at
    some size, an effect of either sign that is at least as large."""
    p_faster: Floats
    """p-value of each change, (n_changes,): the probability that a change without an effect would show, at
    some size, a gain that is at least as large."""
    sigma: Floats  # Standard deviation of ln(time) between launches, (n_sizes,).
    level: Floats  # Logarithm of the time without any change, (n_sizes,).


def sparse_fit(x: Floats, y: Floats, rng: np.random.Generator) -> JointFit:
    """Fit the effects of all changes.

    Args:
        x: (n_runs, n_changes), 1 where a run makes a change, else 0.
        y: (n_runs, n_sizes), logarithms of times.
        rng: The generator that permutes runs.
    """
    n = len(x)
    counts = x.sum(axis=0)
    usable = (counts > 0) & (counts < n)
    scale = np.sqrt(np.maximum(counts * (1 - counts / n), 1e-9))[:, None]
    entered: list[int] = []

    def permuted_scores(times: int) -> list[Floats]:
        """Return ``times`` scores with permuted launches, for which no change has an effect."""
        return [_scores(x, residuals[rng.permutation(n)] / sigma, scale)[usable] for _ in range(times)]

    while True:
        coefficients, residuals, sigma = _joint(x[:, entered], y)
        z = _scores(x, residuals / sigma, scale)
        z[~usable] = 0
        z[entered] = 0
        best = int(np.abs(z).max(axis=1).argmax())
        highest = [np.abs(scores).max(initial=0) for scores in permuted_scores(RULE.draws)]
        if len(entered) >= n // 4 or np.abs(z[best]).max() <= np.quantile(highest, 1 - RULE.family):
            break
        entered.append(best)
    effect = (x.T @ residuals) / np.maximum(counts, 1)[:, None]
    for row, change in enumerate(entered):
        unexplained = residuals + np.outer(x[:, change], coefficients[1 + row])
        z[change] = _scores(x[:, [change]], unexplained / sigma, scale[[change]])[0]
        effect[change] = coefficients[1 + row]
    null = np.concatenate(permuted_scores(RULE.final_draws))
    effect[~usable] = np.nan
    return JointFit(
        effect,
        sigma / scale,
        np.where(usable, _tail(np.abs(null).max(axis=1), np.abs(z).max(axis=1)), 1.0),
        np.where(usable, _tail((-null).max(axis=1), (-z).max(axis=1)), 1.0),
        sigma,
        coefficients[0],
    )


def false_discovery_set(p: Floats, rate: float) -> NDArray[np.bool_]:
    """Return which p-values are discoveries if at most the share ``rate`` of the discoveries may be false.

    This is the procedure of Benjamini and Hochberg (1995).
    """
    from scipy.stats import false_discovery_control

    return np.asarray(false_discovery_control(p) <= rate) if len(p) else np.zeros(0, dtype=bool)


def _joint(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Fit the times at each size to the columns of ``x`` by Huber's method.

    Returns:
        The coefficients, (1 + n_columns, n_sizes), the residuals, (n_runs, n_sizes), and their robust
        standard deviations, (n_sizes,).
    """
    n, design = len(y), np.column_stack([np.ones(len(y)), x])
    weights = np.ones_like(y)
    start = np.vstack([np.median(y, axis=0), np.zeros((x.shape[1], y.shape[1]))])
    coefficients = start
    for _ in range(6):
        for s in range(y.shape[1]):
            root = np.sqrt(weights[:, s])
            coefficients[:, s] = np.linalg.lstsq(design * root[:, None], y[:, s] * root, rcond=None)[0]
        residuals = y - design @ coefficients
        freedom = max(n - design.shape[1], 1)
        sigma = np.maximum(normal_scale(np.abs(residuals)) * np.sqrt(n / freedom), 1e-4)
        weights = np.minimum(1, RULE.huber / np.maximum(np.abs(residuals) / sigma, 1e-9))
    return coefficients, residuals, sigma


def _scores(x: Floats, scaled: Floats, scale: Floats) -> Floats:
    """Return ``Z`` (see the module docstring) from ``scaled``, the residuals in standard deviations."""
    clipped = np.clip(scaled, -RULE.clip, RULE.clip)
    return np.asarray((x.T @ (clipped - clipped.mean(axis=0))) / scale)


def _tail(null: Floats, observed: Floats) -> Floats:
    """Return for each observed value the share of the null distribution that is at least as large.

    The share is never zero, because the observed value itself is counted.
    """
    above = len(null) - np.searchsorted(np.sort(null), observed, side="left")
    return np.asarray((above + 1) / (len(null) + 1))
