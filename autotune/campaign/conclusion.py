"""Compute everything that the history of a campaign shows, in one place (data flow: recommend)."""

import math
from dataclasses import dataclass, replace

from autotune.campaign.plan import Plan
from autotune.campaign.same_moment import at_one_moment
from autotune.campaign.spec import CampaignSpec
from autotune.history.objectives import Envelope, envelope
from autotune.history.trial import History, Phase
from autotune.recommend.front import recommend, recommendations
from autotune.recommend.one_core import on_one_core
from autotune.recommend.recommendation import Checked, Provenance, Recommendation
from autotune.recommend.summary import speedup_interval
from autotune.scenario import COMMUTATIVE
from autotune.screening import Effects, ScreeningResult
from autotune.space import Level, Point
from autotune.stacks import dialect
from autotune.verification.choices import Choice, ChoiceKind, choices
from autotune.verification.one_round import last_round
from autotune.verification.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Hold what the history of a campaign shows so far."""

    baseline: Envelope  # Times of the stack's own defaults, by (collective, ranks, message size).
    effects: tuple[Effects, ...]
    """The screening's analyses, one for each objective; empty until the screening is complete."""
    screening: ScreeningResult | None  # The decision on each factor; None until the screening is complete.
    verdict: Verdict | None  # The result of the verification; None before its first launch.
    recommendation: Recommendation | None
    """The best setting, with the result of the verification if one has run; None until some setting was
    measured at all sizes."""
    choices: tuple[Choice, ...] = ()  # Settings that may be exported, the recommendation first.

    @property
    def speedup(self) -> tuple[float, tuple[float, float]]:
        """Return the geometric mean of the speed-ups over all sizes, and its 95 % interval.

        The values come from fresh launches (made for the verification) if there are any, else from the
        search. All values are NaN if there is no recommendation, or if it has no gains.
        """
        recommended = self.recommendation
        if recommended is None or not recommended.gains:
            return math.nan, (math.nan, math.nan)
        return recommended.speedup, speedup_interval(recommended)

    def against(self, point: Point) -> str:
        """Return the verification's objection to a setting.

        The result is empty if there is no objection, or if the verification did not launch the setting.
        """
        last = last_round(self.verdict.rounds if self.verdict else (), point)
        return last.against if last else ""

    @property
    def harmless(self) -> Recommendation | None:
        """Return the best verified setting that slows down none of the calls for which it was not tuned.

        Return None if there is no such setting.
        """
        choice = self.choice(ChoiceKind.HARMLESS)
        return None if choice is None else choice.recommendation

    def choice(self, kind: ChoiceKind) -> Choice | None:
        """Return the choice of a kind; None if there is none.

        There is a choice by profile only if the user gave a profile of calls. The recommendation is also the
        harmless choice, unless it slows down calls for which it was not tuned.
        """
        match = next((choice for choice in self.choices if choice.kind is kind), None)
        if match is None and kind is ChoiceKind.HARMLESS and self.choices and not self.choices[0].harms:
            return self.choices[0]
        return match


@on_one_core()
def conclude(campaign: CampaignSpec, history: History, date: str) -> Conclusion:
    """Return the findings of a campaign so far.

    Args:
        campaign: The campaign's description.
        history: All of its observations.
        date: ISO date of the last launch, for the provenance of exported files.

    Raises:
        ScenarioError: an error rate of the verification is outside of its range.
    """
    plan, history = Plan(campaign), at_one_moment(history)
    effects, screening = plan.screening(history) or ((), None)
    verifier, one_row = plan.verifier, dialect(campaign.space.stack).one_row
    verdict = verifier.verdict(history) if verifier and len(history.of(Phase.VERIFY)) else None
    best: Recommendation | None
    if verdict:
        best = verdict.recommendation
    elif verifier:
        best = verifier.best(history)
    else:
        best = recommend(campaign.objectives, campaign.space, history, one_row)
    baseline = envelope(campaign.space, history.of(Phase.BASELINE))
    if best is None:
        return Conclusion(baseline, effects, screening, verdict, None)
    max_loss = campaign.scenario.verify.max_loss
    listed = choices(campaign.space, campaign.objectives, history, best, verdict, one_row, max_loss)
    texts = tuple(choice.text for choice in listed)
    signed = tuple(_signed(campaign, choice, verdict, date, texts) for choice in listed)
    return Conclusion(baseline, effects, screening, verdict, signed[0].recommendation, signed)


def under(campaign: CampaignSpec, history: History, point: Point, date: str) -> Recommendation | None:
    """Return the search's recommendation with one job-wide setting; None if that setting was not measured."""
    one_row = dialect(campaign.space.stack).one_row
    comparable = at_one_moment(history)
    listed = recommendations(campaign.objectives, campaign.space, comparable, one_row, also=(point,))
    match = next((candidate for candidate in listed if candidate.point == point), None)
    return match and replace(match, provenance=_provenance(campaign, match, date))


def _signed(
    campaign: CampaignSpec, choice: Choice, verdict: Verdict | None, date: str, texts: tuple[str, ...]
) -> Choice:
    """Return a choice with the provenance that its files name: origin, verification and other choices."""
    provenance = _provenance(campaign, choice.recommendation, date)
    if choice.kind is ChoiceKind.HARMLESS and verdict:
        verdict = verdict.harmless or verdict
    if choice.kind is ChoiceKind.RECOMMENDED or choice.checked is Checked.HOLDS:
        if verdict:
            told = replace(provenance, verified=verdict.text, verdict=verdict.lines)
            provenance = replace(told, checked=verdict.checked)
    else:
        provenance = replace(provenance, verified=choice.unverified)
    recommendation = replace(choice.recommendation, provenance=replace(provenance, choices=texts))
    return replace(choice, recommendation=recommendation)


def _provenance(campaign: CampaignSpec, recommended: Recommendation, date: str) -> Provenance:
    bench = campaign.bench
    words = dialect(campaign.space.stack)
    # If the defaults are recommended, nothing is set, not even a parameter that only repeats a default.
    ruled = any(rule.sets for rule in recommended.rules)
    point = recommended.point if ruled or recommended.point != campaign.space.untouched else Point()
    env, placement = words.environment(campaign.space, point, {}, bench.coll)
    env |= words.needed(bench.fixed, env, ruled)
    boot = (p.name for p in campaign.space.job if p.level is Level.BOOT and p.name in point)
    return Provenance(
        campaign=campaign.scenario.title,
        date=date,
        family=campaign.space.stack,
        stack=bench.description,
        library=dict(bench.findings).get("library", ""),
        mpirun=dict(bench.findings).get("mpirun", "").rpartition(" (")[0],
        nodes=bench.nodes,
        ranks=bench.ranks,
        commutative=campaign.scenario.operations == COMMUTATIVE,
        stamp=str(bench.stamp),
        env=tuple(env.items()),
        placement=tuple(placement.items()),
        both_sides=tuple((name, value) for name, value in bench.fixed.items() if name not in env),
        boot=tuple((name, str(point[name])) for name in boot),
    )
