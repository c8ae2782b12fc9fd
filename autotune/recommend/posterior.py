"""The posterior distribution of each setting's score given all launches, used to choose recommendations.

Place in the flow of ``autotune/__init__.py``: step 10, recommend.

The best of many settings that were launched once is mostly the luckiest. So settings are compared by the
posterior of their scores under the Gaussian process of ``process``. All launched settings and the MPI stack's
defaults are part of it: results of settings with similar values support each other.

Notation: n settings, m slots (collective, communicator size, message size).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.measure.launch_spread import LAUNCH_SPREAD
from autotune.recommend import process
from autotune.recommend.process import Process, Results, inverse_root, kernel_of
from autotune.space import Point, Space

Array = NDArray[np.float64]

_FEWEST = 4  # With fewer settings than this the process is not used.
_MOST = 512
"""Largest number of settings, counted from the best one, that get a posterior; the inversion of their matrix
takes a tenth of a second."""
_AT_ONE_SIZE = 0.1
"""Prior standard deviation of the effects of parameters in a single slot; it is small because most similar
settings differ little there."""
_ALIKE = 0.25  # Factor on the prior median of θ in a single slot, where θ is not fitted.


@dataclass(frozen=True, slots=True)
class Posterior:
    """Posterior of the costs (logarithms of scores) of n settings; a smaller cost is better."""

    mean: Array  # Means, ``(n,)``.
    sd: Array  # Standard deviations, ``(n,)``.
    noise: float  # Standard deviation of a single launch's cost.

    def worth_of_another(self) -> Array:
        """Return by how much another launch of each setting, ``(n,)``, lowers the cost of the chosen one.

        The launch may change which setting is chosen. The result is the expectation over all possible results
        of this launch.
        """
        shift = self.sd**2 / np.sqrt(self.sd**2 + self.noise**2)
        first, second = np.partition(self.mean, 1)[:2]
        gap = np.where(self.mean == first, second - first, self.mean - first)
        return expected_improvement(-gap, np.zeros(1), np.maximum(shift, 1e-12))


def expected_improvement(best: Array, mean: Array, sd: Array) -> Array:
    """Return the expected improvement E[(best − y)₊] for y ~ N(mean, sd²), elementwise."""
    from scipy.special import ndtr

    with np.errstate(divide="ignore", invalid="ignore"):
        z = (best - mean) / sd
        improvement: Array = sd * (z * ndtr(z) + np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi))
    return improvement


def posterior(
    space: Space, points: Sequence[Point], costs: Sequence[float], launches: Sequence[int]
) -> Posterior:
    """Return the posterior of the costs of settings.

    ``points`` are the settings, ``costs`` the logarithms of their scores (less is better), and ``launches``
    the numbers of launches behind these scores, each of length n.
    """
    mean, n = np.array(costs, dtype=float), np.array(launches, dtype=float)
    sd, noise = LAUNCH_SPREAD.largest_sd / np.sqrt(n), LAUNCH_SPREAD.largest_sd
    best = np.argsort(mean, kind="stable")[:_MOST]
    if len(best) >= _FEWEST and np.isfinite(mean[best]).all():
        kernel = kernel_of(space)
        codes, centre = kernel.codes([points[i] for i in best]), float(np.median(mean[best]))
        results = Results(codes, mean[best, None] - centre, np.zeros((len(best), 1)), n[best])
        fitted = Process(kernel, np.ones(1), results)
        shift, errors = fitted.predict(codes)
        mean[best], sd[best] = centre + shift[:, 0], errors[:, 0]
        noise = math.sqrt(fitted.nugget[0])
    return Posterior(mean, sd, noise)


def pooled(
    space: Space,
    points: Sequence[Point],
    curves: Array,
    launches: Sequence[int],
    noise: Array,
    later: NDArray[np.bool_],
) -> tuple[Array, Array]:
    """Return the posterior of whole curves, computed in each slot by itself with fixed hyperparameters.

    If later launches of several settings were faster, or slower, than earlier launches, this probably also
    holds for similar settings. The change is modelled as a discrepancy with the covariance of the effects
    (Kennedy, O'Hagan 2000).

    Args:
        space: The search space of the settings.
        points: The setting of each of n rows.
        curves: Logarithms of times, ``(n, m)``.
        launches: Number of launches behind each row.
        noise: Standard deviation of one launch in each slot, ``(m,)``.
        later: Whether each row, ``(n,)``, comes from later launches. The posterior predicts times under the
            conditions of later launches.

    Returns:
        Means and standard deviations, ``(n, m)`` each.

    References:
        Kennedy, O'Hagan: Predicting the output from a complex computer code when fast approximations are
            available. Biometrika 87 (2000) 1–13.
    """
    n = np.array(launches, dtype=float)
    mean = np.array(curves, dtype=float)
    sd = noise / np.sqrt(n)[:, None]
    best = np.argsort(mean.mean(axis=1), kind="stable")[:_MOST]
    if len(best) >= _FEWEST:
        kernel = kernel_of(space)
        codes = kernel.codes([points[i] for i in best])
        shape = kernel.shape(codes, codes, _ALIKE * kernel.theta)
        prior = process.PRIORS.level**2 + _AT_ONE_SIZE**2 * shape
        earlier = ~later[best]
        settings = [points[i] if space.says(points[i]) else None for i in best]
        discrepancy = _discrepancy(settings, mean[best], earlier, shape)
        centre = np.median(mean[best], axis=0)
        # One inversion is enough for all slots with equal variances.
        for variance, launch_sd in np.unique([discrepancy, noise], axis=1).T:
            error = np.diag(launch_sd**2 / n[best] + 1e-9) + variance * shape * np.outer(earlier, earlier)
            root, _ = inverse_root(prior + error)
            half = prior @ root.T
            block = np.ix_(best, np.flatnonzero((discrepancy == variance) & (noise == launch_sd)))
            mean[block] = centre[block[1]] + half @ (root @ (mean[block] - centre[block[1]]))
            sd[block] = np.sqrt((np.diag(prior) - (half**2).sum(axis=1)).clip(min=1e-12))[:, None]
    return mean, sd


def _discrepancy(
    points: Sequence[Point | None], curves: Array, earlier: NDArray[np.bool_], shape: Array
) -> Array:
    """Return the variance, ``(m,)``, of the discrepancy between earlier and later launches in each slot.

    The variance is estimated by moments: from the products of the shifts of two different settings. The
    square of a single setting's shift is not used, because such a shift is mostly chance: the setting was
    launched again because its first launches were lucky. A point of None stands for the MPI stack's defaults.
    """
    first = {point: i for i, point in enumerate(points) if earlier[i] and point is not None}
    pairs = [(first[point], i) for i, point in enumerate(points) if not earlier[i] and point in first]
    if len(pairs) < 2:
        return np.zeros(curves.shape[1])
    early_rows, late_rows = map(list, zip(*pairs, strict=True))
    shifts, similarity = curves[late_rows] - curves[early_rows], shape[np.ix_(late_rows, late_rows)]
    np.fill_diagonal(similarity, 0.0)
    products = np.einsum("im,jm,ij->m", shifts, shifts, similarity)
    return np.asarray(products / (similarity**2).sum()).clip(min=0.0)
