"""Estimate how long launches take, and how many of them the time left to a campaign allows."""

import math
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from autotune.campaign.spec import BenchKind, CampaignSpec
from autotune.history.trial import History, Observation, Phase
from autotune.scenario import Scenario

RECENT, FEW = 8, 3
"""RECENT: number of last launches from which the duration of the next one is estimated; an estimate from more
launches would follow a change too slowly. FEW: least number of launches for an estimate, since the first
launch of a search takes longer: it also loads the search's libraries."""


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """Hold the time left for everything before the verification; infinite where nothing limits it."""

    all_s: float = math.inf
    """Time left to all phases in seconds, without the time that is reserved for the verification."""
    search_s: float = math.inf  # Time left to the search in seconds; the search may have its own limit.
    launch_s: float = 0.0  # Expected duration of a launch of the search, in seconds.
    raced: float = math.inf  # Number of launches of the verification that the remaining time allows.

    @property
    def up(self) -> bool:
        """Whether no launch of the search could end in time."""
        return self.search_s <= 0 or self.search_s < self.launch_s

    @property
    def launches(self) -> float:
        """Return how many launches of the search could end in time."""
        return self.search_s // self.launch_s if self.launch_s and self.search_s < math.inf else math.inf


PLENTY = TimeLeft()  # The time left without any limit.


def expected_s(history: History, scenario: Scenario) -> float:
    """Return the expected duration of a launch of the search in seconds.

    It is the duration of the longest of the last few launches that ended well. While there are few such
    launches, it is at most what the launches of a discovery suggest, which also show how long the start and
    the end of a launch take.
    """
    durations_s = _worked_s(
        history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH, Phase.VERIFY).observations
    )
    discovery_s = _worked_s(history.of(Phase.DISCOVERY).observations)
    longest_s = max(durations_s[-RECENT:], default=0.0)
    if len(durations_s) < FEW and discovery_s:
        overhead_s = float(np.median(discovery_s)) - scenario.discover.probe_s
        longest_s = min(longest_s, overhead_s + scenario.probe.budget_s)
    return longest_s


def verified_s(history: History, campaign: CampaignSpec) -> float:
    """Return the average duration of a launch of the verification in seconds.

    A verification measures an MPI in two loops, which takes twice as long, except in a heat, where the loops
    share the time. An average suffices: many launches are made, so the duration of a single one does not
    matter.
    """
    durations_s, scenario = _worked_s(history.of(Phase.VERIFY).observations), campaign.scenario
    doubled = scenario.other_loop and campaign.bench.stamp.kind is BenchKind.REAL and not campaign.heats
    if durations_s:
        return fmean(durations_s[-RECENT:])
    search_s = _worked_s(history.of(Phase.SEARCH).observations)[-RECENT:]
    return (fmean(search_s) if search_s else expected_s(history, scenario)) * (2 if doubled else 1)


def _worked_s(observations: tuple[Observation, ...]) -> list[float]:
    return [o.took_s for o in observations if o.ok]
