"""The phases of a campaign: each says which trial of its own is next (steps 3, 4 and 9 of the flow).

A phase knows the plan and is asked with the standing. The first that has a trial is heard, in the order
in which ``phases_before_verification`` lists them.
"""

from dataclasses import dataclass, replace
from typing import Protocol

from autotune.campaign import failures
from autotune.campaign.freeing import next_freed
from autotune.campaign.leaders import doubtful, unproved
from autotune.campaign.plan import Plan, Standing
from autotune.campaign.ports import Problem, Proposer
from autotune.history.trial import Phase, Trial
from autotune.recommend.repeats import two_that_differ
from autotune.space import Point


class CampaignPhase(Protocol):
    """One kind of launches."""

    def next(self, now: Standing) -> Trial | None:
        """The next trial of this phase; None: nothing of it is due."""
        ...


def phases_before_verification(plan: Plan, proposer: Proposer | None) -> tuple[CampaignPhase, ...]:
    """All of them, whichever comes first is heard first; None: nothing is searched."""
    before = (_FirstBaseline(plan), _Failures(plan), _Drift(plan), _ScreeningRuns(plan))
    searching = () if proposer is None else (_Suggested(plan), _Search(plan, proposer))
    return (*before, _Baseline(plan, False), *searching, _Baseline(plan, True))


@dataclass(frozen=True, slots=True)
class _FirstBaseline:
    """The stack's own defaults, until they were measured once."""

    plan: Plan

    def next(self, now: Standing) -> Trial | None:
        known = any(o.ok for o in now.history.of(Phase.BASELINE))
        return self.plan.baseline(now.number) if self.plan.n_baseline and not known else None


@dataclass(frozen=True, slots=True)
class _Failures:
    """Launches made necessary by failures; none where launches are recorded ones, of no machine."""

    plan: Plan

    def next(self, now: Standing) -> Trial | None:
        if self.plan.recorded or now.room <= 0:
            return None
        made = now.history.of(Phase.BASELINE, Phase.DISCOVERY, Phase.SCREENING, Phase.SEARCH)
        if failures.suspect(made):
            return self.plan.baseline(now.number, "several points in a row failed: is it the machine?")
        if (failed := failures.second_try(made)) is None:
            return None
        seed, note = self.plan.seed(now.number), f"trial {failed.number} again: it may have been the machine"
        return replace(failed, number=now.number, seed=seed, note=note, timeout_s=0.0, repeats=failed.number)


@dataclass(frozen=True, slots=True)
class _Drift:
    """The baseline at intervals, so that slow drift shows."""

    plan: Plan

    def next(self, now: Standing) -> Trial | None:
        due = self.plan.due(now.since, now.room)
        return self.plan.baseline(now.number, "how the machine is by now") if due else None


@dataclass(frozen=True, slots=True)
class _ScreeningRuns:
    """The rows of the design, in its order."""

    plan: Plan

    def next(self, now: Standing) -> Trial | None:
        design, row = self.plan.design, sum(not o.trial.repeats for o in now.history.of(Phase.SCREENING))
        if design is None or row >= design.n_runs:
            return None
        point, note = self.plan.design_points[row], f"row {row + 1} of {design.n_runs}"
        return self.plan.trial(now.number, Phase.SCREENING, point, note, block=design.whole_plots[row])


@dataclass(frozen=True, slots=True)
class _Baseline:
    """Missing launches of the baseline: before the search all but one, unless two differ; then it too."""

    plan: Plan
    searched: bool

    def next(self, now: Standing) -> Trial | None:
        left, made = self.plan.n_baseline - now.n_baseline, now.history.of(Phase.BASELINE)
        wanted = left > 1 or (left == 1 and (self.searched or two_that_differ(made)))
        return self.plan.baseline(now.number) if wanted else None


@dataclass(frozen=True, slots=True)
class _Suggested:
    """The discovery's findings, together: launched first, and again where launches differ."""

    plan: Plan

    def next(self, now: Standing) -> Trial | None:
        if now.room <= 0 or (point := unproved(self.plan.campaign.suggested, now.history)) is None:
            return None
        return self.plan.trial(now.number, Phase.SEARCH, point, "what the discovery found, together")


@dataclass(frozen=True, slots=True)
class _Search:
    """The proposer's choices, and leaders again.

    It chooses in the screened space for the first half of the search. Then what the screening fixed is free
    again, each factor first tried once more at the best setting found: a factor that does nothing on the
    average of a two-level design can matter a lot there, by an interaction that the design could not see. The
    last share is kept for leaders.
    """

    plan: Plan
    proposer: Proposer

    def next(self, now: Standing) -> Trial | None:
        if now.room <= 0:
            return None
        plan, scenario = self.plan, self.plan.campaign.scenario
        found = plan.screening(now.history)
        fixed = found[1].fixed if found else {}
        spaces = [plan.space.fix(fixed), plan.space] if fixed else [plan.space]
        room = now.search_room
        if now.n_searched >= room - round(scenario.confirm.share * room):
            if (leader := self._leader(now)) is not None:
                return self._trial(now, leader, "a leader again")
            spaces = [plan.space]
        elif fixed and 2 * now.n_searched >= room:
            ordered = [f for f in plan.design.factors if f.name in fixed] if plan.design else []
            again = next_freed(plan.space, plan.objectives, ordered, fixed, now.history, room)
            if again is not None:
                return self._trial(now, again[1], f"{again[0]} again, at the best setting")
            spaces = [plan.space]
        max_loss = scenario.verify.max_loss if plan.verifier else None
        for space in (failures.applicable(space, now.history) for space in spaces):
            problem = Problem(space, plan.objectives, scenario.stop.min_gain, max_loss, plan.space)
            # One seed for all: a proposer that replays its own decisions must draw the same ones again.
            suggestion = self.proposer.propose(problem, failures.settled(now.history), scenario.seed)
            if suggestion is not None:
                return self._trial(now, suggestion.point, suggestion.note)
        if plan.recorded or (leader := self._leader(now)) is None:
            return None
        return self._trial(now, leader, "a leader again: nothing else is left")

    def _leader(self, now: Standing) -> Point | None:
        plan = self.plan
        least = plan.campaign.scenario.stop.min_gain
        return doubtful(plan.space, plan.objectives, plan.verifier, least, now.history)

    def _trial(self, now: Standing, point: Point, note: str) -> Trial:
        return self.plan.trial(now.number, Phase.SEARCH, point, note)
