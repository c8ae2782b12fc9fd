"""Samples of one cell → its location with a standard error and an interval.

Step 7 of the flow, and used on every rank by the probe: numpy and the standard library only, no clock,
no random numbers. The estimators other studies used are here by name, so that their procedures can be
repeated.

Notation: n samples x₍₁₎ ≤ … ≤ x₍ₙ₎ (order statistics), confidence 1 − α. The interval of the median is
[x₍ₖ₎, x₍ₙ₊₁₋ₖ₎] with the largest k for which P(Bin(n, ½) ≤ k − 1) ≤ α/2: it holds for every continuous
distribution, however skewed, and times are skewed. It does not hold for samples that resemble their
neighbours, and on a busy machine they do; so n enters as the *effective* number n / D, where the design
effect D is the variance of batch means over what independence would give. The binomial tail is summed in
integers, so that all ranks find the same k whatever their processors' mathematical libraries round.

References:
    H. A. David, H. N. Nagaraja, *Order Statistics*, 3rd ed., Wiley 2003, §7.1 (interval of a quantile).
    M. Hollander, D. A. Wolfe, *Nonparametric Statistical Methods*, 2nd ed., Wiley 1999, §3.6.
    P. Heidelberger, P. A. W. Lewis, "Quantile estimation in dependent sequences", Operations Research 32
    (1984) 185–209 (dependent samples, through batches of indicators).
    L. Kish, *Survey Sampling*, Wiley 1965, §5.4 (design effect).
    T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems", SC 2015, rules 5 to 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotune.errors import UserError, allowed

__all__ = ["Estimator", "Location", "design_effect", "estimate", "median_ranks", "outliers"]

Samples: TypeAlias = ArrayLike | Sequence[ArrayLike]
"""One run `(n,)`, several runs `(n_runs, n)`, or a sequence of runs of different lengths."""

FloatArray: TypeAlias = NDArray[np.float64]

_NORMAL = NormalDist()
_EXACT_UP_TO = 1000
"""Above this many samples the normal approximation gives the same rank to within one or two."""
_OUTLIER_SCORE = 3.5
_BATCHES = 12
_LEAST_BATCH = 4
"""Samples in a batch; with fewer than _BATCHES · _LEAST_BATCH samples independence is taken for granted."""


class Estimator(StrEnum):
    """Ways to summarise samples by one number."""

    MEDIAN = "median"
    """Median of all samples, interval by order statistics. The default."""
    MEAN = "mean"
    """Arithmetic mean, as the OSU benchmarks report it; Student's interval."""
    MEDIAN_OF_MEDIANS = "median_of_medians"
    """Median of the runs' medians; the interval speaks of runs, so it contains what differs between them."""
    TRIMMED5 = "trimmed5"
    """Five runs, the best and the worst run's mean dropped, mean of the other three."""
    MINIMUM = "minimum"
    """Smallest sample: the time without disturbance."""


@dataclass(frozen=True, slots=True)
class Location:
    """Location of a cell's times."""

    value_s: float
    """The estimate, in seconds."""
    sem_s: float
    """Its standard error, in seconds; not a number when one sample (or run) says nothing about it."""
    low_s: float
    """Lower end of the confidence interval, in seconds."""
    high_s: float
    """Upper end of the confidence interval, in seconds."""
    n: int
    """Samples that went in, all runs together; none was left out as an outlier."""
    n_outliers: int
    """How many of them `outliers` marks."""
    n_effective: float
    """Independent samples (or runs) that would say as much."""
    coverage: float
    """Probability that the interval holds the true value. Exact for medians: at least what was asked for
    from six samples on; with fewer, what [smallest, largest] gives. Nominal for the others."""


def estimate(
    samples_s: Samples, estimator: Estimator | str = Estimator.MEDIAN, confidence: float = 0.95
) -> Location:
    """The location of the samples, with standard error and interval.

    `median`, `mean` and `minimum` pool the samples of all runs, one run after the other; `median_of_medians`
    and `trimmed5` summarise runs and then compare those.

    Args:
        samples_s: Times in seconds in the order in which they were taken: `(n,)`, `(n_runs, n)`, or a
            sequence of runs of different lengths.
        estimator: A name of `Estimator`.
        confidence: Asked-for coverage of the interval, in (0, 0.999999].

    Returns:
        The estimate; equivariant: samples scaled or shifted give the same scaled or shifted.

    Raises:
        UserError: Unknown estimator, a confidence out of range, or `trimmed5` of other than five runs.
        ValueError: No samples, or samples that are not finite.
    """
    if estimator not in list(Estimator):
        raise UserError(f"unknown estimator {estimator!r}", allowed(estimator, Estimator))
    if not 0.0 < confidence <= 0.999999:
        raise UserError(f"confidence {confidence!r}", "allowed: above 0, at most 0.999999")
    runs = _runs(samples_s)
    pooled = np.concatenate(runs)
    match Estimator(estimator):
        case Estimator.MEDIAN:
            figures = _median(pooled, confidence)
        case Estimator.MEAN:
            figures = _mean(pooled, confidence)
        case Estimator.MEDIAN_OF_MEDIANS:
            figures = _median(np.array([np.median(run) for run in runs]), confidence)
        case Estimator.TRIMMED5:
            figures = _trimmed5(np.sort([np.mean(run) for run in runs]), confidence)
        case Estimator.MINIMUM:
            figures = _minimum(np.sort(pooled), confidence)
    value_s, sem_s, low_s, high_s, n_effective, coverage = figures
    n_outliers = sum(int(np.count_nonzero(outliers(run))) for run in runs)
    return Location(
        value_s=float(value_s),
        sem_s=float(sem_s),
        low_s=float(low_s),
        high_s=float(high_s),
        n=len(pooled),
        n_outliers=n_outliers,
        n_effective=n_effective,
        coverage=coverage,
    )


@lru_cache(maxsize=16384)
def median_ranks(n: int, alpha: float) -> tuple[int, float]:
    """Rank k of the median's interval [x₍ₖ₎, x₍ₙ₊₁₋ₖ₎], and the interval's coverage.

    Args:
        n: Number of samples, at least 1.
        alpha: Accepted probability that the interval misses the median, both sides together.

    Returns:
        (k, coverage): k from 1 to ⌈n/2⌉. With too few samples for alpha, k = 1 and coverage < 1 − alpha.
    """
    if n > _EXACT_UP_TO:
        z = -_NORMAL.inv_cdf(alpha / 2)
        k = max(1, math.floor((n + 1 - z * math.sqrt(n)) / 2))
        return k, 1 - 2 * _NORMAL.cdf((2 * k - 1 - n) / math.sqrt(n))
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


def outliers(samples_s: ArrayLike) -> NDArray[np.bool_]:
    """Which samples of a run lie far from the bulk; they are for counting, never for deleting.

    The modified z-score |x − median| / (1.4826 · MAD) above 3.5. Where more than half of the samples are
    equal (a coarse clock) the MAD is 0 and 1.2533 · the mean absolute deviation takes its place.

    Args:
        samples_s: `(n,)`, seconds.

    Returns:
        `(n,)`, true for an outlier.

    References:
        B. Iglewicz, D. C. Hoaglin, *How to Detect and Handle Outliers*, ASQC Quality Press 1993, ch. 3.
    """
    x = np.asarray(samples_s, dtype=np.float64)
    deviation = np.abs(x - np.median(x))
    scale = 1.482602 * np.median(deviation)
    if scale == 0.0:
        scale = 1.253314 * np.mean(deviation)
    if scale == 0.0:
        return np.zeros(x.shape, dtype=np.bool_)
    marked: NDArray[np.bool_] = deviation > _OUTLIER_SCORE * scale
    return marked


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
    enough = np.flatnonzero(n >= _BATCHES * _LEAST_BATCH)
    if not enough.size:
        return effect
    x = values[np.repeat(n >= _BATCHES * _LEAST_BATCH, n)]
    n = n[enough]
    start = np.cumsum(n) - n
    edges = start[:, None] + n[:, None] * np.arange(_BATCHES) // _BATCHES
    length = np.diff(edges, axis=1, append=(start + n)[:, None])
    sums = np.add.reduceat(x, edges.ravel()).reshape(edges.shape)
    mean = sums.sum(axis=1) / n
    variance = np.maximum(np.add.reduceat(x * x, start) / n - mean**2, 0.0)
    between = (length * (sums / length - mean[:, None]) ** 2).sum(axis=1) / (_BATCHES - 1)
    varies = variance > 1e-12 * mean**2
    effect[enough[varies]] = np.maximum(1.0, between[varies] / variance[varies])
    return effect


_Figures: TypeAlias = tuple[float, float, float, float, float, float]
"""value_s, sem_s, low_s, high_s, n_effective, coverage."""


def _runs(samples_s: Samples) -> list[FloatArray]:
    """The runs, each `(n,)`, checked."""
    if isinstance(samples_s, np.ndarray):
        several = samples_s.ndim == 2
    else:
        several = bool(np.ndim(samples_s[0])) if isinstance(samples_s, Sequence) and len(samples_s) else False
    runs = [np.asarray(run, dtype=np.float64) for run in (samples_s if several else [samples_s])]  # type: ignore[union-attr]  # `several` implies a sequence
    for run in runs:
        if run.ndim != 1 or not run.size:
            raise ValueError(f"samples of shape {run.shape}: a run is one row of at least one time")
        if not np.isfinite(run).all():
            raise ValueError("samples must be finite; mark failed calls by a status, not by a value")
    if not runs:
        raise ValueError("no samples")
    return runs


def _median(x: FloatArray, confidence: float) -> _Figures:
    """Median; its standard error is half the interval over the normal quantile of the interval's coverage.

    References:
        J. W. McKean, R. M. Schrader, "A comparison of methods for studentizing the sample median",
        Commun. Stat. Simul. 13 (1984) 751–773.
    """
    n, median = len(x), float(np.median(x))
    effective = _effective((x > median) + 0.5 * (x == median))
    whole = max(1, math.floor(effective))
    k, coverage = median_ranks(whole, 1 - confidence)
    k = k * n // whole
    ordered = np.sort(x)
    low, high = ordered[k - 1], ordered[n - k]
    z = _NORMAL.inv_cdf((1 + coverage) / 2)
    sem = (high - low) / (2 * z) if whole > 1 else math.nan
    return median, sem, low, high, effective, coverage


def _effective(x: FloatArray) -> float:
    """Effective number of the samples of one row."""
    return len(x) / float(design_effect(x, np.array([len(x)]))[0])


def _mean(x: FloatArray, confidence: float) -> _Figures:
    """Mean with Student's interval."""
    value, n = float(np.mean(x)), len(x)
    if n == 1:
        return value, math.nan, value, value, 1.0, 0.0
    effective = _effective(x - value)
    sem = float(np.std(x, ddof=1)) / math.sqrt(effective)
    half = _student_quantile((1 + confidence) / 2, max(1, math.floor(effective) - 1)) * sem
    return value, sem, value - half, value + half, effective, confidence


def _trimmed5(ordered_means: FloatArray, confidence: float) -> _Figures:
    """Mean of the middle three of five runs; standard error from the Winsorised variance (2 dof).

    References:
        J. W. Tukey, D. H. McLaughlin, "Less vulnerable confidence and significance procedures for
        location based on a single sample", Sankhyā A 25 (1963) 331–352.
    """
    if len(ordered_means) != 5:
        raise UserError(f"estimator trimmed5 of {len(ordered_means)} runs", "it is defined for five runs")
    middle = ordered_means[1:4]
    winsorised = ordered_means[[1, 1, 2, 3, 3]]
    value = float(np.mean(middle))
    sem = float(np.std(winsorised, ddof=1)) / (0.6 * math.sqrt(5))
    half = _student_quantile((1 + confidence) / 2, 2) * sem
    return value, sem, value - half, value + half, 5.0, confidence


def _minimum(ordered: FloatArray, confidence: float) -> _Figures:
    """Smallest sample; the end of the distribution lies below it by a few gaps x₍₂₎ − x₍₁₎.

    References:
        D. S. Robson, J. H. Whitlock, "Estimation of a truncation point", Biometrika 51 (1964) 33–39, eq. 4.
    """
    smallest = float(ordered[0])
    if len(ordered) == 1:
        return smallest, math.nan, smallest, smallest, 1.0, 0.0
    gap = float(ordered[1]) - smallest
    n = float(len(ordered))
    return smallest, gap, smallest - gap * confidence / (1 - confidence), smallest, n, confidence


@lru_cache(maxsize=1024)
def _student_quantile(p: float, dof: int) -> float:
    """Quantile p > ½ of Student's t, by bisection on the closed form for whole degrees of freedom.

    References:
        M. Abramowitz, I. A. Stegun, *Handbook of Mathematical Functions*, 1964, 26.7.3, 26.7.4, 26.7.5.
    """
    if dof > 200:
        z = _NORMAL.inv_cdf(p)
        return z + (z**3 + z) / (4 * dof) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * dof**2)
    low, high = 0.0, math.pi / 2  # in θ = atan(t/√dof)
    for _ in range(60):
        theta = (low + high) / 2
        if _student_central(theta, dof) < 2 * p - 1:
            low = theta
        else:
            high = theta
    return math.tan(low) * math.sqrt(dof)


def _student_central(theta: float, dof: int) -> float:
    """P(|T| ≤ √dof · tan θ)."""
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = dof % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for i in range(odd, dof - 1, 2):
        total += term
        term *= (i + 1) / (i + 2) * cosine**2
    return 2 / math.pi * (theta + sine * total) if odd else sine * total
