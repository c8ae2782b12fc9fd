"""The predicted saving of time in a run of an application, from recorded runs.

Runs differ, some by much where other jobs use the machine. Therefore the saving of one run is estimated by
the 20 % trimmed mean over N recorded runs, with an interval by Student's t [2]. The error of this mean and
the error of the campaign's measurements are independent of each other: the squares of the distances from the
estimate to the ends of the two intervals are added [1]. If a single run was recorded, only the error because
not all calls were timed is known.

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
"""One-sided confidence level of each end of a prediction's interval."""
_TRIM = 0.2
"""Share of the runs that the trimmed mean leaves out at each end; of fewer than five runs none is left
out."""


def predicted(runs: Sequence[Ends], draw_se: float) -> Ends:
    """Return the predicted saving of a run with its interval of about 95 %.

    Args:
        runs: Saving that each recorded run would have had, with the ends of its interval.
        draw_se: Standard error of a single run because not all calls were timed, in the unit of ``runs``.
    """
    sides = map(np.asarray, zip(*runs, strict=True))
    (mean, variance, n), (low, *_), (high, *_) = map(trimmed, sides)
    if n > 1:
        error = float(stdtrit(n - 1, _LEVEL)) * math.sqrt(variance / n)
    else:
        error = float(ndtri(_LEVEL)) * draw_se
    return mean, mean - math.hypot(mean - low, error), mean + math.hypot(high - mean, error)


def trimmed(values: NDArray[np.float64], share: float = _TRIM) -> tuple[float, float, int]:
    """Return the trimmed mean, the variance of one value, and the number of values that were not left out.

    With g = ⌊share · n⌋ values left out at each end and h = n − 2g remaining values, the variance of one
    value is SS_w / (h − 1), where SS_w is the sum of squared deviations of the winsorised values. The
    variance of the trimmed mean is 1/h of the variance of one value, with h − 1 degrees of freedom. For g = 0
    these are the ordinary mean and variance. If a single value remains, the variance is NaN.
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
