"""Predict what all launches of a setting will show, from those made so far (data flow: verification).

The final mean of a slot (collective, communicator size, message size) is n/N of the mean x̄ of n launches so
far and (N − n)/N of the mean of those to come. With a prior N(μ, v) of the true gain and the standard error s
of x̄, the posterior is N(w x̄ + (1 − w) μ, w s²) with w = v / (v + s²), and the final mean has the variance

    s² (1 − n/N) ((1 − n/N) w + n/N)

(Spiegelhalter, Freedman, Blackburn: Monitoring clinical trials: conditional or predictive power? Controlled
Clinical Trials 7, 1986, 8–17). A flat prior would expect the luckiest of ten slots to go on as it began, and
the unluckiest too. So a slot is one of two kinds: its gain is one of those of all slots, whose μ and v = τ²
follow from their median and their median absolute deviation, or it is of its own, with v = τ² + n s², as much
as a single launch says (the unit-information prior of Kass and Wasserman, JASA 90, 1995, 928–934). Before any
launch one slot of all is expected to be of its own; Bayes' theorem weighs both by their densities of x̄.
"""

import math
from collections.abc import Sequence

import numpy as np

from autotune.verification.planned import ROBUST


class Forecast:
    """Predict the final mean of a slot, given what all slots show so far."""

    def __init__(self, gains: Sequence[float], errors: Sequence[float], n_made: int, n_total: float) -> None:
        """Estimate the prior of a slot's gain.

        Args:
            gains: Gain of each slot so far, in ln of the time.
            errors: Their standard errors; slots without one say nothing.
            n_made: Number of launches of the setting so far.
            n_total: Number of its launches in the end.
        """
        self._n, self._share, self._slots = n_made, n_made / n_total, len(gains)
        known = [(gain, error) for gain, error in zip(gains, errors, strict=True) if error > 0.0]
        self._centre, self._variance = 0.0, math.inf
        if len(known) >= 3:
            of_slots, sems = np.array(known).T
            self._centre = float(np.median(of_slots))
            spread = ROBUST * float(np.median(np.abs(of_slots - self._centre)))
            self._variance = max(spread**2 - float(np.median(sems)) ** 2, 0.0)

    def exceeds(self, gain: float, sem: float, limit: float, deviations: float) -> float:
        """Return the probability that the final mean of a slot exceeds a limit by so many standard errors.

        Args:
            gain: Gain of the slot so far.
            sem: Its standard error; NaN: it is not known yet, and everything is possible.
            limit: What the final mean is to exceed.
            deviations: By how many of its standard errors.
        """
        if not sem > 0.0:
            return 1.0 if math.isnan(sem) else float(gain > limit)
        if not math.isfinite(self._variance):
            return self._given(math.inf, gain, sem, limit, deviations)
        kinds = (1 - 1 / self._slots, self._variance), (1 / self._slots, self._variance + self._n * sem**2)
        weights = [part * self._density(gain, sem, variance) for part, variance in kinds]
        chances = [self._given(variance, gain, sem, limit, deviations) for _, variance in kinds]
        return float(np.average(chances, weights=weights) if sum(weights) > 0.0 else chances[1])

    def _density(self, gain: float, sem: float, variance: float) -> float:
        """Return the density of a gain, but for a constant, where true gains have a variance."""
        sd = math.sqrt(variance + sem**2)
        return math.exp(-(((gain - self._centre) / sd) ** 2) / 2) / sd

    def _given(self, variance: float, gain: float, sem: float, limit: float, deviations: float) -> float:
        """Return the probability of ``exceeds`` if true gains have a variance around the centre."""
        from scipy.stats import t

        share, weight = self._share, 1.0 / (1.0 + sem**2 / variance) if variance > 0.0 else 0.0
        expected = gain + (1 - share) * (1 - weight) * (self._centre - gain)
        missing = expected - limit - deviations * math.sqrt(share) * sem
        error = sem * math.sqrt((1 - share) * ((1 - share) * weight + share))
        return float(t.cdf(missing / error, self._n - 1)) if error > 0.0 else float(missing > 0.0)
