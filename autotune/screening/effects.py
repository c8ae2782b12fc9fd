"""Main effects of factors on one response, as ``analysis.analyse`` estimates them.

Place in the flow of ``autotune/__init__.py``: step 3, screening.

Notation: the *effect* of a factor is the mean response at its high level minus the mean response at its low
level, all else being equal. On log scale the effect is a difference of logarithms, so that ``exp(effect)`` is
the ratio of the responses. In a balanced design the effect is the plain difference of two means.
"""

import math
from dataclasses import dataclass
from typing import Literal

from autotune.screening.alias import Alias, Efficiency
from autotune.screening.model import RULE
from autotune.screening.noise import Lenth, NoiseEstimate
from autotune.space import Value

Scale = Literal["linear", "log"]  # Scale on which responses are compared.


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one factor on one response, with its test."""

    factor: str
    low: Value
    high: Value
    effect: float
    """Mean at the high level minus mean at the low level, on the scale of the analysis; nan if not
    estimable."""
    std_err: float  # Standard error of the effect; nan if not estimable.
    df: float  # Degrees of freedom of the standard error.
    p_value: float  # Two-sided p-value of the hypothesis that there is no effect.
    p_optimistic: float
    """Smallest p-value of the alternative analyses, which leave out any single run or take the noise from
    replicates alone."""
    effect_optimistic: float  # The effect in the alternative analysis with the smallest p-value.
    contribution: float
    """Percentage of the response's sum of squares about its mean that this factor explains."""
    active: bool  # Whether the p-value is below the significance level of the analysis.
    half_normal: float
    """Half-normal score: the size, in standard errors, that is expected of the effect with this rank if no
    factor matters."""
    n_low: int  # Number of runs with a result at the low level.
    n_high: int  # Number of runs with a result at the high level.

    def interval(self) -> tuple[float, float]:
        """Return the 95 % confidence interval of the effect; infinite if the effect is not estimable."""
        from scipy import stats

        if not math.isfinite(self.std_err):
            return (-math.inf, math.inf)
        half = float(stats.t.ppf(1 - RULE.alpha / 2, self.df)) * self.std_err if self.std_err else 0.0
        return (self.effect - half, self.effect + half)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A two-factor interaction that the residuals suggest but do not prove."""

    factors: tuple[str, str]  # The two factors; at least one of them seems to have a main effect.
    p_value: float
    """p-value of the hypothesis that the two factors do not interact, multiplied by the number of tested
    interactions (Bonferroni); no other factors are assumed to interact."""


@dataclass(frozen=True, slots=True)
class BlockEffect:
    """Difference of one block from the mean of all blocks."""

    block: int | str
    effect: float  # The difference, on the scale of the analysis.
    std_err: float  # Standard error of the difference.


@dataclass(frozen=True, slots=True)
class Effects:
    """The analysis of one response, as ``analysis.analyse`` returns it."""

    response: str  # Name of the response.
    scale: Scale  # Scale of all effects and means of the analysis.
    alpha: float  # Significance level at which an effect is ``active``.
    mean: float  # Mean of the response over the design if all blocks and levels had the same number of runs.
    effects: tuple[Effect, ...]  # The main effects, in the order of the design's factors.
    blocks: tuple[BlockEffect, ...]  # Differences between blocks; empty if there is only one block.
    curvature: Effect | None
    """Mean of the centre points minus mean of the corners, as an effect whose levels are words; None if there
    are no centre points."""
    noise: NoiseEstimate
    """Variance on which the standard errors are based; it is the variance of one run unless runs are
    weighted."""
    lenth: Lenth
    """Lenth's margins of error for the effects, which are computed even if the tests do not use them."""
    aliases: tuple[Alias, ...]  # Interactions that the estimates of the main effects also contain.
    suspicions: tuple[Suspicion, ...]
    """Interactions that the residuals suggest; their factors should not be fixed."""
    efficiency: Efficiency  # Efficiency of the design that consists of the runs with a result.
    r_squared: float  # Share of the sum of squares that the fitted model explains.
    n_runs: int
    n_missing: int  # Number of runs without a result.
    notes: tuple[str, ...]  # Sentences for a report that limit what the estimates mean.

    def __getitem__(self, factor: str) -> Effect:
        return {effect.factor: effect for effect in self.effects}[factor]

    def text(self, effect: Effect) -> str:
        """Return an effect as text: ``+12.3 ± 1.1 %`` on log scale, otherwise in the response's unit."""
        if not math.isfinite(effect.effect):
            return "inconclusive"
        value, error, unit = f"{effect.effect:+.4g}", f"{effect.std_err:.2g}", ""
        if self.scale == "log":
            value, unit = f"{100 * math.expm1(effect.effect):+.1f}", " %"
            error = f"{100 * math.exp(effect.effect) * effect.std_err:.1f}"
        return f"{value} ± {error}{unit}" if math.isfinite(effect.std_err) else f"{value}{unit}"
