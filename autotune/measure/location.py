"""Samples of one cell → its location with a standard error and an interval.

Step 7 of the flow; ranks and design effect are used on every rank by the probe, so they need numpy and the
standard library only. No clock, no random numbers.

Notation: n samples x₍₁₎ ≤ … ≤ x₍ₙ₎ (order statistics), confidence 1 − α. The interval of the median is
[x₍ₖ₎, x₍ₙ₊₁₋ₖ₎] with the largest k for which P(Bin(n, ½) ≤ k − 1) ≤ α/2: it holds for every continuous
distribution, however skewed, and times are skewed. It does not hold for samples that resemble their
neighbours, and on a busy machine they do; so n enters as the *effective* number n / D, where the design
effect D is the variance of batch means over what independence would give. The binomial tail is summed in
integers, so that all ranks find the same k whatever their processors' mathematical libraries round.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotune.errors import UserError, allowed

FloatArray: TypeAlias = NDArray[np.float64]

NORMAL = NormalDist()  # The standard normal distribution.


@dataclass(frozen=True, slots=True)
class LocationRule:
    """Requirements of an estimate."""

    confidence: float = 0.95  # Of all intervals.
    exact_up_to: int = 1000  # Samples above which the normal approximation gives the same rank within two.
    outlier_score: float = 3.5  # Modified z-score beyond which a sample is an outlier (Iglewicz and Hoaglin).
    batches: int = 12  # Parts of a row of samples whose means show the correlation of neighbours.
    least_batch: int = 4  # Samples in a batch; of fewer in all, independence is taken for granted.


RULE = LocationRule()


class Estimator(StrEnum):
    """Ways to summarise samples by one number."""

    MEDIAN = "median"  # Median, interval by order statistics. The default.
    MEAN = "mean"  # Arithmetic mean, as the OSU benchmarks report it; Student's interval.
    MINIMUM = "minimum"  # Smallest sample: the time without disturbance.


@dataclass(frozen=True, slots=True)
class Location:
    """Location of a cell's times."""

    value_s: float  # The estimate, in seconds.
    sem_s: float  # Its standard error, in seconds; not a number when one sample says nothing about it.
    low_s: float  # Lower end of the 95 % interval, seconds; of fewer than six samples the smallest.
    high_s: float  # Upper end of it, in seconds.
    n: int  # Samples that went in; none was left out as an outlier.
    n_outliers: int  # How many of them `outliers` marks.


def estimate(samples_s: ArrayLike, estimator: Estimator | str = Estimator.MEDIAN) -> Location:
    """The location of samples `(n,)` in seconds, in the order in which they were taken.

    It is equivariant: samples scaled or shifted give the same scaled or shifted.

    Raises:
        UserError: Unknown estimator.
        ValueError: No samples, or samples that are not finite.
    """
    if estimator not in list(Estimator):
        raise UserError(f"unknown estimator {estimator!r}", allowed(estimator, Estimator))
    x = np.asarray(samples_s, dtype=np.float64)
    if x.ndim != 1 or not x.size:
        raise ValueError(f"samples of shape {x.shape}: one row of at least one time is needed")
    if not np.isfinite(x).all():
        raise ValueError("samples must be finite; mark failed calls by a status, not by a value")
    located = {Estimator.MEDIAN: _median, Estimator.MEAN: _mean, Estimator.MINIMUM: _minimum}
    value_s, sem_s, low_s, high_s = map(float, located[Estimator(estimator)](x))
    return Location(value_s, sem_s, low_s, high_s, len(x), int(np.count_nonzero(outliers(x))))


@lru_cache(maxsize=16384)
def median_ranks(n: int, alpha: float) -> tuple[int, float]:
    """Rank k of the median's interval [x₍ₖ₎, x₍ₙ₊₁₋ₖ₎] of n ≥ 1 samples, and the interval's coverage.

    Alpha is the accepted probability that the interval misses the median, both sides together; k goes from 1
    to ⌈n/2⌉. With too few samples for alpha, k = 1 and coverage < 1 − alpha.
    """
    if n > RULE.exact_up_to:
        z = -NORMAL.inv_cdf(alpha / 2)
        k = max(1, math.floor((n + 1 - z * math.sqrt(n)) / 2))
        return k, 1 - 2 * NORMAL.cdf((2 * k - 1 - n) / math.sqrt(n))
    # 2 · tail(k − 1) / 2ⁿ ≤ alpha in integers, alpha being the fraction numerator / denominator.
    numerator, denominator = float(alpha).as_integer_ratio()
    limit = (numerator << n) // (2 * denominator)
    k, tail, term = 1, 1, 1  # tail = Σ_{i<k} C(n, i), term = C(n, k − 1)
    while 2 * (k + 1) <= n + 1:
        term = term * (n - k + 1) // k
        if tail + term > limit:
            break
        tail += term
        k += 1
    return k, ((1 << n) - 2 * tail) / (1 << n)


def normal_scale(deviations: ArrayLike) -> FloatArray:
    """Standard deviations `(...)` of normal errors with absolute deviations `(n, ...)`: 1.4826 · median.

    The one robust scale of the package; `scipy.stats.median_abs_deviation` is the same, but `status` would
    have to pay for its import.
    """
    return np.asarray(np.median(np.asarray(deviations, dtype=np.float64), axis=0) / NORMAL.inv_cdf(0.75))


def outliers(samples_s: ArrayLike) -> NDArray[np.bool_]:
    """Which samples `(n,)` of a run lie far from the bulk; they are for counting, never for deleting.

    The modified z-score |x − median| / (1.4826 · MAD) above 3.5. Where more than half of the samples are
    equal (a coarse clock) the MAD is 0 and 1.2533 · the mean absolute deviation takes its place.

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
    """How many times more samples are needed than if neighbours did not resemble each other.

    The samples of a row are cut into twelve batches in order of time; D is the variance of their means,
    weighted by length, over the variance that independent samples would give them.

    Args:
        values: `(Σ n,)`, the samples of all rows one after the other, each in order of time; of a median,
            whether they lie above it.
        n: `(n_rows,)`, how many belong to each row.

    Returns:
        `(n_rows,)`, at least 1; 1 for rows with fewer than 48 samples or without variance.
    """
    effect = np.ones(n.size)
    enough = np.flatnonzero(n >= RULE.batches * RULE.least_batch)
    if not enough.size:
        return effect
    x = values[np.repeat(n >= RULE.batches * RULE.least_batch, n)]
    n = n[enough]
    start = np.cumsum(n) - n
    edges = start[:, None] + n[:, None] * np.arange(RULE.batches) // RULE.batches
    length = np.diff(edges, axis=1, append=(start + n)[:, None])
    sums = np.add.reduceat(x, edges.ravel()).reshape(edges.shape)
    mean = sums.sum(axis=1) / n
    variance = np.maximum(np.add.reduceat(x * x, start) / n - mean**2, 0.0)
    between = (length * (sums / length - mean[:, None]) ** 2).sum(axis=1) / (RULE.batches - 1)
    varies = variance > 1e-12 * mean**2
    effect[enough[varies]] = np.maximum(1.0, between[varies] / variance[varies])
    return effect


_Figures: TypeAlias = tuple[float, float, float, float]  # value_s, sem_s, low_s, high_s.


def _median(x: FloatArray) -> _Figures:
    """Median; its standard error is half the interval over the normal quantile of the interval's coverage.

    References:
        J. W. McKean, R. M. Schrader, "A comparison of methods for studentizing the sample median",
        Commun. Stat. Simul. 13 (1984) 751–773.
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
    return len(x) / float(design_effect(x, np.array([len(x)]))[0])


def _mean(x: FloatArray) -> _Figures:
    from scipy.special import stdtrit

    value = float(np.mean(x))
    if len(x) == 1:
        return value, math.nan, value, value
    effective = _effective(x - value)
    sem = float(np.std(x, ddof=1)) / math.sqrt(effective)
    half = float(stdtrit(max(1, math.floor(effective) - 1), (1 + RULE.confidence) / 2)) * sem
    return value, sem, value - half, value + half


def _minimum(x: FloatArray) -> _Figures:
    """Smallest sample; the end of the distribution is below it by a few gaps x₍₂₎ − x₍₁₎.

    References:
        D. S. Robson, J. H. Whitlock, "Estimation of a truncation point", Biometrika 51 (1964) 33–39, eq. 4.
    """
    smallest = float(np.min(x))
    if len(x) == 1:
        return smallest, math.nan, smallest, smallest
    gap = float(np.partition(x, 1)[1]) - smallest
    return smallest, gap, smallest - gap * RULE.confidence / (1 - RULE.confidence), smallest
