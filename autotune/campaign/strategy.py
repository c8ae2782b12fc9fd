"""Choose the next trial as a function of the history (data flow: screening, proposer and verification).

There is no other state: a campaign that was killed goes on by reading its journal. The order is

    baseline · discovery or screening · baseline · search, one choice at a time · baseline · verification

Where launches can be alive at once, each launch runs in a heat: together with a launch of the untouched stack
(the MPI's own defaults), to which the phases read its times as ratios. The budget covers all phases except
the verification, which has a budget of its own; it does not count the untouched launches in heats. The time
limit of a launch follows from the durations of earlier launches.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice

from autotune.campaign import failures
from autotune.campaign.discovery import Discovery
from autotune.campaign.phases import before_verification
from autotune.campaign.plan import SETTINGS_PER_HEAT, Plan
from autotune.campaign.ports import Proposer
from autotune.campaign.same_moment import at_one_moment
from autotune.campaign.spec import CampaignSpec
from autotune.campaign.time_left import PLENTY, TimeLeft
from autotune.history.trial import History, Phase, Trial

_NOTHING = History()


class Strategy:
    """Choose the next trial as a function of the history.

    A strategy remembers the plan that the last complete discovery led to, and nothing else.
    """

    def __init__(self, campaign: CampaignSpec, proposer: Proposer | None = None) -> None:
        """Set up the strategy for a campaign.

        Args:
            campaign: The campaign's description.
            proposer: Chooses settings after the screening; None: nothing is searched.
        """
        self.campaign, self.proposer = campaign, proposer
        self._first_plan, self._discovered = Plan(campaign), (History(), Plan(campaign))
        self.discovery = None
        """The discovery before the search; None: the campaign has none, or it was complete at the start."""
        if campaign.discovering:
            expert_names = frozenset(p.name for p in campaign.space.job)
            scenario = campaign.scenario
            self.discovery = Discovery(campaign.whole, scenario.discover, scenario.seed, expert_names)

    def plan(self, history: History = _NOTHING, time: TimeLeft = PLENTY) -> Plan:
        """Return the plan for this history; once the discovery is complete, it has the narrowed space."""
        launches = _through_discovery(history)
        if self.discovery is None or not len(launches):
            return self._first_plan
        complete = (
            self._discovered[0] == launches
            or self.discovery.next_trial(at_one_moment(history), 0, time) is None
        )
        return self._after(self.discovery, launches) if complete else self._first_plan

    def _after(self, discovery: Discovery, launches: History) -> Plan:
        """Return the plan after the launches up to the discovery's last one.

        Later launches would change how the discovery's launches are corrected for the machine's state.
        """
        if self._discovered[0] != launches:
            findings = discovery.found(at_one_moment(launches))
            narrowing = self.campaign.narrowing or discovery.narrowing(findings)
            campaign = replace(self.campaign, space=narrowing.space, discovered=findings, narrowing=narrowing)
            self._discovered = launches, Plan(campaign)
        return self._discovered[1]

    def next_trial(self, history: History, time: TimeLeft = PLENTY) -> Trial | None:
        """Return the next trial; None if none is left in the budget.

        If the time limit of the search is reached, only launches of the verification are returned.
        """
        total = self.campaign.scenario.budget.total_launches
        if total is not None and len(history) >= total:
            return None
        plan, due = self._due(history, time)
        limit = (plan.campaign.scenario, plan.space, history)
        return next((failures.with_time_limit(trial, *limit) for trial in due), None)

    def next_heat(self, history: History, time: TimeLeft = PLENTY) -> tuple[Trial, ...]:
        """Return the next trial and those to make at once with it (a heat); empty if the budget is used up.

        Before the verification the first trial of a heat is a launch of the stack's own defaults.
        """
        plan, due = self._due(history, time)
        if (first := next(due, None)) is None:
            return ()
        # Launches that only start, without timing, are not compared, so each of them is made alone.
        trials: tuple[Trial, ...] = (first,)
        if self.campaign.heats and first.phase is Phase.VERIFY:
            trials = (first, *due)
        elif self.campaign.heats and first.phase is not Phase.STARTS:
            default = plan.baseline(first.number, "beside what follows")
            trials = tuple(
                replace(t, number=n, seed=plan.seed(n), heat=default.number)
                for n, t in enumerate((default, first, *islice(due, SETTINGS_PER_HEAT - 1)), default.number)
            )
        total = self.campaign.scenario.budget.total_launches
        if total is not None and len(history) + len(trials) > total:
            return ()
        limit = (plan.campaign.scenario, plan.space, history)
        return tuple(failures.with_time_limit(t, *limit) for t in trials)

    def _due(self, history: History, time: TimeLeft) -> tuple[Plan, Iterator[Trial]]:
        """Return the plan in effect, and its next trials that may be made at once."""
        plan = self._first_plan
        for plan, trials in self._sources(history, time):
            if (first := next(trials, None)) is not None:
                return plan, chain((first,), trials)
        return plan, iter(())

    def _sources(self, history: History, time: TimeLeft) -> Iterator[tuple[Plan, Iterator[Trial]]]:
        """Yield the sources of trials in order, each with its plan; the first that has a trial is next.

        A verification that was begun is continued before anything except the discovery.
        """
        plan, measured = self._first_plan, history
        history = at_one_moment(measured)
        if self.discovery is not None and any(o.ok for o in history.of(Phase.BASELINE)):
            yield plan, self.discovery.next_trials(history, plan.seed(history.next_number), time)
            plan = self._after(self.discovery, _through_discovery(measured))
        standing, verifier, searching = plan.standing(history, time), plan.verifier, not time.up
        if verifier and len(history) and history.observations[-1].trial.phase in (Phase.VERIFY, Phase.STARTS):
            yield plan, verifier.due(history, time.raced)
            # If no setting was verified and time is left, the search goes on.
            searching &= not (time.all_s < math.inf and verifier.holds(history))
        for phase in before_verification(plan, self.proposer) if searching else ():
            yield plan, phase.due(standing)
        if verifier is not None:
            yield plan, verifier.due(history, time.raced)


def _through_discovery(history: History) -> History:
    """Return the launches up to the last one of the discovery."""
    phases = [o.trial.phase for o in history]
    end = len(phases) - phases[::-1].index(Phase.DISCOVERY) if Phase.DISCOVERY in phases else 0
    return History(history.observations[:end])
