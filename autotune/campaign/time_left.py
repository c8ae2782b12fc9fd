"""How much time is left to a campaign, and what of it goes to what (steps 4 to 9 of the flow)."""

import math
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from autotune.campaign.description import Description, SiteKind
from autotune.history.trial import History, Observation, Phase
from autotune.scenario import Scenario

RECENT, FEW = 8, 3
"""Launches from which the duration of the next one is estimated (more would follow a change too slowly), and
how many are too few by themselves: the first one of a search also loads its libraries."""


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """Time left for everything before the verification; infinite where nothing limits it."""

    all_s: float = math.inf  # Of the time of all phases, without what the verification needs.
    search_s: float = math.inf  # To the search, which may have a limit of its own.
    launch_s: float = 0.0  # What a launch of the search is expected to take.
    raced: float = math.inf  # Launches of the verification that could end in time.

    @property
    def up(self) -> bool:
        """Whether no launch of the search could end in time."""
        return self.search_s <= 0 or self.search_s < self.launch_s

    @property
    def launches(self) -> float:
        """How many launches of the search could."""
        return self.search_s // self.launch_s if self.launch_s and self.search_s < math.inf else math.inf


PLENTY = TimeLeft()  # Where nothing limits it.


def expected_s(history: History, scenario: Scenario) -> float:
    """Expected duration of a launch of the search: the longest of the last few that worked.

    Without waiting for neighbouring cores, which the next one may not have to do. One disturbed launch of
    the baseline does not decide it: a discovery's launches also show how long starting and ending takes.
    """
    others = _worked_s(history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH, Phase.VERIFY).observations)
    discovered = _worked_s(history.of(Phase.DISCOVERY).observations)
    longest = max(others[-RECENT:], default=0.0)
    if len(others) < FEW and discovered:
        around = float(np.median(discovered)) - scenario.discover.probe_s
        longest = min(longest, around + scenario.probe.budget_s)
    return longest


def verified_s(history: History, campaign: Description) -> float:
    """Average duration of launches of the verification: of an MPI they are measured in two loops.

    In a heat that takes them no longer: each has a part of the time alone.

    Many are made, so that it is no matter how long a single one may take.
    """
    made, scenario = _worked_s(history.of(Phase.VERIFY).observations), campaign.scenario
    twice = scenario.other_loop and campaign.site.stamp.kind is SiteKind.REAL and not campaign.heats
    if made:
        return fmean(made[-RECENT:])
    searched = _worked_s(history.of(Phase.SEARCH).observations)[-RECENT:]
    return (fmean(searched) if searched else expected_s(history, scenario)) * (2 if twice else 1)


def _worked_s(made: tuple[Observation, ...]) -> list[float]:
    return [o.duration_s - o.extra.get("waited_s", 0.0) + o.queue_s for o in made if o.ok]
