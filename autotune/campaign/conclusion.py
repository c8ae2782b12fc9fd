"""Conclusions from the history of a campaign, computed once (step 10 of the flow)."""

import math
from dataclasses import dataclass, replace

from autotune.campaign.description import Description
from autotune.campaign.drift import corrected
from autotune.campaign.plan import Plan
from autotune.history.objectives import Envelope, envelope
from autotune.history.trial import History, Phase
from autotune.recommend.front import recommend, recommendations
from autotune.recommend.one_core import on_one_core
from autotune.recommend.recommendation import Checked, Provenance, Recommendation
from autotune.recommend.summary import speedup_interval
from autotune.screening import Effects, ScreeningResult
from autotune.space import Level, Point
from autotune.stacks import dialect
from autotune.verification.choices import Choice, ChoiceKind, choices
from autotune.verification.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Findings of a campaign so far."""

    baseline: Envelope  # The stack's own defaults.
    effects: tuple[Effects, ...]  # The screening's analyses, one for each objective, once it is complete.
    screening: ScreeningResult | None  # What became of its factors.
    verdict: Verdict | None  # What the verification says; None where none was begun.
    recommendation: Recommendation | None
    """The best setting, verified where it was; None before any setting was measured completely."""
    choices: tuple[Choice, ...] = ()  # Settings that may be exported, the recommendation first.

    @property
    def speedup(self) -> tuple[float, tuple[float, float]]:
        """The geometric mean over all sizes, with 95 %: of fresh launches, else of the search."""
        chosen = self.recommendation
        if chosen is None or not chosen.gains:
            return math.nan, (math.nan, math.nan)
        return chosen.speedup, speedup_interval(chosen)

    def against(self, point: Point) -> str:
        """The verification's objection to a setting; empty: none, or it was not launched afresh."""
        rounds = self.verdict.rounds if self.verdict else ()
        return next((r.against for r in reversed(rounds) if r.setting.point == point), "")

    def choice(self, kind: ChoiceKind) -> Choice | None:
        """The choice of a kind; None where there is none, as without a profile of calls."""
        return next((choice for choice in self.choices if choice.kind is kind), None)


@on_one_core()
def conclude(campaign: Description, history: History, date: str) -> Conclusion:
    """The findings of a campaign so far, as of the date of its last launch.

    Raises:
        ScenarioError: a verification with a rate out of its range.
    """
    plan, history = Plan(campaign), corrected(history)
    effects, screening = plan.screening(history) or ((), None)
    verifier, one_row = plan.verifier, dialect(campaign.space.stack).one_row
    verdict = verifier.verdict(history) if verifier and len(history.of(Phase.VERIFY)) else None
    found: Recommendation | None
    if verdict:
        found = verdict.recommendation
    elif verifier:
        found = verifier.best(history)
    else:
        found = recommend(campaign.objectives, campaign.space, history, one_row)
    baseline = envelope(campaign.space, history.of(Phase.BASELINE))
    if found is None:
        return Conclusion(baseline, effects, screening, verdict, None)
    max_loss = campaign.scenario.verify.max_loss
    listed = choices(campaign.space, campaign.objectives, history, found, verdict, one_row, max_loss)
    texts = tuple(choice.text for choice in listed)
    signed = tuple(_signed(campaign, choice, verdict, date, texts) for choice in listed)
    return Conclusion(baseline, effects, screening, verdict, signed[0].recommendation, signed)


def under(campaign: Description, history: History, point: Point, date: str) -> Recommendation | None:
    """The search's recommendation under one job-wide setting; None: it was not measured completely."""
    one_row = dialect(campaign.space.stack).one_row
    listed = recommendations(campaign.objectives, campaign.space, corrected(history), one_row, also=(point,))
    found = next((one for one in listed if one.point == point), None)
    return found and replace(found, provenance=_provenance(campaign, found, date))


def _signed(
    campaign: Description, choice: Choice, verdict: Verdict | None, date: str, texts: tuple[str, ...]
) -> Choice:
    """A choice whose files say where it comes from, how far it was verified, and what else there was."""
    provenance = _provenance(campaign, choice.recommendation, date)
    if choice.kind is ChoiceKind.RECOMMENDED or choice.checked is Checked.HOLDS:
        if verdict:
            provenance = replace(provenance, verified=verdict.text, checked=verdict.checked)
    else:
        provenance = replace(provenance, verified=choice.unverified)
    recommendation = replace(choice.recommendation, provenance=replace(provenance, choices=texts))
    return replace(choice, recommendation=recommendation)


def _provenance(campaign: Description, found: Recommendation, date: str) -> Provenance:
    site = campaign.site
    words = dialect(campaign.space.stack)
    # Where the defaults stay nothing is set, not even what spells out a default.
    ruled = any(rule.sets for rule in found.rules)
    point = found.point if ruled or found.point != campaign.space.untouched else Point()
    env, placement = words.environment(campaign.space, point, {}, site.coll)
    env |= words.needed(site.fixed, env, ruled)
    boot = (p.name for p in campaign.space.job if p.level is Level.BOOT and p.name in point)
    return Provenance(
        campaign=campaign.scenario.title,
        date=date,
        family=campaign.space.stack,
        stack=site.description,
        library=dict(site.findings).get("library", ""),
        nodes=site.nodes,
        ranks=site.ranks,
        stamp=str(site.stamp),
        env=tuple(env.items()),
        placement=tuple(placement.items()),
        both_sides=tuple((name, value) for name, value in site.fixed.items() if name not in env),
        boot=tuple((name, str(point[name])) for name in boot),
    )
