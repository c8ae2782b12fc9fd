"""Predict what all launches of a setting will show, from those made so far (data flow: verification).

The final mean of a slot (collective, communicator size, message size) over N launches is n/N times the mean x̄
of the n launches so far plus (N − n)/N times the mean of the launches to come. With a prior N(μ, v) of the
true gain and the standard error s of x̄, the posterior is N(w x̄ + (1 − w) μ, w s²) with w = v / (v + s²), and
the final mean has the variance

    s² (1 − n/N) ((1 − n/N) w + n/N)

(Spiegelhalter, Freedman, Blackburn: Monitoring clinical trials: conditional or predictive power? Controlled
Clinical Trials 7, 1986, 8–17). A flat prior would expect the luckiest of ten slots to go on as it began, and
the unluckiest too. So a slot is expected to be of one of two kinds. The gain of an ordinary slot is like
those of all slots: μ is their median, and v = τ² follows from their median absolute deviation. The gain of an
exceptional slot has a wider prior, v = τ² + n s², which counts as much as a single launch (the
unit-information prior of Kass and Wasserman, JASA 90, 1995, 928–934). Before any launch, one of all slots is
expected to be exceptional; Bayes' theorem then weighs the two kinds by the densities that they give to x̄.
"""

import math
from collections.abc import Sequence

import numpy as np

from autotune.measure.location import normal_scale


class Forecast:
    """Predict the final mean of a slot, given what all slots show so far."""

    def __init__(self, gains: Sequence[float], errors: Sequence[float], n_made: int, n_total: float) -> None:
        """Estimate the prior of a slot's gain.

        Args:
            gains: Gain of each slot so far, in ln of the time.
            errors: Standard errors of these gains; slots without a standard error are left out.
            n_made: Number of launches of the setting so far.
            n_total: Number of launches of the setting in the end.
        """
        self._n, self._share, self._slots = n_made, n_made / n_total, len(gains)
        known = [(gain, error) for gain, error in zip(gains, errors, strict=True) if error > 0.0]
        self._centre, self._variance = 0.0, math.inf
        if len(known) >= 3:
            of_slots, sems = np.array(known).T
            self._centre = float(np.median(of_slots))
            spread = float(normal_scale(np.abs(of_slots - self._centre)))
            self._variance = max(spread**2 - float(np.median(sems)) ** 2, 0.0)

    def exceeds(self, gain: float, sem: float, limit: float, deviations: float) -> float:
        """Return the probability that the final mean of a slot exceeds a limit by so many standard errors.

        Args:
            gain: Gain of the slot so far.
            sem: Standard error of that gain; NaN: it is not known yet, and the probability is 1.
            limit: Limit that the final mean must exceed.
            deviations: Distance by which it must exceed the limit, in standard errors of the final mean.
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
        """Return the density of a measured gain, up to a constant factor, if true gains vary so much."""
        sd = math.sqrt(variance + sem**2)
        return math.exp(-(((gain - self._centre) / sd) ** 2) / 2) / sd

    def _given(self, variance: float, gain: float, sem: float, limit: float, deviations: float) -> float:
        """Return the probability of ``exceeds`` if true gains have this variance around the prior's mean."""
        from scipy.stats import t

        share, weight = self._share, 1.0 / (1.0 + sem**2 / variance) if variance > 0.0 else 0.0
        expected = gain + (1 - share) * (1 - weight) * (self._centre - gain)
        missing = expected - limit - deviations * math.sqrt(share) * sem
        error = sem * math.sqrt((1 - share) * ((1 - share) * weight + share))
        return float(t.cdf(missing / error, self._n - 1)) if error > 0.0 else float(missing > 0.0)
