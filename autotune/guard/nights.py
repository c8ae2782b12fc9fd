"""Statistics of ``guard``: evidence, from the launches of many nights, that something became slower.

A night is the set of launches of one ``guard check``. Its launches share the conditions of the machine, so
each night counts as one observation, whatever its number of launches: the mean of ln t over the launches,
where t is the time of a call. Conditions that affect everything (drift, exchanged nodes, weekends) change all
message sizes and both sides (settings and default) alike, and cancel in differences. So each slot
(collective, communicator size, message size) is compared in two views. The first view is ln t under the
settings minus the median shift of all other slots of both sides. The second is ln t under the settings minus
ln t of the default in the same slot. Only a change of all sizes at once must be detected in the times
themselves.

The values of a view in the nights have a level, a scale and a noise. The noise is either independent from
night to night, or the sum of an independent part and of a random walk whose steps have q times the variance
of that part. If nights had different numbers of launches, the variance of the independent part is either the
same for all nights or inversely proportional to that number. From a night ν on, the values may be higher by δ
standard deviations, where δ > 0 is half-normal: it has the density of a normal variable with mean zero and
standard deviation d, limited to values above zero. Let Σ be the covariance for a scale of one, k the degrees
of freedom, r the residuals of the level, and c the residuals of the indicator of the nights from ν on, both
whitened by Σ. Let a = c·r / |r| and h = d² / (1 + d² c·c). Then the statistic that depends on neither level
nor scale has, up to a constant factor, the density p₀ without a rise and p₁ with a rise [1, 2]:

    p₀ = |Σ|^(−1/2) (1ᵀΣ⁻¹1)^(−1/2) |r|^(−k),
    p₁ = p₀ (1 + d² c·c)^(−1/2) (1 − h a²)^(−k/2) 2 T(a (k h / (1 − h a²))^(1/2)),

where T is the distribution function of Student's t with k degrees of freedom. The evidence E is p₁ for noise
without a random walk, divided by the largest p₀ for any noise [3]. E never exceeds a test martingale, so if
nothing changed, E reaches a value C with a probability of at most 1/C [4]; the same is true of the mean of E
over the views. One or two nights may have had bad conditions. So a slowdown is reported only if E ≥ C also
holds for the earlier nights together with any half (rounded up) of the nights from ν on. A single night from
ν on is not enough to report a slowdown.

Every night starts one new test of whether something changed on that night. A year starts 365 tests, so with
C = 365/α the expected number of false reports per year is at most α, and so is the probability of one, for
any number of years (a detector of changes made of e-processes [5]). Nights on which versions changed are few,
and a separate share of the error rate is reserved for them.

Settings and default run in turn within a night, so a comparison of these two sides needs no assumption about
nights: its evidence is that of the randomisation test in ``verification.evidence``, and each night starts a
new test of this kind too.

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
"""Standard deviation d in the formulas above. On a night of 24 launches that differ by 5 %, a slowdown of
10 % is about this number of standard deviations. With d = 4 or 10, equally many slowdowns are found in three
nights. With a fixed δ, a rise of 30 standard deviations would be mistaken for a random walk."""
STEADY = (0.0, 0.04)
"""Values of q for differences between sizes or sides. With q = 0.04, a size may drift by itself in each night
by a fifth of the standard deviation of a night. Of 100 slowdowns of 10 % on the simulated machine, three
nights show 99 with q = 0.04, 97 with q = 0.1, and 93 with q = 0.2."""
WANDERING = (0.0, 0.1, 1.0, 10.0, 100.0)
"""Values of q for the times themselves, from independent nights (0) to nearly a pure random walk (100)."""
PAST = 56
"""Maximum number of nights before a change with which the nights after it are compared: eight of each
weekday."""
FRESH = 7
"""Number of nights after a change in which the change has to be detected; a slowdown that takes longer to
show counts as slow drift of the machine and is not reported."""
_UPGRADES = 0.25
"""Share of the error rate for comparing nights that have a known change with earlier nights. An equal share
is for comparing today's state with the state saved by ``guard keep`` in launches at the same moments."""
_CLIP = 2.0
"""Launches farther from the median of their night than this number of robust standard deviations are clipped
before the mean is taken. If launches are normally distributed, this loses 3 % of the information; in return,
one launch in ten may take any time without harm."""
_STEPS = 14  # Number of steps of the bisection for the ends of an interval.
_LEAST = 1e-300  # Lower limit of values whose logarithm is taken.
_FAR = 4.0
"""Distance, in ln t, from the estimated rise within which the end of an interval is searched; 4 means a time
that is 55 times as long."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Error rates: how often a check may report an unchanged machine as slower."""

    a_year: float = 0.01
    """Expected number of false alarms in a year of nightly checks, for all slots and tests together."""
    tests: int = 1  # Number of hypotheses that each night tests.

    def limit(self, upgrade: int = 0) -> float:
        """Return ln of the evidence that is needed to report a slowdown.

        ``upgrade`` is the number, counted from 1, of the known change on the night that the test is for; 0
        means that no change is known on that night.
        """
        alpha = self.of_change(upgrade) if upgrade else self.a_year * (1 - 2 * _UPGRADES) / 365
        return math.log(self.tests / alpha)

    def of_change(self, number: int) -> float:
        """Return the error rate of all tests together for the known change with this number, counted from 1.

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

    The arguments are the mean ln t of each night under the settings and by default, ``(n_nights, …,
    n_slots)``. The first series is that of the settings minus the median shift of all other slots, the second
    is that of the settings minus that of the default. The result has the shape ``(2, n_nights, …, n_slots)``.
    """
    n, both_sides = settings.shape[-1], np.concatenate([settings, default], axis=-1)
    shifts = both_sides - both_sides.mean(axis=0)  # the median of uncentred times would jump between sizes
    elsewhere = (
        [np.median(np.delete(shifts, [i, i + n], axis=-1), axis=-1) for i in range(n)] if n > 1 else []
    )
    return np.stack([settings - (np.stack(elsewhere, axis=-1) if elsewhere else default), settings - default])


def of_all_sizes(settings: Floats, default: Floats) -> Floats:
    """Return two series for all sizes together: the mean ln t, and the mean ln t minus that of the default.

    The arguments are those of ``of_sizes``; the result has the shape ``(2, n_nights, …, 1)``.
    """
    return np.asarray(np.stack([settings, settings - default]).mean(axis=-1, keepdims=True))


def log_evidence_of_rise(
    views: Floats, since: int, walks: Sequence[float] = STEADY, launches: Floats | None = None
) -> Floats:
    """Return ln of the evidence that times are longer from night ``since`` on than before, for each column.

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
    """Return the smallest ``log_evidence_of_rise`` for any half of the nights from ``since`` on, rounded up.

    In columns where the evidence of all nights is below ``limit``, the evidence of all nights is returned. A
    single night from ``since`` on cannot show a slowdown: its value is at most 0.
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
    """Return ln of the evidence E, defined at the top of this module, of some nights; a mean over views."""
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
    """Return the parts of the formulas at the top of this module for each possible covariance of the noise.

    Each tuple contains whether the noise has no random walk, the matrix that gives whitened residuals, the
    vector c, and ln |Σ|^(−1/2) (1ᵀΣ⁻¹1)^(−1/2).
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
    """Return the mean over the nights from ``since`` on minus the mean over the nights before, per column."""
    return np.asarray(y[since:].mean(axis=0) - y[:since].mean(axis=0))


def bounds_of_rise(
    y: Floats, since: int, alpha: float, walks: Sequence[float] = STEADY, launches: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the ends of the confidence interval of the rise since a night, for each column of one view.

    Each end is wrong with a probability of at most ``alpha / 2``, even if the interval is computed anew every
    night. An end is infinite if no rise in its direction, however large, is excluded.
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

    The standard deviation between nights is a moment estimate: the variance of the means ``y`` of the nights
    minus the part of that variance that the scatter between launches explains.

    Args:
        y: Mean ln t of each night, ``(n_nights, n_slots)``.
        within: Variance of ln t between the launches of each night, ``(n_nights, n_slots)``.
        launches: Number of launches of each night, ``(n_nights,)``.
    """
    with np.errstate(all="ignore"):
        launch = np.nan_to_num(np.nansum(within, axis=0) / np.isfinite(within).sum(axis=0))
        of_means = np.var(y, axis=0, ddof=1) if len(y) > 1 else np.full(y.shape[1], math.nan)
        day = np.sqrt(np.maximum(of_means - launch * np.mean(1 / launches), 0.0))
    return day, np.sqrt(launch)


def nights_wanted(loss: float, day: float, launch: float, launches: float, limit: float) -> float:
    """Estimate how many earlier nights are needed before one further night can show or exclude a slowdown.

    To first order, ln of the evidence of an effect of z standard errors with k degrees of freedom is at most
    k/2 ln(1 + z²/k) − ln(d/2), where the second term is the cost of not knowing δ. The result is infinite if
    the number would exceed ``PAST``.

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
