"""The posterior distribution of each setting's score given all launches, by which recommendations are chosen.

Place in the flow of ``autotune/__init__.py``: step 10, recommend.

The best of many settings that were launched once is mostly the luckiest. So settings are compared by the
posterior of their scores under a Gaussian process over all settings that were launched, including the MPI
stack's defaults: results of settings with equal values support each other, and a launch is a random effect,
since the nodes and the job move all of its times together. In one objective, with y the logarithm of a
setting's score,

    y(x) = level + f(x) + noise / √launches,  cov f = a [½ Π_d κ_d + ½ mean_d κ_d],  κ_d = exp(−θ_d δ_d),

where δ_d is the squared distance on the scale of parameter d, or 1 for different values without a scale. As
most parameters have no effect, θ has a wide prior whose median falls with the number of parameters. The
hyperparameters (θ, a and the noise) are set to the mode of their posterior density.

Notation: n settings, D parameters, v the logarithms of the hyperparameters divided by their prior medians.
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
    """The prior distribution of the scores before any launch, and limits on the number of settings."""

    fewest: int = 4  # Smallest number of settings with which the process is used.
    level: float = 1.0  # Prior standard deviation of the level.
    signal: float = 0.3  # Prior standard deviation of f.
    at_one_size: float = 0.1
    """Prior standard deviation of f in a single slot (collective, communicator size, message size), where
    most similar settings differ little."""
    theta: float = 0.7  # Prior median of θ times √D.
    spreads: tuple[float, ...] = (1.5, 1.0, 0.7)  # Prior standard deviations of ln of θ, √a and noise.
    fitted: int = 128
    """Largest number of settings, spread from best to worst, to which hyperparameters are fitted; the
    computing time grows with its cube."""
    max_settings: int = 512
    """Largest number of settings, from the best on, that get a posterior; inverting their matrix takes a
    tenth of a second."""


PRIORS = PosteriorPriors()  # The priors and limits in use.

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Posterior:
    """The posterior of the costs (logarithms of scores) of n settings; smaller costs are better."""

    mean: Array  # Means, ``(n,)``.
    sd: Array  # Standard deviations, ``(n,)``.
    noise: float  # Standard deviation of one launch.

    def worth_of_another(self) -> Array:
        """Return by how much one more launch of each setting, ``(n,)``, lowers the cost of the chosen one.

        The launch may change which setting is chosen. The value is the expectation over its possible results.
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

    If several settings got faster, or slower, from earlier to later launches, this probably also holds for
    similar settings. It is modelled as a discrepancy with the covariance of f (Kennedy, O'Hagan 2000).

    Args:
        space: The search space of the settings.
        points: The setting of each of n rows.
        curves: Logarithms of times, ``(n, m)`` for m slots.
        launches: The number of launches behind each row.
        noise: Standard deviation of one launch in each slot, ``(m,)``.
        later: Which rows, ``(n,)``, are later launches, under the conditions for which the posterior is
            computed.

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
        # All slots with equal variances need only one inversion.
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
    """Return the variance of the discrepancy between earlier and later launches in each slot, ``(m,)``.

    It is estimated by moments: the products of the shifts of two different settings. The square of a single
    setting's shift is not used, because it is chance: the setting was launched again because it had been
    lucky. A point of None stands for the MPI stack's defaults.
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
    """A Gaussian process over settings, given the results of their launches."""

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
        """Return the prior covariance of level + f, with the shape of the last two axes of ``distances``."""
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
        """Return θ ``(D,)``, a, and the standard deviation of one launch that a vector v stands for."""
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
    """Return δ, ``(D, n, n)``, for each of the D job-wide parameters that vary among the points.

    If no parameter varies, the result is one layer of zeros. With ``first`` the rows are the points from that
    index on, the columns are the points before it, and the parameters are those that vary among the columns.

    A value that is not on a parameter's scale has the distance of the scale's middle plus one. So δ is a
    squared distance in some Euclidean space, and the covariance is positive definite.
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
