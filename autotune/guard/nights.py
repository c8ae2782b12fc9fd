"""Statistics of ``guard``: evidence, from the launches of many nights, that something became slower.

A night is the set of launches of one ``guard check``; its launches share the conditions of the machine, so
that a night is one observation, however many launches it had: the mean over its launches of ln t. Conditions
that affect everything (days, drift, exchanged nodes, weekends) are in all sizes and both sides (settings
and default), and cancel in differences. So a slot is compared in two views: the settings less the median
shift of all other slots of both sides, and the settings less the default in the same slot. A change of all
sizes at once is the only one that has to be detected in the times themselves.

Nights of a view have a level, a scale and a noise. The noise is independent, or independent plus a walk from
night to night with q times its variance; where nights had different numbers of launches, its variance is
either the same for all nights or inverse to that number. From night ν on, nights may lie δ standard
deviations higher, where δ is normal with a standard deviation of d, and above zero. With Σ the covariance for
a scale of one, k the degrees of freedom, |r|² the squares left by the level, c the residual of the indicator
of nights from ν on, both whitened by Σ, a = c·r / |r| and h = d² / (1 + d² c·c), the density of the statistic
that depends on neither level nor scale is, but for a constant [1, 2],

    p₀ = |Σ|^(−1/2) (1ᵀΣ⁻¹1)^(−1/2) |r|^(−k),
    p₁ = p₀ (1 + d² c·c)^(−1/2) (1 − h a²)^(−k/2) 2 T(a (k h / (1 − h a²))^(1/2)),

T of Student's t with k degrees of freedom. E is p₁ without a walk over the largest p₀ of any noise [3]. It is
at most a test martingale, which reaches C with a chance of at most 1/C [4]; so is the mean over the views.
One or two nights may be bad. So a claim also requires E ≥ C of the earlier nights with any half of those from
ν on, the larger half: the least of these counts, and one night alone claims nothing.

Every night opens one test: did something change tonight? Over a year 365 tests are opened, so that at C = 365
/ α at most α claims are false, in expectation and so in probability, for any number of years (a detector of
changes made of e-processes [5]). Nights on which versions changed are few, and have their own share of the
rate.

Where two sides run in turn within a night, nothing has to be assumed of nights: their evidence is the
randomised one of ``verification.evidence``, opened each night likewise.

References:
    1. M. F. Pérez-Ortiz, T. Lardy, R. de Heide, P. Grünwald: E-statistics, group invariance and anytime-valid
    testing. Annals of Statistics 52 (2024) 1410–1432, section 5.
    2. H. Wang, A. Ramdas: Anytime-valid t-tests and confidence sequences for Gaussian means with unknown
    variance. Sequential Analysis 44 (2025) 56–110.
    3. L. Wasserman, A. Ramdas, S. Balakrishnan: Universal inference. Proceedings of the National Academy of
    Sciences 117 (2020) 16880–16890.
    4. J. Ville: Étude critique de la notion de collectif (1939).
    5. J. Shin, A. Ramdas, A. Rinaldo: E-detectors: a nonparametric framework for sequential change detection.
    New England Journal of Statistics in Data Science 2 (2024) 229–260.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from autotune.verification.planned import ROBUST, median

Floats = NDArray[np.float64]

SHIFT = 6.0
"""The d of the formulas above: on a night of 24 launches that differ by 5 %, a loss of a tenth is as many
standard deviations. With 4 or 10 the same number of losses is found in three nights. Fixed numbers for δ take
30 standard deviations for a walk."""
STEADY = (0.0, 0.04)
"""Values of q for differences between sizes or sides: a size may wander on its own, by a fifth of a night's
standard deviation a night. At 0.1, 97 of 100 losses of 10 % are found in three nights of the simulated
machine; at 0.2, 93; at 0.04, 99."""
WANDERING = (0.0, 0.1, 1.0, 10.0, 100.0)
"""Values of q for the times themselves: a power of ten apart, from independent nights to a pure random
walk."""
PAST = 56
"""Maximum number of nights before a change with which the nights after it are compared: eight of each
weekday."""
FRESH = 7
"""Maximum number of nights after a change in which the change must be detected; a slow drift of the machine
is not a change."""
_UPGRADES = 0.25
"""Share of the error rate spent on nights with a known change, compared with earlier nights; an equal share
is spent on comparing with the state saved by ``guard keep``, launched at the same moments."""
_CLIP = 2.0
"""Launches farther from the median of their night than this number of robust standard deviations are clipped
before the mean is taken. With normal launches this loses 3 % of the information, and one launch in ten may
have any time."""
_STEPS = 14  # Number of steps of the bisection for the ends of an interval.
_LEAST = 1e-300
_FAR = 4.0
"""Largest rise of ln t, beyond the estimated one, that is searched for an end of an interval: 55 times as
slow."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Error rates: how often a check may report an unchanged machine as slower."""

    a_year: float = 0.01
    """Expected number of false alarms in a year of nightly checks, over all slots and tests together."""
    tests: int = 1  # Number of hypotheses that each night tests.

    def limit(self, upgrade: int = 0) -> float:
        """Return ln of the evidence that is needed to report a slowdown.

        ``upgrade`` is the number of the known change on the night of the test, from 1; 0: there was none.
        """
        alpha = self.of_change(upgrade) if upgrade else self.a_year * (1 - 2 * _UPGRADES) / 365
        return math.log(self.tests / alpha)

    def of_change(self, number: int) -> float:
        """Return the error rate of all tests of the known change with this number, from 1.

        The rates of all changes sum to the share of the error rate that is reserved for known changes.
        """
        return self.a_year * _UPGRADES / (number * (number + 1))


def of_launches(y: Floats) -> tuple[Floats, Floats]:
    """Return the robust mean over a night's launches in each slot, and the variance between launches.

    ``y`` is ln t of the launches, ``(n_launches, n_slots)``. The mean is NaN in slots without a launch, the
    variance in slots with fewer than two.
    """
    middle = median(y)
    reach = _CLIP * ROBUST * median(np.abs(y - middle))
    clipped = np.where(reach > 0, np.clip(y, middle - reach, middle + reach), y)
    n = np.isfinite(y).sum(axis=0).astype(float)
    with np.errstate(all="ignore"):
        mean = np.nansum(clipped, axis=0) / n
        return mean, np.where(n > 1, np.nansum((clipped - mean) ** 2, axis=0) / (n - 1), math.nan)


def of_sizes(settings: Floats, default: Floats) -> Floats:
    """Return two series for each slot from which conditions that affect all slots cancel.

    The first is the settings less the median shift of all other slots, the second the settings less the
    default; the shape is ``(2, n_nights, …, n_slots)``. The arguments are the mean ln t of each night under
    the settings and by default, ``(n_nights, …, n_slots)``.
    """
    n, both_sides = settings.shape[-1], np.concatenate([settings, default], axis=-1)
    shifts = both_sides - both_sides.mean(axis=0)  # the median of uncentred times would jump between sizes
    elsewhere = (
        [np.median(np.delete(shifts, [i, i + n], axis=-1), axis=-1) for i in range(n)] if n > 1 else []
    )
    return np.stack([settings - (np.stack(elsewhere, axis=-1) if elsewhere else default), settings - default])


def of_all_sizes(settings: Floats, default: Floats) -> Floats:
    """Return two series for all sizes together: the mean ln t, and the mean ln t less that of the default.

    The arguments are those of ``of_sizes``; the shape is ``(2, n_nights, …, 1)``.
    """
    return np.asarray(np.stack([settings, settings - default]).mean(axis=-1, keepdims=True))


def log_evidence_of_rise(
    views: Floats, since: int, walks: Sequence[float] = STEADY, launches: Floats | None = None
) -> Floats:
    """Return ln of the evidence that times are longer in nights from ``since`` on, for each column.

    Args:
        views: Series of ln t, ``(n_views, n_nights, n_columns)``, the oldest night first, all finite. The
            evidence is the mean over the views.
        since: Index of the first night that may be slower.
        walks: Possible values of q, the relative variance of the random walk in the noise.
        launches: Number of launches of each night, ``(n_nights,)``; None if all nights have the same number.
    """
    counts = None if launches is None else tuple(launches)
    return _log_mean_evidence(views, tuple(range(views.shape[1])), since, tuple(walks), counts)


def log_claim_of_rise(
    views: Floats, since: int, limit: float, walks: Sequence[float] = STEADY, launches: Floats | None = None
) -> Floats:
    """Return the smallest ``log_evidence_of_rise`` over all larger halves of the nights from ``since`` on.

    In columns where the evidence of all these nights is below ``limit``, that evidence is returned. A single
    night from ``since`` on cannot show a slowdown: its value is at most 0.
    """
    fresh = range(since, views.shape[1])
    total = log_evidence_of_rise(views, since, walks, launches)
    if len(fresh) < 2:
        return np.minimum(total, 0.0)
    high = np.flatnonzero(total >= limit)
    counts = None if launches is None else tuple(launches)
    for half in combinations(fresh, len(fresh) - len(fresh) // 2) if high.size else ():
        nights = (*range(since), *half)
        least = _log_mean_evidence(views[:, nights][:, :, high], nights, since, tuple(walks), counts)
        total[high] = np.minimum(total[high], least)
    return total


def _log_mean_evidence(
    views: Floats,
    nights: tuple[int, ...],
    since: int,
    walks: tuple[float, ...],
    launches: tuple[float, ...] | None,
) -> Floats:
    """Return ln of the evidence E (see the formulas above) of some nights, averaged over the views."""
    from scipy.special import stdtr

    k = len(nights) - 1
    if since < 2 or k < 2:
        return np.zeros(views.shape[2])  # too few nights to estimate the variance
    null, alternative = [], []
    for steady, residual_matrix, c, log_root in _noises(nights, since, walks, launches):
        r = residual_matrix @ views
        squares = np.maximum((r**2).sum(axis=1), _LEAST)
        null.append(log_root - k / 2 * np.log(squares))
        if steady:
            inflation = 1 + SHIFT**2 * float(c @ c)
            pull = c @ r * (SHIFT / math.sqrt(inflation))
            residual_squares = np.maximum(squares - pull**2, _LEAST)
            log_tail = np.log(2 * np.maximum(stdtr(k, pull * np.sqrt(k / residual_squares)), _LEAST))
            alternative.append(log_root - (math.log(inflation) + k * np.log(residual_squares)) / 2 + log_tail)
    ratio = np.logaddexp.reduce(alternative) - math.log(len(alternative)) - np.max(null, axis=0)
    return np.asarray(np.logaddexp.reduce(ratio) - math.log(len(views)))


@lru_cache(maxsize=4096)
def _noises(
    nights: tuple[int, ...], since: int, walks: tuple[float, ...], launches: tuple[float, ...] | None
) -> list[tuple[bool, Floats, Floats, float]]:
    """Return the parts of the formulas above for each possible covariance of the noise.

    They are whether it contains no random walk, the matrix that gives whitened residuals, the vector c, and
    ln |Σ|^(−1/2) (1ᵀΣ⁻¹1)^(−1/2).
    """
    t = np.array(nights)
    counts = np.ones(len(t)) if launches is None else np.array(launches)[t]
    variances = [np.ones(len(t)), *([counts.mean() / counts] if np.ptp(counts) else [])]
    noises = []
    for q, variance in product(walks, variances):
        covariance = np.diag(variance) + q * np.minimum.outer(t + 1.0, t + 1.0)
        white = np.linalg.inv(np.linalg.cholesky(covariance))
        ones, c = white.sum(axis=1), white @ (t >= since)
        length = math.sqrt(ones @ ones)
        level = ones / length
        log_root = float(np.log(np.diag(white)).sum()) - math.log(length)
        noises.append((q == 0, white - np.outer(level, level @ white), c - level * (level @ c), log_root))
    return noises


def rise(y: Floats, since: int) -> Floats:
    """Return the mean over nights from ``since`` on less that over earlier ones, for each column."""
    return np.asarray(y[since:].mean(axis=0) - y[:since].mean(axis=0))


def bounds_of_rise(
    y: Floats, since: int, alpha: float, walks: Sequence[float] = STEADY, launches: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the ends of the confidence interval of the rise since a night, for each column of one view.

    Each end has half of the error rate ``alpha``. The interval is valid however many nights were looked at;
    an end is infinite if no rise, however large, is excluded.
    """
    middle, limit = rise(y, since), math.log(2 / alpha)
    c = (np.arange(len(y)) >= since).astype(float)[:, None]

    def excluded(u: Floats, sign: float) -> NDArray[np.bool_]:
        signed = -sign * (y - c * (middle + sign * u))
        return log_evidence_of_rise(signed[None], since, walks, launches) >= limit

    def end(sign: float) -> Floats:
        near, far = np.full(len(middle), -_FAR), np.full(len(middle), _FAR)
        unbounded = ~excluded(far, sign)
        for _ in range(_STEPS):
            half = (near + far) / 2
            excludes = excluded(half, sign)
            near, far = np.where(excludes, near, half), np.where(excludes, half, far)
        return np.where(unbounded, sign * math.inf, middle + sign * far)

    return end(-1.0), end(1.0)


def components(y: Floats, within: Floats, launches: Floats) -> tuple[Floats, Floats]:
    """Return the standard deviations between nights, and between launches of one night, for each slot.

    That between nights is a moment estimate: the variance of the nights' means ``y``, ``(n_nights,
    n_slots)``, less the part that the launches of a night explain, with their number ``launches``,
    ``(n_nights,)``, and their variance ``within``, ``(n_nights, n_slots)``.
    """
    with np.errstate(all="ignore"):
        launch = np.nan_to_num(np.nansum(within, axis=0) / np.isfinite(within).sum(axis=0))
        of_means = np.var(y, axis=0, ddof=1) if len(y) > 1 else np.full(y.shape[1], math.nan)
        day = np.sqrt(np.maximum(of_means - launch * np.mean(1 / launches), 0.0))
    return day, np.sqrt(launch)


def nights_wanted(loss: float, day: float, launch: float, launches: float, limit: float) -> float:
    """Estimate how many earlier nights are needed before one further night can show or exclude a slowdown.

    To first order, the evidence of an effect of z standard errors with k degrees of freedom is at most k/2
    ln(1 + z²/k), less the ln d/2 that not knowing δ costs. The number is infinite if it would exceed
    ``PAST``.

    Args:
        loss: The slowdown, as ln of the ratio of times.
        day: Standard deviation of ln t between nights.
        launch: Standard deviation of ln t between launches of one night.
        launches: Number of launches of a night.
        limit: ln of the evidence that is needed to report a slowdown.
    """
    variance = max(day**2 + launch**2 / launches, _LEAST)
    for n in range(2, PAST + 1):
        k = n - 1
        z2 = loss**2 / (variance * (1 + 1 / n))
        if k / 2 * math.log1p(z2 / k) - math.log(SHIFT / 2) >= limit:
            return n
    return math.inf
