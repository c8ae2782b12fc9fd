"""When a campaign will end, by what is planned and how long its launches take (steps 4 to 11 of the flow)."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from autotune.campaign.description import Description, SiteKind
from autotune.campaign.discovery import Discovery
from autotune.campaign.plan import Plan
from autotune.campaign.strategy import Strategy
from autotune.campaign.time_left import FEW, RECENT, TimeLeft, expected_s, verified_s
from autotune.history.trial import History, Phase

_SEARCHING = (Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)
Took = Mapping[Phase, Sequence[float]]
"""Seconds of wall time that each launch of a phase took, with what was computed and written around it."""


def seconds_left(
    plan: Plan, discovery: Discovery | None, history: History, took: Took, time: TimeLeft, total_s: float
) -> float:
    """Estimated time to the end of a campaign, all phases together; infinite before anything was launched.

    ``discovery``: what comes before the search, or came; ``took``: seconds of all launches so far; ``time``:
    what limits the phases before the verification, ``total_s`` all phases (infinite: nothing does).
    """
    if not any(took.values()):
        return math.inf
    fresh = len(history.of(Phase.VERIFY))
    verifying_s = _verification(plan, history) * _each_s(Phase.VERIFY, plan, took)
    if fresh:
        return min(total_s, verifying_s)
    before_s = 0.0
    discovering = discovery is not None and not len(history.of(Phase.SEARCH))
    if discovery is not None and discovering and plan.campaign.discovered is None:
        left = discovery.design.launches - len(history.of(Phase.DISCOVERY))
        before_s = min(left * _each_s(Phase.DISCOVERY, plan, took), discovery.left_s(history, time))
    searched = max(0, plan.budget.launches - len(history.of(*_SEARCHING)))
    search_s = min(searched * _each_s(Phase.SEARCH, plan, took), max(0.0, time.search_s - before_s))
    return min(total_s, before_s + search_s + verifying_s)


def granted_s(plan: Plan, history: History, elapsed_s: float) -> float:
    """Time that the budgets leave to all phases, so long after the campaign began; infinite: no limit."""
    budget = plan.budget
    left_s = math.inf if budget.total_seconds is None else budget.total_seconds - elapsed_s
    if budget.node_hours is None:
        return left_s
    node_s = 3600 * budget.node_hours / max(plan.campaign.site.nodes, 1)
    return min(left_s, node_s - sum(o.duration_s for o in history))


def divided(plan: Plan, history: History, left_s: float, searched_s: float) -> TimeLeft:
    """Time before the verification, for which some is kept; ``searched_s`` passed without the discovery."""
    campaign = plan.campaign
    launch_s, fresh_s = expected_s(history, campaign.scenario), verified_s(history, campaign)
    raced = left_s // fresh_s if fresh_s else math.inf
    kept_s = plan.kept_launches(history, raced) * fresh_s
    if (total_s := plan.budget.total_seconds) is not None:
        kept_s = min(kept_s, total_s / 2)  # where launches take long there is nothing to verify else
    all_s, limit = left_s - kept_s, plan.budget.seconds
    return TimeLeft(all_s, all_s if limit is None else min(all_s, limit - searched_s), launch_s, raced)


def remaining_s(campaign: Description, history: History) -> float:
    """Time to the end of a campaign, by its launches alone; infinite before the first one."""
    strategy, took = Strategy(campaign), defaultdict[Phase, list[float]](list)
    for o in history:
        took[o.trial.phase].append(o.duration_s + o.queue_s)
    plan, elapsed_s = strategy.plan(history), sum(map(sum, took.values()))
    left_s = granted_s(plan, history, elapsed_s)
    time = divided(plan, history, left_s, elapsed_s - sum(took[Phase.DISCOVERY]))
    return seconds_left(plan, strategy.discovery, history, took, time, max(0.0, left_s))


def _verification(plan: Plan, history: History) -> int:
    """Launches of the verification that are to be expected: one round, more only once that is over."""
    if plan.verifier is None:
        return 0
    made, one = len(history.of(Phase.VERIFY)), plan.verifier.design.launches
    return one - made if made < one else plan.verifier.launches_left(history)


def _each_s(phase: Phase, plan: Plan, took: Took) -> float:
    mine = took.get(phase, ())
    if len(mine) >= FEW:
        return fmean(mine[-RECENT:])
    scenario = plan.campaign.scenario
    alike = (Phase.SCREENING, Phase.BASELINE) if phase is Phase.SEARCH else (Phase.BASELINE,)
    others = (made for of in alike if (made := took.get(of)))
    usual_s = fmean(next(others, mine or [scenario.probe.budget_s])[-RECENT:])
    if phase is Phase.DISCOVERY:
        return max(usual_s - scenario.probe.budget_s, 0.0) + scenario.discover.probe_s
    campaign = plan.campaign
    real = campaign.site.stamp.kind is SiteKind.REAL
    twice = phase is Phase.VERIFY and scenario.other_loop and real and not campaign.heats
    return usual_s * (2 if twice else 1)
