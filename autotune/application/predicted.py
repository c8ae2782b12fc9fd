"""The predicted saving of a run, from recorded runs (outside the flow, after step 12).

Runs differ, some by much where other jobs use the machine. Therefore the 20 % trimmed mean of N recorded runs
stands for the saving of one run, with Student's t [2]. The error of this mean and the error of the campaign's
measurements are independent of each other: the distances from the estimate to the ends of the two intervals
are added as squares [1]. For a single run only the error by the sampling of timed calls is known.

References:
    1. G. Y. Zou, A. Donner: "Construction of confidence limits about effect measures: a general approach",
       Statistics in Medicine 27 (2008), 1693-1702, eq. 4 and 5.
    2. J. W. Tukey, D. H. McLaughlin: "Less vulnerable confidence and significance procedures for location
       based on a single sample: trimming/winsorization 1", Sankhya A 25 (1963), 331-352.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from autotune.application.reach import Ends

_LEVEL = 0.975
"""One-sided confidence level of either end of a prediction."""
_TRIM = 0.2
"""Share of the runs that is cut off at each end; no run is cut off where there are fewer than five."""


def predicted(runs: Sequence[Ends], draw_se: float) -> Ends:
    """Return the saving of a run with about 95 %, from what each recorded run would have saved.

    ``draw_se`` is the standard error of a single run by the sampling of timed calls, in the unit of ``runs``.
    """
    sides = map(np.asarray, zip(*runs, strict=True))
    (mean, variance, n), (low, *_), (high, *_) = map(trimmed, sides)
    if n > 1:
        error = float(stdtrit(n - 1, _LEVEL)) * math.sqrt(variance / n)
    else:
        error = float(ndtri(_LEVEL)) * draw_se
    return mean, mean - math.hypot(mean - low, error), mean + math.hypot(high - mean, error)


def trimmed(values: NDArray[np.float64], share: float = _TRIM) -> tuple[float, float, int]:
    """Return the trimmed mean, the variance of one value, and the number of values that were not cut off.

    With g = ⌊share · n⌋ values cut off at each end and h = n − 2g remaining values, the variance of one value
    is SS_w / (h − 1), where SS_w is the sum of squared deviations of the winsorised values. The variance of
    the trimmed mean is 1/h of it, with h − 1 degrees of freedom. For g = 0 these are the ordinary mean and
    variance. The variance is NaN for one value.
    """
    ordered, n = np.sort(values), len(values)
    cut = math.floor(share * n)
    remaining = n - 2 * cut
    location = float(np.mean(ordered[cut : n - cut]))
    if remaining < 2:
        return location, math.nan, remaining
    winsorised = np.clip(ordered, ordered[cut], ordered[n - cut - 1])
    squares = float(np.sum((winsorised - winsorised.mean()) ** 2))
    return location, squares / (remaining - 1), remaining
