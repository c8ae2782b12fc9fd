"""A design for a person to carry out, and the sizes of effects that the design can detect.

Place in the flow of ``autotune/__init__.py``: steps 2 and 3, space and screening.

Notation: the *power* for a factor is the probability that an effect of a given size of this factor is called
active. σ is the standard deviation of one run, on the scale of the analysis (on log scale 0.03 is three
percent).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from autotune.errors import TableError, UserError, allowed
from autotune.screening.design import Factor, ScreeningDesign, plackett_burman
from autotune.screening.model import RULE, fit, nuisances
from autotune.screening.noise import pseudo_error
from autotune.text_table import Row

_NEEDED = ("factor", "low", "high")
_KNOWN = (*_NEEDED, "centre")


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Power of a design for an effect of one size, and the smallest effects that the design detects."""

    sigma: float  # Standard deviation of one run, on the scale of the analysis.
    effect: float | None  # Size of the effect whose power was requested; None if no power was requested.
    power: dict[str, float]
    """Power for an effect of the size ``effect``, by factor; empty if ``effect`` is None."""
    detectable: dict[str, float]
    """Smallest effect that is called active with a probability of 80 %, by factor."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Requested size of a design."""

    runs: int  # Number of runs in a block, without centre points.
    blocks: int  # Number of blocks, which are replicates of the design made one after another.
    centre_points: int  # Number of centre points in a block.
    seed: int  # Random seed of the order of the runs.

    def design(self, factors: Sequence[Factor]) -> ScreeningDesign:
        """Return a Plackett–Burman design of exactly this size, with its runs in random order.

        Raises:
            UserError: no design of these factors has this number of runs, or there are centre points although
                no factor has a centre.
        """
        rng, runs = np.random.default_rng(self.seed), self.runs
        design = plackett_burman(
            factors, rng, blocks=self.blocks, centre_points=self.centre_points, min_runs=runs
        )
        if (size := design.n_runs // self.blocks - self.centre_points) != runs:
            raise UserError(
                f"no design has {runs} runs for {len(factors)} factors", f"the next one has {size}"
            )
        return design


def factors_in(name: str, columns: Sequence[str], rows: Sequence[Row]) -> tuple[Factor, ...]:
    """Return the factors in a table with the columns ``factor``, ``low``, ``high`` and optionally ``centre``.

    Raises:
        TableError: a column is missing or unknown, or a field is empty.
        UserError: a factor has the same value at both levels.
    """
    if absent := [column for column in _NEEDED if column not in columns]:
        raise TableError(f"{name} has no column {absent[0]!r}", f"needed: {', '.join(_NEEDED)}; also: centre")
    for column in columns:
        if column not in _KNOWN:
            raise TableError(f"{name}: unknown column {column!r}", allowed(column, _KNOWN))
    for number, row in enumerate(rows, start=2):
        if empty := [column for column in _NEEDED if not row[column]]:
            raise TableError(f"{name}, row {number}, column {empty[0]}: nothing is said")
    return tuple(Factor(r["factor"], r["low"], r["high"], r.get("centre") or None) for r in rows)


def sensitivity(design: ScreeningDesign, sigma: float, effect: float | None) -> Sensitivity:
    """Return which effects a design detects if a run has the standard deviation ``sigma``; see ``power``."""
    rng = np.random.default_rng(0)
    powers = {} if effect is None else power(design, effect, sigma, rng)
    return Sensitivity(sigma, effect, powers, detectable_effect(design, sigma, rng))


def power(design: ScreeningDesign, effect: float, sigma: float, rng: Generator) -> dict[str, float]:
    """Return the power for an effect of each factor, by the factor's name.

    It is assumed that all other factors have no effect. ``effect`` is the mean at the high level minus the
    mean at the low level. With three or more residual degrees of freedom the power is exact (noncentral t).
    With fewer, the analysis will use Lenth's method, and the power is simulated with a standard error of at
    most 0.01. σ does not contain the difference between reboots, so the power is an upper bound for factors
    whose change needs a reboot.

    Raises:
        UserError: ``sigma`` is not positive, or the design has fewer runs than parameters.
    """
    shifts, df = _noncentralities(design, effect, sigma)
    return {name: _power(shift, len(shifts), df, rng) for name, shift in shifts.items()}


def detectable_effect(design: ScreeningDesign, sigma: float, rng: Generator) -> dict[str, float]:
    """Return for each factor the smallest effect whose power is 80 %."""
    units, df = _noncentralities(design, sigma, sigma)
    seed = int(rng.integers(2**63))

    def detects(shift: float) -> bool:
        return _power(shift, len(units), df, np.random.default_rng(seed)) >= RULE.power

    low, high = 0.0, 1.0
    while not detects(high):
        high *= 2
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if detects(middle) else (middle, high)
    return {name: high * sigma / unit for name, unit in units.items()}


def _noncentralities(design: ScreeningDesign, effect: float, sigma: float) -> tuple[dict[str, float], int]:
    """Return |effect| in standard errors of each factor's effect, and the residual degrees of freedom."""
    if not 0 < sigma < math.inf:
        raise UserError(f"the standard deviation of a run is {sigma:g}", "it must be positive")
    fitted = fit(nuisances(design)[0], design.coded, np.zeros(design.n_runs))
    if not (fitted.joint and np.all(fitted.estimable)):
        raise UserError(f"{design.n_runs} runs cannot separate {len(design.factors)} factors")
    errors = 2 * sigma * np.sqrt(fitted.unit_variance)
    return dict(zip(design.names, (abs(effect) / errors).tolist(), strict=True)), fitted.residual_df


def _power(shift: float, n_factors: int, df: int, rng: Generator) -> float:
    """Return the power for an effect of ``shift`` standard errors; for Lenth's method it is simulated."""
    from scipy import stats

    lenth = df < RULE.min_residual_df
    critical = float(stats.t.ppf(1 - RULE.alpha / 2, (n_factors + df) / 3 if lenth else df))
    if lenth:
        contrasts = rng.normal(size=(RULE.simulated, n_factors + df))
        contrasts[:, 0] += shift
        return float(np.mean(np.abs(contrasts[:, 0]) > critical * pseudo_error(contrasts)))
    return float(stats.nct.sf(critical, df, shift) + stats.nct.cdf(-critical, df, shift))
