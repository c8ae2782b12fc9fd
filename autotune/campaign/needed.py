"""Estimate the launches and the time that a verdict still needs, and give a campaign that much.

For a verdict a loss of ``margin`` has to be excluded at every size, and a gain shown. Both depend on how much
launches of one setting differ. σ is the standard deviation of ln of the time; that of the difference of two
launches is √2 σ.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autotune.campaign.estimate import granted_s, remaining_s
from autotune.campaign.noise import measured_spread
from autotune.campaign.plan import SETTINGS_PER_HEAT, Plan
from autotune.campaign.same_moment import at_one_moment
from autotune.campaign.spec import CampaignSpec
from autotune.campaign.time_left import expected_s, verified_s
from autotune.history.events import State
from autotune.history.trial import History, Phase
from autotune.measure.launch_spread import LAUNCH_SPREAD
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.scenario import Scenario, defaults
from autotune.verification.deployed import deploys
from autotune.verification.one_round import VerificationRound
from autotune.verification.planned import critical
from autotune.verification.sequential import IN_HEATS, SequentialDesign
from autotune.verification.verdict import POWER, Verdict

USED_UP = "its budget is used up without a verdict"
"""Reason in the journal for the end of a run that its budget ended."""
_USED_UP = (USED_UP, "no time is left", "the budget ended before")
"""Beginnings of all such reasons: that of earlier versions, and that of a search without a result, too."""
_SPARE = 1.2  # Factor on the estimated time that a continued campaign gets: launches may take longer.


@dataclass(frozen=True, slots=True)
class Need:
    """Hold what the best setting that is not verified yet needs for a verdict."""

    setting: Recommendation | None  # The setting; None: the search has found nothing to verify yet.
    fresh: VerificationRound | None  # Its last round on fresh launches; None: none could be compared yet.
    spread: float  # σ, as measured here or on recorded machines.
    subject: str  # The launches that differ by σ, as the subject of a sentence.
    had: int  # Number of timed launches of the setting so far.
    launches: int  # Number of launches of the setting that are expected to suffice.
    seconds: float  # Expected time until the verdict, in seconds; infinite before any launch.
    verify_launches: int | None = None
    """Value of ``verify.launches`` that allows that many launches; None: the present value does."""


def asking(campaign: CampaignSpec) -> CampaignSpec:
    """Return the campaign with a verification, also if the user has disabled it."""
    verify = campaign.scenario.verify
    launches = verify.launches or int(defaults()["verify"]["launches"])
    return replace(
        campaign, scenario=replace(campaign.scenario, verify=replace(verify, enabled=True, launches=launches))
    )


def expected_spread(history: History) -> tuple[float, str]:
    """Return σ, as a campaign has measured it or as on recorded machines, and the launches that it is of."""
    return measured_spread(history) or (LAUNCH_SPREAD.usual_sd, "launches, as on recorded machines,")


def needed(
    campaign: CampaignSpec, history: History, verdict: Verdict | None, complete: bool = False
) -> Need | None:
    """Return what a verdict still needs; None if a setting is verified, or more launches decide nothing.

    Args:
        campaign: The campaign's description.
        history: All of its observations.
        verdict: The result of the verification so far; None before its first launch.
        complete: Whether the search is known to be over.

    Raises:
        ScenarioError: an error rate of the verification is outside of its range.
    """
    plan, comparable = Plan(asking(campaign)), at_one_moment(history)
    leading = verdict.leading if verdict else None
    holds = verdict is not None and verdict.checked is Checked.HOLDS
    if plan.verifier is None or holds or (verdict and verdict.complete and leading is None):
        return None
    spread = sigma, subject = expected_spread(history)
    design = plan.verifier.design
    setting = verdict.recommendation if verdict else plan.verifier.best(comparable)
    if setting is None or (leading is None and not deploys(campaign.space, setting)):
        search = comparable.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)
        if complete or campaign.scenario.budget.launches <= len(search):
            return None  # the search is over, and has found nothing to verify
        limited = unlimited(campaign) if used_up(campaign, history) else campaign  # goes on with what it has
        return Need(None, None, *spread, 0, 0, remaining_s(limited, history))
    had, verify_launches = 0, None
    if leading is None or (total := leading.total) is None:
        gain, sd = math.log(max(setting.speedup, 1.0)), math.sqrt(2) * sigma
        count = max(_to_show(design, gain, sd), design.launches_to_exclude(gain - design.hidden, sd, POWER))
        count = min(count, design.longest)
    else:
        setting, had = leading.setting, total.launches
        shown = had if leading.gains else _to_show(design, total.gain, total.sem * math.sqrt(had))
        count = max(shown, verdict.launches_needed(leading) if verdict else 0.0)
        if verdict and verdict.complete:  # it had as many launches as the design allows, or seemed hopeless
            if not count <= design.most:
                return None
            count = max(count, had + 1)
            verify_launches = math.ceil(count / (IN_HEATS if design.heats else 1))
        elif leading.complete:  # only launches that time nothing are missing
            count = had
        else:
            count = min(count, design.longest) if count > 0 else design.longest
            count = max(count, had + design.each, design.setting_launches)
    launches = math.ceil(count)
    fresh_s = verified_s(comparable, campaign)
    starts = max(design.starts - len(comparable.of(Phase.STARTS)), 0)
    start_s = max(fresh_s - campaign.scenario.probe.budget_s, 0.0)
    seconds = 2 * (launches - had) * fresh_s + starts * start_s if fresh_s else math.inf
    return Need(setting, leading, sigma, subject, had, launches, seconds, verify_launches)


def _to_show(design: SequentialDesign, gain: float, difference_sd: float) -> float:
    """Return the number of launches of a setting that show a gain on the whole; infinite if none suffices.

    ``difference_sd`` is the standard deviation of the difference between a launch of the setting and one of
    the defaults, in ln of the time.
    """
    counts = np.arange(design.setting_launches, design.most + 1, dtype=np.float64)
    shown = counts[critical(counts, design.gain_alpha) * difference_sd / np.sqrt(counts) <= gain]
    return float(shown[0]) if len(shown) else math.inf


def used_up(campaign: CampaignSpec, history: History) -> bool:
    """Whether the budgets of all phases leave no block of the verification, or not even a launch."""
    plan, budget = Plan(campaign), campaign.scenario.budget
    block = 2 * plan.verifier.design.each if plan.verifier else 1
    if budget.total_launches is not None:
        at_once = block if campaign.heats else 1
        if len(history) + at_once > budget.total_launches:
            return True
    comparable = at_one_moment(history)
    at_once = SETTINGS_PER_HEAT if campaign.heats else 1
    search_s = at_once * expected_s(comparable, campaign.scenario)
    left_s = granted_s(plan, history, _spent_s(history))
    return left_s < max(search_s, block * verified_s(comparable, campaign))


def ended_by_budget(event: Mapping[str, Any]) -> bool:
    """Whether an event of the journal says that a run ended well, or because its budget was used up."""
    ended_well = event.get("state") == State.COMPLETE
    return event["event"] == "ended" and (ended_well or str(event.get("reason", "")).startswith(_USED_UP))


def extended(campaign: CampaignSpec, history: History, need: Need) -> Scenario:
    """Return the campaign's scenario with budgets that suffice for what a verdict still needs.

    A budget that suffices already, or that is not set, stays as it is.
    """
    asked, budget = asking(campaign).scenario, campaign.scenario.budget
    more_s = math.ceil(_SPARE * need.seconds) if math.isfinite(need.seconds) else 0
    nodes, more = max(campaign.bench.nodes, 1), 2 * max(need.launches - need.had, 0)
    if budget.total_seconds is not None:
        total_s = math.ceil(_spent_s(history)) + more_s
        budget = replace(budget, total_seconds=max(budget.total_seconds, float(total_s)))
    if budget.node_hours is not None:
        hours = (sum(o.duration_s for o in history) + more_s) * nodes / 3600
        budget = replace(budget, node_hours=max(budget.node_hours, round(hours, 4)))
    if budget.total_launches is not None:
        verifier = Plan(asking(campaign)).verifier
        if verifier is not None and need.setting is None:  # the search, too, with the defaults beside each
            more = 2 * (budget.launches + verifier.design.setting_launches)
        count = len(history) + more + (verifier.design.starts if verifier else 0)
        budget = replace(budget, total_launches=max(budget.total_launches, count))
    verify = asked.verify
    if need.verify_launches is not None:
        verify = replace(verify, launches=max(verify.launches, need.verify_launches))
    return replace(asked, budget=budget, verify=verify)


def unlimited(campaign: CampaignSpec) -> CampaignSpec:
    """Return the campaign without limits on all of its phases together."""
    budget = replace(
        campaign.scenario.budget, total_seconds=None, node_hours=None, total_launches=None, until=None
    )
    return replace(campaign, scenario=replace(campaign.scenario, budget=budget))


def _spent_s(history: History) -> float:
    """Return the seconds that a campaign has used, as its loop counts them."""
    return sum(o.took_s for o in history)
