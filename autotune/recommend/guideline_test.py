"""Test performance guidelines: find those that a machine violates by more than noise.

Place in the flow of ``autotune/__init__.py``: outside it, after step 10, recommend.

A guideline says that one call takes no longer than other calls together: t ≤ Σ k_i t_i. It is tested on
launches, by a one-sided test of d = ln t − ln Σ k_i t_i ≤ ln(1 + tolerance).

Noise: launches of one setting differ by more than the samples within each launch suggest. If launches
measured both sides of a guideline, d is computed for each launch, so that effects on the whole launch cancel;
otherwise the launches of the two sides are compared as two groups. The variance s² between n launches, with n
− 1 degrees of freedom, is shrunk towards s₀², the usual variance over all guidelines, with ν₀ = 3: s̃² = (ν₀
s₀² + (n − 1) s²) / (ν₀ + n − 1), and d / √(s̃²/n) has Student's t with ν₀ + n − 1 degrees of freedom (Smyth
2004, eq. 5). s₀² itself is shrunk, with ν₀ degrees of freedom, towards the assumption that launches differ by
5 %; if no launch was repeated, s₀² is this assumption. s̃²/n is never smaller than the error that the samples
within the launches imply.

Error rate: with Holm's step-down procedure, the probability of reporting any violation although all
guidelines hold is at most ``rate``, even if the tests depend on each other. They do, because they use the
same times.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median, variance

import numpy as np

from autotune.history.objectives import Slot, ratio_of
from autotune.measure.launch_spread import LAUNCH_SPREAD

_FREEDOM = 3.0
"""ν₀: degrees of freedom of the assumption on launches in s₀², and of s₀² in the variance of a single
guideline. The number is small because launches have outliers."""


class GuidelineKind(StrEnum):
    """Kind of the calls on the right side of a guideline, with which a call is compared."""

    COMPOSITION = "composition"  # Other calls that do the same work together.
    SIZE = "size"  # The same call with a larger message.
    SPLIT = "split"  # Several of the same calls with smaller messages.
    RANKS = "ranks"  # The same call on more ranks.
    ALGORITHM = "algorithm"  # The same call with one algorithm forced.


@dataclass(frozen=True, slots=True)
class Timed:
    """Times of one call in one setting, in each launch."""

    setting: str  # Name of the setting in words.
    slot: Slot  # The call: collective, communicator size and message size.
    times: Mapping[Hashable, tuple[float, float]]
    """Maps each launch to (time in seconds, relative standard error of this time within the launch)."""


@dataclass(frozen=True, slots=True)
class Guideline:
    """The statement that the call ``left`` takes no longer than the calls ``right`` together."""

    kind: GuidelineKind
    left: Timed  # The call on the left side, which should not be slower.
    right: tuple[tuple[int, Timed], ...]
    """Calls on the right side, each as (number of calls, times of one call)."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A guideline that the measurements contradict, with the times of both sides."""

    guideline: Guideline
    left_s: float  # Time of the left side in seconds: the geometric mean over launches.
    right_s: float  # Time of the right side in seconds: the geometric mean over launches.
    low: float
    """Lower end of the one-sided 95 % interval of left / right, without a correction for several
    guidelines."""
    p_value: float  # p-value without a correction for several guidelines.
    launches: int  # Number of launches of the side with fewer launches.

    @property
    def ratio(self) -> float:
        """Return the ratio of the times left / right; above 1 the guideline is violated."""
        return self.left_s / self.right_s


@dataclass(frozen=True, slots=True)
class Findings:
    """Number of tested guidelines, and the violated ones."""

    tested: int
    rate: float  # Probability of reporting any violation if all guidelines hold.
    violations: tuple[Violation, ...]  # Violated guidelines, the largest ratio first.


@dataclass(frozen=True, slots=True)
class _Difference:
    """The difference d of a guideline (see the module docstring), with the parts of its error."""

    mean: float  # Mean of d.
    left_s: float  # Time of the left side in seconds.
    right_s: float  # Time of the right side in seconds.
    parts: tuple[tuple[float, int, float, float], ...]
    """The parts of d that vary independently, each as (weight, number of launches, s² or NaN, variance of the
    mean according to the samples). All parts after the first belong to the right side; their standard errors
    are added."""

    @property
    def paired(self) -> bool:
        """Return whether d was computed from launches that each measured both sides."""
        return len(self.parts) == 1

    @property
    def launches(self) -> int:
        """Return the number of launches of the part with the fewest launches."""
        return min(n for _, n, _, _ in self.parts)


def findings(guidelines: Sequence[Guideline], rate: float = 0.05, tolerance: float = 0.01) -> Findings:
    """Return the guidelines that are violated by more than the tolerance, as far as noise cannot explain it.

    ``rate`` is the accepted probability of any false report. ``tolerance`` is a relative time.
    """
    from scipy.stats import t

    if not guidelines:
        return Findings(0, rate, ())
    differences = [_difference(guideline) for guideline in guidelines]
    variances = [(s2, n - 1) for d in differences for _, n, s2, _ in d.parts if n > 1]
    # The median of the degrees of freedom is used and not their sum: all slots of a launch are disturbed
    # together, so a large number of slots proves nothing.
    pooled_freedom = median(freedom for _, freedom in variances) if variances else 0
    pooled = fmean(s2 for s2, _ in variances) if variances else 0.0
    sems = np.array([_standard_error(d, pooled, pooled_freedom) for d in differences])
    freedom = np.array([_FREEDOM + d.launches - 1 for d in differences])
    means = np.array([d.mean for d in differences])
    p_values = t.sf((means - math.log1p(tolerance)) / sems, freedom)
    lows = means - t.isf(0.05, freedom) * sems
    rows = zip(guidelines, differences, lows.tolist(), np.asarray(p_values).tolist(), strict=True)
    tests = [Violation(g, d.left_s, d.right_s, ratio_of(low), p, d.launches) for g, d, low, p in rows]
    tests.sort(key=lambda test: test.p_value)
    n_violated = n_significant([test.p_value for test in tests], rate)
    return Findings(len(tests), rate, tuple(sorted(tests[:n_violated], key=lambda test: -test.ratio)))


def n_significant(p_values: Sequence[float], rate: float) -> int:
    """Return the number of significant tests by Holm's step-down procedure.

    ``p_values`` are in ascending order. ``rate`` is the probability of any false claim, which holds even if
    the tests depend on each other.

    References:
        S. Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Stat. 6 (1979) 65–70.
    """
    n = len(p_values)
    return next((i for i, p_value in enumerate(p_values) if p_value > rate / (n - i)), n)


def _standard_error(d: _Difference, pooled: float, pooled_freedom: float) -> float:
    """Return √(s̃²/n) of a difference; ``pooled`` is the mean of s² over all guidelines."""
    # A paired difference contains the noise of both sides.
    assumed = (2 if d.paired else 1) * LAUNCH_SPREAD.largest_sd**2
    common = (_FREEDOM * assumed + pooled_freedom * pooled) / (_FREEDOM + pooled_freedom)
    sds = []
    for weight, n, s2, within in d.parts:
        squares = 0.0 if n == 1 else (n - 1) * s2
        moderated = (_FREEDOM * common + squares) / (_FREEDOM + n - 1)
        sds.append(weight * math.sqrt(max(moderated / n, within)))
    return math.hypot(sds[0], sum(sds[1:]))


def _difference(guideline: Guideline) -> _Difference:
    """Return d from the launches that measured both sides; if there are none, compare the sides as groups."""
    sides = [(1, guideline.left), *guideline.right]
    shared = sorted(set.intersection(*(set(timed.times) for _, timed in sides)), key=repr)
    if shared:
        lefts = [guideline.left.times[launch] for launch in shared]
        rights = [_together([(k, timed.times[launch]) for k, timed in guideline.right]) for launch in shared]
        ds = [math.log(left / right) for (left, _), (right, _) in zip(lefts, rights, strict=True)]
        within = fmean(a**2 + b**2 for (_, a), (_, b) in zip(lefts, rights, strict=True)) / len(ds)
        s2 = variance(ds) if len(ds) > 1 else math.nan
        left_s, right_s = (math.exp(fmean(math.log(s) for s, _ in side)) for side in (lefts, rights))
        return _Difference(fmean(ds), left_s, right_s, ((1.0, len(ds), s2, within),))
    groups = [(k, *_group(timed)) for k, timed in sides]
    left_s, right_s = groups[0][1], sum(k * seconds for k, seconds, *_ in groups[1:])
    weights = [1.0, *(k * seconds / right_s for k, seconds, *_ in groups[1:])]
    parts = tuple((w, n, s2, within) for w, (_, _, n, s2, within) in zip(weights, groups, strict=True))
    return _Difference(math.log(left_s / right_s), left_s, right_s, parts)


def _together(terms: Sequence[tuple[int, tuple[float, float]]]) -> tuple[float, float]:
    """Return the total time of calls, given as (number, (seconds, relative error)), and its error."""
    total = sum(k * seconds for k, (seconds, _) in terms)
    return total, math.hypot(*(k * seconds * error for k, (seconds, error) in terms)) / total


def _group(timed: Timed) -> tuple[float, int, float, float]:
    """Return a call's geometric mean time, its number of launches, s², and the variance due to samples."""
    logs = [math.log(seconds) for seconds, _ in timed.times.values()]
    n = len(logs)
    within = fmean(error**2 for _, error in timed.times.values()) / n
    return math.exp(fmean(logs)), n, variance(logs) if n > 1 else math.nan, within
