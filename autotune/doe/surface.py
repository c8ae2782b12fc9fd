"""A response surface: a quadratic function of ordered factors, with its shape and its optimum.

Notation: ``codes``, (n_runs, n_factors), are from −1 to 1, which are the ends of a factor's range. The model
is y = b₀ + Σ bᵢxᵢ + Σ bᵢᵢxᵢ² + Σ bᵢⱼxᵢxⱼ + ε, and B is the symmetric matrix of its second-order part.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from autotune.errors import UserError
from autotune.screening.decision import Goal
from autotune.screening.design import Matrix
from autotune.screening.model import RULE

Term = tuple[int, ...]
"""Term of the model, given by the indices of the factors whose codes it multiplies: () is the mean, (i,) a
linear term, (i, i) a quadratic term, and (i, j) an interaction."""


Shape = Literal["minimum", "maximum", "saddle", "ridge", "plane"]
"""Shape of the surface according to the eigenvalues of B. A *ridge* is curved in some directions and flat in
others."""

_DRAWS = 1000
"""Number of sets of coefficients that are drawn within their errors; 25 of 1000 results are beyond each end
of a 95 % interval."""
_CANDIDATES = 2000
"""Number of random points that are compared with each other and with all runs and corners; a descent starts
from the best point."""
_SWEEPS = 200  # Largest number of passes over all factors in a descent.
_CORNERED = 8  # All corners are compared only if there are at most this many factors.
_FLAT = 0.02  # An eigenvalue counts as zero if it is below this share of the largest coefficient.


@dataclass(frozen=True, slots=True)
class Coefficient:
    """Estimate of one coefficient of the quadratic function."""

    factors: tuple[str, ...]  # Names of the factors that the term multiplies; empty for the mean.
    value: float  # Change of the response per unit of the factors' codes.
    std_err: float
    p_value: float  # p-value of the hypothesis that the coefficient is zero.


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best predicted point within the ranges of all factors."""

    codes: dict[str, float]  # Maps each factor to its code at the best point.
    intervals: dict[str, tuple[float, float]]
    """Maps each factor to the 95 % interval of its code at the best point, from coefficients that are drawn
    within their errors."""
    value: float  # Predicted mean of the response at the best point.
    interval: tuple[float, float]
    """95 % interval of ``value``, which is optimistic because the point was selected as the best one."""
    at_edge: tuple[str, ...]  # Factors at an end of their range; the true optimum may be beyond this end.


@dataclass(frozen=True, slots=True)
class Surface:
    """A quadratic function that was fitted to runs, with its shape and its optimum."""

    names: tuple[str, ...]  # Names of the factors.
    coefficients: tuple[Coefficient, ...]  # The mean, then linear, quadratic and mixed terms.
    left_out: tuple[tuple[str, ...], ...]
    """Terms, as names of their factors, that the runs cannot separate from other terms."""
    r_squared: float  # R²: share of the variation of the response that the model explains.
    adjusted_r_squared: float  # R² adjusted for the number of terms.
    predicted_r_squared: float
    """R² for runs that are predicted without being part of the fit (PRESS); it may be negative."""
    curvature: tuple[float, ...]  # Eigenvalues of B, in ascending order.
    shape: Shape
    std_dev: float  # Standard deviation of runs around the surface.
    df: int  # Degrees of freedom of ``std_dev``.
    optimum: Optimum

    def predict(self, codes: ArrayLike) -> Matrix:
        """Return the predicted mean, (n_points,), at the codes, (n_points, n_factors)."""
        x = np.asarray(codes, dtype=float)
        terms = [tuple(map(self.names.index, coefficient.factors)) for coefficient in self.coefficients]
        return np.asarray(_columns(x, terms) @ [coefficient.value for coefficient in self.coefficients])


def response_surface(
    names: Sequence[str], codes: ArrayLike, response: ArrayLike, rng: Generator, *, goal: Goal = "min"
) -> Surface:
    """Fit a quadratic function by least squares, and find its optimum within the ranges of the factors.

    Terms are added in the order mean, linear, quadratic, mixed. A term is added only if the runs separate it
    from the terms before it, and if three degrees of freedom remain after it is added. A factor with two
    levels has no quadratic term.

    ``response``, (n_runs,), is nan where a run failed. ``rng`` draws the candidates for the optimum and the
    coefficients for its intervals.

    Raises:
        UserError: shapes differ, codes are out of range, or there are too few runs for the linear terms.
    """
    from scipy import stats

    x, y = np.asarray(codes, dtype=float), np.asarray(response, dtype=float)
    names = tuple(names)
    if x.ndim != 2 or x.shape != (len(y), len(names)):
        raise UserError(f"codes of shape {x.shape} for {len(y)} runs of {len(names)} factors")
    if not np.all(np.abs(x) <= 1):
        raise UserError("a code lies outside of [−1, 1]")
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    if len(y) < (needed := len(names) + 1 + RULE.min_residual_df):
        raise UserError(
            f"{len(y)} runs with a result are too few for a surface over {len(names)} factors",
            f"at least {needed} are needed",
        )
    terms, left_out = _estimable(x)
    matrix = _columns(x, terms)
    inverse = np.asarray(np.linalg.inv(matrix.T @ matrix), dtype=np.float64)
    beta = inverse @ matrix.T @ y
    residual, df = y - matrix @ beta, len(y) - len(terms)
    rss, total = float(residual @ residual), float(np.sum((y - y.mean()) ** 2))
    variance = rss / df
    leverage = np.einsum("ij,jk,ik->i", matrix, inverse, matrix)
    press = float(np.sum((residual / np.maximum(1 - leverage, 1e-9)) ** 2))
    errors = np.sqrt(variance * np.diag(inverse))
    eigenvalues = np.linalg.eigvalsh(_second_order(terms, beta[None], len(names))[0])

    def share(unexplained: float) -> float:
        return 1 - unexplained / total if total > 0 else math.nan

    with np.errstate(divide="ignore", invalid="ignore"):
        p_values = 2 * stats.t.sf(np.abs(beta / errors), df)
    return Surface(
        names=names,
        coefficients=tuple(
            Coefficient(tuple(names[i] for i in term), float(b), float(e), float(p))
            for term, b, e, p in zip(terms, beta, errors, p_values, strict=True)
        ),
        left_out=tuple(tuple(names[i] for i in term) for term in left_out),
        r_squared=share(rss),
        adjusted_r_squared=share(rss / df * (len(y) - 1)),
        predicted_r_squared=share(press),
        curvature=tuple(eigenvalues.tolist()),
        shape=_shape(eigenvalues, float(np.max(np.abs(beta[1:])))),
        std_dev=math.sqrt(variance),
        df=df,
        optimum=_optimum(names, terms, beta, variance * inverse, df, x, goal, rng),
    )


def _estimable(x: Matrix) -> tuple[list[Term], list[Term]]:
    """Return the terms that the runs can separate from each other, and the terms that they cannot."""
    n = x.shape[1]
    quadratic = [(i, i) for i in range(n) if len(np.unique(x[:, i])) > 2]
    terms: list[Term] = [()]
    left_out: list[Term] = []
    for term in [*((i,) for i in range(n)), *quadratic, *combinations(range(n), 2)]:
        extended = _columns(x, [*terms, term])
        fits = len(x) - len(terms) - 1 >= RULE.min_residual_df
        if fits and np.linalg.matrix_rank(extended, tol=1e-8 * math.sqrt(len(x))) == extended.shape[1]:
            terms.append(term)
        else:
            left_out.append(term)
    return terms, left_out


def _columns(x: Matrix, terms: Sequence[Term]) -> Matrix:
    return np.column_stack([np.prod(x[:, list(term)], axis=1) for term in terms])


def _second_order(terms: Sequence[Term], betas: Matrix, n_factors: int) -> Matrix:
    """Return the matrices B, (n, n_factors, n_factors), for n sets of coefficients, (n, n_terms)."""
    matrix = np.zeros((len(betas), n_factors, n_factors))
    for term, values in zip(terms, betas.T, strict=True):
        if len(term) == 2:
            matrix[:, term[0], term[1]] += values / 2
            matrix[:, term[1], term[0]] += values / 2
    return matrix


def _shape(eigenvalues: Matrix, largest: float) -> Shape:
    bends = np.abs(eigenvalues) > _FLAT * largest
    up, down = np.any(eigenvalues[bends] > 0), np.any(eigenvalues[bends] < 0)
    if up and down:
        return "saddle"
    if not np.any(bends):
        return "plane"
    if not np.all(bends):
        return "ridge"
    return "minimum" if up else "maximum"


def _optimum(
    names: tuple[str, ...],
    terms: Sequence[Term],
    beta: Matrix,
    covariance: Matrix,
    df: int,
    x: Matrix,
    goal: Goal,
    rng: Generator,
) -> Optimum:
    """Return the optimum of the estimated surface, with intervals that follow from random coefficients."""
    from scipy import stats

    sign, n = 1.0 if goal == "min" else -1.0, len(names)
    # The Cholesky factor is unique, whereas the signs of eigenvectors would differ between processors.
    scales = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    factor = np.linalg.cholesky(covariance / np.outer(scales, scales)) if covariance.any() else 0 * covariance
    draws = rng.standard_normal((_DRAWS, len(beta))) @ (factor.T * scales)
    draws = beta + draws / np.sqrt(rng.chisquare(df, size=(_DRAWS, 1)) / df)
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * n)).reshape(n, -1).T if n <= _CORNERED else x[:0]
    candidates = np.vstack([x, rng.uniform(-1, 1, size=(_CANDIDATES, n)), corners])
    betas = sign * np.vstack([beta, draws])
    heights = _columns(candidates, terms) @ betas.T
    best, *drawn_optima = _minima(terms, betas, candidates[np.argmin(heights, axis=0)])
    row = _columns(best[None, :], terms)[0]
    value = float(row @ beta)
    half = float(stats.t.ppf(0.975, df)) * math.sqrt(max(float(row @ covariance @ row), 0.0))
    low, high = np.quantile(drawn_optima, [0.025, 0.975], axis=0)
    ends = zip(np.minimum(low, best).tolist(), np.maximum(high, best).tolist(), strict=True)
    codes = dict(zip(names, best.tolist(), strict=True))
    at_edge = tuple(name for name, code in codes.items() if abs(code) > 1 - 1e-6)
    return Optimum(codes, dict(zip(names, ends, strict=True)), value, (value - half, value + half), at_edge)


def _minima(terms: Sequence[Term], betas: Matrix, points: Matrix) -> Matrix:
    """Return for each of n quadratic functions the minimum, (n, n_factors), that a descent finds.

    The descent for a function starts at its row of ``points`` and minimises over one factor at a time.
    """
    n = points.shape[1]
    points, mixed = points.copy(), _second_order(terms, betas, n)
    linear = np.zeros(points.shape)
    for term, values in zip(terms, betas.T, strict=True):
        if len(term) == 1:
            linear[:, term[0]] = values
    for _ in range(_SWEEPS):
        previous = points.copy()
        for i in range(n):
            bend = mixed[:, i, i]
            slope = linear[:, i] + 2 * (np.einsum("dj,dj->d", mixed[:, i], points) - bend * points[:, i])
            vertex = np.clip(-slope / (2 * np.where(bend > 0, bend, 1.0)), -1, 1)
            points[:, i] = np.where(bend > 0, vertex, np.where(slope == 0, points[:, i], -np.sign(slope)))
        if np.max(np.abs(points - previous)) < 1e-9:
            break
    return points
