"""Test differences between two sides by the random order of their launches, group-sequentially.

Within a block, every order with the same number of launches of each side had the same chance to be drawn.
Nothing else is assumed: if the setting had no effect, each launch would have shown the same times in any
other order [1]. Drift, shifts, alternation, heavy tails and dependence between slots affect the times in all
these orders alike, so they do no harm.

Notation: y is ln t in one slot (collective, communicator size, message size), z is y minus its median in the
block, divided by the robust standard deviation of such differences in all blocks, and clipped to ±1. S is the
sum over launches of the setting of (mean z of the block − z), so that S > 0 where the setting is faster. Over
all orders that could have been drawn, the mean of S is zero. A block of n launches, a of them of the setting,
adds to the variance of S

    a (n − a) / (n (n − 1)) · Σ (z − z̄)²,

where z̄ is the mean z of the block. For sums S_k of independent symmetric parts, Lévy's inequality bounds the
largest sum so far by the last one: P(max over k ≤ N of S_k ≥ x) ≤ 2 P(S_N ≥ x) [2]. So the condition

    S_n / sd(S_n) ≥ q(α/2) · √(N / n)

with the upper quantile q of the normal distribution is met at any look (evaluation after a block) up to the
N-th launch of the setting with a probability of at most α. These are the bounds of O'Brien and Fleming [3],
for any number of looks. The first plan has N = ``FIRST`` launches and spends half of the error rate. Each
further plan has ``_LONGER`` times as many launches as the plan before, and spends half of the rate that is
left. So the error rate holds however often launches are evaluated, ended, continued or resumed, and a result
that was significant once remains significant.

To test whether the setting gains more than δ, δ is added to y of its launches. The interval of an effect
contains the values that are not rejected; the estimate of the effect is the δ at which S is zero [4].

References:
    1. R. A. Fisher: The Design of Experiments (1935), ch. 2; E. L. Lehmann, J. P. Romano: Testing Statistical
       Hypotheses (3rd ed., 2005), section 15.2.
    2. P. Lévy: Théorie de l'addition des variables aléatoires (1937), section 44; P. Billingsley: Probability
       and Measure (3rd ed., 1995), section 22.
    3. P. C. O'Brien, T. R. Fleming: A multiple testing procedure for clinical trials. Biometrics 35 (1979)
       549-556.
    4. J. L. Hodges, E. L. Lehmann: Estimates of location based on rank tests. Annals of Mathematical
       Statistics 34 (1963) 598-611.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FIRST = 16
"""Number of launches of a setting in the first plan: as many as a setting has in heats (launches that are
alive at once) before it is exported."""
_LONGER = 1.5
"""Factor between the numbers of launches of successive plans. Right after a plan has ended, the next plan
requires S / sd(S) to be about √1.5 times as large. With a factor of 2 nine heats of two launches a side could
not show as much at one of ten sizes."""
CLIP = 1.0
"""Number of robust standard deviations at which z is clipped."""
ROBUST = 1.4826
"""Ratio of the standard deviation of a normal distribution to its median absolute value."""
LEAST_SCALE = 1e-12
"""Least spread of ln t: it avoids a division by zero if launches printed the same time to the last bit."""
FAR = 7.0
"""Largest gain that is considered, in ln of the time: no setting is a thousand times as fast."""
LEAST_SPREAD = 1e-4
"""Least unit of length, in ln of the time, with which a bound is searched: a hundredth of the smallest loss
that matters."""
_STEPS = 14
"""Steps of bisection, by which a bound is known to some hundredths of its distance from the estimate."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Hold blocks of launches in random order, with their times in all slots that are compared."""

    y: Floats  # Ln t, `(n_blocks, n_launches, n_slots)`; NaN where a launch has no time.
    tuned: NDArray[np.bool_]  # Whether each launch is of the setting, `(n_blocks, n_launches)`.

    @property
    def averaged(self) -> "Drawn":
        """Return the mean over all slots of each launch; NaN for a launch that lacks a slot."""
        return Drawn(self.y.mean(axis=2, keepdims=True), self.tuned)

    @property
    def launches(self) -> Floats:
        """Return the number of launches of the setting that have a time in each slot."""
        return np.asarray((np.isfinite(self.y) & self.tuned[:, :, None]).sum(axis=(0, 1)), dtype=float)

    def statistic(self, gain: Floats | float = 0.0) -> tuple[Floats, Floats]:
        """Return S of each slot and its variance, as if the setting's launches were slower by ``gain``."""
        centred = self._centred(gain)
        scale = ROBUST * median(np.abs(centred).reshape(-1, centred.shape[2]))
        with np.errstate(invalid="ignore"):
            z = np.clip(centred / np.maximum(np.nan_to_num(scale), LEAST_SCALE), -CLIP, CLIP)
        finite = np.isfinite(z)
        tuned = finite & self.tuned[:, :, None]
        n, a = finite.sum(axis=1).astype(float), tuned.sum(axis=1).astype(float)
        z = np.where(finite, z, 0.0)
        mean = z.sum(axis=1) / np.maximum(n, 1)
        squares = (np.where(finite, z - mean[:, None], 0.0) ** 2).sum(axis=1)
        usable = (a > 0) & (a < n)
        part = np.where(usable, a * mean - np.where(tuned, z, 0.0).sum(axis=1), 0.0)
        variance = np.where(usable, a * (n - a) / np.maximum(n * (n - 1), 1) * squares, 0.0)
        return part.sum(axis=0), variance.sum(axis=0)

    def deviation(self, gain: Floats | float = 0.0) -> Floats:
        """Return S of each slot divided by its standard deviation."""
        total, variance = self.statistic(gain)
        return np.asarray(total / np.sqrt(np.maximum(variance, LEAST_SCALE)))

    def significant(self, alpha: float, sign: float = 1.0) -> NDArray[np.bool_]:
        """Whether the setting was significantly faster after any block, by slot; ``sign`` −1: slower."""
        significant = np.zeros(self.y.shape[2], dtype=bool)
        for n in range(1, len(self.y) + 1):
            until = Drawn(self.y[:n], self.tuned[:n])
            significant |= sign * until.deviation() >= critical(until.launches, alpha)
        return significant

    def estimate(self) -> Floats:
        """Return the gain of each slot, the δ at which S is zero; NaN without launches of both sides."""
        low, high = -FAR + self._start, self._start + FAR
        for _ in range(2 * _STEPS):
            middle = (low + high) / 2
            is_larger = self.statistic(middle)[0] > 0.0
            low, high = np.where(is_larger, middle, low), np.where(is_larger, high, middle)
        return np.where(self._both_known, (low + high) / 2, math.nan)

    def bound(self, gain: Floats, alpha: float, sign: float = 1.0) -> Floats:
        """Return a lower bound on the true gain, by slot; ``sign`` −1: an upper bound.

        The probability that the bound is wrong after any of the blocks is at most ``alpha``. The bound is
        infinite where nothing is excluded. ``gain`` is the estimated gain.
        """
        threshold, centre = critical(self.launches, alpha), np.nan_to_num(gain)

        def excludes(delta: Floats) -> NDArray[np.bool_]:
            return np.asarray(sign * self.deviation(delta) >= threshold)

        return excluded_beyond(excludes, centre, self.spread, sign, _STEPS)

    @property
    def spread(self) -> tuple[Floats, Floats]:
        """Return the robust standard deviations within blocks, of launches of the setting and of others.

        They follow from the differences to the mean of the k launches of the same side in the same block,
        times √(k / (k − 1)). Differences to the median of a whole block of four launches would be only
        0.72 times as large as the standard deviation. The result is NaN where no block has two launches of a
        side.
        """
        tuned_sd, reference_sd = (self._spread_of(side) for side in (self.tuned, ~self.tuned))
        return tuned_sd, reference_sd

    def _spread_of(self, side: NDArray[np.bool_]) -> Floats:
        y = np.where(side[:, :, None], self.y, math.nan)
        n = np.isfinite(y).sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.nansum(y, axis=1, keepdims=True) / n
            deviations = np.abs(y - mean) * np.sqrt(n / np.where(n > 1, n - 1, math.nan))
        return ROBUST * median(deviations.reshape(-1, y.shape[2]))

    @property
    def errors(self) -> Floats:
        """Return the standard error of each slot's gain; NaN if either side has fewer than two times."""
        finite = np.isfinite(self.y)
        n = np.array([finite[side].sum(axis=0) for side in (self.tuned, ~self.tuned)], dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.hypot(*(np.array(self.spread) / np.sqrt(n)))
        return np.where(n.min(axis=0) > 1, error, math.nan)

    def _centred(self, gain: Floats | float) -> Floats:
        """Return y, plus δ for launches of the setting, minus the median of the block."""
        y = self.y + self.tuned[:, :, None] * np.asarray(gain, dtype=float)
        return np.asarray(y - median(np.moveaxis(y, 1, 0))[:, None])

    @property
    def _both_known(self) -> NDArray[np.bool_]:
        finite = np.isfinite(self.y)
        sides = [(finite & side[:, :, None]).any(axis=1) for side in (self.tuned, ~self.tuned)]
        return np.asarray((sides[0] & sides[1]).any(axis=0))

    @property
    def _start(self) -> Floats:
        """Return the difference of both sides' medians, at which the search for the estimate starts."""
        tuned_median, reference_median = (median(self.y[side]) for side in (self.tuned, ~self.tuned))
        return np.nan_to_num(reference_median - tuned_median)


def critical(launches: Floats | float, alpha: float) -> Floats:
    """Return the least S / sd(S) that is significant after so many launches; see the module's text."""
    from scipy.special import ndtri

    n = np.maximum(np.asarray(launches, dtype=float), 1.0)
    longer = np.maximum(np.ceil(np.log(n / FIRST) / math.log(_LONGER) - 1e-9), 0.0)
    return np.asarray(-ndtri(alpha / 2.0 ** (longer + 2)) * np.sqrt(FIRST * _LONGER**longer / n))


def median(y: Floats) -> Floats:
    """Return the median over the first axis, without NaN; NaN where all values are NaN."""
    if not len(y):
        return np.full(y.shape[1:], math.nan)
    if not np.isnan(y).any():
        return np.asarray(np.median(y, axis=0))
    n, ordered = np.isfinite(y).sum(axis=0), np.sort(y, axis=0)  # NaN last
    low, high = np.maximum((n - 1) // 2, 0), np.minimum(n // 2, len(y) - 1)
    return np.asarray((_at(ordered, low) + _at(ordered, high)) / 2)


def _at(ordered: Floats, place: NDArray[np.intp]) -> Floats:
    return np.asarray(np.take_along_axis(ordered, place[None], axis=0)[0])


def excluded_beyond(
    excludes: Callable[[Floats], NDArray[np.bool_]],
    estimate: Floats,
    spreads: tuple[Floats, Floats],
    sign: float,
    steps: int,
) -> Floats:
    """Return, by slot, the gain nearest to the estimate beyond which a test excludes all gains.

    Bisection works on a scale that is fine near the estimate and coarse far from it.

    Args:
        excludes: Returns, by slot, whether the test excludes a gain.
        estimate: Estimated gains, by slot.
        spreads: Standard deviations of the launches of both sides, by slot.
        sign: 1 for a bound below the estimate, −1 for a bound above it.
        steps: Number of bisections.

    Returns:
        The bounds; infinite where the test excludes nothing.
    """
    distance = np.maximum(np.nan_to_num(np.hypot(*spreads)), LEAST_SPREAD)

    def at(u: Floats) -> Floats:
        return np.asarray(estimate - sign * distance * np.expm1(u))

    near, far = np.zeros(len(estimate)), np.log1p(FAR / distance)
    unbounded = ~excludes(at(far))
    for _ in range(steps):
        middle = (near + far) / 2
        is_excluded = excludes(at(middle))
        near, far = np.where(is_excluded, near, middle), np.where(is_excluded, middle, far)
    return np.where(unbounded, -sign * math.inf, at(far))
