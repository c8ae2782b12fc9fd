"""The posterior of each setting given all launches, by which recommendations are chosen (step 10).

The best of many settings that were launched once is mostly the luckiest. So settings are compared by the
posterior of their scores under a Gaussian process over all settings that were launched, the untouched stack
among them: settings with common values support each other, and a launch is a random effect, since allocation
and job move all of its times together. In one objective, with y the logarithm of a setting's score,

    y(x) = level + f(x) + noise / √launches,  cov f = a [½ Π_d κ_d + ½ mean_d κ_d],  κ_d = exp(−θ_d δ_d),

where δ_d is the squared distance on the scale of parameter d, or 1 for different values without a scale. Most
parameters have no effect: θ has a wide prior whose median falls with their number. The hyperparameters used
are the mode of their posterior density.

Notation: n settings, D parameters, v the logarithms of the hyperparameters over their prior medians.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.measure.launch_spread import LAUNCH_SPREAD
from autotune.space import Point, Space, Value


@dataclass(frozen=True, slots=True)
class PosteriorPriors:
    """Sets the priors on settings before any was launched, and limits their number."""

    fewest: int = 4  # Smallest number of settings with which anything can be learnt from other settings.
    level: float = 1.0  # Prior standard deviation of the level.
    signal: float = 0.3  # Prior standard deviation of f.
    at_one_size: float = 0.1
    """Prior standard deviation of f in a single slot, where most settings of a family differ little."""
    theta: float = 0.7  # Prior median of θ times √D.
    spreads: tuple[float, ...] = (1.5, 1.0, 0.7)  # Prior standard deviations of ln of θ, √a and noise.
    fitted: int = 128
    """Number of settings, from best to worst, that hyperparameters are fitted to; the cost is its cube."""
    max_settings: int = 512
    """Number of the best settings that get a posterior; inverting their matrix takes a tenth of a second."""


PRIORS = PosteriorPriors()

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Posterior:
    """The posterior of the costs of settings; smaller costs are better."""

    mean: Array  # Means, ``(n,)``.
    sd: Array  # Standard deviations, ``(n,)``.
    noise: float  # Standard deviation of one launch.

    def worth_of_another(self) -> Array:
        """Return by how much one more launch of each setting, ``(n,)``, lowers the cost of the choice.

        This is the expectation over the results of the launch, which may change the choice.
        """
        from scipy.special import ndtr

        shift = self.sd**2 / np.sqrt(self.sd**2 + self.noise**2)
        first, second = np.partition(self.mean, 1)[:2]
        gap = np.where(self.mean == first, second - first, self.mean - first) / np.maximum(shift, 1e-12)
        return np.asarray(shift * (np.exp(-0.5 * gap**2) / math.sqrt(2 * math.pi) - gap * ndtr(-gap)))


def posterior(
    space: Space, points: Sequence[Point], costs: Sequence[float], launches: Sequence[int]
) -> Posterior:
    """Return the posterior of the costs of settings.

    ``points`` are the settings, ``costs`` the logarithms of their scores (smaller is better) and ``launches``
    the number of launches of each, all of length n.
    """
    mean, n = np.array(costs, dtype=float), np.array(launches, dtype=float)
    sd, noise = LAUNCH_SPREAD.largest_sd / np.sqrt(n), LAUNCH_SPREAD.largest_sd
    best = np.argsort(mean, kind="stable")[: PRIORS.max_settings]
    if len(best) >= PRIORS.fewest and np.isfinite(mean[best]).all():
        centre = float(np.median(mean[best]))
        model = Process(distances(space, [points[i] for i in best]), mean[best] - centre, n[best])
        mean[best], sd[best], noise = model.predicted(model.fitted())
        mean[best] += centre
    return Posterior(mean, sd, noise)


def pooled(
    space: Space,
    points: Sequence[Point],
    curves: Array,
    launches: Sequence[int],
    noise: Array,
    later: NDArray[np.bool_],
) -> tuple[Array, Array]:
    """Return the posterior of whole curves, in each slot by itself, with hyperparameters that are not fitted.

    Where several settings moved in the same direction between earlier and later launches, similar settings
    may have moved as well: this is a discrepancy with the covariance of f (Kennedy, O'Hagan 2000).

    Args:
        space: The search space of the settings.
        points: The setting of each of n rows.
        curves: Logarithms of times, ``(n, m)`` for m slots.
        launches: The number of launches behind each row.
        noise: Standard deviation of one launch in each slot, ``(m,)``.
        later: Which rows, ``(n,)``, were launched under the conditions that the posterior is for.

    Returns:
        Means and standard deviations, ``(n, m)`` each.

    References:
        Kennedy, O'Hagan: Predicting the output from a complex computer code when fast approximations are
            available. Biometrika 87 (2000) 1–13.
    """
    n = np.array(launches, dtype=float)
    mean = np.array(curves, dtype=float)
    sd = noise / np.sqrt(n)[:, None]
    best = np.argsort(mean.mean(axis=1), kind="stable")[: PRIORS.max_settings]
    if len(best) >= PRIORS.fewest:
        process = Process(distances(space, [points[i] for i in best]), mean[best, 0], n[best])
        prior = process.prior(
            np.append(np.zeros(len(process.distances)), [math.log(PRIORS.at_one_size / PRIORS.signal), 0])
        )
        shape = (prior - PRIORS.level**2) / PRIORS.at_one_size**2
        earlier = ~later[best]
        settings = [points[i] if space.says(points[i]) else None for i in best]
        discrepancy = _discrepancy(settings, mean[best], earlier, shape)
        centre = np.median(mean[best], axis=0)
        # Slots with equal variances share one inversion.
        for variance, launch_sd in np.unique([discrepancy, noise], axis=1).T:
            error = np.diag(launch_sd**2 / n[best]) + variance * shape * np.outer(earlier, earlier)
            weights = prior @ inverted(prior + error)[0]
            block = np.ix_(best, np.flatnonzero((discrepancy == variance) & (noise == launch_sd)))
            mean[block] = centre[block[1]] + weights @ (mean[block] - centre[block[1]])
            sd[block] = np.sqrt(np.diag(prior - weights @ prior).clip(min=1e-12))[:, None]
    return mean, sd


def _discrepancy(
    points: Sequence[Point | None], curves: Array, earlier: NDArray[np.bool_], shape: Array
) -> Array:
    """Return the variance of the discrepancy in each slot, ``(m,)``, estimated by moments.

    The moments are products of the shifts of two different settings. The shift of a single setting is not
    used, as it is chance: the setting was launched again because it had been lucky. A point of None is the
    untouched stack.
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


@dataclass(frozen=True, slots=True)
class Process:
    """A Gaussian process that was given the settings that were launched."""

    distances: Array  # δ, ``(D, n, n)``.
    y: Array  # Centred logarithms of scores, ``(n,)``.
    launches: Array  # Number of launches of each setting, ``(n,)``.

    def fitted(self) -> Array:
        """Return v, ``(D + 2,)``, at the mode of its posterior density."""
        from scipy.optimize import minimize

        n = len(self.y)
        sample = np.linspace(0, n - 1, min(n, PRIORS.fitted)).round().astype(int)
        part = Process(self.distances[:, sample][:, :, sample], self.y[sample], self.launches[sample])
        start = np.zeros(len(self.distances) + 2)
        bounds = [(-3 * s, 3 * s) for s in self._spreads()]
        fit = minimize(part.loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40})
        return np.asarray(fit.x)

    def loss(self, v: Array) -> tuple[float, Array]:
        """Return the negative logarithm of the posterior density of v, and its gradient."""
        theta, variance, noise = self.unpacked(v)
        exponents = theta[:, None, None] * self.distances
        jointly, singly = 0.5 * np.exp(-exponents.sum(axis=0)), 0.5 * np.exp(-exponents) / len(theta)
        shape = jointly + singly.sum(axis=0)
        error = np.diag(noise**2 / self.launches)
        inverse, logdet = inverted(PRIORS.level**2 + variance * shape + error)
        weights = inverse @ self.y
        half = 0.5 * (inverse - np.outer(weights, weights))
        spread = self._spreads()
        by_theta = -variance * np.einsum("dij,dij,ij->d", exponents, jointly + singly, half)
        by_scales = [2 * variance * np.sum(half * shape), 2 * np.sum(half * error)]
        value = 0.5 * (self.y @ weights + logdet + np.sum((v / spread) ** 2))
        return float(value), np.append(by_theta, by_scales) + v / spread**2

    def prior(self, v: Array) -> Array:
        """Return the covariance of level and f between the settings of the distances' last two axes."""
        theta, variance, _ = self.unpacked(v)
        exponents = theta[:, None, None] * self.distances
        shape = 0.5 * np.exp(-exponents.sum(axis=0)) + 0.5 * np.exp(-exponents).mean(axis=0)
        return np.asarray(PRIORS.level**2 + variance * shape)

    def predicted(self, v: Array) -> tuple[Array, Array, float]:
        """Return mean and standard deviation of each setting, ``(n,)`` each, and the noise of a launch."""
        _, _, noise = self.unpacked(v)
        prior = self.prior(v)
        inverse, _ = inverted(prior + np.diag(noise**2 / self.launches))
        variance = np.diag(prior - prior @ inverse @ prior)
        return prior @ inverse @ self.y, np.sqrt(variance.clip(min=1e-12)), noise

    def _spreads(self) -> Array:
        """Return the prior standard deviation of each element of v, ``(D + 2,)``."""
        return np.repeat(PRIORS.spreads, (len(self.distances), 1, 1))

    def unpacked(self, v: Array) -> tuple[Array, float, float]:
        """Return θ ``(D,)``, a, and the standard deviation of one launch, for a v."""
        scale, (signal, noise) = np.exp(v[:-2]), np.exp(v[-2:])
        return (
            PRIORS.theta / math.sqrt(len(scale)) * scale,
            float(PRIORS.signal * signal) ** 2,
            float(LAUNCH_SPREAD.largest_sd * noise),
        )


def inverted(matrix: Array) -> tuple[Array, float]:
    """Return the inverse of a covariance matrix, and the logarithm of its determinant."""
    from scipy.linalg import cho_factor, cho_solve

    factor = cho_factor(matrix + 1e-9 * matrix.max() * np.eye(len(matrix)), lower=True)
    inverse: Array = cho_solve(factor, np.eye(len(matrix)))
    return inverse, 2 * float(np.log(np.diag(factor[0])).sum())


def distances(space: Space, points: Sequence[Point], first: int | None = None) -> Array:
    """Return δ, ``(D, n, n)``, for each job-wide parameter that varies among the points.

    Where no parameter varies, the result is one layer of zeros. With ``first`` the rows are the points from
    that index on and the columns the points before it, and the parameters are those that vary among the
    latter.

    A value that is not on a parameter's scale counts as the middle of the scale at a distance of one from it:
    so δ is a squared distance in some Euclidean space, and the covariance is positive definite.
    """
    layers: list[Array] = []
    rows, columns = slice(first, None), slice(0, first)
    for parameter in space.job:
        values = [point.get(parameter.name) for point in points]
        if len(set(values[columns])) > 1:
            positions: dict[Value | None, float] = dict(parameter.positions().items())
            x = np.array([positions.get(value, 0.5) for value in values])
            off_scale = [None if value in positions else (value,) for value in values]
            number = {kind: i for i, kind in enumerate(dict.fromkeys(off_scale))}
            kinds = np.array([number[kind] for kind in off_scale])
            layers.append((x[rows, None] - x[columns]) ** 2 + (kinds[rows, None] != kinds[columns]))
    shape = (1, len(points[rows]), len(points[columns]))
    return np.array(layers) if layers else np.zeros(shape)
