"""Compute the largest ratio of two plain means that pairs of launches do not exclude.

A program waits for the sum of its calls, so a bound on what it may lose is a bound on the mean, to which rare
slow launches or calls contribute. Each launch of a setting is paired with a launch of the reference at the
same moment, or at a moment near to it. A ratio ρ of the means is excluded in a slot (collective, communicator
size, message size) where the mean of the differences

    u = t(tuned) − ρ · t(reference)

is too far below zero to be chance, as in Fieller's interval of a ratio. An influence that both launches of a
pair share is contained in both times. Student's interval of a mean is too short if times are skewed: a few
slow launches raise the mean and the standard deviation alike. Hall's transformation removes the skewness [1].
With T the studentised mean of u and g its skewness, of order 1/√n,

    T₁ = T + g T²/3 + g² T³/27 + g/6

is compared with Student's t distribution, and so is T; a ratio is excluded only if both exclude it. Otherwise
a skewness that is estimated from few launches would make the interval shorter where the slow launches happen
to be the reference's.

For ρ ≥ 1, a loss, launches of the reference count as no slower than the slowest launch of the setting. This
can only raise u, so it excludes no ratio wrongly, and a few very slow launches of the reference do not widen
the bound on what the setting loses.

No interval of a mean holds for every distribution [2]: launches say nothing about a slowdown that did not
occur, except how rare it must be. ``benchmarks/means.py`` simulates the coverage.

References:
    1. P. Hall, "On the removal of skewness by transformation", J. R. Stat. Soc. B 54 (1992) 221-228.
    2. R. R. Bahadur, L. J. Savage, "The nonexistence of certain statistical procedures in nonparametric
       problems", Ann. Math. Stat. 27 (1956) 1115-1122.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_FAR = 7.0
"""Ln of the largest ratio that is considered: a setting that is a thousand times as slow."""
_STEPS = 30
"""Steps of bisection, which reach a relative width of a hundred-millionth."""


def log_ratio(tuned: Floats, reference: Floats) -> tuple[Floats, Floats]:
    """Return ln of the reference's mean over the tuned mean, and its standard error by the delta method.

    Args:
        tuned: Times of launches of a setting, `(n_pairs, n_slots)`; NaN where a time is not known.
        reference: Times of the reference in the same pairs, `(n_pairs, n_slots)`; NaN where not known.

    Returns:
        Two arrays of shape `(n_slots,)`; NaN where there are too few pairs.

    References:
        G. Casella, R. L. Berger, *Statistical Inference*, 2nd ed. (2002), example 5.5.27.
    """
    tuned, reference = _both_known(tuned, reference)
    with np.errstate(all="ignore"):
        tuned_sum, reference_sum = np.nansum(tuned, axis=0), np.nansum(reference, axis=0)
        n, _, variance, _ = _moments(tuned / tuned_sum - reference / reference_sum)
        return np.log(reference_sum / tuned_sum), np.asarray(np.sqrt(n * variance))


def bound(tuned: Floats, reference: Floats, alpha: float) -> Floats:
    """Return ln of the least ratio of the reference's mean to the tuned mean that is not excluded, by slot.

    The bound is one-sided, with an error rate of ``alpha``; see ``log_ratio`` for the other arguments. The
    bound is minus infinity where fewer than two pairs are known, or where the launches do not exclude that
    the setting is a thousand times as slow.
    """
    tuned, reference = _both_known(tuned, reference)
    ratio = -log_ratio(tuned, reference)[0]
    at_most = np.minimum(reference, np.fmax.reduce(tuned, axis=0, initial=-math.inf))
    usable = np.isfinite(ratio) & (np.isfinite(tuned).sum(axis=0) > 1)
    low = np.where(usable, ratio, 0.0)
    high = low + _FAR

    def excluded(log_of_ratio: Floats) -> NDArray[np.bool_]:
        counted = np.where(log_of_ratio >= 0, at_most, reference)
        return _surely_negative(tuned - np.exp(log_of_ratio) * counted, alpha)

    never = ~usable | ~excluded(high)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        excludes = excluded(middle)
        low, high = np.where(excludes, low, middle), np.where(excludes, middle, high)
    return np.where(never, -math.inf, -high)


def _surely_negative(u: Floats, alpha: float) -> NDArray[np.bool_]:
    """Whether the mean of each column is significantly below zero."""
    from scipy.special import stdtrit

    n, mean, variance, third = _moments(u)
    with np.errstate(all="ignore"):
        student = mean / np.sqrt(variance / n)
        skewness = third / (np.sqrt(n) * variance**1.5)
        transformed = student + skewness * student**2 / 3 + skewness**2 * student**3 / 27 + skewness / 6
        surely = np.maximum(student, transformed) < stdtrit(n - 1, alpha)
    return np.where(variance > 0, surely, mean <= 0)


def _both_known(tuned: Floats, reference: Floats) -> tuple[Floats, Floats]:
    both = np.isfinite(tuned) & np.isfinite(reference)
    return np.where(both, tuned, math.nan), np.where(both, reference, math.nan)


def _moments(values: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return number, mean, variance and third central moment of each column's known values, without bias."""
    finite = np.isfinite(values)
    n = finite.sum(axis=0).astype(float)
    with np.errstate(all="ignore"):
        mean = np.nansum(values, axis=0) / n
        centred = np.where(finite, values - mean, 0.0)
        variance = (centred**2).sum(axis=0) / (n - 1)
        third = n * (centred**3).sum(axis=0) / ((n - 1) * (n - 2))
    return n, mean, variance, np.nan_to_num(third)
