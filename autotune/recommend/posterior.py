"""Posterior of each setting given all launches: the judge of a recommendation (step 10 of the flow).

The best of many settings that were launched once is mostly the luckiest. So a setting is judged by the
posterior of its score under a Gaussian process over all settings that were launched, the untouched stack
among them: settings with common values support each other, and a launch is a random effect, since allocation
and job move all of its times together. In one objective, with y the logarithm of a setting's score,

    y(x) = level + f(x) + noise / √launches,  cov f = a [½ Π_d κ_d + ½ mean_d κ_d],  κ_d = exp(−θ_d δ_d),

δ_d the squared distance on the scale of parameter d, or whether two values differ. Most parameters do
nothing: θ has a wide prior whose median falls with their number. Hyperparameters are the mode of their
posterior density.

Notation: n settings, D parameters, v the logarithms of the hyperparameters over their prior medians.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.space import Point, Space, Value


@dataclass(frozen=True, slots=True)
class PosteriorPriors:
    """Priors on settings before any was launched, and limits on their number."""

    fewest: int = 4  # Settings below which nothing can be learnt from the others.
    level: float = 1.0  # Prior standard deviation of the level,
    signal: float = 0.3  # of f,
    noise: float = 0.05  # and of one launch; recorded campaigns show launches 2 to 5 % apart.
    at_one_size: float = 0.1  # The same of f in a single slot, where most settings of a family differ little.
    unlike: float = 0.7  # Prior median of θ, over √D.
    spreads: tuple[float, ...] = (1.5, 1.0, 0.7)  # Prior standard deviations of ln of θ, √a and noise.
    fitted: int = 128  # Settings that hyperparameters are fitted to, best to worst: its cube is the cost.
    judged: int = 512  # Settings that are judged, the best: inverting so many takes a tenth of a second.


PRIORS = PosteriorPriors()

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Posterior:
    """Posterior of the costs."""

    mean: Array  # Shape ``(n,)``.
    sd: Array  # Shape ``(n,)``.
    noise: float  # Standard deviation of one launch.

    def worth_of_another(self) -> Array:
        """Expected gain of one more launch of each setting by changing the choice; less is better."""
        from scipy.special import ndtr

        shift = self.sd**2 / np.sqrt(self.sd**2 + self.noise**2)
        first, second = np.partition(self.mean, 1)[:2]
        gap = np.where(self.mean == first, second - first, self.mean - first) / np.maximum(shift, 1e-12)
        return np.asarray(shift * (np.exp(-0.5 * gap**2) / math.sqrt(2 * math.pi) - gap * ndtr(-gap)))


def posterior(
    space: Space, points: Sequence[Point], costs: Sequence[float], launches: Sequence[int]
) -> Posterior:
    """Posterior of these settings, each by a point, ln of its score (less is better) and its launches."""
    mean, n = np.array(costs, dtype=float), np.array(launches, dtype=float)
    sd, noise = PRIORS.noise / np.sqrt(n), PRIORS.noise
    best = np.argsort(mean, kind="stable")[: PRIORS.judged]
    if len(best) >= PRIORS.fewest and np.isfinite(mean[best]).all():
        centre = float(np.median(mean[best]))
        model = Process(distances(space, [points[i] for i in best]), mean[best] - centre, n[best])
        mean[best], sd[best], noise = model.judged(model.fitted())
        mean[best] += centre
    return Posterior(mean, sd, noise)


def pooled(
    space: Space,
    points: Sequence[Point],
    curves: Array,
    launches: Sequence[int],
    noise: float,
    later: NDArray[np.bool_],
) -> tuple[Array, Array]:
    """Posterior of whole curves, in each slot by itself, with hyperparameters that are not fitted.

    Of n rows are given a point, ln of times ``(n, m)``, launches behind each, and the standard deviation of
    one launch. ``later``, ``(n,)``: which rows were launched under the conditions that are asked about. Where
    several settings lie elsewhere than they did before, in the same sense, so may all that are like them (a
    discrepancy with the covariance of f, Kennedy, O'Hagan 2000). Returns means and standard deviations,
    ``(n, m)``.

    References:
        Kennedy, O'Hagan: Predicting the output from a complex computer code when fast approximations are
            available. Biometrika 87 (2000) 1–13.
    """
    n = np.array(launches, dtype=float)
    mean = np.array(curves, dtype=float)
    sd = np.repeat((noise / np.sqrt(n))[:, None], mean.shape[1], axis=1)
    best = np.argsort(mean.mean(axis=1), kind="stable")[: PRIORS.judged]
    if len(best) >= PRIORS.fewest:
        process = Process(distances(space, [points[i] for i in best]), mean[best, 0], n[best])
        prior = process.prior(
            np.append(np.zeros(len(process.distances)), [math.log(PRIORS.at_one_size / PRIORS.signal), 0])
        )
        shape = (prior - PRIORS.level**2) / PRIORS.at_one_size**2
        before, own = ~later[best], np.diag(noise**2 / n[best])
        settings = [points[i] if space.says(points[i]) else None for i in best]
        moved = _moved(settings, mean[best], before, shape)
        centre = np.median(mean[best], axis=0)
        for variance in np.unique(moved):
            weights = prior @ inverted(prior + own + variance * shape * np.outer(before, before))[0]
            at = np.ix_(best, np.flatnonzero(moved == variance))
            mean[at] = centre[at[1]] + weights @ (mean[at] - centre[at[1]])
            sd[at] = np.sqrt(np.diag(prior - weights @ prior).clip(min=1e-12))[:, None]
    return mean, sd


def _moved(points: Sequence[Point | None], curves: Array, before: NDArray[np.bool_], shape: Array) -> Array:
    """Variance of the discrepancy in each slot, ``(m,)``: products of what two settings moved by, by moments.

    What a single one moved by is its own luck, for which it was launched again. None: the untouched stack.
    """
    first = {point: i for i, point in enumerate(points) if before[i] and point is not None}
    pairs = [(first[point], i) for i, point in enumerate(points) if not before[i] and point in first]
    if len(pairs) < 2:
        return np.zeros(curves.shape[1])
    earlier, later = map(list, zip(*pairs, strict=True))
    by, alike = curves[later] - curves[earlier], shape[np.ix_(later, later)]
    np.fill_diagonal(alike, 0.0)
    products = np.einsum("im,jm,ij->m", by, by, alike)
    return np.asarray(products / (alike**2).sum()).clip(min=0.0)


@dataclass(frozen=True, slots=True)
class Process:
    """The Gaussian process on the settings that were launched."""

    distances: Array  # δ, shape ``(D, n, n)``.
    y: Array  # Centred.
    launches: Array  # Behind each.

    def fitted(self) -> Array:
        """The v at the mode of its posterior density."""
        from scipy.optimize import minimize

        n = len(self.y)
        some = np.linspace(0, n - 1, min(n, PRIORS.fitted)).round().astype(int)
        part = Process(self.distances[:, some][:, :, some], self.y[some], self.launches[some])
        start = np.zeros(len(self.distances) + 2)
        ends = [(-3 * s, 3 * s) for s in self._spreads()]
        found = minimize(part.loss, start, jac=True, method="L-BFGS-B", bounds=ends, options={"maxiter": 40})
        return np.asarray(found.x)

    def loss(self, v: Array) -> tuple[float, Array]:
        """Negative logarithm of the posterior density of v, and its gradient."""
        theta, variance, noise = self.unpacked(v)
        exponents = theta[:, None, None] * self.distances
        jointly, singly = 0.5 * np.exp(-exponents.sum(axis=0)), 0.5 * np.exp(-exponents) / len(theta)
        shape = jointly + singly.sum(axis=0)
        own = np.diag(noise**2 / self.launches)
        inverse, logdet = inverted(PRIORS.level**2 + variance * shape + own)
        weights = inverse @ self.y
        half = 0.5 * (inverse - np.outer(weights, weights))
        spread = self._spreads()
        by_theta = -variance * np.einsum("dij,dij,ij->d", exponents, jointly + singly, half)
        by_rest = [2 * variance * np.sum(half * shape), 2 * np.sum(half * own)]
        value = 0.5 * (self.y @ weights + logdet + np.sum((v / spread) ** 2))
        return float(value), np.append(by_theta, by_rest) + v / spread**2

    def prior(self, v: Array) -> Array:
        """Covariance of level and f between the settings of the distances' last two axes."""
        theta, variance, _ = self.unpacked(v)
        exponents = theta[:, None, None] * self.distances
        shape = 0.5 * np.exp(-exponents.sum(axis=0)) + 0.5 * np.exp(-exponents).mean(axis=0)
        return np.asarray(PRIORS.level**2 + variance * shape)

    def judged(self, v: Array) -> tuple[Array, Array, float]:
        """Mean and standard deviation of each setting, and the noise of a launch."""
        _, _, noise = self.unpacked(v)
        prior = self.prior(v)
        inverse, _ = inverted(prior + np.diag(noise**2 / self.launches))
        left = np.diag(prior - prior @ inverse @ prior)
        return prior @ inverse @ self.y, np.sqrt(left.clip(min=1e-12)), noise

    def _spreads(self) -> Array:
        return np.repeat(PRIORS.spreads, (len(self.distances), 1, 1))

    def unpacked(self, v: Array) -> tuple[Array, float, float]:
        """θ, a and the noise."""
        scale, (signal, noise) = np.exp(v[:-2]), np.exp(v[-2:])
        return (
            PRIORS.unlike / math.sqrt(len(scale)) * scale,
            float(PRIORS.signal * signal) ** 2,
            float(PRIORS.noise * noise),
        )


def inverted(matrix: Array) -> tuple[Array, float]:
    """The inverse of a covariance, and the logarithm of its determinant."""
    from scipy.linalg import cho_factor, cho_solve

    factor = cho_factor(matrix + 1e-9 * matrix.max() * np.eye(len(matrix)), lower=True)
    inverse: Array = cho_solve(factor, np.eye(len(matrix)))
    return inverse, 2 * float(np.log(np.diag(factor[0])).sum())


def distances(space: Space, points: Sequence[Point], first: int | None = None) -> Array:
    """δ for each parameter that varies, or for one that does not where none does.

    Shape ``(D, n, n)``; with ``first`` only between the points after the first so many (rows) and these
    (columns), for parameters that vary among the latter.

    A value beside the scale lies over its middle, one further: so δ is a squared distance of some space, and
    the covariance positive definite.
    """
    layers: list[Array] = []
    rows, columns = slice(first, None), slice(0, first)
    for parameter in space.job:
        values = [point.get(parameter.name) for point in points]
        if len(set(values[columns])) > 1:
            at: dict[Value | None, float] = dict(parameter.positions().items())
            x = np.array([at.get(value, 0.5) for value in values])
            beside = [None if value in at else (value,) for value in values]
            number = {kind: i for i, kind in enumerate(dict.fromkeys(beside))}
            kinds = np.array([number[kind] for kind in beside])
            layers.append((x[rows, None] - x[columns]) ** 2 + (kinds[rows, None] != kinds[columns]))
    shape = (1, len(points[rows]), len(points[columns]))
    return np.array(layers) if layers else np.zeros(shape)
