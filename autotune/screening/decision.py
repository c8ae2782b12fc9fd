"""Which factors a screening keeps and which it fixes (step 3 of the flow).

The rule, made so that a wrong decision costs launches rather than performance:

1. A factor is *active*, and stays, when its effect on any objective is significant and not negligible.
2. It stays as *undecided* when it may yet matter: its effect cannot be estimated; one of its levels has
   fewer than three results; its estimate is not negligible and larger than 1.28 standard errors; it would be
   significant without one of the runs (one noisy run must not hide an effect) or against replicates alone; it
   is aliased, with a coefficient of at least one half, with the interaction of two active factors, which may
   hide it; an interaction of it would explain what the main effects do not; or the centre points show
   curvature, which may be that of any factor with something between its levels.
3. Otherwise it is *inert* and fixed at the level that was better over all objectives (in standard errors),
   whichever that is: at equal cost the better estimate is the better bet.

A fixed factor is not lost: its reason stays with it, and the search may free it again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from autotune.errors import UserError
from autotune.screening.design import Factor
from autotune.screening.effects import Effects
from autotune.screening.suspicion import LEADING_RATIO
from autotune.space import Value

Goal = Literal["min", "max"]
"""What is better of a response."""

Verdict = Literal["active", "undecided", "inert"]

_MIN_RESULTS = 3
_HIDING = 0.5
_NEGLIGIBLE = 0.01
"""The relative change of a response that nobody would tune for."""


@dataclass(frozen=True, slots=True)
class FactorDecision:
    """What becomes of one factor."""

    factor: str
    """Its name."""
    verdict: Verdict
    """``inert`` factors are fixed, the others stay in the search."""
    value: Value
    """The level that was better over all objectives."""
    reason: str
    """Why, for the user."""


@dataclass(frozen=True, slots=True)
class ScreeningResult:
    """What becomes of all factors."""

    decisions: tuple[FactorDecision, ...]
    """In the order of the factors."""

    @property
    def active(self) -> tuple[str, ...]:
        """Factors that stay in the search, undecided ones included."""
        return tuple(d.factor for d in self.decisions if d.verdict != "inert")

    @property
    def fixed(self) -> dict[str, Value]:
        """The value of each factor that leaves the search."""
        return {d.factor: d.value for d in self.decisions if d.verdict == "inert"}

    @property
    def reasons(self) -> dict[str, str]:
        """Why, for each factor."""
        return {d.factor: d.reason for d in self.decisions}


def screened(
    factors: Sequence[Factor], analyses: Sequence[Effects], goals: Mapping[str, Goal]
) -> ScreeningResult:
    """Decide on every factor, by the rule above, from the analysis and the goal of each response.

    Raises:
        UserError: a response without a goal, or no response at all.
    """
    if not analyses:
        raise UserError("nothing was analysed, so no factor can be judged")
    for analysis in analyses:
        if goals.get(analysis.response) not in ("min", "max"):
            raise UserError(
                f"response {analysis.response!r} has the goal {goals.get(analysis.response)!r}",
                "goals: min, max",
            )
    return ScreeningResult(tuple(_decision(factor, analyses, goals) for factor in factors))


def _decision(factor: Factor, analyses: Sequence[Effects], goals: Mapping[str, Goal]) -> FactorDecision:
    advantage = 0.0  # of the high level, in standard errors
    for analysis in analyses:
        effect = analysis[factor.name]
        if math.isfinite(effect.effect) and effect.std_err > 0:
            ratio = effect.effect / effect.std_err
            advantage += ratio if goals[analysis.response] == "max" else -ratio
    better = factor.high if advantage > 0 else factor.low
    judged = [_judge(factor, analysis) for analysis in analyses]
    for verdict in ("active", "undecided"):
        reasons = [reason for its, reason in judged if its == verdict]
        if reasons:
            return FactorDecision(factor.name, verdict, better, "; ".join(reasons))
    reasons = [reason for _, reason in judged]
    return FactorDecision(
        factor.name, "inert", better, f"{'; '.join(reasons)}; {better} was the better level"
    )


def _judge(factor: Factor, analysis: Effects) -> tuple[Verdict, str]:
    effect = analysis[factor.name]
    size = f"{analysis.response}: {analysis.text(effect)} (p = {effect.p_value:.2g})"
    if not math.isfinite(effect.p_value):
        return "undecided", f"{analysis.response}: the runs cannot tell its effect"
    threshold = _NEGLIGIBLE if analysis.scale == "log" else _NEGLIGIBLE * abs(analysis.mean)
    matters = abs(effect.effect) > threshold
    hiding = _hiding(factor.name, analysis)
    if matters and effect.active:
        return "active", f"{size}, or that of {hiding}" if hiding else size
    if min(effect.n_low, effect.n_high) < _MIN_RESULTS:
        return "undecided", f"{size}, but a level has fewer than {_MIN_RESULTS} results"
    if matters and abs(effect.effect) > LEADING_RATIO * effect.std_err:
        return "undecided", f"{size}, too large to call noise"
    if abs(effect.effect_optimistic) > threshold and effect.p_optimistic < analysis.alpha:
        return "undecided", f"{size}, but significant without one of the runs or against replicates alone"
    if hiding:
        return "undecided", f"{size}, but {hiding} may hide it (a foldover would tell)"
    suspected = [its for its in analysis.suspicions if factor.name in its.factors]
    if suspected:
        what, p_value = "×".join(suspected[0].factors), suspected[0].p_value
        return "undecided", f"{size}, but {what} may explain what main effects do not (p = {p_value:.2g})"
    if factor.centre is not None and analysis.curvature is not None and analysis.curvature.active:
        return "undecided", f"{size}, but the centre points differ and it may be what bends"
    return "inert", size


def _hiding(factor: str, analysis: Effects) -> str:
    """The interactions of two active factors that a main effect is largely mixed up with, as text."""
    active = {effect.factor for effect in analysis.effects if effect.active}
    return ", ".join(
        alias.label
        for alias in analysis.aliases
        if alias.factor == factor
        and abs(alias.coefficient) >= _HIDING
        and len(alias.interaction) == 2
        and active.issuperset(alias.interaction)
    )
