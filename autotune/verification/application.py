"""Whether an application runs faster with files than without them (beside step 11).

Runs of both sides in blocks in random order, as launches of a verification: the order is the evidence (see
``evidence``), by the times, or by the inverse of a figure of which more is better.

What was predicted is compared with that; in the interval of a difference the distances of two are added as
squares [1].

References:
    1. G. Y. Zou, A. Donner: "Construction of confidence limits about effect measures: a general approach",
       Statistics in Medicine 27 (2008), 1693-1702, eq. 4 and 5.
    2. D. J. Schuirmann: "A comparison of the two one-sided tests procedure and the power approach for
       assessing the equivalence of average bioavailability", J. Pharmacokinet. Biopharm. 15 (1987), 657-680.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from autotune.history.objectives import ratio_of
from autotune.recommend.reach import BOTHER, Ends
from autotune.verification.blocks import Block
from autotune.verification.comparison import overall
from autotune.verification.sequential import SequentialDesign

_ALIKE = 0.2
"""Share of the larger of two savings by which they may differ, a ratio of 0.80 to 1.25: so two means are held
to be equivalent in medicine (FDA: "Statistical Approaches to Establishing Bioequivalence", 2001)."""
_OPEN = 1e-3
"""A speed-up below it, runs a thousand times as long, nobody would wait for: such an end was not found."""
_SLOT = ("application", 1, 0)
"""The one slot of a comparison of whole runs."""


class ApplicationDecision(StrEnum):
    """Decision on an application with files against one without."""

    BETTER = "better"  # Beyond the error rate.
    SAME = "no different"  # By as much as matters, beyond the error rate.
    INCONCLUSIVE = "not significantly different"  # More runs may be conclusive.
    WORSE = "worse"  # Beyond the error rate.


class Agreement(StrEnum):
    """Comparison of the predicted with the measured saving."""

    AGREE = "agree"  # They differ by less than a fifth of the larger, or than matters of a run, with 95 %.
    DISAGREE = "do not agree"  # They differ, with 95 %.
    INCONCLUSIVE = "inconclusive"  # Their intervals are too wide; more runs would narrow them.


@dataclass(frozen=True, slots=True)
class ApplicationVerdict:
    """The comparison after a look."""

    said: ApplicationDecision  # What follows.
    runs: int  # Of the tuned side behind it.
    speedup: float  # Without / with; above one the files make it faster, or the figure larger.
    low: float  # Lower end of its interval, which holds for all looks together.
    high: float  # Upper end of it.
    default: float
    """Median of the runs without files, in seconds or as the figure."""
    tuned: float  # Median with files.

    @property
    def saved(self) -> tuple[float, float, float]:
        """The saving in a run's time, and the ends of its interval, in the unit of ``default``."""
        one, low, high = (self.default * share for share in self.saved_share)
        return one, low, high

    @property
    def saved_share(self) -> tuple[float, float, float]:
        """The same as shares of a run's time; few runs leave the lower end open: minus infinity."""
        ratios = (self.speedup, self.low, self.high)
        one, low, high = (1.0 - 1.0 / r if r > _OPEN else -math.inf for r in ratios)
        return one, low, high


def judged(
    runs: Sequence[tuple[int, bool, float]], more_is_better: bool, design: SequentialDesign
) -> ApplicationVerdict:
    """The verdict of these runs: for each its block, whether it had the files, and its time or figure."""
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
    said = ApplicationDecision.INCONCLUSIVE
    if found.low > 0:
        said = ApplicationDecision.BETTER
    elif found.high < 0:
        said = ApplicationDecision.WORSE
    elif design.least <= found.low and found.high <= -design.least:
        said = ApplicationDecision.SAME
    gain, low, high = map(ratio_of, (found.gain, found.low, found.high))
    before, after = float(np.median(default)), float(np.median(tuned))
    return ApplicationVerdict(said, len(tuned), gain, low, high, before, after)


def difference(one: Ends, other: Ends) -> Ends:
    """One minus the other, with the interval that follows from those of both."""
    (a, a_low, a_high), (b, b_low, b_high) = one, other
    return a - b, a - b - math.hypot(a - a_low, b_high - b), a - b + math.hypot(a_high - a, b - b_low)


def agreement(one: Ends, other: Ends) -> Agreement:
    """Whether two shares of a run's time are as good as the same.

    Equivalence is shown by an interval of the difference that lies within a margin [2]; one that holds 0
    shows nothing, for the widest holds it always.
    """
    _, low, high = difference(one, other)
    margin = max(_ALIKE * max(abs(one[0]), abs(other[0])), BOTHER)
    if -margin <= low and high <= margin:
        return Agreement.AGREE
    return Agreement.INCONCLUSIVE if low <= 0 <= high else Agreement.DISAGREE
