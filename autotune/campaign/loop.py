"""The loop: a trial from the strategy, written, observed, written again (steps 4 to 9 of the flow).

It knows ports only: how a trial is observed, stored, proposed and shown is given to it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autotune.campaign.failures import broken
from autotune.campaign.ports import Listener, Store
from autotune.campaign.strategy import Strategy
from autotune.errors import CampaignError
from autotune.history.events import observation_event, replayed, trial_event
from autotune.history.trial import History, Observation, Phase, Trial
from autotune.recommend.summary import Tally

Clock = Callable[[], float]
"""Seconds since some fixed moment."""

RECENT = 8
"""Launches by which the duration of the next one is judged."""


@dataclass
class Campaign:
    """The loop over a strategy."""

    strategy: Strategy
    """Says what is next."""
    observe: Callable[[Trial], Observation]
    """Makes a trial."""
    store: Store
    """Remembers."""
    listener: Listener
    """Is told."""
    clock: Clock
    """For the budgets of time."""
    deadline: float = math.inf
    """On that clock: nothing is started that could not end by then."""
    noted: Callable[[History], None] = lambda history: None
    """Is given the history after each launch."""
    cut: bool = False
    """Whether time was up before the verification was done."""
    _shown: set[Phase] = field(default_factory=set)
    _discovery_s: float = 0.0
    """What the discovery took, also between its launches: it has a budget of its own."""

    def run(self, history: History | None = None, begun: Sequence[Trial] = ()) -> History:
        """The history at the end of the budget, or when nothing more is worth a launch.

        Args:
            history: What the store holds, where the caller has read it; None: it is read.
            begun: Trials in it that were never observed.

        Raises:
            CampaignError: the stack's own defaults cannot be measured, or no longer: the machine is broken.
            Interrupted: the user ended it; calling again continues.
        """
        if history is None:
            history, begun = replayed(self.store.read())
        pending = list(begun)
        self.strategy = self.strategy.informed(history)
        tally = Tally(self.strategy.objectives, self.strategy.space)
        for observation in history:
            tally.add(observation)
        self._shown |= {o.trial.phase for o in history}
        started = self.clock() - sum(o.duration_s + o.queue_s for o in history)
        self._discovery_s = sum(o.duration_s for o in history.of(Phase.DISCOVERY))
        while True:
            began = self.clock()
            announced = pending.pop(0) if pending else None
            trial = announced or self.strategy.next_trial(history, self._out_of_time(started, history))
            self.cut = trial is not None and self._left_s(history) < _launch_s(history)
            if trial is None or self.cut:
                break
            if (strategy := self.strategy.informed(history)) is not self.strategy:
                self.strategy = strategy
                self.listener.discovered(strategy.campaign, history)
            self._announce(trial, history, started)
            if announced is None:
                self.store.append(trial_event(trial))
            observation = self.observe(trial)
            self.store.append(observation_event(observation))
            history = history.plus([observation])
            if trial.phase is Phase.DISCOVERY:
                self._discovery_s += self.clock() - began
            self.listener.observed(tally.add(observation))
            self.noted(history)
            if broken(history):
                raise _broken(history)
        return history

    def _announce(self, trial: Trial, history: History, started: float) -> None:
        budget, design = self.strategy.budget, self.strategy.design
        if trial.phase not in self._shown:
            self._shown.add(trial.phase)
            if trial.phase is Phase.SEARCH and (found := self.strategy.screening(history)):
                self.listener.screened(*found)
            self.listener.phase(trial.phase, self._expected(trial.phase, history))
            if trial.phase is Phase.SCREENING and design is not None:
                self.listener.designed(design)
        total, left_s = budget.launches + len(history.of(Phase.DISCOVERY)), math.inf
        if trial.phase is Phase.DISCOVERY and self.strategy.discovery is not None:
            total += self.strategy.discovery.course.launches - len(history.of(Phase.DISCOVERY))
        if trial.phase is Phase.VERIFY and self.strategy.verifier is not None:
            total = trial.number - 1 + self.strategy.verifier.launches_left(history)
        if len(history):
            left_s = (self.clock() - started) / len(history) * (total - len(history))
        if budget.seconds is not None and trial.phase not in (Phase.VERIFY, Phase.DISCOVERY):
            left_s = min(left_s, started + budget.seconds + self._discovery_s - self.clock())
        self.listener.launching(trial, trial.number, total, left_s)

    def _expected(self, phase: Phase, history: History) -> int:
        """Launches of a phase, 0 where the budget decides."""
        design, verifier = self.strategy.design, self.strategy.verifier
        if phase is Phase.DISCOVERY and self.strategy.discovery is not None:
            return self.strategy.discovery.course.launches
        if phase is Phase.SCREENING and design is not None:
            return design.n_runs
        return verifier.launches_left(history) if phase is Phase.VERIFY and verifier is not None else 0

    def _out_of_time(self, started: float, history: History) -> bool:
        """Whether the search must end: its own time is up, or the rest is for a round of the verification."""
        verifier, limit = self.strategy.verifier, self.strategy.budget.seconds
        spent = self.clock() - started - self._discovery_s
        kept = 1 + (verifier.design.launches if verifier else 0)
        own = limit is not None and (spent >= limit or spent + _launch_s(history) > limit)
        return own or self._left_s(history) < kept * _launch_s(history)

    def _left_s(self, history: History) -> float:
        """Time for all that is to come."""
        left_s, hours = self.deadline - self.clock(), self.strategy.budget.node_hours
        if hours is None:
            return left_s
        granted_s = 3600 * hours / max(self.strategy.campaign.site.nodes, 1)
        return min(left_s, granted_s - sum(o.duration_s for o in history))


def _broken(history: History) -> CampaignError:
    """Why nothing more is launched."""
    last = history.observations[-1]
    what = "no longer be" if any(o.ok for o in history) else "not be"
    return CampaignError(
        f"the stack's own defaults can {what} measured: {last.status}: {last.reason}",
        "see the launch's stdout and stderr; `python -m autotune doctor` checks this machine; "
        "then the same command continues, and what failed here is no point's fault",
    )


def _launch_s(history: History) -> float:
    """What a launch is expected to take: as long as the longest of the last few that worked.

    Without what it waited for near cores, which the next one may not have to.
    """
    worked = (o for o in history.observations[-RECENT:] if o.ok)
    return max((o.duration_s - o.extra.get("waited_s", 0.0) + o.queue_s for o in worked), default=0.0)
