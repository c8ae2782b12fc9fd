"""Test whether an application runs faster with exported files than without them.

Runs with the files and without them are made in blocks in random order, like launches of a verification, and
the test relies on nothing but this random order (see ``verification.planned``). Runs are compared by their
times or by a figure in their output; if more of the figure is better, its inverse is compared.

The predicted saving is compared with the measured one. The interval of their difference follows from the
intervals of both: the squares of the distances to their ends are added [1].

References:
    1. As in `reach`.
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
"""Share of the larger of two savings by which they may differ and still agree, that is a ratio of 0.80 to
1.25. Within these limits medicine considers two means equivalent (FDA: "Statistical Approaches to
Establishing Bioequivalence", 2001)."""
_OPEN = 1e-3
"""Smallest speed-up that counts as an end of an interval. An interval whose end is smaller is unbounded:
nobody would wait for runs that take a thousand times as long."""
_SLOT = ("application", 1, 0)  # Placeholder slot in a comparison of whole runs.


class ApplicationDecision(StrEnum):
    """Says whether an application runs better with exported files than without them."""

    BETTER = "better"  # Faster, significant at the error rate.
    SAME = "no different"  # The difference is smaller than what matters, significant at the error rate.
    INCONCLUSIVE = "not significantly different"  # More runs may be conclusive.
    WORSE = "worse"  # Slower, significant at the error rate.


class Agreement(StrEnum):
    """Says whether the predicted and the measured saving agree."""

    AGREE = "agree"
    """The savings differ by less than a fifth of the larger one, or by less than matters in a run, with 95 %
    confidence."""
    DISAGREE = "do not agree"  # The savings differ, with 95 % confidence.
    INCONCLUSIVE = "inconclusive"  # The intervals are too wide; more runs would make them narrower.


@dataclass(frozen=True, slots=True)
class ApplicationVerdict:
    """The result of comparing the runs so far, with and without exported files."""

    said: ApplicationDecision  # The decision.
    runs: int  # Number of runs with the files.
    speedup: float
    """Time without the files divided by the time with them. If runs are compared by a figure of which more is
    better: the figure with the files divided by the figure without them. Above one, the files are better."""
    low: float  # Lower end of the speed-up's interval, which is valid however often one looks at the runs.
    high: float  # Upper end of the speed-up's interval.
    default: float  # Median over the runs without the files, of the time in seconds or of the figure.
    tuned: float  # Median over the runs with the files, in the same unit.

    @property
    def saved(self) -> tuple[float, float, float]:
        """Return the time that a run saves, with the ends of its interval, in the unit of ``default``."""
        saving, low, high = (self.default * share for share in self.saved_share)
        return saving, low, high

    @property
    def saved_share(self) -> tuple[float, float, float]:
        """Return the share of a run's time that is saved, with the ends of its interval.

        An end is minus infinity where there are too few runs to bound the saving.
        """
        ratios = (self.speedup, self.low, self.high)
        saving, low, high = (1.0 - 1.0 / r if r > _OPEN else -math.inf for r in ratios)
        return saving, low, high


def judged(
    runs: Sequence[tuple[int, bool, float]], more_is_better: bool, design: SequentialDesign
) -> ApplicationVerdict:
    """Return whether runs with exported files are better than runs without them.

    Args:
        runs: For each run its block, whether it had the files, and its time in seconds or its figure.
        more_is_better: Whether the values are figures of which more is better.
        design: Error rate of the test, and the largest difference that does not matter.
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
    default, tuned = ([value for _, side, value in runs if side is files] for files in (False, True))
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
    """Return the first value minus the second, with its interval, from two values with their intervals."""
    (a, a_low, a_high), (b, b_low, b_high) = minuend, subtrahend
    return a - b, a - b - math.hypot(a - a_low, b_high - b), a - b + math.hypot(a_high - a, b - b_low)


def agreement(predicted: Ends, measured: Ends) -> Agreement:
    """Return whether a predicted and a measured share of saved time are equivalent.

    The shares are equivalent if the interval of their difference is within a margin [2]. An interval that
    contains 0 is no evidence of equivalence, since every very wide interval contains 0.
    """
    _, low, high = difference(predicted, measured)
    margin = max(_ALIKE * max(abs(predicted[0]), abs(measured[0])), BOTHER)
    if -margin <= low and high <= margin:
        return Agreement.AGREE
    return Agreement.INCONCLUSIVE if low <= 0 <= high else Agreement.DISAGREE
