"""Evidence from nights of launches: has anything become slower since some night (``guard``'s statistics)?

Launches of one night share what that night was like, so that a night is one observation, however many
launches it had: y is the mean over a night's launches of ln t in one slot, its variance that between days
plus that within the night over the number of launches. Without a change all y of a window are normal around
one level, or around a line over what the night did to the other sizes, which takes out what
days, drift and exchanged nodes do to everything; from night ν on they may lie δ standard deviations higher.
Line and scale are not known: the ratio of the densities of what does not depend on them [1] is, with r the
residuals of y, c those of the indicator of nights from ν on, k their degrees of freedom and a = c·r / |r|,

    E = exp(−δ² c·c / 2) ∫ u^(k−1) exp(−u²/2 + δ a u) du / ∫ u^(k−1) exp(−u²/2) du,

over u > 0: with each night a test martingale, and so is a mean over several δ. With a chance of at most 1/C
it ever reaches C [2]. Every night opens one: did something change tonight? Over a year 365 such are opened,
so that at C = 365 / α at most α claims are false, in expectation and so in probability, for as many years as
one looks (a detector of changes out of e-processes [3]). Nights on which versions changed are few, and have a
share of the rate of their own. No night multiplies E by more than √C: what one bad night shows is a
suspicion.

Where two sides run in turn within a night nothing has to be assumed of nights: that is the randomised
evidence of ``verification.evidence``, opened each night likewise.

References:
    1. M. F. Pérez-Ortiz, T. Lardy, R. de Heide, P. Grünwald: E-statistics, group invariance and anytime-valid
       testing. Annals of Statistics 52 (2024) 1410–1432, section 5.
    2. J. Ville: Étude critique de la notion de collectif (1939).
    3. J. Shin, A. Ramdas, A. Rinaldo: E-detectors: a nonparametric framework for sequential change detection.
       New England Journal of Statistics in Data Science 2 (2024) 229–260.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.verification.evidence import ROBUST, Drawn, log_evidence, median

Floats = NDArray[np.float64]

SHIFTS = np.array([0.75, 1.5, 3.0, 6.0])
"""δ: from what takes many nights to what one shows, in standard deviations of a night."""
PAST = 56
"""Nights before a change that it is compared with: eight of each weekday."""
FRESH = 7
"""Nights in which a change must show: slow drift of a machine is none."""
_YEAR = 365
_UPGRADES = 0.5
"""Share of the error rate for nights on which something that is known changed."""
_POINTS = 256
"""Points of the integral over u: an error below 1e-6 of its logarithm."""
_REACH = 9.0
"""Standard deviations of u around its mode beyond which its density is nothing."""
_CLIP = 2.0
"""Robust standard deviations beyond which a launch counts no further for the mean of its night: of launches
that are normal it loses 3 % of their information, and one of them in ten may be anywhere."""
_STEPS = 14
"""Steps of bisection."""
_LEAST = 1e-300
_FAR = 4.0
"""Largest rise on the log scale: 55 times as slow."""


@dataclass(frozen=True, slots=True)
class Rates:
    """How often what is the same may be called slower."""

    a_year: float = 0.01
    """False claims expected in a year of nights, of all slots and tests together."""
    tests: int = 1
    """Claims that each night could make."""

    def limit(self, upgrade: int = 0) -> float:
        """Ln of what evidence must reach; ``upgrade``: the number of the known change that night, 0: none."""
        openings = upgrade * (upgrade + 1) / _UPGRADES if upgrade else _YEAR / (1 - _UPGRADES)
        return math.log(self.tests * openings / self.a_year)


def of_launches(y: Floats) -> tuple[Floats, Floats]:
    """Mean of a night's launches ``(n_launches, n_slots)`` in each slot, and the variance between them.

    NaN where fewer than one, or two, are known.
    """
    middle = median(y)
    reach = _CLIP * ROBUST * median(np.abs(y - middle))
    clipped = np.where(reach > 0, np.clip(y, middle - reach, middle + reach), y)
    n = np.isfinite(y).sum(axis=0).astype(float)
    with np.errstate(all="ignore"):
        mean = np.nansum(clipped, axis=0) / n
        return mean, np.where(n > 1, np.nansum((clipped - mean) ** 2, axis=0) / (n - 1), math.nan)


def log_evidence_of_rise(y: Floats, since: int, level: Floats | None = None, cap: float = math.inf) -> Floats:
    """Ln of the evidence that nights from ``since`` on lie higher, after the last night, for each slot.

    Args:
        y: A row for each night, the oldest first, ``(n_nights, n_slots)``, finite.
        since: The first night that may have changed.
        level: What each night did to other slots, ``(n_nights, n_slots)``; None: it is not taken out.
        cap: The most that one night may add.
    """
    total = np.zeros(y.shape[1])
    before = np.zeros(y.shape[1])
    for n in range(since + 1, len(y) + 1):
        now = _log_ratio(y[:n], since, None if level is None else level[:n])
        total += np.minimum(now - before, cap)
        before = now
    return total


def _log_ratio(y: Floats, since: int, level: Floats | None) -> Floats:
    """Ln of E, the mean over all δ."""
    n, unknown = len(y), 1 if level is None else 2
    k = n - unknown
    if since <= unknown or k < 2:
        return np.zeros(y.shape[1])  # nothing is known of the scale
    c = np.broadcast_to((np.arange(n) >= since)[:, None].astype(float), y.shape)
    c, r = c - c.mean(axis=0), y - y.mean(axis=0)
    if level is not None:
        x = level - level.mean(axis=0)
        x = x / np.maximum(np.sqrt((x**2).sum(axis=0)), _LEAST)
        c, r = c - x * (x * c).sum(axis=0), r - x * (x * r).sum(axis=0)
    a = (c * r).sum(axis=0) / np.maximum(np.sqrt((r**2).sum(axis=0)), _LEAST)
    each = _log_integral(k, SHIFTS[:, None] * a) - _log_integral(k, np.zeros((1, 1)))
    each = each - SHIFTS[:, None] ** 2 * (c**2).sum(axis=0) / 2
    most = each.max(axis=0)
    return np.asarray(most + np.log(np.mean(np.exp(each - most), axis=0)))


def _log_integral(k: int, pull: Floats) -> Floats:
    """Ln ∫ u^(k−1) exp(−u²/2 + pull u) du over u > 0, by a sum around its mode."""
    mode = (pull + np.sqrt(pull**2 + 4 * (k - 1))) / 2
    wide = 1 / np.sqrt(1 + (k - 1) / np.maximum(mode, 1e-6) ** 2)
    low = np.maximum(mode - _REACH * wide, 0.0)
    step = (mode + _REACH * wide - low) / _POINTS
    u = low + step * (np.arange(_POINTS).reshape(-1, *(1,) * pull.ndim) + 0.5)
    log_density = (k - 1) * np.log(u) - u**2 / 2 + pull * u
    most = log_density.max(axis=0)
    return np.asarray(most + np.log(np.exp(log_density - most).sum(axis=0) * step))


def rise(y: Floats, since: int) -> Floats:
    """How much higher nights from ``since`` on lie, for each slot."""
    return np.asarray(y[since:].mean(axis=0) - y[:since].mean(axis=0))


def bounds_of_rise(y: Floats, since: int, alpha: float, level: Floats | None = None) -> tuple[Floats, Floats]:
    """The rises that the nights do not exclude in each slot: both ends, each with half of ``alpha``.

    Valid at whatever night one looks; infinite where nothing is excluded. ``level`` as above.
    """
    middle, limit = rise(y, since), math.log(2 / alpha)
    c = (np.arange(len(y)) >= since).astype(float)[:, None]

    def excluded(u: Floats, sign: float) -> NDArray[np.bool_]:
        return log_evidence_of_rise(-sign * (y - c * (middle + sign * u)), since, level) >= limit

    def end(sign: float) -> Floats:
        near, far = np.full(len(middle), -_FAR), np.full(len(middle), _FAR)
        never = ~excluded(far, sign)
        for _ in range(_STEPS):
            half = (near + far) / 2
            out = excluded(half, sign)
            near, far = np.where(out, near, half), np.where(out, half, far)
        return np.where(never, sign * math.inf, middle + sign * far)

    return end(-1.0), end(1.0)


def components(y: Floats, within: Floats, launches: Floats) -> tuple[Floats, Floats]:
    """Standard deviation between days, and of a launch within its night, for each slot.

    By moments: the variance of the nights' means less what the launches of a night explain of it.

    Args:
        y: Means of nights without a change between them, ``(n_nights, n_slots)``.
        within: Variance between the launches of each night, likewise.
        launches: How many each mean rests on, ``(n_nights,)``.
    """
    with np.errstate(all="ignore"):
        launch = np.nan_to_num(np.nansum(within, axis=0) / np.isfinite(within).sum(axis=0))
        of_means = np.var(y, axis=0, ddof=1) if len(y) > 1 else np.full(y.shape[1], math.nan)
        day = np.sqrt(np.maximum(of_means - launch * np.mean(1 / launches), 0.0))
    return day, np.sqrt(launch)


def nights_wanted(loss: float, day: float, launch: float, launches: float, limit: float) -> float:
    """About how many nights must be known before one more shows a loss of ln ``loss``, or its absence.

    To first order: the evidence of an effect of z standard errors with k degrees of freedom is at most
    k/2 ln(1 + z²/k), less what the mean over δ costs. Infinite where more than ``PAST`` would be.
    """
    variance = max(day**2 + launch**2 / launches, _LEAST)
    for n in range(2, PAST + 1):
        k = n - 1
        z2 = loss**2 / (variance * (1 + 1 / n))
        if k / 2 * math.log1p(z2 / k) - math.log(SHIFTS.size) >= limit:
            return n
    return math.inf


def log_evidence_within(nights: Sequence[Sequence[Drawn]], least: float) -> Floats:
    """Ln of the evidence that settings gain less than ln ``least``, by launches in turn in some nights."""
    return log_evidence([block for night in nights for block in night], least, -1.0)
