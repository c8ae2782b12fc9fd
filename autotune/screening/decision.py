"""Which factors a screening keeps and which it fixes (step 3 of the flow).

The rule (docs/screening.md, "The decision") is made so that a wrong decision costs launches rather than
performance: an *active* factor stays; one that may yet matter stays as *undecided*; an *inert* one is fixed
at the level that was better over all objectives (in standard errors), whichever that is: at equal cost the
better estimate is the better bet. It is not lost: its reason stays with it, and the search may free it again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from autotune.errors import UserError
from autotune.screening.design import Factor
from autotune.screening.effects import Effects
from autotune.screening.model import RULE
from autotune.space import Value

Goal = Literal["min", "max"]  # What is better of a response.

Verdict = Literal["active", "undecided", "inert"]
_FIRST: Sequence[Verdict] = ("active", "undecided", "inert")
"""The first of these that a response leads to is the factor's."""


@dataclass(frozen=True, slots=True)
class FactorDecision:
    """Decision on one factor."""

    factor: str  # Its name.
    verdict: Verdict  # ``inert`` factors are fixed, the others stay in the search.
    value: Value  # The level that was better over all objectives.
    reason: str  # Why, for the user.


@dataclass(frozen=True, slots=True)
class ScreeningResult:
    """Decisions on all factors."""

    decisions: tuple[FactorDecision, ...]  # In the order of the factors.

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
        if (goal := goals.get(analysis.response)) not in ("min", "max"):
            raise UserError(f"response {analysis.response!r} has the goal {goal!r}", "goals: min, max")
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
    verdict = min((its for its, _ in judged), key=_FIRST.index)
    reasons = [reason for its, reason in judged if its == verdict]
    if verdict == "inert":
        reasons.append(f"{better} was the better level")
    return FactorDecision(factor.name, verdict, better, "; ".join(reasons))


def _judge(factor: Factor, analysis: Effects) -> tuple[Verdict, str]:
    effect = analysis[factor.name]
    size = f"{analysis.response}: {analysis.text(effect)} (p = {effect.p_value:.2g})"
    if not math.isfinite(effect.p_value):
        return "undecided", f"{analysis.response}: the runs cannot estimate its effect"
    threshold = RULE.negligible if analysis.scale == "log" else RULE.negligible * abs(analysis.mean)
    matters = abs(effect.effect) > threshold
    hiding = _hiding(factor.name, analysis)
    if matters and effect.active:
        return "active", f"{size}, or that of {hiding}" if hiding else size
    if min(effect.n_low, effect.n_high) < RULE.min_results:
        return "undecided", f"{size}, but a level has fewer than {RULE.min_results} results"
    if matters and abs(effect.effect) > RULE.leading * effect.std_err:
        return "undecided", f"{size}, too large to call noise"
    if abs(effect.effect_optimistic) > threshold and effect.p_optimistic < analysis.alpha:
        return "undecided", f"{size}, but significant without one of the runs or against replicates alone"
    if hiding:
        return "undecided", f"{size}, but {hiding} may hide it (a foldover would show it)"
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
        and abs(alias.coefficient) >= RULE.hiding
        and len(alias.interaction) == 2
        and active.issuperset(alias.interaction)
    )
