"""Cost of a campaign, before anything runs (steps 3 to 11 of the flow)."""

import math
from dataclasses import dataclass

from autotune.campaign.description import Description
from autotune.campaign.plan import Plan
from autotune.campaign.strategy import Strategy
from autotune.history.trial import Phase


@dataclass(frozen=True, slots=True)
class Share:
    """One phase's part of a campaign."""

    phase: str  # Its name.
    launches: int  # Planned.
    most: int  # Where the verification has to try again.
    launch_s: float = 0.0  # For which each of them measures, in seconds; what starts and ends it comes on top

    limit_s: float = math.inf  # Of time, which may end it before all its launches are made.

    @property
    def count(self) -> str:
        """How many."""
        return str(self.launches) if self.launches == self.most else f"{self.launches} to {self.most}"

    def hours(self, nodes: int, launch_s: float, timeout_s: float) -> tuple[float, float]:
        """Node-hours: all of them measuring alone … all of them timing out."""
        return self.launches * nodes * launch_s / 3600, self.most * nodes * timeout_s / 3600

    def row(self, nodes: int, launch_s: float, timeout_s: float) -> tuple[str, str, str]:
        """Phase, launches and node-hours."""
        least_h, most_h = self.hours(nodes, launch_s, timeout_s)
        return self.phase, self.count, f"{least_h:.2f} … {most_h:.2f}"


def shares(strategy: Strategy) -> tuple[Share, ...]:
    """The phases of a campaign with their launches.

    A round of the verification ends earlier where fewer launches are conclusive; where what was found does
    not hold, the next best is verified in another round.
    """
    plan, scenario = strategy.plan(), strategy.campaign.scenario
    n_screening = plan.design.n_runs if plan.design and not strategy.discovery else 0
    search = max(0, plan.budget.launches - plan.n_baseline - n_screening)
    discovery = strategy.discovery.design.launches if strategy.discovery else 0
    counts = {"baseline": plan.n_baseline, "discovery": discovery, "screening": n_screening, "search": search}
    round_launches = plan.verifier.design.launches if plan.verifier else 0
    probe_s, discover_s = scenario.probe.budget_s, scenario.discover.probe_s
    if not discovery:
        del counts["discovery"]
    total_s = scenario.budget.total_seconds or math.inf
    limits = {"discovery": min(scenario.discover.seconds or math.inf, total_s / 2)}  # as ``Discovery`` has it
    return (
        *(
            Share(phase, n, n, discover_s if phase == "discovery" else probe_s, limits.get(phase, math.inf))
            for phase, n in counts.items()
        ),
        Share("verification", round_launches, _most(plan, sum(counts.values())), probe_s),
    )


def planned(campaign: Description) -> tuple[Phase, ...]:
    """The phases that a campaign has, in order."""
    names = {share.phase for share in shares(Strategy(campaign)) if share.most}
    names |= {"discovery"} if campaign.discovered is not None else set()
    order = {phase: phase.value for phase in Phase} | {Phase.VERIFY: "verification"}
    return tuple(phase for phase, name in order.items() if name in names)


def _most(plan: Plan, before: int) -> int:
    """Launches of all rounds of the verification, as far as ``budget.total_launches`` has room for them."""
    most = plan.verifier.design.most if plan.verifier else 0
    total = plan.budget.total_launches
    return most if total is None else min(most, total - before)
