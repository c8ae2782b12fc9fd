"""How large the noise of a screening is: the yardstick for its effects.

Notation: as in ``model``; the variances here are of one run, in whitened units.
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
    """Lenth's yardstick for a set of contrasts."""

    pse: float  # Pseudo standard error of one contrast; nan where there is none.
    df: float  # Its degrees of freedom, m / 3.
    margin: float  # Margin of error: a single contrast beyond it is significant at the level asked for.
    simultaneous_margin: float  # The same for the largest of all m contrasts.


def lenth(contrasts: NDArray[np.float64], alpha: float = 0.05) -> Lenth:
    """Lenth's pseudo standard error, and margins of error at a level, of (m,) contrasts (1989, eqs. 1–4).

    PSE = 1.5 · median of those |c| that are below 2.5 · s₀, with s₀ = 1.5 · median |c|.
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
    """Lenth's pseudo standard error (...) of sets (..., m) of contrasts, m ≥ 1."""
    sizes = np.abs(contrasts)
    first = 1.5 * np.median(sizes, axis=-1, keepdims=True)
    inert = sizes < np.maximum(2.5 * first, np.finfo(float).tiny)
    return np.asarray(1.5 * np.nanmedian(np.where(inert, sizes, math.nan), axis=-1))


def half_normal_scores(contrasts: NDArray[np.float64]) -> NDArray[np.float64]:
    """(m,): where each |contrast| is expected if all are noise, in standard errors.

    The i-th smallest of m has the score Φ⁻¹(½ + ½ (i − ½) / m); a contrast far above the line through the
    small ones is active. Contrasts that are nan have the score nan.
    """
    from scipy import stats

    scores = np.full(len(contrasts), math.nan)
    known = np.flatnonzero(np.isfinite(contrasts))
    ranks = stats.rankdata(np.abs(contrasts[known]))
    scores[known] = stats.norm.ppf(0.5 + 0.5 * (ranks - 0.5) / max(len(known), 1))
    return scores


@dataclass(frozen=True, slots=True)
class NoiseEstimate:
    """The variance of one run, as used for the standard errors."""

    variance: float  # Of a run, in whitened units.
    df: float  # Its degrees of freedom.
    source: str  # ``residual``, ``lack of fit``, ``pure error``, ``lenth`` or ``none``.


def noise_of(fitted: Fit, groups: Sequence[Hashable], floor: float) -> NoiseEstimate:
    """The noise against which main effects are judged.

    1. Three or more residual degrees of freedom: the residual mean square, unless replicates show that the
       model does not fit (F-test of lack of fit against pure error at 5 %, interactions or curvature being
       the cause). Then it is the mean square of lack of fit, because what does not fit also leaks into the
       main effects; or pure error, where lack of fit has fewer than three degrees of freedom, too few to say
       how much leaks.
    2. Fewer: Lenth's pseudo standard error over the main effects and the contrasts of lack of fit; or pure
       error, where there is some and Lenth's is significantly larger. Lenth's then rests on active effects,
       and pure error with one or two degrees of freedom has the smaller margin.

    A large pseudo standard error by itself never outweighs replicates: it shows active effects as much as it
    shows a leak.

    Runs of one group are replicates; ``floor`` is the smallest variance that can be true, in whitened units.
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
    """Whether a variance is significantly larger than pure error, by an F-test."""
    from scipy import stats

    return noise.df > 0 and bool(stats.f.sf(noise.variance / pure.variance, noise.df, pure.df) < RULE.alpha)


def run_variance(nuisance: Matrix, main: Matrix, y: Matrix, sem: Matrix) -> Matrix:
    """(n_runs,) variance of each run: its own plus one between runs that explains the residuals.

    The variance between runs is the one at which the weighted residual sum of squares equals its degrees
    of freedom (Paule & Mandel); none where the runs' own errors explain everything, or where too few
    residuals are left. No run is believed to be 100 times better than the median one, and one that
    is 1000 times worse counts for nothing anyway.

    Nothing is whitened here; standard errors are positive.
    """
    from scipy.optimize import brentq

    median = float(np.median(sem))
    own = np.clip(sem, median / 100, median * 1000) ** 2

    def excess(between: float) -> float:
        root = np.sqrt(own + between)
        fitted = fit(nuisance / root[:, None], main / root[:, None], y / root)
        if fitted.residual_df < RULE.min_residual_df:
            return -1.0
        return float(fitted.residual @ fitted.residual) / fitted.residual_df - 1

    if excess(0.0) <= 0:
        return np.asarray(own)
    high = float(np.var(y)) + median**2
    while excess(high) > 0:
        high *= 2
    return np.asarray(own + brentq(excess, 0.0, high))


def smallest_error(deviations: Matrix, mean: float) -> float:
    """The error below which differences between responses are rounding; positive."""
    error = 1e-9 * float(np.std(deviations)) + 1e-12 * abs(mean)
    return error if error > RULE.tiny else 1.0


def pure_error(fitted: Fit, groups: Sequence[Hashable]) -> tuple[float, int]:
    """Sum of squares and degrees of freedom between replicates, differences of blocks taken out."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    if not fitted.joint or len(numbers) == len(groups):
        return 0.0, 0
    group = np.array([numbers[its] for its in groups], dtype=int)
    weight = fitted.nuisance[:, 0]  # the mean's column holds the whitening
    squares = np.bincount(group, weight**2)

    def within(column: Matrix) -> Matrix:
        """A column less the weighted mean of each group."""
        return np.asarray(column - weight * (np.bincount(group, weight * column) / squares)[group])

    rest = np.column_stack([within(column) for column in fitted.nuisance.T])
    lost, residual = rank(rest, np.linalg.norm(fitted.nuisance, axis=0)), within(fitted.y)
    if lost:
        residual = free_of(rest, residual[:, None])[:, 0]
    return float(residual @ residual), len(groups) - len(numbers) - lost


def _misfit(fitted: Fit, fit_ss: float, fit_df: int) -> Matrix:
    """(fit_df,): what the main effects leave unexplained, as contrasts along two-factor interactions.

    In a regular design these are the unassigned columns, so that a single large interaction stays a single
    large contrast and does not pass for noise.
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
    left = fit_df - n_contrasts
    rest = max(fit_ss - float(contrasts @ contrasts), 0.0)
    return np.append(contrasts, np.full(left, math.sqrt(rest / max(left, 1))))
