"""Main effects of factors on one response, as ``analysis.analyse`` finds them (step 3 of the flow).

Notation: the *effect* of a factor is the mean at its high level minus the mean at its low level, other
factors and blocks being equal; on log scale it is a difference of logarithms, ``exp(effect)`` being the
ratio. In a balanced design this is the plain difference of two means.
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
    low: Value  # Its low level.
    high: Value  # Its high level.
    effect: float  # Mean at high minus mean at low, on the scale of the analysis; nan: not estimable.
    std_err: float  # Its standard error; nan: not estimable.
    df: float  # Degrees of freedom of the standard error.
    p_value: float  # Two-sided p-value of the hypothesis that there is no effect.
    p_optimistic: float  # Smallest p-value with any single run left out, or replicates alone as noise.
    effect_optimistic: float  # The effect in the analysis with that smallest p-value.
    contribution: float  # Share in the sum of squares of the response about its mean, in percent.
    active: bool  # Whether the p-value is below the significance level of the analysis.
    half_normal: float  # Half-normal score: where an inert effect of this rank is expected.
    n_low: int  # Runs with a result at the low level.
    n_high: int  # Runs with a result at the high level.

    def interval(self) -> tuple[float, float]:
        """Return the 95 % confidence interval of the effect, infinite where it could not be estimated."""
        from scipy import stats

        if not math.isfinite(self.std_err):
            return (-math.inf, math.inf)
        half = float(stats.t.ppf(1 - RULE.alpha / 2, self.df)) * self.std_err if self.std_err else 0.0
        return (self.effect - half, self.effect + half)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A two-factor interaction that may exist."""

    factors: tuple[str, str]  # The two factors; at least one of them seems to matter by itself.
    p_value: float
    """p-value of the hypothesis that they do not interact, if no other factors do, times the number of
    interactions tested."""


@dataclass(frozen=True, slots=True)
class BlockEffect:
    """Says how far a block lies from the mean of all blocks."""

    block: int | str  # Name of the block.
    effect: float  # Difference, on the scale of the analysis.
    std_err: float  # Its standard error.


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
    """Mean of the centre points minus mean of the corners (``low`` and ``high`` are words); None where there
    are no centre points."""
    noise: NoiseEstimate  # The variance that the standard errors rest on: that of one run unless weighted.
    lenth: Lenth  # Lenth's yardstick for one effect, whether it was used or not.
    aliases: tuple[Alias, ...]  # What the estimates of the main effects also contain.
    suspicions: tuple[Suspicion, ...]  # Interactions that may exist: reasons not to fix their factors.
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
