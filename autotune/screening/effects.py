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

Scale = Literal["linear", "log"]  # On which scale responses are compared.


@dataclass(frozen=True, slots=True)
class Effect:
    """The main effect of one factor on one response."""

    factor: str  # Name of the factor.
    low: Value  # Its low level.
    high: Value  # Its high level.
    effect: float  # Mean at high minus mean at low, on the scale of the analysis; nan: not estimable.
    std_err: float  # Its standard error; nan: not estimable.
    df: float  # Degrees of freedom of the standard error.
    p_value: float  # Of no effect, two-sided.
    p_optimistic: float  # Smallest p-value with any single run left out, or replicates alone as noise.
    effect_optimistic: float  # The effect in the reading with that p-value.
    contribution: float  # Share in the sum of squares of the response about its mean, in percent.
    active: bool  # Whether the p-value is below the level asked for.
    half_normal: float  # Half-normal score: where an inert effect of this rank is expected.
    n_low: int  # Runs with a result at the low level.
    n_high: int  # Runs with a result at the high level.

    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the effect."""
        from scipy import stats

        if not math.isfinite(self.std_err):
            return (-math.inf, math.inf)
        half = float(stats.t.ppf(1 - RULE.alpha / 2, self.df)) * self.std_err if self.std_err else 0.0
        return (self.effect - half, self.effect + half)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """An interaction that may be there."""

    factors: tuple[str, str]  # The two factors; one at least seems to matter by itself.
    p_value: float  # Of no such interaction if nothing else interacts, times those that were tried.


@dataclass(frozen=True, slots=True)
class BlockEffect:
    """Difference of a block as a whole from the mean of the blocks."""

    block: int | str  # Name of the block.
    effect: float  # Difference, on the scale of the analysis.
    std_err: float  # Its standard error.


@dataclass(frozen=True, slots=True)
class Effects:
    """The analysis of one response."""

    response: str  # Its name.
    scale: Scale  # The scale of all numbers here.
    alpha: float  # Level of significance of ``active``.
    mean: float  # Of the response over the design, blocks and factors balanced.
    effects: tuple[Effect, ...]  # In the order of the design's factors.
    blocks: tuple[BlockEffect, ...]  # Empty where there is one block.
    curvature: Effect | None  # Centre minus corners (``low``, ``high`` are words); None: no centre points.
    noise: NoiseEstimate  # What the standard errors rest on: the variance of a run unless weighted.
    lenth: Lenth  # Lenth's yardstick for one effect, whether it was used or not.
    aliases: tuple[Alias, ...]  # What the main effects also contain.
    suspicions: tuple[Suspicion, ...]  # Interactions that may be there: reasons not to fix their factors.
    efficiency: Efficiency  # Of the runs that have a result.
    r_squared: float  # Share of the sum of squares that the fitted model explains.
    n_runs: int  # Runs with a result.
    n_missing: int  # Runs without.
    notes: tuple[str, ...]  # What a reader should know before believing, in words.

    def __getitem__(self, factor: str) -> Effect:
        return {effect.factor: effect for effect in self.effects}[factor]

    def text(self, effect: Effect) -> str:
        """An effect in words: ``+12.3 ± 1.1 %`` on log scale, in the response's unit else."""
        if not math.isfinite(effect.effect):
            return "inconclusive"
        value, error, unit = f"{effect.effect:+.4g}", f"{effect.std_err:.2g}", ""
        if self.scale == "log":
            value, unit = f"{100 * math.expm1(effect.effect):+.1f}", " %"
            error = f"{100 * math.exp(effect.effect) * effect.std_err:.1f}"
        return f"{value} ± {error}{unit}" if math.isfinite(effect.std_err) else f"{value}{unit}"
