"""Which trial is next, as a function of the history (steps 3, 4 and 9 of the flow).

There is no other state: a campaign that was killed goes on by reading its journal. The order is

    baseline · discovery or screening · baseline · search, one launch at a time · baseline · verification

with the baseline launches spread over the campaign, so that slow drift shows in their spread. The budget is
for all but the verification, which has its own. What moved whole launches is taken out before any phase is
asked, and how long others took limits the next launch.
"""

import math
from dataclasses import replace

from autotune.campaign import failures
from autotune.campaign.description import Description
from autotune.campaign.discovery import Discovery
from autotune.campaign.drift import corrected
from autotune.campaign.phases import phases_before_verification
from autotune.campaign.plan import Plan
from autotune.campaign.ports import Proposer
from autotune.campaign.time_left import PLENTY, TimeLeft
from autotune.history.trial import History, Phase, Trial

_NOTHING = History()


class Strategy:
    """Which trial is next, as a function of the history.

    It remembers the plan that the last complete discovery led to, and nothing else.
    """

    def __init__(self, campaign: Description, proposer: Proposer | None = None) -> None:
        """A strategy for a campaign; ``proposer`` chooses after the screening, None: nothing is searched."""
        self.campaign, self.proposer = campaign, proposer
        self._begun, self._later = Plan(campaign), (History(), Plan(campaign))
        self.discovery = None
        """The step before the screening; None: there is no discovery, or it has ended."""
        if campaign.discovering:
            named = frozenset(p.name for p in campaign.space.job)
            wanted = campaign.scenario
            self.discovery = Discovery(campaign.whole, wanted.discover, wanted.seed, named)

    def plan(self, history: History = _NOTHING, time: TimeLeft = PLENTY) -> Plan:
        """The plan by this history; once a discovery is complete, with the space left to search."""
        made = history.of(Phase.DISCOVERY)
        if self.discovery is None or not len(made):
            return self._begun
        complete = self._later[0] == made or self.discovery.next_trial(history, 0, time) is None
        return self._after(self.discovery, made) if complete else self._begun

    def _after(self, discovery: Discovery, made: History) -> Plan:
        """The plan after these launches of a discovery."""
        if self._later[0] != made:
            found = discovery.found(made)
            space = discovery.searched(found)
            first, free = discovery.suggested(found, space), discovery.free(found, space)
            later = replace(self.campaign, space=space, discovered=found, suggested=first, confirmed=free)
            self._later = made, Plan(later)
        return self._later[1]

    def next_trial(self, history: History, time: TimeLeft = PLENTY) -> Trial | None:
        """The next trial; None when there is none left within the budget of launches.

        Where ``time`` is up only the verification is left.
        """
        total, seen = self.campaign.scenario.budget.total_launches, corrected(history)
        if total is not None and len(history) >= total:
            return None
        trial, plan = None, self._begun
        if self.discovery is not None and any(o.ok for o in seen.of(Phase.BASELINE)):
            seed = plan.seed(seen.next_number)
            trial = self.discovery.next_trial(seen, seed, time)
            plan = plan if trial else self._after(self.discovery, seen.of(Phase.DISCOVERY))
        trial = trial or self._planned(plan, seen, time)
        return trial and failures.with_time_limit(trial, plan.campaign.scenario, plan.space, history)

    def _planned(self, plan: Plan, history: History, time: TimeLeft) -> Trial | None:
        """The next trial of a plan: what was begun of the verification goes on before anything else."""
        now, verifier = plan.standing(history, time), plan.verifier
        searching = not time.up
        if verifier and len(history) and history.observations[-1].trial.phase is Phase.VERIFY:
            if (begun := verifier.next_trial(history, time.raced)) is not None:
                return begun
            # Where it ended in nothing, and time is left, the search goes on.
            searching &= not (time.all_s < math.inf and verifier.holds(history))
        phases = phases_before_verification(plan, self.proposer) if searching else ()
        found = next((trial for phase in phases if (trial := phase.next(now)) is not None), None)
        if found is None and verifier is not None:
            found = verifier.next_trial(history, time.raced)
        return found
