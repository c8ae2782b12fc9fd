"""The largest ratio of two plain means that launches do not exclude (step 11 of the flow).

A program waits for the sum of its calls, so a bound on what it may lose is one on the mean, of which rare
slow launches or calls are a part. Student's interval of a mean is too short where times are skewed: few slow
launches raise the mean and the standard deviation alike. Hall's transformation takes the skewness out [1],
here for the difference of two samples [2]. A ratio ρ of the means is excluded where the statistic of
``mean(tuned) − ρ · mean(others)`` is too small to be chance, as in Fieller's interval of a ratio.

With T the studentised difference and g its skewness, of order 1/√n,

    T₁ = T + g T²/3 + g² T³/27 + g/6

is compared with Student's t with the degrees of freedom of Welch and Satterthwaite, and so is T: where the
slow launches happen to be the reference's, the correction by a skewness from few launches would make the
interval shorter, and Student's stands.

No interval of a mean holds for every distribution [3]: of a slowdown that did not occur, launches say nothing
but how rare it must be. ``benchmarks/means.py`` simulates the coverage.

References:
    1. P. Hall, "On the removal of skewness by transformation", J. R. Stat. Soc. B 54 (1992) 221–228.
    2. X.-H. Zhou, P. Dinh, "Nonparametric confidence intervals for the one- and two-sample problems",
       Biostatistics 6 (2005) 187–200.
    3. R. R. Bahadur, L. J. Savage, "The nonexistence of certain statistical procedures in nonparametric
       problems", Ann. Math. Stat. 27 (1956) 1115–1122.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_FAR = 7.0
"""Ln of the largest ratio that is looked for: a thousand times as slow."""
_STEPS = 30
"""Steps of bisection: to a hundred-millionth."""


def log_ratio(tuned: Floats, others: Floats) -> tuple[Floats, Floats]:
    """Ln of the mean of ``others`` over that of ``tuned``, and its standard error by the delta method.

    Args:
        tuned: Times of launches of a setting, `(n_launches, n_slots)`; NaN where none is known.
        others: The same of the reference, `(n_others, n_slots)`.

    Returns:
        `(n_slots,)` each; NaN where there are too few launches.

    References:
        G. Casella, R. L. Berger, *Statistical Inference*, 2nd ed. (2002), example 5.5.27.
    """
    moments = [_moments(side) for side in (tuned, others)]
    with np.errstate(all="ignore"):
        gain = np.log(moments[1][1] / moments[0][1])
        error = np.sqrt(sum(variance / n / mean**2 for n, mean, variance, _ in moments))
    return gain, np.asarray(error)


def bound(tuned: Floats, others: Floats, alpha: float) -> Floats:
    """Ln of the least ratio of the mean of ``others`` to that of ``tuned`` that is not excluded, by slot.

    One-sided, with an error rate of ``alpha``; arguments as ``log_ratio`` takes them. Minus infinity where
    fewer than two launches of a side are known, or a ratio of a thousand is not excluded.
    """
    sides = _moments(tuned), _moments(others)
    slower = -log_ratio(tuned, others)[0]
    known = np.isfinite(slower) & (np.minimum(sides[0][0], sides[1][0]) > 1)
    low = np.where(known, slower, 0.0)
    high = low + _FAR
    never = ~known | ~_excluded(sides, np.exp(high), alpha)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        excluded = _excluded(sides, np.exp(middle), alpha)
        low, high = np.where(excluded, low, middle), np.where(excluded, middle, high)
    return np.where(never, -math.inf, -high)


_Moments = tuple[Floats, Floats, Floats, Floats]  # Number, mean, variance, third central moment.


def _excluded(sides: tuple[_Moments, _Moments], ratio: Floats, alpha: float) -> NDArray[np.bool_]:
    """Whether the mean of the first side is surely below so many times that of the second, by slot."""
    from scipy.special import stdtrit

    (n, mean, variance, third), (n_others, mean_others, variance_others, third_others) = sides
    with np.errstate(all="ignore"):
        own, beside = variance / n, ratio**2 * variance_others / n_others
        total = own + beside
        freedom = total**2 / (own**2 / (n - 1) + beside**2 / (n_others - 1))
        skewness = (third / n**2 - ratio**3 * third_others / n_others**2) / total**1.5
        student = (mean - ratio * mean_others) / np.sqrt(total)
        transformed = student + skewness * student**2 / 3 + skewness**2 * student**3 / 27 + skewness / 6
        surely = np.maximum(student, transformed) < stdtrit(freedom, alpha)
    return np.where(total > 0, surely, mean <= ratio * mean_others)


def _moments(values: Floats) -> _Moments:
    """Moments of the known values in each column; the variance and the third without bias."""
    known = np.isfinite(values)
    n = known.sum(axis=0).astype(float)
    with np.errstate(all="ignore"):
        mean = np.nansum(values, axis=0) / n
        centred = np.where(known, values - mean, 0.0)
        variance = (centred**2).sum(axis=0) / (n - 1)
        third = n * (centred**3).sum(axis=0) / ((n - 1) * (n - 2))
    return n, mean, variance, np.nan_to_num(third)
