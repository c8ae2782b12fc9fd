"""Ask four questions about a campaign's health, each with its answer, the facts, and what to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.campaign.conclusion import Conclusion
from autotune.campaign.needed import needed
from autotune.campaign.noise import Remark, interference, measured_spread, resolution
from autotune.campaign.spec import BenchKind, CampaignSpec
from autotune.history.trial import History
from autotune.recommend.recommendation import Recommendation
from autotune.space import Parameter
from autotune.verification.one_round import fresh_launches, launches_behind
from autotune.views.text import about_text

_INSIDE = 3  # Least number of values of a scale that has a value which is not at an edge.


@dataclass(frozen=True, slots=True)
class Health:
    """Hold one question about a campaign with its answer."""

    question: str
    well: bool | None  # Whether the answer is yes; None: not known.
    state: str = ""  # The facts from which the answer follows.
    fix: str = ""  # What to do if the answer is no.

    @property
    def answer(self) -> str:
        """Return the answer in a word or two."""
        return {True: "yes", False: "no", None: "not known"}[self.well]


def health(
    campaign: CampaignSpec, history: History, conclusion: Conclusion, complete: bool
) -> tuple[Health, ...]:
    """Return the questions about a campaign so far; none about a recorded table, which nobody measures again.

    ``complete`` says whether the campaign is over.
    """
    if campaign.bench.stamp.kind is BenchKind.REPLAYED:
        return ()
    spread = measured_spread(history)
    return (
        _remarked("Was it quiet?", interference(history)),
        _remarked("Are launches repeatable enough?", resolution(campaign, *spread) if spread else None),
        _enough(campaign, history, conclusion, complete),
        _inside(campaign.whole.job, conclusion.recommendation),
    )


def _remarked(question: str, remark: Remark | None) -> Health:
    if remark is None:
        return Health(question, None, "not measured")
    return Health(question, not remark.grave, remark.finding, remark.fix)


def _enough(campaign: CampaignSpec, history: History, conclusion: Conclusion, complete: bool) -> Health:
    question, recommendation, verdict = "Enough launches?", conclusion.recommendation, conclusion.verdict
    if recommendation is not None and recommendation.provenance.checked.done:
        rounds = verdict.rounds if verdict else ()
        behind = launches_behind(rounds, recommendation.point) or fresh_launches(rounds)
        return Health(question, True, f"{behind} fresh launches decided")
    need = needed(campaign, history, verdict, complete)
    if need is None:
        return Health(question, None, "more launches would decide nothing")
    if need.setting is None:
        return Health(question, False, "the search is not over", "let it go on")
    state = f"{need.had} of about {need.launches} launches of the leading setting"
    return Health(question, False, state, f"go on for {about_text(need.seconds) or 'some time'}")


def _inside(parameters: Sequence[Parameter], recommendation: Recommendation | None) -> Health:
    question = "Best values inside their ranges?"
    if recommendation is None:
        return Health(question, None)
    at_edge = [
        f"{p.name}={value} is the {'smallest' if value == p.scale[0] else 'largest'} that was tried"
        for p in parameters
        if (value := recommendation.point.get(p.name)) not in (None, p.default)
        and len(p.scale) >= _INSIDE
        and value in (p.scale[0], p.scale[-1])
    ]
    fix = "add values beyond it to the search space" if at_edge else ""
    return Health(question, not at_edge, "; ".join(at_edge) or "none is at an edge", fix)
