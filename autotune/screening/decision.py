"""The decision after a screening: which factors stay in the search, and which are fixed at one level.

Place in the flow of ``autotune/__init__.py``: step 3, screening.

The rule (docs/screening.md, "The decision") prefers errors that cost launches over errors that cost
performance. A factor that matters is *active* and stays in the search. A factor that may matter is
*undecided* and also stays in the search. A factor that does not matter is *inert*: it is fixed at the level
that was better over all objectives (in standard errors), however small the difference, because both levels
cost the same. Each decision is recorded with its reason, and the search may vary a fixed factor again.
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

Goal = Literal["min", "max"]  # Whether smaller or larger values of a response are better.

Verdict = Literal["active", "undecided", "inert"]
_PRECEDENCE: Sequence[Verdict] = ("active", "undecided", "inert")
"""Verdicts by precedence: if responses lead to different verdicts on a factor, the first of these applies."""


@dataclass(frozen=True, slots=True)
class FactorDecision:
    """The decision whether one factor stays in the search or is fixed."""

    factor: str
    verdict: Verdict  # Inert factors are fixed; all other factors stay in the search.
    value: Value  # The level that was better over all objectives.
    reason: str  # Reason for the verdict, in words for the user.


@dataclass(frozen=True, slots=True)
class ScreeningResult:
    """The decisions on all factors of a screening."""

    decisions: tuple[FactorDecision, ...]  # One decision for each factor, in the order of the factors.

    @property
    def active(self) -> tuple[str, ...]:
        """Return the names of the factors that stay in the search, undecided ones included."""
        return tuple(d.factor for d in self.decisions if d.verdict != "inert")

    @property
    def fixed(self) -> dict[str, Value]:
        """Map the name of each fixed factor to the value at which it is fixed."""
        return {d.factor: d.value for d in self.decisions if d.verdict == "inert"}

    @property
    def reasons(self) -> dict[str, str]:
        """Map the name of each factor to the reason for its verdict."""
        return {d.factor: d.reason for d in self.decisions}


def screened(
    factors: Sequence[Factor], analyses: Sequence[Effects], goals: Mapping[str, Goal]
) -> ScreeningResult:
    """Decide on every factor by the rule of this module.

    ``analyses`` contains the analysis of each response, ``goals`` maps the name of each response to its goal.

    Raises:
        UserError: a response has no goal, or there is no response at all.
    """
    if not analyses:
        raise UserError("nothing was analysed, so no factor can be judged")
    for analysis in analyses:
        if (goal := goals.get(analysis.response)) not in ("min", "max"):
            raise UserError(f"response {analysis.response!r} has the goal {goal!r}", "goals: min, max")
    return ScreeningResult(tuple(_decision(factor, analyses, goals) for factor in factors))


def _decision(factor: Factor, analyses: Sequence[Effects], goals: Mapping[str, Goal]) -> FactorDecision:
    """Return the decision on a factor from the analyses of all responses."""
    advantage = 0.0  # Number of standard errors by which the high level is better than the low level.
    for analysis in analyses:
        effect = analysis[factor.name]
        if math.isfinite(effect.effect) and effect.std_err > 0:
            ratio = effect.effect / effect.std_err
            advantage += ratio if goals[analysis.response] == "max" else -ratio
    better = factor.high if advantage > 0 else factor.low
    verdicts = [_verdict(factor, analysis) for analysis in analyses]
    verdict = min((by_response for by_response, _ in verdicts), key=_PRECEDENCE.index)
    reasons = [reason for by_response, reason in verdicts if by_response == verdict]
    if verdict == "inert":
        reasons.append(f"{better} was the better level")
    return FactorDecision(factor.name, verdict, better, "; ".join(reasons))


def _verdict(factor: Factor, analysis: Effects) -> tuple[Verdict, str]:
    """Return the verdict that one response alone suggests for a factor, and the reason in words."""
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
    suspected = [suspicion for suspicion in analysis.suspicions if factor.name in suspicion.factors]
    if suspected:
        pair, p_value = "×".join(suspected[0].factors), suspected[0].p_value
        return "undecided", f"{size}, but {pair} may explain what main effects do not (p = {p_value:.2g})"
    if factor.centre is not None and analysis.curvature is not None and analysis.curvature.active:
        return "undecided", f"{size}, but the centre points differ and it may be what bends"
    return "inert", size


def _hiding(factor: str, analysis: Effects) -> str:
    """Name the interactions of active factors that may hide a factor's main effect; empty if none may."""
    active = {effect.factor for effect in analysis.effects if effect.active}
    return ", ".join(
        alias.label
        for alias in analysis.aliases
        if alias.factor == factor
        and abs(alias.coefficient) >= RULE.hiding
        and len(alias.interaction) == 2
        and active.issuperset(alias.interaction)
    )
