"""Estimate the noise of a screening, with which its effects are compared.

Notation: as in ``model``. Every variance is that of one run, in whitened units (see ``model``).
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from autotune.screening.design import Matrix
from autotune.screening.model import RULE, Fit, fit, free_of, rank


@dataclass(frozen=True, slots=True)
class Lenth:
    """Lenth's margins of error; a contrast beyond its margin is significant."""

    pse: float  # Pseudo standard error of one contrast; nan if there are no contrasts.
    df: float  # Degrees of freedom of the pseudo standard error, m / 3.
    margin: float  # A single contrast beyond this is significant at the level of the test.
    simultaneous_margin: float  # The largest of all m contrasts is significant if it is beyond this.


def lenth(contrasts: NDArray[np.float64], alpha: float = 0.05) -> Lenth:
    """Return Lenth's pseudo standard error of contrasts (m,), and its margins of error at level ``alpha``.

    PSE = 1.5 · median of those |c| that are below 2.5 · s₀, with s₀ = 1.5 · median |c|
    (Lenth 1989, eqs. 1–4).
    """
    from scipy import stats

    m = len(contrasts)
    if m == 0:
        return Lenth(math.nan, 0.0, math.nan, math.nan)
    pse, df = float(pseudo_error(contrasts)), m / 3
    simultaneous = (1 + (1 - alpha) ** (1 / m)) / 2
    margin, widest = (float(stats.t.ppf(level, df)) * pse for level in (1 - alpha / 2, simultaneous))
    return Lenth(pse, df, margin, widest)


def pseudo_error(contrasts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Lenth's pseudo standard error, (...), of each set of contrasts, (..., m) with m ≥ 1."""
    sizes = np.abs(contrasts)
    first = 1.5 * np.median(sizes, axis=-1, keepdims=True)
    inert = sizes < np.maximum(2.5 * first, np.finfo(float).tiny)
    return np.asarray(1.5 * np.nanmedian(np.where(inert, sizes, math.nan), axis=-1))


def half_normal_scores(contrasts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the size that is expected of each contrast, (m,), if all contrasts are noise.

    The unit is a standard error. The i-th smallest of m contrasts has the score Φ⁻¹(½ + ½ (i − ½) / m). In a
    plot of contrasts against these scores, a contrast far above the line through the small contrasts is
    active. The score of a nan is nan.
    """
    from scipy import stats

    scores = np.full(len(contrasts), math.nan)
    finite = np.flatnonzero(np.isfinite(contrasts))
    ranks = stats.rankdata(np.abs(contrasts[finite]))
    scores[finite] = stats.norm.ppf(0.5 + 0.5 * (ranks - 0.5) / max(len(finite), 1))
    return scores


@dataclass(frozen=True, slots=True)
class NoiseEstimate:
    """The variance of one run on which standard errors are based, and the source of this estimate."""

    variance: float  # Variance of a run, in whitened units.
    df: float  # Degrees of freedom of the variance.
    source: str  # ``residual``, ``lack of fit``, ``pure error``, ``lenth``, ``whole plots`` or ``none``.


def noise_of(fitted: Fit, groups: Sequence[Hashable], floor: float) -> NoiseEstimate:
    """Return the noise with which main effects are compared.

    1. With three or more residual degrees of freedom, the noise is the residual mean square, unless
       replicates show that the model does not fit (F-test of lack of fit against pure error at 5 %; the cause
       are interactions or curvature). Then the noise is the mean square of lack of fit, because the misfit
       also biases the main effects. If lack of fit has fewer than three degrees of freedom, its mean square
       is too uncertain, and the noise is pure error.
    2. With fewer residual degrees of freedom, the noise is Lenth's pseudo standard error of the main effects
       and the contrasts of lack of fit. But if there are replicates, and the pseudo standard error is
       significantly larger than pure error, active effects have enlarged it, and the noise is pure error.

    A large pseudo standard error alone never overrules replicates, because its cause may be active effects or
    a misfit.

    ``groups`` contains the group of each run; runs of the same group are replicates. ``floor`` is the
    smallest plausible variance, in whitened units.
    """
    rss, df = float(fitted.residual @ fitted.residual), fitted.residual_df
    pure_ss, pure_df = pure_error(fitted, groups)
    fit_ss, fit_df = max(rss - pure_ss, 0.0), max(df - pure_df, 0)
    pure = NoiseEstimate(max(pure_ss / pure_df, floor), pure_df, "pure error") if pure_df else None
    if df >= RULE.min_residual_df:
        misfit = NoiseEstimate(max(fit_ss / max(fit_df, 1), floor), fit_df, "lack of fit")
        if pure is None or not _exceeds(misfit, pure):
            return NoiseEstimate(max(rss / df, floor), df, "residual")
        return misfit if fit_df >= RULE.min_residual_df else pure
    scaled = fitted.beta[fitted.estimable] / np.sqrt(fitted.unit_variance[fitted.estimable])
    yardstick = lenth(np.append(scaled, _misfit(fitted, fit_ss, fit_df)))
    contrasts = NoiseEstimate(max(yardstick.pse**2, floor), yardstick.df, "lenth")
    if pure is not None and _exceeds(contrasts, pure):
        return pure
    return contrasts if len(scaled) + fit_df >= RULE.min_residual_df else NoiseEstimate(math.nan, 0.0, "none")


def _exceeds(noise: NoiseEstimate, pure: NoiseEstimate) -> bool:
    """Return whether a variance is significantly larger than that of pure error, by an F-test."""
    from scipy import stats

    return noise.df > 0 and bool(stats.f.sf(noise.variance / pure.variance, noise.df, pure.df) < RULE.alpha)


def run_variance(nuisance: Matrix, main: Matrix, y: Matrix, sem: Matrix) -> Matrix:
    """Return the variance of each run, (n_runs,): the sum of its own variance and a variance between runs.

    The variance between runs is the same for all runs. It is chosen so that the weighted residual sum of
    squares equals its degrees of freedom (Paule & Mandel). It is zero if the standard errors of the runs
    explain all differences, or if too few residual degrees of freedom remain. Standard errors below a
    hundredth of their median are raised to this value, because no run is that much better than others.
    Standard errors above 1000 times the median are reduced to this value; such a run has practically no
    weight anyway.

    The arguments are not whitened. ``sem``, (n_runs,), contains the standard error of each run, above zero.
    """
    from scipy.optimize import brentq

    median = float(np.median(sem))
    within = np.clip(sem, median / 100, median * 1000) ** 2

    def excess(between: float) -> float:
        root = np.sqrt(within + between)
        fitted = fit(nuisance / root[:, None], main / root[:, None], y / root)
        if fitted.residual_df < RULE.min_residual_df:
            return -1.0
        return float(fitted.residual @ fitted.residual) / fitted.residual_df - 1

    if excess(0.0) <= 0:
        return np.asarray(within)
    high = float(np.var(y)) + median**2
    while excess(high) > 0:
        high *= 2
    return np.asarray(within + brentq(excess, 0.0, high))


def smallest_error(deviations: Matrix, mean: float) -> float:
    """Return a positive standard error below which differences of responses may be due to rounding."""
    error = 1e-9 * float(np.std(deviations)) + 1e-12 * abs(mean)
    return error if error > RULE.tiny else 1.0


def pure_error(fitted: Fit, groups: Sequence[Hashable]) -> tuple[float, int]:
    """Return the sum of squares between replicates, without block effects, and its degrees of freedom.

    ``groups`` contains the group of each run; runs of the same group are replicates.
    """
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    if not fitted.joint or len(numbers) == len(groups):
        return 0.0, 0
    group = np.array([numbers[name] for name in groups], dtype=int)
    weight = fitted.nuisance[:, 0]  # After whitening, the column of the mean contains the weight of each run.
    squares = np.bincount(group, weight**2)

    def within(column: Matrix) -> Matrix:
        """Return a column from which the weighted mean of each group is subtracted."""
        return np.asarray(column - weight * (np.bincount(group, weight * column) / squares)[group])

    block_columns = np.column_stack([within(column) for column in fitted.nuisance.T])
    lost, residual = rank(block_columns, np.linalg.norm(fitted.nuisance, axis=0)), within(fitted.y)
    if lost:
        residual = free_of(block_columns, residual[:, None])[:, 0]
    return float(residual @ residual), len(groups) - len(numbers) - lost


def _misfit(fitted: Fit, fit_ss: float, fit_df: int) -> Matrix:
    """Return the contrasts, (fit_df,), of the residuals along the interactions of two factors.

    In a regular design these are the contrasts of the columns to which no factor is assigned. So a single
    large interaction is a single large contrast, which Lenth's method does not mistake for noise.
    """
    from scipy import linalg

    if fit_df == 0:
        return np.zeros(0)
    products = np.array([i * j for i, j in combinations(fitted.main.T, 2)]).reshape(-1, len(fitted.y)).T
    products = products / fitted.nuisance[:, :1]
    free = free_of(fitted.matrix, products)
    n_contrasts = min(rank(free, np.linalg.norm(products, axis=0)), fit_df)
    basis = linalg.qr(free, mode="economic", pivoting=True)[0] if n_contrasts else free
    contrasts = basis[:, :n_contrasts].T @ fitted.residual
    n_missing = fit_df - n_contrasts
    unexplained = max(fit_ss - float(contrasts @ contrasts), 0.0)
    return np.append(contrasts, np.full(n_missing, math.sqrt(unexplained / max(n_missing, 1))))
