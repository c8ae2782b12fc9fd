"""Which performance guidelines a machine violates beyond noise (beside step 10 of the flow).

A guideline says that one thing takes no longer than others together: t ≤ Σ k_i t_i. Its test is one-sided, of
d = ln t − ln Σ k_i t_i ≤ ln(1 + tolerance), on launches.

Noise: launches of one setting differ by more than their samples say. Where launches have both sides, d is
taken launch by launch, so that what moves a launch as a whole falls out; else the sides are compared as
groups. The variance between n launches, s² (n − 1 degrees of freedom), is drawn to s₀², that of all
guidelines, with ν₀ = 3: s̃² = (ν₀ s₀² + (n − 1) s²) / (ν₀ + n − 1), and d / √(s̃²/n) has Student's t with ν₀
+ n − 1 degrees of freedom (Smyth 2004, eq. 5). s₀² itself begins at an assumption worth as many degrees of
freedom, that launches differ by 5 %, which is all there is where nothing was launched twice. What the samples
of a launch say of their own error is the least that s̃²/n can be.

Error rate: by Holm's step-down procedure the chance of reporting any violation where none of the guidelines
is violated is at most ``rate``, for every dependence between them; guidelines share times, so they depend.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median, variance

import numpy as np

from autotune.history.objectives import Slot, ratio_of

_ASSUMED = 0.05
"""Standard deviation between launches; recorded campaigns show 2 to 5 %."""
_FREEDOM = 3.0
"""Behind the assumption, and behind what all guidelines say of one: few, since launches have outliers."""


class GuidelineKind(StrEnum):
    """The other side of a guideline's comparison."""

    COMPOSITION = "composition"  # Other collectives that do the same together.
    SIZE = "size"  # The same call with a larger message.
    SPLIT = "split"  # Several calls with a smaller message.
    RANKS = "ranks"  # The same call on more ranks.
    ALGORITHM = "algorithm"  # The same call with one algorithm forced.


@dataclass(frozen=True, slots=True)
class Timed:
    """One call in one setting."""

    setting: str  # In words.
    slot: Slot  # Which call.
    times: Mapping[Hashable, tuple[float, float]]  # Launch → seconds, relative standard error within it.


@dataclass(frozen=True, slots=True)
class Guideline:
    """``left`` takes no longer than ``right`` together."""

    kind: GuidelineKind  # What is compared.
    left: Timed  # What should not be slower.
    right: tuple[tuple[int, Timed], ...]  # (How often, what) it is compared with.


@dataclass(frozen=True, slots=True)
class Violation:
    """A guideline that does not hold."""

    guideline: Guideline  # Which.
    left_s: float  # Time of the left side, geometric mean over launches.
    right_s: float  # Of the right side.
    low: float  # Lower end of a one-sided 95 % interval for left / right, of this guideline alone.
    p_value: float  # Before the correction for many.
    launches: int  # Behind the side that has fewer.

    @property
    def ratio(self) -> float:
        """How many times slower."""
        return self.left_s / self.right_s


@dataclass(frozen=True, slots=True)
class Findings:
    """Number of guidelines tested, and the violations."""

    tested: int  # Guidelines.
    rate: float  # Chance of any violation below where no guideline is violated.
    violations: tuple[Violation, ...]  # The largest ratio first.


@dataclass(frozen=True, slots=True)
class _Difference:
    mean: float
    left_s: float
    right_s: float
    parts: tuple[tuple[float, int, float, float], ...]
    """(Weight, launches, s² or NaN, variance of the mean by the samples) of what varies by itself; weights of
    parts after the first are of one side and add up before they are squared."""

    @property
    def paired(self) -> bool:
        """Whether it is of launches that have both sides."""
        return len(self.parts) == 1

    @property
    def launches(self) -> int:
        """Behind the part that has the fewest."""
        return min(n for _, n, _, _ in self.parts)


def findings(guidelines: Sequence[Guideline], rate: float = 0.05, tolerance: float = 0.01) -> Findings:
    """Which guidelines are violated by more than the tolerance, beyond noise."""
    from scipy.stats import t

    if not guidelines:
        return Findings(0, rate, ())
    differences = [_difference(guideline) for guideline in guidelines]
    known = [(s2, n - 1) for d in differences for _, n, s2, _ in d.parts if n > 1]
    # Slots of a launch are disturbed together: their number proves nothing.
    behind = median(freedom for _, freedom in known) if known else 0
    pooled = fmean(s2 for s2, _ in known) if known else 0.0
    sems = np.array([_standard_error(d, pooled, behind) for d in differences])
    freedom = np.array([_FREEDOM + d.launches - 1 for d in differences])
    means = np.array([d.mean for d in differences])
    p_values = t.sf((means - math.log1p(tolerance)) / sems, freedom)
    lows = means - t.isf(0.05, freedom) * sems
    rows = zip(guidelines, differences, lows.tolist(), np.asarray(p_values).tolist(), strict=True)
    judged = [Violation(g, d.left_s, d.right_s, ratio_of(low), p, d.launches) for g, d, low, p in rows]
    judged.sort(key=lambda one: one.p_value)
    held = next((i for i, one in enumerate(judged) if one.p_value > rate / (len(judged) - i)), len(judged))
    return Findings(len(judged), rate, tuple(sorted(judged[:held], key=lambda one: -one.ratio)))


def _standard_error(d: _Difference, pooled: float, behind: float) -> float:
    """√(s̃²/n) of a difference; ``pooled`` is the mean s² of all, with so many degrees of freedom."""
    assumed = (2 if d.paired else 1) * _ASSUMED**2  # a paired difference has two sides
    common = (_FREEDOM * assumed + behind * pooled) / (_FREEDOM + behind)
    sds = []
    for weight, n, s2, within in d.parts:
        own = 0.0 if n == 1 else (n - 1) * s2
        moderated = (_FREEDOM * common + own) / (_FREEDOM + n - 1)
        sds.append(weight * math.sqrt(max(moderated / n, within)))
    return math.hypot(sds[0], sum(sds[1:]))


def _difference(guideline: Guideline) -> _Difference:
    """D by launches that have everything, or else of the sides as groups."""
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
    """Sum and relative standard error of (how often, (seconds, relative standard error))."""
    total = sum(k * seconds for k, (seconds, _) in terms)
    return total, math.hypot(*(k * seconds * error for k, (seconds, error) in terms)) / total


def _group(timed: Timed) -> tuple[float, int, float, float]:
    """Geometric mean, launches, s² between them, and the variance of the mean by the samples."""
    logs = [math.log(seconds) for seconds, _ in timed.times.values()]
    n = len(logs)
    within = fmean(error**2 for _, error in timed.times.values()) / n
    return math.exp(fmean(logs)), n, variance(logs) if n > 1 else math.nan, within
