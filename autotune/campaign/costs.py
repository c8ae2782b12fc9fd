"""Predict the launches and the time of each phase of a campaign before anything runs."""

import math
from dataclasses import dataclass
from itertools import groupby

from autotune.campaign.plan import SETTINGS_PER_HEAT, Plan
from autotune.campaign.spec import CampaignSpec
from autotune.campaign.strategy import Strategy
from autotune.history.trial import Phase, Status
from autotune.verification.failed import Failures


@dataclass(frozen=True, slots=True)
class Share:
    """Describe the launches and the time of one phase of a campaign."""

    phase: str  # Name of the phase.
    launches: int  # Number of launches planned.
    most: int  # Largest number of launches, if the verification has to try further settings.
    launch_s: float = 0.0
    """Time for which each launch measures, in seconds, without the time for its start and its end."""

    limit_s: float = math.inf
    """Time limit of the phase in seconds, which may end it before all its launches are made."""

    @property
    def count(self) -> str:
        """Return the number of launches as text, such as ``24`` or ``24 to 96``."""
        return str(self.launches) if self.launches == self.most else f"{self.launches} to {self.most}"

    def hours(self, nodes: int, launch_s: float, timeout_s: float) -> tuple[float, float]:
        """Return the smallest and the largest number of node-hours of the phase.

        The smallest number assumes that each planned launch lasts ``launch_s`` seconds, the largest one that
        as many launches as possible are made and that all of them last ``timeout_s`` seconds.
        """
        return self.launches * nodes * launch_s / 3600, self.most * nodes * timeout_s / 3600

    def row(self, nodes: int, launch_s: float, timeout_s: float) -> tuple[str, str, str]:
        """Return phase, launches and node-hours as the cells of a table."""
        least_h, most_h = self.hours(nodes, launch_s, timeout_s)
        return self.phase, self.count, f"{least_h:.2f} … {most_h:.2f}"


def shares(strategy: Strategy) -> tuple[Share, ...]:
    """Return the phases of a campaign with their launches.

    A round of the verification ends early if fewer launches suffice for a decision. If a round does not
    confirm its setting, the next round verifies the next best setting.
    """
    plan, scenario = strategy.plan(), strategy.campaign.scenario
    n_screening = plan.design.n_runs if plan.design and not strategy.discovery else 0
    search = max(0, plan.budget.launches - plan.n_baseline - n_screening)
    discovery = strategy.discovery.design.launches if strategy.discovery else 0
    baseline = plan.n_baseline
    # Each heat (launches that are alive at once) adds a launch of the default. A heat of the search is
    # expected to have one setting.
    if strategy.campaign.heats:
        plots = plan.design.whole_plots if plan.design and n_screening else ()
        heat_rounds = [discovery, *(len(list(rows)) for _, rows in groupby(plots))]
        baseline += baseline + search + sum(math.ceil(n / SETTINGS_PER_HEAT) for n in heat_rounds)
    counts = {"baseline": baseline, "discovery": discovery, "screening": n_screening, "search": search}
    round_launches = plan.verifier.design.launches if plan.verifier else 0
    probe_s, discover_s = scenario.probe.budget_s, scenario.discover.probe_s
    if not discovery:
        del counts["discovery"]
    total_s = scenario.budget.total_seconds or math.inf
    limits = {
        "discovery": min(scenario.discover.seconds or math.inf, total_s / 2)
    }  # ``Discovery`` itself keeps this limit
    return (
        *(
            Share(phase, n, n, discover_s if phase == "discovery" else probe_s, limits.get(phase, math.inf))
            for phase, n in counts.items()
        ),
        Share("verification", round_launches, _most(plan, sum(counts.values())), probe_s),
        *_starts(plan),
    )


def _starts(plan: Plan) -> tuple[Share, ...]:
    """Return the phase of launches that only start and check results; empty if no such launch is needed.

    The largest number of launches in the phase allows for one failure.
    """
    if plan.verifier is None:
        return ()
    launches, rate = plan.verifier.design.setting_launches, plan.verifier.design.max_failures
    fewest, maximum = (
        Failures(failed, launches).starts_to_exclude(rate) for failed in ((), (Status.CRASHED,))
    )
    return (Share(Phase.STARTS, fewest, maximum),) if maximum else ()


def planned(campaign: CampaignSpec) -> tuple[Phase, ...]:
    """Return the phases that a campaign has, in order."""
    names = {share.phase for share in shares(Strategy(campaign)) if share.most}
    names |= {"discovery"} if campaign.discovered is not None else set()
    order = {phase: phase.value for phase in Phase} | {Phase.VERIFY: "verification"}
    return tuple(phase for phase, name in order.items() if name in names)


def _most(plan: Plan, planned_before: int) -> int:
    """Return the largest number of launches of the verification that ``budget.total_launches`` allows."""
    limit = plan.verifier.design.most if plan.verifier else 0
    total = plan.budget.total_launches
    return limit if total is None else min(limit, total - planned_before)
