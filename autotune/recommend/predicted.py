"""Predicted saving of a run, from recorded ones (beside step 12).

Runs differ, some by much where others use the machine, so that the 20 % trimmed mean of N recorded runs
stands for what one saves, with Student's t [2]. Its error and that of what was measured are independent of
each other: their distances are added as squares [1]. Of a single run only the draw of what was timed is
known.

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

from autotune.recommend.reach import Ends

_LEVEL = 0.975
"""One-sided confidence level of either end of a prediction."""
_TRIM = 0.2
"""Share of the runs that is cut off at each end; none of fewer than five."""


def predicted(runs: Sequence[Ends], draw_se: float) -> Ends:
    """Saving of a run, from what each recorded one would have saved, with about 95 %.

    ``draw_se``: standard error of a single run by the draw of what was timed, in the unit of ``runs``.
    """
    sides = map(np.asarray, zip(*runs, strict=True))
    (mean, variance, left), (least, *_), (most, *_) = map(trimmed, sides)
    if left > 1:
        error = float(stdtrit(left - 1, _LEVEL)) * math.sqrt(variance / left)
    else:
        error = float(ndtri(_LEVEL)) * draw_se
    return mean, mean - math.hypot(mean - least, error), mean + math.hypot(most - mean, error)


def trimmed(values: NDArray[np.float64], share: float = _TRIM) -> tuple[float, float, int]:
    """The trimmed mean, the variance of one value that goes with it, and the number of values left.

    With g = ⌊share · n⌋ values cut off at each end (none below five) and h = n − 2g left, the variance is
    SS_w / (h − 1), SS_w the sum of squared deviations of the winsorised values; that of the location is a
    1/h of it, with h − 1 degrees of freedom. For g = 0 these are the ordinary ones. NaN for one value.
    """
    ordered, n = np.sort(values), len(values)
    cut = math.floor(share * n)
    left = n - 2 * cut
    location = float(np.mean(ordered[cut : n - cut]))
    if left < 2:
        return location, math.nan, left
    winsorised = np.clip(ordered, ordered[cut], ordered[n - cut - 1])
    squares = float(np.sum((winsorised - winsorised.mean()) ** 2))
    return location, squares / (left - 1), left
