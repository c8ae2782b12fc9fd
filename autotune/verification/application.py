"""Whether an application runs faster with files than without them (beside step 11).

Runs of both sides in blocks whose order is drawn, as launches of a verification: the order tells (see
``evidence``), by the times, or by the inverse of a figure of which more is better.

What was predicted is compared with that. Runs differ, some by much where others use the machine, so that the
20 % trimmed mean of N recorded runs stands for what one saves, with Student's t [2]. Its error and that of
what the campaign measured are independent of each other: their distances are added as squares [1], as are
those of two intervals in the interval of a difference. Of a single run only the draw of what was timed is
known.

References:
    1. G. Y. Zou, A. Donner: "Construction of confidence limits about effect measures: a general approach",
       Statistics in Medicine 27 (2008), 1693-1702, eq. 4 and 5.
    2. J. W. Tukey, D. H. McLaughlin: "Less vulnerable confidence and significance procedures for location
       based on a single sample: trimming/winsorization 1", Sankhya A 25 (1963), 331-352.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from autotune.history.objectives import ratio_of
from autotune.recommend.reach import Ends
from autotune.verification.blocks import Block
from autotune.verification.comparison import overall
from autotune.verification.sequential import SequentialDesign

_SLOT = ("application", 1, 0)
_LEVEL = 0.975
"""Of either end of what is predicted."""
_TRIM, _TRIMMED_FROM = 0.2, 5
"""Share of the runs that is cut off at each end, and from how many runs on."""


class Said(StrEnum):
    """What can be said of an application with files against one without."""

    BETTER = "better"
    """Beyond the error rate."""
    SAME = "no different"
    """By as much as matters, beyond the error rate."""
    UNTOLD = "no different that could be told"
    """More runs would tell."""
    WORSE = "worse"
    """Beyond the error rate."""


@dataclass(frozen=True, slots=True)
class ApplicationVerdict:
    """The comparison after a look."""

    said: Said
    """What follows."""
    runs: int
    """Of the tuned side behind it."""
    speedup: float
    """Without / with; above one the files make it faster, or the figure larger."""
    low: float
    """Lower end of its interval, which holds for all looks together."""
    high: float
    """Upper end of it."""
    default: float
    """Median of the runs without files, in seconds or as the figure."""
    tuned: float
    """Median with files."""

    @property
    def saved(self) -> tuple[float, float, float]:
        """Of a run's time: what is saved, and the ends of its interval, in the unit of ``default``."""
        one, low, high = (self.default * share for share in self.saved_share)
        return one, low, high

    @property
    def saved_share(self) -> tuple[float, float, float]:
        """The same as shares of a run's time."""
        one, low, high = (1.0 - 1.0 / max(r, 1e-9) for r in (self.speedup, self.low, self.high))
        return one, low, high


def judged(
    runs: Sequence[tuple[int, bool, float]], more_is_better: bool, design: SequentialDesign
) -> ApplicationVerdict:
    """What these runs say: of each its block, whether it had the files, and its time or figure."""
    sign = -1.0 if more_is_better else 1.0
    blocks = tuple(
        Block(
            tuple(tuned for at, tuned, _ in runs if at == block),
            tuple(((_SLOT, sign * math.log(value)),) for at, _, value in runs if at == block),
        )
        for block in dict.fromkeys(at for at, _, _ in runs)
    )
    found = overall(blocks, alpha=design.alpha)
    default, tuned = ([value for _, side, value in runs if side is which] for which in (False, True))
    said = Said.UNTOLD
    if found.low > 0:
        said = Said.BETTER
    elif found.high < 0:
        said = Said.WORSE
    elif design.least <= found.low and found.high <= -design.least:
        said = Said.SAME
    return ApplicationVerdict(
        said,
        len(tuned),
        ratio_of(found.gain),
        ratio_of(found.low),
        ratio_of(found.high),
        float(np.median(default)),
        float(np.median(tuned)),
    )


def predicted(runs: Sequence[Ends], draw_se: float) -> Ends:
    """What a run saves, out of what each recorded one would have, with about 95 %.

    ``draw_se``: standard error of a single run by the draw of what was timed, in the unit of ``runs``.
    """
    (mean, variance, left), (least, *_), (most, *_) = (
        trimmed(np.asarray(side)) for side in zip(*runs, strict=True)
    )
    if left > 1:
        error = float(stdtrit(left - 1, _LEVEL)) * math.sqrt(variance / left)
    else:
        error = float(ndtri(_LEVEL)) * draw_se
    return mean, mean - math.hypot(mean - least, error), mean + math.hypot(most - mean, error)


def difference(one: Ends, other: Ends) -> Ends:
    """One minus the other, with the interval that follows from those of both."""
    (a, a_low, a_high), (b, b_low, b_high) = one, other
    return a - b, a - b - math.hypot(a - a_low, b_high - b), a - b + math.hypot(a_high - a, b - b_low)


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
