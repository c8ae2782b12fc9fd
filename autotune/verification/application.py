"""Whether an application runs faster with files than without them (beside step 11).

Runs of both sides in turn, in blocks as ``pairs`` has them; ``d`` of a pair is ln(time without / with), or
ln(figure with / without) where more of a figure is better. One quantity is tested, so the pairs stand
for themselves: the trimmed mean with Student's t, at 1 − alpha / K for each of K looks, which by the union
bound hold together (see ``paired_test``).

What was predicted is compared with that. Runs differ, some by much where others use the machine, so that the
same trimmed mean of N recorded runs stands for what one saves, with Student's t. Its error and that of what
the campaign measured are independent of each other: their distances are added as squares [1], as are those of
two intervals in the interval of a difference. Of a single run only the draw of what was timed is known.

References:
    1. G. Y. Zou, A. Donner: "Construction of confidence limits about effect measures: a general approach",
       Statistics in Medicine 27 (2008), 1693-1702, eq. 4 and 5.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.special import ndtri, stdtrit

from autotune.history.objectives import ratio_of
from autotune.recommend.reach import Ends
from autotune.verification.paired_test import overall, trimmed
from autotune.verification.sequential import SequentialDesign

_SLOT = ("application", 1, 0)
_LEVEL = 0.975
"""Of either end of what is predicted."""


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
    pairs: int
    """Pairs of runs behind it."""
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
    default: Sequence[float], tuned: Sequence[float], more_is_better: bool, design: SequentialDesign
) -> ApplicationVerdict:
    """What these runs say, the k-th of one side against the k-th of the other."""
    sign = -1.0 if more_is_better else 1.0
    differences = [{_SLOT: sign * math.log(a / b)} for a, b in zip(default, tuned, strict=True)]
    found = overall(differences, alpha=design.per_look)
    said = Said.UNTOLD
    if found.low > 0:
        said = Said.BETTER
    elif found.high < 0:
        said = Said.WORSE
    elif design.least <= found.low and found.high <= -design.least:
        said = Said.SAME
    return ApplicationVerdict(
        said,
        len(differences),
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
