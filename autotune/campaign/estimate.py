"""When a campaign will end, by what is planned and how long its launches take (steps 4 to 11 of the flow)."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from autotune.campaign.description import SiteKind
from autotune.campaign.discovery import Discovery
from autotune.campaign.plan import Plan
from autotune.campaign.time_left import FEW, RECENT, TimeLeft
from autotune.history.trial import History, Phase

_SEARCHING = (Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)
Took = Mapping[Phase, Sequence[float]]
"""Seconds of wall time that each launch of a phase took, with what was computed and written around it."""


def seconds_left(
    plan: Plan, discovery: Discovery | None, history: History, took: Took, time: TimeLeft, total_s: float
) -> float:
    """Estimated time to the end of a campaign, all phases together.

    Args:
        plan: What is planned by now.
        discovery: What comes before the search, or came; None: nothing does.
        history: All launches so far.
        took: What they took.
        time: What limits the phases before the verification.
        total_s: What limits all phases; infinite: nothing does.

    Returns:
        Seconds; infinite before anything was launched, when nothing is known of what a launch takes.
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
        left = discovery.course.launches - len(history.of(Phase.DISCOVERY))
        before_s = min(left * _each_s(Phase.DISCOVERY, plan, took), discovery.left_s(history, time))
    searched = max(0, plan.budget.launches - len(history.of(*_SEARCHING)))
    search_s = min(searched * _each_s(Phase.SEARCH, plan, took), max(0.0, time.search_s - before_s))
    return min(total_s, before_s + search_s + verifying_s)


def _verification(plan: Plan, history: History) -> int:
    """Launches of the verification that are to be expected: one round, more only once that is over."""
    if plan.verifier is None:
        return 0
    made, one = len(history.of(Phase.VERIFY)), plan.verifier.design.launches
    return one - made if made < one else plan.verifier.launches_left(history)


def _each_s(phase: Phase, plan: Plan, took: Took) -> float:
    """What a launch of a phase takes: as its last ones did, before the first as what it measures differs."""
    mine = took.get(phase, ())
    if len(mine) >= FEW:
        return fmean(mine[-RECENT:])
    scenario = plan.campaign.scenario
    alike = (Phase.SCREENING, Phase.BASELINE) if phase is Phase.SEARCH else (Phase.BASELINE,)
    others = (made for of in alike if (made := took.get(of)))
    usual_s = fmean(next(others, mine or [scenario.probe.budget_s])[-RECENT:])
    if phase is Phase.DISCOVERY:
        return max(usual_s - scenario.probe.budget_s, 0.0) + scenario.discover.probe_s
    twice = phase is Phase.VERIFY and scenario.other_loop and plan.campaign.site.stamp.kind is SiteKind.REAL
    return usual_s * (2 if twice else 1)
