"""Computes the location of one cell's samples, with a standard error and an interval.

This belongs to step 7 of the data flow, observation. A *cell* is one call that is timed; its location is the
median, mean or minimum. ``rows`` computes the same statistics in the form that the probe needs on every rank.
The functions use no clock and no random numbers.

Notation: n samples x₍₁₎ ≤ … ≤ x₍ₙ₎ (order statistics), confidence 1 − α. The interval of the median is [x₍ₖ₎,
x₍ₙ₊₁₋ₖ₎] with the largest k for which P(Bin(n, ½) ≤ k − 1) ≤ α/2. It is valid for every continuous
distribution, however skewed, and times are skewed. It is not valid for samples that are correlated with their
neighbours, as they are on a busy machine. So the *effective* number n / D replaces n. The design effect D is
the variance of the means of consecutive batches of samples, divided by the variance that these means would
have if the samples were independent. The binomial tail is summed in integers, so that all ranks find the same
k however their mathematical libraries round.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotune.errors import UserError, allowed
from autotune.measure.rows import BATCHES, LEAST_BATCH, median_ranks

FloatArray: TypeAlias = NDArray[np.float64]

NORMAL = NormalDist()  # The standard normal distribution.


@dataclass(frozen=True, slots=True)
class LocationRule:
    """Constants of the estimates in this module."""

    confidence: float = 0.95  # Coverage of every interval: the probability that it contains the true value.
    outlier_score: float = 3.5  # Modified z-score beyond which a sample is an outlier (Iglewicz and Hoaglin).


RULE = LocationRule()


class Estimator(StrEnum):
    """Statistics that can summarise samples by one number."""

    MEDIAN = "median"  # The median with an interval by order statistics; the default.
    MEAN = "mean"  # The arithmetic mean, as the OSU benchmarks report it, with Student's interval.
    MINIMUM = "minimum"  # The smallest sample: the time of a call that nothing disturbed.


@dataclass(frozen=True, slots=True)
class Location:
    """Location (median, mean or minimum) of a cell's times, with its uncertainty."""

    value_s: float  # The estimate, in seconds.
    sem_s: float  # Standard error of the estimate, in seconds; not a number for a single sample.
    low_s: float
    """Lower end of the 95 % interval, in seconds.

    With fewer than six samples, the interval of the median extends from the smallest to the largest sample
    and has a lower coverage."""
    high_s: float  # Upper end of the 95 % interval, in seconds.
    n: int  # Number of samples used; none is left out as an outlier.
    n_outliers: int  # Number of samples that are far from most others (see `outliers`).


def estimate(samples_s: ArrayLike, estimator: Estimator | str = Estimator.MEDIAN) -> Location:
    """Return the location of samples `(n,)` in seconds, given in the order in which they were taken.

    The estimate is equivariant: if the samples are scaled or shifted, it is scaled or shifted likewise.

    Raises:
        UserError: If the estimator is unknown.
        ValueError: If there are no samples, or samples that are not finite.
    """
    if estimator not in list(Estimator):
        raise UserError(f"unknown estimator {estimator!r}", allowed(estimator, Estimator))
    x = np.asarray(samples_s, dtype=np.float64)
    if x.ndim != 1 or not x.size:
        raise ValueError(f"samples of shape {x.shape}: one row of at least one time is needed")
    if not np.isfinite(x).all():
        raise ValueError("samples must be finite; mark failed calls by a status, not by a value")
    estimators = {Estimator.MEDIAN: _median, Estimator.MEAN: _mean, Estimator.MINIMUM: _minimum}
    value_s, sem_s, low_s, high_s = map(float, estimators[Estimator(estimator)](x))
    return Location(value_s, sem_s, low_s, high_s, len(x), int(np.count_nonzero(outliers(x))))


def normal_scale(deviations: ArrayLike) -> FloatArray:
    """Return robust standard deviations `(...)`: 1.4826 · the median of absolute deviations `(n, ...)`.

    For normal errors this is the standard deviation. The whole package uses this function for robust scales.
    `scipy.stats.median_abs_deviation` computes the same, but its import would slow down `status`.
    """
    return np.asarray(np.median(np.asarray(deviations, dtype=np.float64), axis=0) / NORMAL.inv_cdf(0.75))


SLICE_S = 0.5e-3
"""Time in seconds that is shorter than any time slice of the scheduler.

Linux gives each process at least 0.75 ms · (1 + log₂(cores)) (``base_slice`` and ``min_granularity`` in
kernel/sched/fair.c)."""


def interrupted(times_s: FloatArray) -> NDArray[np.bool_]:
    """Return for each call `(n,)` whether it took so long that another process must have run meanwhile.

    A call counts as interrupted if it exceeds the median by more than ``SLICE_S``. If the median itself is
    longer than ``SLICE_S``, the call must take more than twice the median, since such calls vary more.
    """
    middle = float(np.median(times_s))
    return np.asarray(times_s > middle + max(SLICE_S, middle))


def outliers(samples_s: ArrayLike) -> NDArray[np.bool_]:
    """Return for each sample `(n,)` whether it is far from most others; outliers are counted, never deleted.

    An outlier has a modified z-score |x − median| / (1.4826 · MAD) above 3.5; MAD is the median absolute
    deviation. If more than half of the samples are equal, as with a coarse clock, the MAD is 0. Then
    1.2533 · the mean absolute deviation replaces 1.4826 · MAD.

    References:
        B. Iglewicz, D. C. Hoaglin, *How to Detect and Handle Outliers*, ASQC Quality Press 1993, ch. 3.
    """
    x = np.asarray(samples_s, dtype=np.float64)
    deviation = np.abs(x - np.median(x))
    scale = float(normal_scale(deviation))
    if scale == 0.0:
        scale = math.sqrt(math.pi / 2) * float(np.mean(deviation))
    if scale == 0.0:
        return np.zeros(x.shape, dtype=np.bool_)
    return np.asarray(deviation > RULE.outlier_score * scale)


def design_effect(values: FloatArray, n: NDArray[np.int64]) -> FloatArray:
    """Return the factor by which the correlation of neighbouring samples increases the samples needed.

    The samples of a row are cut into twelve batches in order of time. The design effect is the variance of
    the batch means, weighted by length, divided by the variance that they would have for independent samples.

    Args:
        values: `(Σ n,)`, the samples of all rows one after the other, each row in order of time; for the
            design effect of a median, 1 for samples above the median and 0 for those below.
        n: `(n_rows,)`, the length of each row.

    Returns:
        `(n_rows,)`, at least 1; 1 for rows with fewer than 48 samples or without variance.
    """
    effect = np.ones(n.size)
    enough = np.flatnonzero(n >= BATCHES * LEAST_BATCH)
    if not enough.size:
        return effect
    x = values[np.repeat(n >= BATCHES * LEAST_BATCH, n)]
    n = n[enough]
    start = np.cumsum(n) - n
    edges = start[:, None] + n[:, None] * np.arange(BATCHES) // BATCHES
    length = np.diff(edges, axis=1, append=(start + n)[:, None])
    sums = np.add.reduceat(x, edges.ravel()).reshape(edges.shape)
    mean = sums.sum(axis=1) / n
    variance = np.maximum(np.add.reduceat(x * x, start) / n - mean**2, 0.0)
    between = (length * (sums / length - mean[:, None]) ** 2).sum(axis=1) / (BATCHES - 1)
    varies = variance > 1e-12 * mean**2
    effect[enough[varies]] = np.maximum(1.0, between[varies] / variance[varies])
    return effect


_Figures: TypeAlias = tuple[float, float, float, float]  # The tuple (value_s, sem_s, low_s, high_s).


def _median(x: FloatArray) -> _Figures:
    """Return the median, its standard error and its interval.

    The standard error is half the width of the interval, divided by the quantile of the normal distribution
    for the coverage of the interval.

    References:
        J. W. McKean, R. M. Schrader, "A comparison of methods for studentizing the sample median", Commun.
            Stat. Simul. 13 (1984) 751–773.
    """
    n, median = len(x), float(np.median(x))
    effective = max(1, math.floor(_effective((x > median) + 0.5 * (x == median))))
    k, coverage = median_ranks(effective, 1 - RULE.confidence)
    k = k * n // effective
    ordered = np.sort(x)
    low, high = ordered[k - 1], ordered[n - k]
    z = NORMAL.inv_cdf((1 + coverage) / 2)
    sem = (high - low) / (2 * z) if effective > 1 else math.nan
    return median, sem, low, high


def _effective(x: FloatArray) -> float:
    """Return the effective number of independent samples: the number of samples / their design effect."""
    return len(x) / float(design_effect(x, np.array([len(x)]))[0])


def _mean(x: FloatArray) -> _Figures:
    """Return the mean with Student's interval for the effective number of samples."""
    from scipy.special import stdtrit

    value = float(np.mean(x))
    if len(x) == 1:
        return value, math.nan, value, value
    effective = _effective(x - value)
    sem = float(np.std(x, ddof=1)) / math.sqrt(effective)
    half = float(stdtrit(max(1, math.floor(effective) - 1), (1 + RULE.confidence) / 2)) * sem
    return value, sem, value - half, value + half


def _minimum(x: FloatArray) -> _Figures:
    """Return the smallest sample, its standard error, and an interval of the smallest possible time.

    The interval extends from the smallest sample x₍₁₎ downwards, by 19 times x₍₂₎ − x₍₁₎ at 95 % confidence.

    References:
        D. S. Robson, J. H. Whitlock, "Estimation of a truncation point", Biometrika 51 (1964) 33–39, eq. 4.
    """
    smallest = float(np.min(x))
    if len(x) == 1:
        return smallest, math.nan, smallest, smallest
    gap = float(np.partition(x, 1)[1]) - smallest
    return smallest, gap, smallest - gap * RULE.confidence / (1 - RULE.confidence), smallest


def weighted_median(values: FloatArray, weights: NDArray[np.float64 | np.int_]) -> float:
    """Return the smallest value that, together with all smaller values, has at least half of all weight.

    Args:
        values: The values, shape ``(n,)`` with n at least 1.
        weights: Their weights, of the same shape and not negative.
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, below[-1] / 2)])


def usual_variance(squares: NDArray[np.float64], freedom: NDArray[np.int_]) -> float:
    """Return the variance that is usual among k groups, such as the launches of each of k settings.

    It is the pooled variance, but at most the median over the groups, so that a single group whose values
    differ very much does not raise it. The median weights each group by its degrees of freedom ν, and
    estimates the variance of a group as SS / median(χ²_ν). Without repeated values the result is 0.

    Args:
        squares: Sums of squared deviations of each group's values from their mean, shape ``(k,)``.
        freedom: Degrees of freedom of each sum of squares, shape ``(k,)``.
    """
    from scipy.stats import chi2

    if not freedom.sum():
        return 0.0
    squares, freedom = squares[freedom > 0], freedom[freedom > 0]
    shown = squares / chi2.ppf(0.5, freedom)
    return float(min(squares.sum() / freedom.sum(), weighted_median(shown, freedom)))
