"""Run the loop: take a trial from the strategy, write it, observe it, write the result.

The loop knows only ports (protocols): the objects that observe, store, propose and show trials are passed to
it (data flow: trial to proposer).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autotune.campaign import interruption
from autotune.campaign.estimate import divided, granted_s, seconds_left
from autotune.campaign.failures import broken, limit_s
from autotune.campaign.lengths import with_length
from autotune.campaign.needed import needed, unlimited
from autotune.campaign.plan import Plan
from autotune.campaign.ports import Listener, Store
from autotune.campaign.same_moment import at_one_moment
from autotune.campaign.spec import narrowed_event
from autotune.campaign.strategy import Strategy
from autotune.campaign.time_left import TimeLeft
from autotune.errors import CampaignError
from autotune.history.events import observation_event, replayed, trial_event
from autotune.history.trial import History, Observation, Phase, Status, Trial
from autotune.recommend.one_core import on_one_core
from autotune.recommend.summary import Tally

Clock = Callable[[], float]  # Returns seconds since some fixed moment.


@dataclass
class CampaignLoop:
    """Run the trials of a strategy until the budget is used up."""

    strategy: Strategy  # Chooses the next trials.
    observe: Callable[[Trial], Observation]  # Launches a trial and returns its observation.
    store: Store  # Stores trials and observations as events.
    listener: Listener  # Is notified of each step.
    clock: Clock  # Measures the time for time limits.
    deadline: float = math.inf  # Time on ``clock`` at which everything must have ended.
    noted: Callable[[History], None] = lambda history: None  # Called with the history after each launch.
    observe_heat: Callable[[Sequence[Trial]], Sequence[Observation]] | None = None
    """Launches several trials that are alive at once and measure in turns; None: that is impossible here, and
    trials are launched one after the other."""
    cut: bool = False  # Whether a budget was used up before the campaign was complete.
    plan: Plan = field(init=False)  # The plan in effect.
    _shown: set[Phase] = field(default_factory=set)
    _took: defaultdict[Phase, list[float]] = field(default_factory=lambda: defaultdict(list))
    _discovery_s: float = 0.0
    """Time that the discovery took, in seconds, including the time between its launches. The discovery has a
    budget of its own."""

    _has_narrowed: bool = False  # Whether the discovery's decisions are in the store.

    def __post_init__(self) -> None:
        self.plan = self.strategy.plan()
        self._has_narrowed = self.strategy.campaign.narrowing is not None

    def run(self, history: History | None = None, unobserved: Sequence[Trial] = ()) -> History:
        """Launch trials until the budget is used up or no further trial is worthwhile; return the history.

        Args:
            history: The history in the store, if the caller has read it; None reads it here.
            unobserved: Trials that were begun and not observed, if ``history`` is given.

        Raises:
            CampaignError: the stack's own defaults cannot be measured (any more): the machine is broken.
            Interrupted: the user ended the campaign; calling again continues it.
        """
        if history is None:
            history, unobserved = replayed(self.store.read())
        pending = list(unobserved)
        self.plan = self.strategy.plan(history)
        tally = Tally(self.plan.objectives, self.plan.space)
        comparable = at_one_moment(history)
        tally.add(comparable)
        for observation in comparable:
            self._took[observation.trial.phase].append(observation.took_s)
        self._shown |= {o.trial.phase for o in history}
        started = self.clock() - sum(o.took_s for o in history)
        self._discovery_s = sum(o.duration_s for o in comparable.of(Phase.DISCOVERY))
        while True:
            begin = self.clock()
            announced = _announced(pending)
            with on_one_core():
                time = self._time(started, history)
                trials = announced or self._due(history, time)
            remaining_s = self._left_s(started, history)
            settings = [t for t in trials if t.phase is not Phase.BASELINE] or trials[:1]
            too_late = remaining_s < time.launch_s * len(settings)
            self.cut = too_late if trials else self._cut_short(history)
            if not trials or self.cut:
                break
            first = settings[0]
            searching = first.phase is not Phase.DISCOVERY
            if searching and (plan := self.strategy.plan(history, time)) is not self.plan:
                self.plan = plan
                self.listener.discovered(plan.campaign, history)
            self._announce(first, history, self._left_s(started, history), started, time)
            if not announced:
                self.store.append(*self._narrowed(), *map(trial_event, trials))
            most_s = remaining_s + (time.launch_s or math.inf)  # a launch that begins in time may end late
            near_limit = most_s < (first.timeout_s or limit_s(self.plan.campaign.scenario))
            observations = self._observed(
                [replace(t, timeout_s=most_s) for t in trials] if near_limit else trials
            )
            if not all(o.ok for o in observations):
                interruption.check()  # a signal that ends the campaign may have ended the launch first
            if near_limit and any(o.status is Status.TIMEOUT for o in observations):
                self.cut = True  # the setting is not at fault: a continued campaign launches it again
                break
            took_s = self.clock() - begin
            self._took[first.phase] += [took_s / len(settings)] * len(settings)
            self._discovery_s += took_s * (first.phase is Phase.DISCOVERY)
            observations = [replace(o, trial=t) for t, o in zip(trials, observations, strict=True)]
            self.store.append(*map(observation_event, observations))
            history = history.plus(observations)
            n_shown, comparable = len(comparable), at_one_moment(history)
            for step in tally.add(comparable.observations[n_shown:]):
                self.listener.observed(step)
            self.noted(history)
            if broken(history):
                raise _broken(history)
        return history

    def _cut_short(self, history: History) -> bool:
        """Whether a setting waits for its verdict, or budgets of all phases left no time to find one."""
        plan = self.plan
        if plan.verifier is None or plan.undecided(history) or len(history.of(Phase.VERIFY)):
            return plan.undecided(history)
        search = Strategy(unlimited(self.strategy.campaign), self.strategy.proposer)
        with on_one_core():
            return search.next_trial(history) is not None

    def _narrowed(self) -> tuple[dict[str, Any], ...]:
        """Return the event with the discovery's decisions; empty if there are none yet, or it is stored."""
        narrowing = self.plan.campaign.narrowing
        if narrowing is None or self._has_narrowed:
            return ()
        self._has_narrowed = True
        return (narrowed_event(narrowing),)

    def _due(self, history: History, time: TimeLeft) -> tuple[Trial, ...]:
        """Return the next trial, or those of the next heat with the time for which each measures."""
        if self.observe_heat is not None:
            trials = self.strategy.next_heat(history, time)
            return with_length(trials, history, self.plan.campaign.scenario)
        trial = self.strategy.next_trial(history, time)
        return () if trial is None else (trial,)

    def _observed(self, trials: Sequence[Trial]) -> Sequence[Observation]:
        if self.observe_heat is not None and len(trials) > 1:
            return self.observe_heat(trials)
        return [self.observe(trial) for trial in trials]

    def _announce(
        self, trial: Trial, history: History, remaining_s: float, started: float, time: TimeLeft
    ) -> None:
        plan, discovery, comparable = self.plan, self.strategy.discovery, at_one_moment(history)
        if trial.phase not in self._shown:
            self._shown.add(trial.phase)
            if trial.phase is Phase.SEARCH and (screened := plan.screening(comparable)):
                self.listener.screened(*screened)
            if trial.phase is Phase.VERIFY and (need := needed(plan.campaign, history, None)):
                self.listener.forecast(need, remaining_s)
            self.listener.phase(trial.phase, self._expected(trial.phase, comparable))
            if trial.phase is Phase.SCREENING and plan.design is not None:
                self.listener.designed(plan.design)
        limit_s = max(0.0, remaining_s)
        longest_s = seconds_left(plan, discovery, comparable, self._took, time, limit_s, most=True)
        self.listener.launching(trial, self.clock() - started, longest_s)

    def _expected(self, phase: Phase, history: History) -> int:
        """Return the planned number of launches of a phase; 0 if only the budget limits it."""
        design, verifier, discovery = self.plan.design, self.plan.verifier, self.strategy.discovery
        if phase is Phase.DISCOVERY and discovery is not None:
            return discovery.design.launches
        if phase is Phase.SCREENING and design is not None:
            return design.n_runs
        return verifier.launches_left(history) if phase is Phase.VERIFY and verifier is not None else 0

    def _time(self, started: float, history: History) -> TimeLeft:
        """Return the time left before the verification; the time reserved for its launches is subtracted."""
        searched_s = self.clock() - started - self._discovery_s
        return divided(self.plan, at_one_moment(history), self._left_s(started, history), searched_s)

    def _left_s(self, started: float, history: History) -> float:
        """Return the remaining time of all phases, in seconds."""
        time_s = self.clock()
        return min(self.deadline - time_s, granted_s(self.plan, history, time_s - started))


def _announced(pending: list[Trial]) -> tuple[Trial, ...]:
    """Remove the first interrupted trial and the others of its heat from the list, and return them."""
    first = pending[:1]
    together = [t for t in pending if t.heat and t.heat == first[0].heat] or first
    pending[:] = [t for t in pending if t not in together]
    return tuple(together)


def _broken(history: History) -> CampaignError:
    last = history.observations[-1]
    possibility = "no longer be" if any(o.ok for o in history) else "not be"
    return CampaignError(
        f"the stack's own defaults can {possibility} measured: {last.status}: {last.reason}",
        "see the launch's stdout and stderr; `autotune doctor` checks this machine; "
        "then the same command continues, and what failed here is no point's fault",
    )
