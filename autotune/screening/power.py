"""What a design can see, before it is run (step 3 of the flow).

Notation: the *power* for a factor is the probability that an effect of a given size is called active; σ is
the standard deviation of one run, on the scale of the analysis (on log scale 0.03 is three percent).
"""

import math

import numpy as np
from numpy.typing import NDArray

from autotune.errors import UserError
from autotune.screening.design import ScreeningDesign
from autotune.screening.model import fit, nuisance_columns
from autotune.screening.noise import MIN_RESIDUAL_DF

_N_SIMULATED = 4000


def power(
    design: ScreeningDesign, effect: float, sigma: float, rng: np.random.Generator, *, alpha: float = 0.05
) -> dict[str, float]:
    """The power for each factor, others being inert.

    With three or more residual degrees of freedom this is exact (noncentral t); with fewer, where Lenth's
    method will be used, it is simulated with a standard error of at most 0.01. The difference between
    reboots is not part of σ: for whole-plot factors it is an upper bound.

    The effect is the mean at high minus the mean at low; ``rng`` is for the simulation.

    Raises:
        UserError: ``sigma`` is not positive, or the design has fewer runs than parameters.
    """
    shifts, df = _noncentralities(design, effect, sigma)
    return {name: _power(shift, len(shifts), df, rng, alpha) for name, shift in shifts.items()}


def detectable_effect(
    design: ScreeningDesign,
    sigma: float,
    rng: np.random.Generator,
    *,
    wanted: float = 0.8,
    alpha: float = 0.05,
) -> dict[str, float]:
    """The smallest effect of each factor that is called active with probability ``wanted``.

    Raises:
        UserError: as ``power``, or ``wanted`` not between ``alpha`` and 1.
    """
    if not alpha < wanted < 1:
        raise UserError(f"a power of {wanted:g} cannot be asked for", f"between {alpha:g} and 1")
    units, df = _noncentralities(design, sigma, sigma)
    seed = int(rng.integers(2**63))

    def reached(shift: float) -> bool:
        return _power(shift, len(units), df, np.random.default_rng(seed), alpha) >= wanted

    low, high = 0.0, 1.0
    while not reached(high):
        high *= 2
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return {name: high * sigma / unit for name, unit in units.items()}


def _noncentralities(design: ScreeningDesign, effect: float, sigma: float) -> tuple[dict[str, float], int]:
    """For each factor |effect| in standard errors, and the residual degrees of freedom."""
    if not 0 < sigma < math.inf:
        raise UserError(f"the standard deviation of a run is {sigma:g}", "it must be positive")
    nuisance, _ = nuisance_columns(design)
    fitted = fit(nuisance, design.coded, np.zeros(design.n_runs))
    if not (fitted.joint and np.all(fitted.estimable)):
        raise UserError(f"{design.n_runs} runs cannot separate {len(design.factors)} factors")
    errors = 2 * sigma * np.sqrt(fitted.unit_variance)
    return dict(zip(design.names, (abs(effect) / errors).tolist(), strict=True)), fitted.residual_df


def _power(shift: float, n_factors: int, df: int, rng: np.random.Generator, alpha: float) -> float:
    """The power for an effect of ``shift`` standard errors."""
    from scipy import stats

    if df < MIN_RESIDUAL_DF:
        return _lenth_power(n_factors, df, shift, rng, alpha)
    critical = float(stats.t.ppf(1 - alpha / 2, df))
    return float(stats.nct.sf(critical, df, shift) + stats.nct.cdf(-critical, df, shift))


def _lenth_power(n_factors: int, df: int, shift: float, rng: np.random.Generator, alpha: float) -> float:
    """Share of simulated sets of contrasts, all noise but one, in which that one passes Lenth's margin."""
    from scipy import stats

    contrasts = rng.normal(size=(_N_SIMULATED, n_factors + df))
    contrasts[:, 0] += shift
    sizes: NDArray[np.float64] = np.abs(contrasts)
    first = 1.5 * np.median(sizes, axis=1, keepdims=True)
    pse = 1.5 * np.nanmedian(np.where(sizes < 2.5 * first, sizes, math.nan), axis=1)
    margin = float(stats.t.ppf(1 - alpha / 2, sizes.shape[1] / 3)) * pse
    return float(np.mean(sizes[:, 0] > margin))
