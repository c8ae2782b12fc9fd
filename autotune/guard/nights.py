"""Evidence from nights of launches: has anything become slower since some night (``guard``'s statistics)?

Launches of one night share what that night was like, so that a night is one observation, however many
launches it had: the mean over its launches of ln t. What a night does to everything (days, drift, exchanged
nodes, weekends) is in all sizes and both sides, and leaves differences alone. So a slot is compared by two
views: the settings less the median of what all other slots of both sides moved, and less the default in the
same slot. Only what happens to all sizes at once has to be seen in the times themselves.

Nights of a view have a level, a scale and a noise: independent ones, or these and a walk from night to night,
q times their variance; where nights had different numbers of launches, with a variance that is the same for
all or one over that number. From night ν on they may lie δ standard deviations higher, δ normal with a
standard deviation of d, and above zero. With Σ the covariance for a scale of one, k the degrees of freedom,
|r|² the squares left by the level, c the residual of the indicator of nights from ν on, both whitened by Σ,
a = c·r / |r| and h = d² / (1 + d² c·c), the density of what depends on neither level nor scale is, but for a
constant [1, 2],

    p₀ = |Σ|^(−1/2) (1ᵀΣ⁻¹1)^(−1/2) |r|^(−k),
    p₁ = p₀ (1 + d² c·c)^(−1/2) (1 − h a²)^(−k/2) 2 T(a (k h / (1 − h a²))^(1/2)),

T of Student's t with k degrees of freedom. E is p₁ without a walk over the largest p₀ of any noise [3]: at
most a test martingale, that reaches C with a chance of at most 1/C [4]; so is the mean over the views. A
night may be broken, and two may be. So a claim also wants E ≥ C of the nights before with any half of those
from ν on, the larger half: the least of these counts, and one night alone claims nothing.

Every night opens one: did something change tonight? Over a year 365 such are opened,
so that at C = 365 / α at most α claims are false, in expectation and so in probability, for as many years as
one looks (a detector of changes out of e-processes [5]). Nights on which versions changed are few, and have a
share of the rate of their own.

Where two sides run in turn within a night nothing has to be assumed of nights: that is the randomised
evidence of ``verification.evidence``, opened each night likewise.

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
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from autotune.verification.evidence import ROBUST, Drawn, log_evidence, median

Floats = NDArray[np.float64]

SHIFT = 6.0
"""d: of a night of 24 launches 5 % apart a tenth is as many standard deviations. With 4 or 10 as many losses
are found in three nights. Fixed numbers for δ take 30 standard deviations for a walk."""
STEADY = (0.0, 0.04)
"""q of differences: a size may wander on its own, by a fifth of a night's standard deviation a night. At 0.1
97 of 100 losses of 10 % are found in three nights of the simulated machine, at 0.2 93; 99 at 0.04."""
WANDERING = (0.0, 0.1, 1.0, 10.0, 100.0)
"""q of the times themselves: a power of ten apart, from launches alone to a walk alone."""
PAST = 56
"""Nights before a change that it is compared with: eight of each weekday."""
FRESH = 7
"""Nights in which a change must show: slow drift of a machine is none."""
_YEAR = 365
_UPGRADES = 0.5
"""Share of the error rate for nights on which something that is known changed."""
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


def of_sizes(settings: Floats, default: Floats) -> Floats:
    """The views of each slot ``(2, n_nights, …, n_slots)``, of means of nights ``(n_nights, …, n_slots)``."""
    n, both = settings.shape[-1], np.concatenate([settings, default], axis=-1)
    moved = both - both.mean(axis=0)  # a median of levels would hop between sizes
    elsewhere = [np.median(np.delete(moved, [i, i + n], axis=-1), axis=-1) for i in range(n)] if n > 1 else []
    return np.stack([settings - (np.stack(elsewhere, axis=-1) if elsewhere else default), settings - default])


def of_all_sizes(settings: Floats, default: Floats) -> Floats:
    """The views of all sizes together ``(2, n_nights, …, 1)``: the times, and less the default."""
    return np.asarray(np.stack([settings, settings - default]).mean(axis=-1, keepdims=True))


def log_evidence_of_rise(
    views: Floats, since: int, walks: Sequence[float] = STEADY, launches: Floats | None = None
) -> Floats:
    """Ln of the evidence that nights from ``since`` on lie higher, after the last night, for each column.

    Args:
        views: ``(n_views, n_nights, n_columns)``, the oldest night first, finite; evidence is their mean.
        since: The first night that may have changed.
        walks: q of the noise that may be.
        launches: How many each night rests on, ``(n_nights,)``; None: as many.
    """
    nights = tuple(range(views.shape[1]))
    return _log_mean(views, nights, since, tuple(walks), None if launches is None else tuple(launches))


def log_claim_of_rise(
    views: Floats, since: int, limit: float, walks: Sequence[float] = STEADY, launches: Floats | None = None
) -> Floats:
    """The same by any larger half of the nights from ``since`` on: the least of what reaches ``limit``."""
    n, fresh = views.shape[1], range(since, views.shape[1])
    total = log_evidence_of_rise(views, since, walks, launches)
    if len(fresh) < 2:
        return np.minimum(total, 0.0)
    high = np.flatnonzero(total >= limit)
    counts = None if launches is None else tuple(launches)
    for some in combinations(fresh, n - since - (n - since) // 2) if high.size else ():
        nights = (*range(since), *some)
        total[high] = np.minimum(
            total[high], _log_mean(views[:, nights][:, :, high], nights, since, tuple(walks), counts)
        )
    return total


def _log_mean(
    views: Floats,
    nights: tuple[int, ...],
    since: int,
    walks: tuple[float, ...],
    launches: tuple[float, ...] | None,
) -> Floats:
    """Ln of E of some nights, the mean over the views."""
    from scipy.special import stdtr

    k = len(nights) - 1
    if since < 2 or k < 2:
        return np.zeros(views.shape[2])  # nothing is known of the scale
    null, other = [], []
    for steady, left, c, log_root in _noises(nights, since, walks, launches):
        r = left @ views
        squares = np.maximum((r**2).sum(axis=1), _LEAST)
        null.append(log_root - k / 2 * np.log(squares))
        if steady:
            more = 1 + SHIFT**2 * float(c @ c)
            pull = c @ r * (SHIFT / math.sqrt(more))
            rest = np.maximum(squares - pull**2, _LEAST)
            above = np.log(2 * np.maximum(stdtr(k, pull * np.sqrt(k / rest)), _LEAST))
            other.append(log_root - (math.log(more) + k * np.log(rest)) / 2 + above)
    ratio = np.logaddexp.reduce(other) - math.log(len(other)) - np.max(null, axis=0)
    return np.asarray(np.logaddexp.reduce(ratio) - math.log(len(views)))


@lru_cache(maxsize=4096)
def _noises(
    nights: tuple[int, ...], since: int, walks: tuple[float, ...], launches: tuple[float, ...] | None
) -> list[tuple[bool, Floats, Floats, float]]:
    """Each noise: without a walk?, the matrix of whitened residuals, c, ln |Σ|^(−1/2) (1ᵀΣ⁻¹1)^(−1/2)."""
    t = np.array(nights)
    counts = np.ones(len(t)) if launches is None else np.array(launches)[t]
    variances = [np.ones(len(t)), *([counts.mean() / counts] if np.ptp(counts) else [])]
    found = []
    for q in walks:
        for variance in variances:
            white = np.linalg.inv(
                np.linalg.cholesky(np.diag(variance) + q * np.minimum.outer(t + 1.0, t + 1.0))
            )
            one, c = white.sum(axis=1), white @ (t >= since)
            length = math.sqrt(one @ one)
            level = one / length
            log_root = float(np.log(np.diag(white)).sum()) - math.log(length)
            found.append((q == 0, white - np.outer(level, level @ white), c - level * (level @ c), log_root))
    return found


def rise(y: Floats, since: int) -> Floats:
    """How much higher nights from ``since`` on lie, for each column of ``(n_nights, n_columns)``."""
    return np.asarray(y[since:].mean(axis=0) - y[:since].mean(axis=0))


def bounds_of_rise(
    y: Floats, since: int, alpha: float, walks: Sequence[float] = STEADY, launches: Floats | None = None
) -> tuple[Floats, Floats]:
    """The rises that one view does not exclude in each column: both ends, each with half of ``alpha``.

    Valid at whatever night one looks; infinite where nothing is excluded.
    """
    middle, limit = rise(y, since), math.log(2 / alpha)
    c = (np.arange(len(y)) >= since).astype(float)[:, None]

    def excluded(u: Floats, sign: float) -> NDArray[np.bool_]:
        less = -sign * (y - c * (middle + sign * u))
        return log_evidence_of_rise(less[None], since, walks, launches) >= limit

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
    k/2 ln(1 + z²/k), less the ln d/2 that not knowing δ costs. Infinite where more than ``PAST`` would be.
    """
    variance = max(day**2 + launch**2 / launches, _LEAST)
    for n in range(2, PAST + 1):
        k = n - 1
        z2 = loss**2 / (variance * (1 + 1 / n))
        if k / 2 * math.log1p(z2 / k) - math.log(SHIFT / 2) >= limit:
            return n
    return math.inf


def log_evidence_within(nights: Sequence[Sequence[Drawn]], least: float) -> Floats:
    """Ln of the evidence that settings gain less than ln ``least``, by launches in turn in some nights."""
    return log_evidence([block for night in nights for block in night], least, -1.0)
