"""Test whether an application runs faster with files than without them (beside step 11).

Runs of both sides are made in blocks in random order, like launches of a verification, and the drawn order is
the evidence (see ``planned``). They are compared by their times, or by the inverse of a figure of which more
is better.

The saving that was predicted is compared with the measured one; in the interval of a difference, the
distances of the two intervals' ends are added as squares [1].

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

from autotune.application.reach import BOTHER, Ends
from autotune.history.objectives import ratio_of
from autotune.verification.blocks import Block
from autotune.verification.comparison import overall
from autotune.verification.sequential import SequentialDesign

_ALIKE = 0.2
"""Share of the larger of two savings by which they may differ and still agree, a ratio of 0.80 to 1.25: so
two means are held to be equivalent in medicine (FDA: "Statistical Approaches to Establishing
Bioequivalence", 2001)."""
_OPEN = 1e-3
"""Least speed-up that counts as an end of an interval: nobody would wait for runs a thousand times as long,
so an end below it was not found."""
_SLOT = ("application", 1, 0)
"""The only slot of a comparison of whole runs."""


class ApplicationDecision(StrEnum):
    """State the decision on an application with files against one without."""

    BETTER = "better"  # Faster, significant at the error rate.
    SAME = "no different"  # The difference is smaller than what matters, significant at the error rate.
    INCONCLUSIVE = "not significantly different"  # More runs may be conclusive.
    WORSE = "worse"  # Slower, significant at the error rate.


class Agreement(StrEnum):
    """State how the predicted saving compares with the measured one."""

    AGREE = "agree"
    """They differ by less than a fifth of the larger, or by less than matters in a run, with 95 %."""
    DISAGREE = "do not agree"  # They differ, with 95 %.
    INCONCLUSIVE = "inconclusive"  # Their intervals are too wide; more runs would narrow them.


@dataclass(frozen=True, slots=True)
class ApplicationVerdict:
    """Hold the comparison after a look at the runs so far."""

    said: ApplicationDecision  # The decision.
    runs: int  # Number of runs of the tuned side.
    speedup: float  # Time without over time with the files, or figure with over without; above one is better.
    low: float  # Lower end of the speed-up's interval, which holds for all looks together.
    high: float  # Upper end of the speed-up's interval.
    default: float
    """Median of the runs without files, in seconds or as the figure."""
    tuned: float  # Median of the runs with files, in the same unit.

    @property
    def saved(self) -> tuple[float, float, float]:
        """Return the saving in a run's time, and the ends of its interval, in the unit of ``default``."""
        saving, low, high = (self.default * share for share in self.saved_share)
        return saving, low, high

    @property
    def saved_share(self) -> tuple[float, float, float]:
        """Return the saving and its ends as shares of a run's time.

        An end is minus infinity where there are too few runs to bound it.
        """
        ratios = (self.speedup, self.low, self.high)
        saving, low, high = (1.0 - 1.0 / r if r > _OPEN else -math.inf for r in ratios)
        return saving, low, high


def judged(
    runs: Sequence[tuple[int, bool, float]], more_is_better: bool, design: SequentialDesign
) -> ApplicationVerdict:
    """Return the verdict on these runs.

    Args:
        runs: For each run its block, whether it had the files, and its time in seconds or its figure.
        more_is_better: Whether the values are figures of which more is better.
        design: The design of the test.
    """
    sign = -1.0 if more_is_better else 1.0
    blocks = tuple(
        Block(
            tuple(tuned for run_block, tuned, _ in runs if run_block == block),
            tuple(((_SLOT, sign * math.log(value)),) for run_block, _, value in runs if run_block == block),
        )
        for block in dict.fromkeys(run_block for run_block, _, _ in runs)
    )
    comparison = overall(blocks, alpha=design.alpha)
    default, tuned = (
        [value for _, side, value in runs if side is with_files] for with_files in (False, True)
    )
    decision = ApplicationDecision.INCONCLUSIVE
    if comparison.low > 0:
        decision = ApplicationDecision.BETTER
    elif comparison.high < 0:
        decision = ApplicationDecision.WORSE
    elif design.least <= comparison.low and comparison.high <= -design.least:
        decision = ApplicationDecision.SAME
    gain, low, high = map(ratio_of, (comparison.gain, comparison.low, comparison.high))
    default_median, tuned_median = float(np.median(default)), float(np.median(tuned))
    return ApplicationVerdict(decision, len(tuned), gain, low, high, default_median, tuned_median)


def difference(minuend: Ends, subtrahend: Ends) -> Ends:
    """Return the first value minus the second, with the interval that follows from those of both."""
    (a, a_low, a_high), (b, b_low, b_high) = minuend, subtrahend
    return a - b, a - b - math.hypot(a - a_low, b_high - b), a - b + math.hypot(a_high - a, b - b_low)


def agreement(predicted: Ends, measured: Ends) -> Agreement:
    """Return whether two shares of a run's time are equivalent.

    Equivalence is shown by an interval of the difference that is within a margin [2]; an interval that
    contains 0 shows nothing, since the widest always does.
    """
    _, low, high = difference(predicted, measured)
    margin = max(_ALIKE * max(abs(predicted[0]), abs(measured[0])), BOTHER)
    if -margin <= low and high <= margin:
        return Agreement.AGREE
    return Agreement.INCONCLUSIVE if low <= 0 <= high else Agreement.DISAGREE
