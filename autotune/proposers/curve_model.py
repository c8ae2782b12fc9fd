"""Model whole curves of ln(time) over message sizes by Gaussian processes (used by ``curve``).

A launch of point x measures a curve of times t over slots s (collective, communicator size, message size).
The model is

    ln t(x, s) = reference(s) + e(x, s) + Σ_r φ_r(s) · c_r(x) + ρ_s(x) + noise,

where e is the expectation from the names of algorithms (``priors.expected_excess``). The φ_r are the leading
eigenvectors of a smooth kernel over the slots; a few are enough, because curves are smooth in ln m. Each
coefficient c_r is an output of ``recommend.process``. The deviations at single sizes, ρ_s, for example where
a protocol ends, are a process with the same correlations between points, but independent between slots. The
standard errors of the launches are heteroscedastic noise.

Notation: n launches, q points, m slots, R coefficients, V values of all parameters in total. Times are on the
log scale.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.history.objectives import Slot
from autotune.measure.launch_spread import LAUNCH_SPREAD
from autotune.recommend import process
from autotune.recommend.priors import Floats, expected_excess
from autotune.recommend.process import Process, Results, inverse_root, kernel_of
from autotune.space import Point, Space


@dataclass(frozen=True, slots=True)
class CurvePriors:
    """Priors on curves before anything was measured."""

    trust: float = 0.8  # Factor by which the expectation from names is multiplied.
    smooth_octaves: float = 4.0  # Correlation length of curves, in doublings of the message size.
    rough: float = 0.1
    """Standard deviation of ρ, the deviations at single sizes, for example where protocols change."""
    variance_share: float = 0.99
    """Share of the prior variance over slots that the leading coefficients must explain."""


PRIORS = CurvePriors()


@dataclass(frozen=True)
class Curves:
    """Measured curves of n launches over m slots, as arrays."""

    points: Sequence[Point]  # Points of the launches, length n; a point may occur several times.
    logs: Floats  # ln t, shape ``(n, m)``; NaN in slots that were not measured.
    sems: Floats  # Standard errors of ``logs``, shape ``(n, m)``; NaN if unknown.
    doubts: Floats = field(default_factory=lambda: np.zeros(1))
    """Standard deviation of an unknown shift of each whole curve, shape ``(n,)`` or a single value for all.
    It says how much launches of one setting differ, or how uncertain a curve from another campaign is."""


@dataclass(frozen=True)
class Prediction:
    """Predicted curves of q points, as normal distributions."""

    mean: Floats  # Mean of ln t, shape ``(q, m)``.
    coefficient_sd: Floats  # Standard deviation of each coefficient c_r, shape ``(q, R)``.
    basis: Floats  # The eigenvectors φ, shape ``(m, R)``.
    residual_sd: Floats
    """Standard deviation of the part of ln t that the coefficients do not contain, shape ``(q, m)``."""

    @property
    def sd(self) -> Floats:
        """Return the standard deviation of ln t, shape ``(q, m)``."""
        return np.asarray(np.sqrt(self.coefficient_sd**2 @ (self.basis**2).T + self.residual_sd**2))

    def draw(self, samples: int, seed: int) -> Floats:
        """Draw curves, shape ``(samples, q, m)``, with the same quasi-random numbers for each point."""
        from botorch.utils.sampling import draw_sobol_normal_samples

        m, r = self.basis.shape
        normals = draw_sobol_normal_samples(r + m, samples, seed=seed).double().numpy()
        smooth = (normals[:, None, :r] * self.coefficient_sd) @ self.basis.T
        return np.asarray(self.mean + smooth + normals[:, None, r:] * self.residual_sd)


class CurveModel:
    """A model of curves, fitted to the curves of some launches, that predicts the curves of other points."""

    def __init__(self, space: Space, slots: Sequence[Slot], measured: Curves) -> None:
        """Fit the model to the curves of at least one launch; ``slots`` are the columns of these curves."""
        self._kernel = kernel_of(space, frozenset(slot[0] for slot in slots))
        self._by_value = expected_excess(self._kernel.parameters, slots)
        codes = self._kernel.codes(measured.points)
        excess = codes @ self._by_value
        self._reference = _reference(measured, excess)
        self._basis, weights, self._left_over = _slot_basis(slots)
        targets, noise = _projected(measured, self._expected(excess), self._basis, weights)
        self._process = Process(self._kernel, weights, Results(codes, targets, noise))
        # Compute the weights, (n, m), with which correlations predict ρ, and the root of the precision, (n,
        # n). A slot that was not measured counts as a slot without a deviation.
        mean, _ = self._process.predict(codes)
        residuals = np.nan_to_num(measured.logs - self._expected(excess) - mean @ self._basis.T)
        sems = np.nan_to_num(measured.sems)
        doubt = LAUNCH_SPREAD.largest_sd**2 + measured.doubts**2 + (sems**2).mean(axis=1)
        shape = self._kernel.shape(codes, codes, self._process.theta)
        self._root, _ = inverse_root(shape + np.diag(doubt / PRIORS.rough**2 + 1e-6))
        self._rough = self._root.T @ (self._root @ residuals)

    def predict(self, points: Sequence[Point]) -> Prediction:
        """Return the predicted curves of points."""
        return self.predicted(self.codes(points))

    def codes(self, points: Sequence[Point]) -> Floats:
        """Return points as one-hot codes, ``(q, V)``; all models of one space use the same codes."""
        return self._kernel.codes(points)

    def predicted(self, codes: Floats) -> Prediction:
        """Return the predicted curves of points that are given as one-hot codes, ``(q, V)``."""
        excess = codes @ self._by_value
        mean, sd = self._process.predict(codes)
        shape = self._kernel.shape(codes, self._process.results.codes, self._process.theta)
        doubt = 1 - ((shape @ self._root.T) ** 2).sum(axis=1)
        return Prediction(
            self._expected(excess) + mean @ self._basis.T + shape @ self._rough,
            sd,
            self._basis,
            np.sqrt((self._left_over + PRIORS.rough**2) * doubt.clip(min=0)[:, None]),
        )

    def _expected(self, excess: Floats) -> Floats:
        return np.asarray(self._reference + PRIORS.trust * excess)


def _projected(measured: Curves, expected: Floats, basis: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the coefficients of curves minus their expectation, and their variances, (n, R) each."""
    noise = np.nan_to_num(measured.sems) ** 2
    targets, variances = [], []
    for row, spread in zip(measured.logs - expected, noise, strict=True):
        finite = ~np.isnan(row)
        if finite.all():
            targets.append(row @ basis)
            variances.append(spread @ basis**2)
        else:  # the curve has gaps: the posterior of the coefficients under the smooth prior
            phi = basis[finite]
            precision = np.diag(1 / (process.PRIORS.signal**2 * weights)) + phi.T @ phi / 1e-2
            covariance = np.linalg.inv(precision)
            targets.append(covariance @ (phi.T @ row[finite]) / 1e-2)
            variances.append(np.diag(covariance) + spread[finite] @ phi**2)
    return np.array(targets), np.array(variances) + measured.doubts[:, None] ** 2 * weights


def _reference(measured: Curves, excess: Floats) -> Floats:
    """Return ln t of the best family in each slot, ``(m,)``, as if the expectations from names were right."""
    guesses = measured.logs - PRIORS.trust * excess
    columns = [column[~np.isnan(column)] for column in guesses.T]
    return np.array([float(np.mean(c)) if len(c) else 0.0 for c in columns])


def _slot_basis(slots: Sequence[Slot]) -> tuple[Floats, Floats, Floats]:
    """Return leading eigenvectors (m, R) of a kernel over slots, their eigenvalues, and the variance left."""
    kinds = sorted({slot[0] for slot in slots})
    x = np.array([[kinds.index(c), math.log2(max(p, 1)), math.log2(max(m, 1))] for c, p, m in slots])
    other_kind = (x[:, None, 0] != x[None, :, 0]) * 1.0
    ranks = np.abs(x[:, None, 1] - x[None, :, 1])
    sizes = np.abs(x[:, None, 2] - x[None, :, 2]) / PRIORS.smooth_octaves
    kernel = np.exp(-0.5 * sizes**2 - 0.15 * ranks - 0.7 * other_kind)
    values, vectors = np.linalg.eigh(kernel)
    values, vectors = values[::-1].clip(min=0), vectors[:, ::-1]
    rank = min(
        1 + int(np.searchsorted(np.cumsum(values) / values.sum(), PRIORS.variance_share)), 6, len(slots)
    )
    basis, weights = vectors[:, :rank], values[:rank]
    left_over = np.diag(kernel) - (basis**2) @ weights
    return basis, weights, process.PRIORS.signal**2 * left_over.clip(min=0)
