"""The loop: a trial from the strategy, written, observed, written again (steps 4 to 9 of the flow).

It knows ports only: how a trial is observed, stored, proposed and shown is given to it.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from autotune.campaign import interruption
from autotune.campaign.estimate import divided, granted_s, seconds_left
from autotune.campaign.failures import broken, limit_s
from autotune.campaign.plan import Plan
from autotune.campaign.ports import Listener, Store
from autotune.campaign.strategy import Strategy
from autotune.campaign.time_left import TimeLeft
from autotune.errors import CampaignError
from autotune.history.events import observation_event, replayed, trial_event
from autotune.history.trial import History, Observation, Phase, Status, Trial
from autotune.recommend.one_core import on_one_core
from autotune.recommend.summary import Tally

Clock = Callable[[], float]  # Seconds since some fixed moment.


@dataclass
class CampaignLoop:
    """The loop over a strategy."""

    strategy: Strategy  # Says what is next.
    observe: Callable[[Trial], Observation]  # Makes a trial.
    store: Store  # Remembers.
    listener: Listener  # Is notified.
    clock: Clock  # For the budgets of time.
    deadline: float = math.inf  # On that clock: nothing is started that could not end by then.
    noted: Callable[[History], None] = lambda history: None  # Is given the history after each launch.
    observe_heat: Callable[[Sequence[Trial]], Sequence[Observation]] | None = None
    """Makes trials at once, in turns; None: it cannot be, and they are made one after the other."""
    cut: bool = False  # Whether time was up before the verification was done.
    plan: Plan = field(init=False)  # What is planned by now.
    _shown: set[Phase] = field(default_factory=set)
    _took: defaultdict[Phase, list[float]] = field(default_factory=lambda: defaultdict(list))
    _discovery_s: float = 0.0  # What the discovery took, also between its launches; its budget is its own.

    def __post_init__(self) -> None:
        self.plan = self.strategy.plan()

    def run(self, history: History | None = None, begun: Sequence[Trial] = ()) -> History:
        """The history at the end of the budget, or when nothing more is worth a launch.

        ``history`` is what the store holds, where the caller has read it, and ``begun`` its unobserved
        trials.

        Raises:
            CampaignError: the stack's own defaults cannot be measured, or no longer: the machine is broken.
            Interrupted: the user ended it; calling again continues.
        """
        if history is None:
            history, begun = replayed(self.store.read())
        pending = list(begun)
        self.plan = self.strategy.plan(history)
        tally = Tally(self.plan.objectives, self.plan.space)
        for observation in history:
            tally.add(observation)
            self._took[observation.trial.phase].append(observation.duration_s + observation.queue_s)
        self._shown |= {o.trial.phase for o in history}
        started = self.clock() - sum(o.duration_s + o.queue_s for o in history)
        self._discovery_s = sum(o.duration_s for o in history.of(Phase.DISCOVERY))
        while True:
            began = self.clock()
            announced = pending.pop(0) if pending else None
            with on_one_core():
                time = self._time(started, history)
                trial = announced or self.strategy.next_trial(history, time)
            left_s = self._left_s(started, history)
            self.cut = trial is not None and left_s < time.launch_s
            if trial is None or self.cut:
                break
            searching = trial.phase is not Phase.DISCOVERY
            if searching and (plan := self.strategy.plan(history, time)) is not self.plan:
                self.plan = plan
                self.listener.discovered(plan.campaign, history)
            self._announce(trial, history, started, time)
            trials = self._made_at_once(trial, announced is not None, pending, history, time)
            most_s = left_s + (time.launch_s or math.inf)  # one that began in time may end as others did
            late = most_s < (trial.timeout_s or limit_s(self.plan.campaign.scenario))
            observations = self._observed([replace(t, timeout_s=most_s) for t in trials] if late else trials)
            if not all(o.ok for o in observations):
                interruption.check()  # who ends us may have ended the launch before us: it is no fault of it
            if late and any(o.status is Status.TIMEOUT for o in observations):
                self.cut = True  # no fault of its point: where the campaign goes on it is made again
                break
            took_s = (self.clock() - began) / len(trials)
            for each, observation in zip(trials, observations, strict=True):
                observation = replace(observation, trial=each)
                self.store.append(observation_event(observation))
                history = history.plus([observation])
                self._took[each.phase].append(took_s)
                if each.phase is Phase.DISCOVERY:
                    self._discovery_s += took_s
                self.listener.observed(tally.add(observation))
                self.noted(history)
            if broken(history):
                raise _broken(history)
        return history

    def _made_at_once(
        self, trial: Trial, announced: bool, pending: list[Trial], history: History, time: TimeLeft
    ) -> tuple[Trial, ...]:
        """The trial, and those of its heat; all of them are in the journal now.

        Those of a heat that was interrupted are there already, and are made at once again.
        """
        if announced:
            rest = [t for t in pending if trial.heat and t.heat and t.block == trial.block]
            pending[:] = [t for t in pending if t not in rest]
            return (trial, *rest)
        trials = self.strategy.heat(trial, history, time) if self.observe_heat else (trial,)
        for each in trials:
            self.store.append(trial_event(each))
        return trials

    def _observed(self, trials: Sequence[Trial]) -> Sequence[Observation]:
        if self.observe_heat is not None and len(trials) > 1:
            return self.observe_heat(trials)
        return [self.observe(trial) for trial in trials]

    def _announce(self, trial: Trial, history: History, started: float, time: TimeLeft) -> None:
        plan, discovery = self.plan, self.strategy.discovery
        if trial.phase not in self._shown:
            self._shown.add(trial.phase)
            if trial.phase is Phase.SEARCH and (found := plan.screening(history)):
                self.listener.screened(*found)
            self.listener.phase(trial.phase, self._expected(trial.phase, history))
            if trial.phase is Phase.SCREENING and plan.design is not None:
                self.listener.designed(plan.design)
        total_s = max(0.0, self._left_s(started, history))
        left_s = seconds_left(plan, discovery, history, self._took, time, total_s)
        self.listener.launching(trial, self.clock() - started, left_s)

    def _expected(self, phase: Phase, history: History) -> int:
        """Launches of a phase, 0 where the budget decides."""
        design, verifier, discovery = self.plan.design, self.plan.verifier, self.strategy.discovery
        if phase is Phase.DISCOVERY and discovery is not None:
            return discovery.design.launches
        if phase is Phase.SCREENING and design is not None:
            return design.n_runs
        return verifier.launches_left(history) if phase is Phase.VERIFY and verifier is not None else 0

    def _time(self, started: float, history: History) -> TimeLeft:
        """Time left before the verification, for whose launches time is kept back."""
        searched_s = self.clock() - started - self._discovery_s
        return divided(self.plan, history, self._left_s(started, history), searched_s)

    def _left_s(self, started: float, history: History) -> float:
        """Time for all that is to come."""
        now = self.clock()
        return min(self.deadline - now, granted_s(self.plan, history, now - started))


def _broken(history: History) -> CampaignError:
    last = history.observations[-1]
    what = "no longer be" if any(o.ok for o in history) else "not be"
    return CampaignError(
        f"the stack's own defaults can {what} measured: {last.status}: {last.reason}",
        "see the launch's stdout and stderr; `autotune doctor` checks this machine; "
        "then the same command continues, and what failed here is no point's fault",
    )
