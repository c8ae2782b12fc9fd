"""Main effects of factors on one response, as ``analysis.analyse`` estimates them.

Place in the flow of ``autotune/__init__.py``: step 3, screening.

Notation: the *effect* of a factor is the mean at its high level minus the mean at its low level, other
factors and blocks being equal. On log scale it is a difference of logarithms, so that ``exp(effect)`` is the
ratio. In a balanced design it is the plain difference of two means.
"""

import math
from dataclasses import dataclass
from typing import Literal

from autotune.screening.alias import Alias, Efficiency
from autotune.screening.model import RULE
from autotune.screening.noise import Lenth, NoiseEstimate
from autotune.space import Value

Scale = Literal["linear", "log"]  # The scale on which responses are compared.


@dataclass(frozen=True, slots=True)
class Effect:
    """Says how one factor affects one response."""

    factor: str  # Name of the factor.
    low: Value  # The factor's low level.
    high: Value  # The factor's high level.
    effect: float  # Mean at high minus mean at low, on the scale of the analysis; nan: not estimable.
    std_err: float  # Standard error of the effect; nan: not estimable.
    df: float  # Degrees of freedom of the standard error.
    p_value: float  # Two-sided p-value of the hypothesis that there is no effect.
    p_optimistic: float
    """Smallest p-value of alternative analyses: any single run left out, or noise from replicates alone."""
    effect_optimistic: float  # The effect in the analysis with that smallest p-value.
    contribution: float
    """Percentage of the response's sum of squares about its mean that the factor explains."""
    active: bool  # Whether the p-value is below the significance level of the analysis.
    half_normal: float
    """Half-normal score: the expected size of an effect of this rank, in standard errors, if no factor
    matters."""
    n_low: int  # Number of runs with a result at the low level.
    n_high: int  # Number of runs with a result at the high level.

    def interval(self) -> tuple[float, float]:
        """Return the 95 % confidence interval of the effect, infinite where it could not be estimated."""
        from scipy import stats

        if not math.isfinite(self.std_err):
            return (-math.inf, math.inf)
        half = float(stats.t.ppf(1 - RULE.alpha / 2, self.df)) * self.std_err if self.std_err else 0.0
        return (self.effect - half, self.effect + half)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A two-factor interaction that the residuals suggest, but do not prove."""

    factors: tuple[str, str]  # The two factors; at least one of them seems to matter by itself.
    p_value: float
    """p-value of the hypothesis that the two factors do not interact, if no others do, times the number of
    interactions that were tested."""


@dataclass(frozen=True, slots=True)
class BlockEffect:
    """Says by how much a block differs from the mean of all blocks."""

    block: int | str  # Name of the block.
    effect: float  # The difference, on the scale of the analysis.
    std_err: float  # Standard error of the difference.


@dataclass(frozen=True, slots=True)
class Effects:
    """The analysis of one response, as ``analysis.analyse`` returns it."""

    response: str  # Name of the response.
    scale: Scale  # The scale of all numbers here.
    alpha: float  # Significance level at which an effect is ``active``.
    mean: float  # Mean of the response over the design, with blocks and factors balanced.
    effects: tuple[Effect, ...]  # The main effects, in the order of the design's factors.
    blocks: tuple[BlockEffect, ...]  # Differences between blocks; empty where there is one block.
    curvature: Effect | None
    """Mean of the centre points minus mean of the corners, as an effect whose levels are words; None if there
    are no centre points."""
    noise: NoiseEstimate  # The variance behind the standard errors: that of one run unless runs are weighted.
    lenth: Lenth  # Lenth's margins of error for the effects, even if they were not used.
    aliases: tuple[Alias, ...]  # Interactions that the estimates of the main effects also contain.
    suspicions: tuple[Suspicion, ...]
    """Interactions that may exist, so that their factors should not be fixed."""
    efficiency: Efficiency  # Efficiency of the runs that have a result.
    r_squared: float  # Share of the sum of squares that the fitted model explains.
    n_runs: int  # Number of runs with a result.
    n_missing: int  # Number of runs without a result.
    notes: tuple[str, ...]  # Sentences that qualify the estimates, for the reader of a report.

    def __getitem__(self, factor: str) -> Effect:
        return {effect.factor: effect for effect in self.effects}[factor]

    def text(self, effect: Effect) -> str:
        """Return an effect as text: ``+12.3 ± 1.1 %`` on log scale, else a number in the response's unit."""
        if not math.isfinite(effect.effect):
            return "inconclusive"
        value, error, unit = f"{effect.effect:+.4g}", f"{effect.std_err:.2g}", ""
        if self.scale == "log":
            value, unit = f"{100 * math.expm1(effect.effect):+.1f}", " %"
            error = f"{100 * math.exp(effect.effect) * effect.std_err:.1f}"
        return f"{value} ± {error}{unit}" if math.isfinite(effect.std_err) else f"{value}{unit}"
