"""Computes how long a launch should best measure, by the theory of two-stage sampling.

A campaign samples in two stages: launches, and calls within each of them. A launch that measures for t
seconds costs c₀ + t, where c₀ is the time for its start, checks and end. Its estimate has the variance σ_b² +
σ_w²/t: σ_b² is the variance between launches, σ_w² the variance within a launch of one second. For a given
total time, the variance of the mean over launches is proportional to (c₀ + t)(σ_b² + σ_w²/t). It is least at

    t* = √(c₀ σ_w² / σ_b²).

Near the minimum this function is flat: with twice or half of t* the variance is at most a quarter larger,
since the part of it that depends on t grows with t/t* + t*/t.

References:
    W. G. Cochran, Sampling Techniques, 3rd edition, Wiley 1977, section 10.6.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from autotune.measure.location import usual_variance

FREEDOM = 5
"""Least number of degrees of freedom with which the variance between launches is used.

The logarithm of t* then has a standard error of √(1 / (2 · 5)) = 0.32. Two standard errors are a factor of
1.9, which increases the variance by a quarter at most."""


@dataclass(frozen=True, slots=True)
class Launched:
    """One launch's estimate of a quantity that is the same for all launches of a setting."""

    log_value: float  # Natural logarithm of the estimate.
    error: float  # Standard error of the logarithm within the launch.
    measured_s: float  # Time that the launch spent in timed calls, in seconds.


@dataclass(frozen=True, slots=True)
class Components:
    """The two components of the variance of an estimate, on the log scale."""

    between: float  # σ_b²: variance between launches of unlimited length.
    within_s: float  # σ_w²: variance within a launch that measures for one second, times one second.
    freedom: int  # Degrees of freedom of ``between``.


def components(groups: Iterable[Sequence[Launched]]) -> Components | None:
    """Return the components of variance of groups of launches.

    All launches of a group estimate the same quantity. Some launches report an error that is much too large,
    since something changed while they measured. So the estimates of each group are expressed in units of its
    median standard error. Their usual variance λ (see ``usual_variance``) is 1 + σ_b² t / σ_w² for launches
    that measure for a time t, and σ_w² is the median over all launches. Launches without a known error or
    time are left out.

    Returns:
        The components; None if no group has two usable launches.
    """
    squares: list[float] = []
    freedom: list[int] = []
    within_s: list[float] = []
    measured_s: list[float] = []
    for group in groups:
        usable = [
            launch
            for launch in group
            if launch.measured_s > 0 and launch.error > 0 and math.isfinite(launch.log_value + launch.error)
        ]
        if len(usable) < 2:
            continue
        error = median(launch.error for launch in usable)
        mean = fmean(launch.log_value for launch in usable)
        squares.append(math.fsum(((launch.log_value - mean) / error) ** 2 for launch in usable))
        freedom.append(len(usable) - 1)
        within_s += [launch.error**2 * launch.measured_s for launch in usable]
        measured_s += [launch.measured_s for launch in usable]
    if not squares:
        return None
    excess = max(0.0, usual_variance(np.array(squares), np.array(freedom)) - 1.0)
    usual_within_s = median(within_s)
    return Components(excess * usual_within_s / median(measured_s), usual_within_s, sum(freedom))


def averaged(cells: Sequence[Components]) -> Components:
    """Return the components of the mean variance of cells that are measured by the same launches."""
    return Components(
        fmean(cell.between for cell in cells),
        fmean(cell.within_s for cell in cells),
        sum(cell.freedom for cell in cells),
    )


def best_length_s(fixed_s: float, variance: Components) -> float:
    """Return the optimal duration t* of a launch's measurement, in seconds.

    The duration is infinite if launches differ by no more than their standard errors explain.

    Args:
        fixed_s: Time for a launch's start, checks and end, in seconds (c₀).
        variance: Components of the variance.

    Raises:
        ValueError: If ``fixed_s`` is below 0.
    """
    if fixed_s < 0:
        raise ValueError(f"a launch cannot cost {fixed_s} s beside its calls")
    if not variance.between:
        return math.inf
    return math.sqrt(fixed_s * variance.within_s / variance.between)
