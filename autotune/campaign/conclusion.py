"""What the history of a campaign says, computed once (step 10 of the flow)."""

from dataclasses import dataclass, replace

from autotune.campaign.description import Description
from autotune.campaign.strategy import Strategy
from autotune.history.objectives import Envelope, envelope
from autotune.history.trial import History, Phase
from autotune.recommend.front import Provenance, Recommendation, recommend
from autotune.screening import Effects, ScreeningResult
from autotune.space import Level, Point
from autotune.stacks import dialect
from autotune.verification.rounds import Verdict


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a campaign has found so far."""

    baseline: Envelope
    """The stack's own defaults."""
    effects: tuple[Effects, ...]
    """The screening's analyses, one for each objective; none before it is complete."""
    screening: ScreeningResult | None
    """What became of its factors."""
    verdict: Verdict | None
    """What the verification says; None where none was begun."""
    recommendation: Recommendation | None
    """What was found, after the verification what held; None before any setting was measured completely."""


def conclude(campaign: Description, history: History, date: str) -> Conclusion:
    """What a campaign has found so far.

    Args:
        campaign: What was asked for, and of which space.
        history: All observations.
        date: Of the last launch.

    Raises:
        ScenarioError: a verification with a rate out of its range.
    """
    strategy = Strategy(campaign)
    effects, screening = strategy.screening(history) or ((), None)
    verifier, found = strategy.verifier, None
    verdict = verifier.verdict(history) if verifier and len(history.of(Phase.VERIFY)) else None
    if verdict:
        found = verdict.recommendation
    elif verifier:
        found = verifier.best(history)
    else:
        one_row = dialect(campaign.space.stack).one_row
        found = recommend(campaign.objectives, campaign.space, history, one_row)
    return Conclusion(
        envelope(campaign.space, history.of(Phase.BASELINE)),
        effects,
        screening,
        verdict,
        replace(found, provenance=_provenance(campaign, found, verdict, date)) if found else None,
    )


def _provenance(
    campaign: Description, found: Recommendation, verdict: Verdict | None, date: str
) -> Provenance:
    site = campaign.site
    words = dialect(campaign.space.stack)
    # Where the defaults stay nothing is set, not even what spells out a default.
    point = found.point if found.rules or found.point != campaign.space.untouched else Point()
    env, placement = words.environment(campaign.space, point, {}, site.coll)
    env |= words.needed(site.fixed, env, bool(found.rules))
    boot = (p.name for p in campaign.space.job if p.level is Level.BOOT and p.name in point)
    origin = Provenance(
        campaign=campaign.scenario.title,
        date=date,
        family=campaign.space.stack,
        stack=site.description,
        nodes=site.nodes,
        ranks=site.ranks,
        stamp=str(site.stamp),
        env=tuple(env.items()),
        placement=tuple(placement.items()),
        both_sides=tuple((name, value) for name, value in site.fixed.items() if name not in env),
        boot=tuple((name, str(point[name])) for name in boot),
    )
    return replace(origin, verified=verdict.text, checked=verdict.checked) if verdict else origin
