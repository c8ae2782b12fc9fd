"""A quadratic through the ordered factors: does the response bend, and where is its best (after a screening).

Notation: ``codes`` is (n_runs, n_factors) in [−1, 1], −1 and +1 being the ends of a factor's range;
y = b₀ + Σ bᵢxᵢ + Σ bᵢᵢxᵢ² + Σ bᵢⱼxᵢxⱼ + ε; B is the symmetric matrix of the second-order part.
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
"""Columns that are multiplied: () the mean, (i,) linear, (i, i) bent, (i, j) an interaction."""


@dataclass(frozen=True, slots=True)
class SurfaceRule:
    """How the optimum of a surface is searched."""

    draws: int = 1000  # Coefficients redrawn within their errors: 25 lie beyond each end of 95 %.
    candidates: int = 2000  # Random places, the best of which begins a descent; runs and corners too.
    sweeps: int = 200  # Passes over the factors after which a descent ends in any case.
    cornered: int = 8  # Factors up to which all corners are candidates.
    flat: float = 0.02  # An eigenvalue below this share of the largest coefficient counts as no curvature.


SURFACE = SurfaceRule()


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One term of the quadratic."""

    factors: tuple[str, ...]  # The factors that are multiplied; none for the mean.
    value: float  # Per unit of code (of each factor).
    std_err: float  # Its standard error.
    p_value: float  # Of being zero.


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best point within the range of all factors."""

    codes: dict[str, float]  # Where, in codes.
    intervals: dict[str, tuple[float, float]]  # 95 % of where it would be, coefficients being off by errors.
    value: float  # The predicted mean there.
    interval: tuple[float, float]  # Its 95 % interval; chosen as the best of many, it is hopeful.
    at_edge: tuple[str, ...]  # Factors at an end of their range: the best may lie beyond.


@dataclass(frozen=True, slots=True)
class Surface:
    """A fitted quadratic."""

    names: tuple[str, ...]  # Of the factors.
    coefficients: tuple[Coefficient, ...]  # The mean, then linear, bent and mixed terms.
    left_out: tuple[tuple[str, ...], ...]  # Terms that the runs could not separate from others.
    r_squared: float  # Share of the variation that is explained.
    adjusted_r_squared: float  # The same, corrected for the number of terms.
    predicted_r_squared: float  # Share explained of runs left out of the fit (PRESS); may be negative.
    curvature: tuple[float, ...]  # Eigenvalues of B, ascending.
    shape: Literal["minimum", "maximum", "saddle", "ridge", "plane"]
    """The shape by the eigenvalues: a *ridge* bends in some directions and is flat in others."""
    std_dev: float  # Of a run about the surface.
    df: int  # Degrees of freedom of ``std_dev``.
    optimum: Optimum  # The predicted best.

    def predict(self, codes: ArrayLike) -> Matrix:
        """(n_points,) the mean at each of (n_points, n_factors) codes."""
        x = np.asarray(codes, dtype=float)
        terms = [tuple(map(self.names.index, coefficient.factors)) for coefficient in self.coefficients]
        return np.asarray(_columns(x, terms) @ [coefficient.value for coefficient in self.coefficients])


def response_surface(
    names: Sequence[str], codes: ArrayLike, response: ArrayLike, rng: Generator, *, goal: Goal = "min"
) -> Surface:
    """The quadratic that fits best, with its optimum inside of the range of the factors.

    Terms enter in the order mean, linear, bent, mixed, each only while the runs separate it from those before
    and three degrees of freedom remain; a factor with two levels does not bend.

    Codes are (n_runs, n_factors) in [−1, 1], responses (n_runs,), nan where a run failed; the generator
    is for the intervals of the optimum.

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
    if len(y) < len(names) + 1 + RULE.min_residual_df:
        raise UserError(
            f"{len(y)} runs with a result are too few for a surface over {len(names)} factors",
            f"at least {len(names) + 1 + RULE.min_residual_df} are needed",
        )
    terms, left_out = _estimable(x)
    matrix = _columns(x, terms)
    inverse = np.asarray(np.linalg.inv(matrix.T @ matrix), dtype=np.float64)
    beta = inverse @ matrix.T @ y
    residual = y - matrix @ beta
    df = len(y) - len(terms)
    rss, total = float(residual @ residual), float(np.sum((y - y.mean()) ** 2))
    variance = rss / df
    leverage = np.einsum("ij,jk,ik->i", matrix, inverse, matrix)
    press = float(np.sum((residual / np.maximum(1 - leverage, 1e-9)) ** 2))
    errors = np.sqrt(variance * np.diag(inverse))
    bends = _second_order(terms, beta[None], len(names))[0]
    eigenvalues = np.asarray(np.linalg.eigvalsh(bends), dtype=np.float64)

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
    n = x.shape[1]
    bent = [(i, i) for i in range(n) if len(np.unique(x[:, i])) > 2]
    terms: list[Term] = [()]
    left_out: list[Term] = []
    for term in [*((i,) for i in range(n)), *bent, *combinations(range(n), 2)]:
        tried = _columns(x, [*terms, term])
        fits = len(x) - len(terms) - 1 >= RULE.min_residual_df
        if fits and np.linalg.matrix_rank(tried, tol=1e-8 * math.sqrt(len(x))) == tried.shape[1]:
            terms.append(term)
        else:
            left_out.append(term)
    return terms, left_out


def _columns(x: Matrix, terms: Sequence[Term]) -> Matrix:
    return np.column_stack([np.prod(x[:, list(term)], axis=1) for term in terms])


def _second_order(terms: Sequence[Term], betas: Matrix, n_factors: int) -> Matrix:
    """(n, n_factors, n_factors): B of n quadratics with coefficients (n, n_terms)."""
    matrix = np.zeros((len(betas), n_factors, n_factors))
    for term, values in zip(terms, betas.T, strict=True):
        if len(term) == 2:
            matrix[:, term[0], term[1]] += values / 2
            matrix[:, term[1], term[0]] += values / 2
    return matrix


def _shape(eigenvalues: Matrix, largest: float) -> Literal["minimum", "maximum", "saddle", "ridge", "plane"]:
    bends = np.abs(eigenvalues) > SURFACE.flat * largest
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
    """The best of many descents; the same for coefficients that are redrawn within their errors."""
    from scipy import stats

    sign = 1.0 if goal == "min" else -1.0
    n = len(names)
    # Cholesky's factor is unique; eigenvectors have signs that differ between processors.
    scales = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    factor = np.linalg.cholesky(covariance / np.outer(scales, scales)) if covariance.any() else 0 * covariance
    draws = rng.standard_normal((SURFACE.draws, len(beta))) @ (factor.T * scales)
    draws = beta + draws / np.sqrt(rng.chisquare(df, size=(SURFACE.draws, 1)) / df)
    candidates = np.vstack([x, rng.uniform(-1, 1, size=(SURFACE.candidates, n)), _corners(n)])
    heights = sign * (_columns(candidates, terms) @ np.vstack([beta, draws]).T)
    places = _descended(terms, sign * np.vstack([beta, draws]), candidates[np.argmin(heights, axis=0)])
    best, others = places[0], places[1:]
    row = _columns(best[None, :], terms)[0]
    value = float(row @ beta)
    half = float(stats.t.ppf(0.975, df)) * math.sqrt(max(float(row @ covariance @ row), 0.0))
    low, high = np.quantile(others, [0.025, 0.975], axis=0)
    ends = zip(np.minimum(low, best).tolist(), np.maximum(high, best).tolist(), strict=True)
    codes = dict(zip(names, best.tolist(), strict=True))
    at_edge = tuple(name for name, at in codes.items() if abs(at) > 1 - 1e-6)
    return Optimum(codes, dict(zip(names, ends, strict=True)), value, (value - half, value + half), at_edge)


def _descended(terms: Sequence[Term], betas: Matrix, points: Matrix) -> Matrix:
    """(n, n_factors): for each of n quadratics the minimum reached from a point, one factor at a time."""
    n = points.shape[1]
    points, mixed = points.copy(), _second_order(terms, betas, n)
    linear = np.zeros(points.shape)
    for term, values in zip(terms, betas.T, strict=True):
        if len(term) == 1:
            linear[:, term[0]] = values
    for _ in range(SURFACE.sweeps):
        before = points.copy()
        for i in range(n):
            bend = mixed[:, i, i]
            slope = linear[:, i] + 2 * (np.einsum("dj,dj->d", mixed[:, i], points) - bend * points[:, i])
            vertex = np.clip(-slope / (2 * np.where(bend > 0, bend, 1.0)), -1, 1)
            points[:, i] = np.where(bend > 0, vertex, np.where(slope == 0, points[:, i], -np.sign(slope)))
        if np.max(np.abs(points - before)) < 1e-9:
            break
    return points


def _corners(n_factors: int) -> Matrix:
    if n_factors > SURFACE.cornered:
        return np.zeros((0, n_factors))
    return np.array(np.meshgrid(*[[-1.0, 1.0]] * n_factors)).reshape(n_factors, -1).T
