"""Estimate when a campaign will end, from its plan and the durations of its launches."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from autotune.campaign.discovery import Discovery
from autotune.campaign.plan import Plan
from autotune.campaign.same_moment import at_one_moment
from autotune.campaign.spec import BenchKind, CampaignSpec
from autotune.campaign.strategy import Strategy
from autotune.campaign.time_left import FEW, RECENT, TimeLeft, expected_s, verified_s
from autotune.history.trial import History, Phase

_SEARCHING = (Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)
Took = Mapping[Phase, Sequence[float]]
"""Seconds of wall time that each launch of a phase took, including computing and writing between launches."""


def seconds_left(
    plan: Plan,
    discovery: Discovery | None,
    history: History,
    took: Took,
    time: TimeLeft,
    total_s: float,
    most: bool = False,
) -> float:
    """Estimate the time to the end of a campaign, in seconds; infinite before anything was launched.

    Args:
        plan: The plan of the campaign.
        discovery: The discovery, complete or not; None if the campaign has none.
        history: All observations, those of heats as ratios to the default (``same_moment``).
        took: Durations of all launches so far in seconds, by phase.
        time: Time limits of the phases before the verification.
        total_s: Time limit of all phases together in seconds; infinite without one.
        most: Return the longest time: that of as many launches as the verification may make.
    """
    if not any(took.values()):
        return math.inf
    if most and plan.verifier is not None and plan.verifier.design.timed:
        return total_s  # launches go on until time is up
    n_verified = len(history.of(Phase.VERIFY))
    verifying_s = _verification(plan, history, most) * _each_s(Phase.VERIFY, plan, took)
    verifying_s += _starts(plan, history) * _each_s(Phase.STARTS, plan, took)
    if n_verified:
        return min(total_s, verifying_s)
    discovery_s = 0.0
    discovering = discovery is not None and not len(history.of(Phase.SEARCH))
    if discovery is not None and discovering and plan.campaign.discovered is None:
        remaining = discovery.design.launches - len(history.of(Phase.DISCOVERY))
        discovery_s = min(remaining * _each_s(Phase.DISCOVERY, plan, took), discovery.left_s(history, time))
    search_launches = max(0, plan.budget.launches - len(history.of(*_SEARCHING)))
    search_s = min(search_launches * _each_s(Phase.SEARCH, plan, took), max(0.0, time.search_s - discovery_s))
    return min(total_s, discovery_s + search_s + verifying_s)


def granted_s(plan: Plan, history: History, elapsed_s: float) -> float:
    """Return the seconds that the time and node-hour budgets leave to all phases; infinite without a limit.

    ``elapsed_s`` is the time since the campaign began, in seconds.
    """
    budget = plan.budget
    remaining_s = math.inf if budget.total_seconds is None else budget.total_seconds - elapsed_s
    if budget.node_hours is None:
        return remaining_s
    node_limit_s = 3600 * budget.node_hours / max(plan.campaign.bench.nodes, 1)
    return min(remaining_s, node_limit_s - sum(o.duration_s for o in history))


def divided(plan: Plan, history: History, remaining_s: float, searched_s: float) -> TimeLeft:
    """Return the remaining time without the share that is reserved for the verification.

    Args:
        plan: The plan of the campaign.
        history: All observations so far.
        remaining_s: Time left to all phases, in seconds.
        searched_s: Time since the campaign began, without that of the discovery, in seconds.
    """
    campaign = plan.campaign
    launch_s, fresh_s = expected_s(history, campaign.scenario), verified_s(history, campaign)
    raced = remaining_s // fresh_s if fresh_s else math.inf
    reserved_s = plan.kept_launches(history, raced) * fresh_s
    if (total_s := plan.budget.total_seconds) is not None:
        reserved_s = min(reserved_s, total_s / 2)  # else long launches would leave no time for a search
    available_s, limit = remaining_s - reserved_s, plan.budget.seconds
    return TimeLeft(
        available_s, available_s if limit is None else min(available_s, limit - searched_s), launch_s, raced
    )


def remaining_s(campaign: CampaignSpec, history: History) -> float:
    """Estimate the seconds to the end of a campaign from its launches alone; infinite without launches."""
    strategy, took = Strategy(campaign), defaultdict[Phase, list[float]](list)
    budget_s = granted_s(strategy.plan(history), history, sum(o.took_s for o in history))
    history = at_one_moment(history)
    for o in history:
        took[o.trial.phase].append(o.took_s)
    plan, elapsed_s = strategy.plan(history), sum(map(sum, took.values()))
    time = divided(plan, history, budget_s, elapsed_s - sum(took[Phase.DISCOVERY]))
    return seconds_left(plan, strategy.discovery, history, took, time, max(0.0, budget_s))


def _verification(plan: Plan, history: History, most: bool) -> int:
    """Return the expected, or the largest (``most``), number of further launches of the verification.

    During the first round it is expected to be the rest of that round, afterwards at most two blocks.
    """
    if plan.verifier is None:
        return 0
    n_launched, round_launches = len(history.of(Phase.VERIFY)), plan.verifier.design.launches
    if most:
        return plan.verifier.launches_left(history) if n_launched else plan.verifier.design.most
    if n_launched < round_launches:
        return round_launches - n_launched
    if len(history.of(Phase.STARTS)):
        return 0
    # A setting that is still inconclusive seldom uses all the launches that it may have.
    return min(plan.verifier.launches_left(history), 2 * plan.verifier.design.each)


def _starts(plan: Plan, history: History) -> int:
    """Return the expected number of further launches that only start, check results and end."""
    planned = plan.verifier.design.starts if plan.verifier is not None else 0
    return max(planned - len(history.of(Phase.STARTS)), 0)


def _each_s(phase: Phase, plan: Plan, took: Took) -> float:
    """Return the expected duration of a launch of a phase in seconds, from recent or similar launches."""
    durations_s = took.get(phase, ())
    if len(durations_s) >= FEW:
        return fmean(durations_s[-RECENT:])
    scenario = plan.campaign.scenario
    similar_phases = (Phase.SCREENING, Phase.BASELINE) if phase is Phase.SEARCH else (Phase.BASELINE,)
    similar_s = (
        other_durations_s for other_phase in similar_phases if (other_durations_s := took.get(other_phase))
    )
    usual_s = fmean(next(similar_s, durations_s or [scenario.probe.budget_s])[-RECENT:])
    if phase is Phase.DISCOVERY:
        return max(usual_s - scenario.probe.budget_s, 0.0) + scenario.discover.probe_s
    campaign = plan.campaign
    real = campaign.bench.stamp.kind is BenchKind.REAL
    doubled = phase is Phase.VERIFY and scenario.other_loop and real and not campaign.heats
    return usual_s * (2 if doubled else 1)
