"""The phases of a campaign before its verification (data flow: screening and proposer).

Each phase is a class. Its method ``due`` yields the trials that could be launched at once now, the next one
first: none of them depends on the result of another one. A phase that yields nothing is over, or not begun.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import Protocol

from autotune.campaign import failures
from autotune.campaign.plan import Plan, Standing
from autotune.campaign.ports import Problem, Proposer
from autotune.history.objectives import Objective
from autotune.history.trial import History, Observation, Phase, Trial
from autotune.recommend.front import candidates, leader, loss, untouched
from autotune.recommend.posterior import posterior
from autotune.recommend.repeats import two_that_differ
from autotune.screening import Factor
from autotune.space import Point, Space, Value
from autotune.verification.rounds import Verifier

_WORTH_A_LAUNCH = 1e-3
"""Least expected relative gain for which a leader (a setting that may be the best) is launched again."""


class CampaignPhase(Protocol):
    """Choose the trials of one phase."""

    def due(self, standing: Standing) -> Iterator[Trial]:
        """Yield the trials that may be made at once, the next one first; none if the phase needs none."""


def before_verification(plan: Plan, proposer: Proposer | None) -> tuple[CampaignPhase, ...]:
    """Return the phases in their order; the first one that yields a trial is next.

    Without a proposer (None) nothing is searched.
    """
    search = () if proposer is None else (Suggested(plan), Search(plan, proposer))
    begin = (FirstBaseline(plan), Repetitions(plan), ScreeningRuns(plan), Baseline(plan, searched=False))
    return (*begin, *search, Baseline(plan, searched=True))


@dataclass(frozen=True)
class FirstBaseline:
    """Measure the stack's own defaults once, before anything else."""

    plan: Plan

    def due(self, standing: Standing) -> Iterator[Trial]:
        """Yield a launch of the stack's own defaults, until one has been measured."""
        measured = any(o.ok for o in standing.history.of(Phase.BASELINE))
        if self.plan.n_baseline and not measured:
            yield self.plan.baseline(standing.number)


@dataclass(frozen=True)
class Repetitions:
    """Find out whether the machine was at fault where launches failed; not used with a recorded table."""

    plan: Plan

    def due(self, standing: Standing) -> Iterator[Trial]:
        """Yield a launch of the stack's own defaults, or a failed trial again, if failures require that."""
        if self.plan.recorded or standing.room <= 0:
            return
        launches = standing.history.of(Phase.BASELINE, Phase.DISCOVERY, Phase.SCREENING, Phase.SEARCH)
        if failures.suspect(launches):
            yield self.plan.baseline(standing.number, "several points in a row failed: is it the machine?")
        elif (failed := failures.second_try(launches)) is not None:
            note = f"trial {failed.number} again: it may have been the machine"
            repetition = replace(failed, note=note, timeout_s=0.0, repeats=failed.number, heat=0)
            yield replace(repetition, number=standing.number, seed=self.plan.seed(standing.number))


@dataclass(frozen=True)
class ScreeningRuns:
    """Make the runs of the two-level design, in its order."""

    plan: Plan

    def due(self, standing: Standing) -> Iterator[Trial]:
        """Yield the remaining runs of the design's current block that the budget allows, at least one."""
        if (design := self.plan.design) is None:
            return
        made = sum(not o.trial.repeats for o in standing.history.of(Phase.SCREENING))
        blocks = design.whole_plots
        for row in range(made, min(design.n_runs, made + max(standing.room, 1))):
            if blocks[row] != blocks[made]:
                return
            point, note = self.plan.design_points[row], f"row {row + 1} of {design.n_runs}"
            yield self.plan.trial(standing.number, Phase.SCREENING, point, note, block=blocks[row])


@dataclass(frozen=True)
class Baseline:
    """Measure the stack's own defaults as often as requested."""

    plan: Plan
    searched: bool  # Whether the search is over; until then the last launch is held back.

    def due(self, standing: Standing) -> Iterator[Trial]:
        """Yield the next launch; the last waits for the end of the search, unless earlier launches differ."""
        missing = self.plan.n_baseline - standing.n_baseline
        baseline_launches = standing.history.of(Phase.BASELINE)
        if missing > 1 or (missing == 1 and (self.searched or two_that_differ(baseline_launches))):
            yield self.plan.baseline(standing.number)


@dataclass(frozen=True)
class Suggested:
    """Launch the settings that the discovery suggested."""

    plan: Plan

    def due(self, standing: Standing) -> Iterator[Trial]:
        """Yield launches of the suggested points, those with the fewest launches first, within the budget."""
        room = max(standing.room, 0)
        for point in unproved(self.plan.campaign.suggested, standing.history)[:room]:
            note = "what the discovery found, together"
            yield self.plan.trial(standing.number, Phase.SEARCH, point, note)


@dataclass(frozen=True)
class Search:
    """Launch the proposer's choices, and launch leaders (settings that may be the best) again.

    In the first half of the search, the factors that the screening fixed keep their values. Then they are
    free again, and each of them is tried once at its other level in the best setting found: a factor that
    has no effect on the average of a two-level design can matter a lot there, by an interaction that the
    design could not see. The last launches of the search (``confirm.share``) are reserved for leaders.
    """

    plan: Plan
    proposer: Proposer

    def due(self, standing: Standing) -> Iterator[Trial]:
        """Yield the next trial, then a leader, further choices of the proposer, and further leaders.

        The next trial is the one that precedes the proposer's choice, else that choice, else a leader.
        """
        if standing.room <= 0:
            return
        preceding = self._preceding(standing)
        first = preceding if isinstance(preceding, Trial) else self._proposed(standing.history, preceding)
        if first is None and not self.plan.recorded and (best := self._leaders(standing)):
            first = self._again(standing, best[0], ": nothing else is left")
        if first is None:
            return
        yield first
        room = standing.room - 1
        leaders = [point for point in self._leaders(standing) if point != first.point][:room]
        trials = [self._again(standing, point) for point in leaders]
        yield from trials[:1]
        pending = [first.point, *leaders[:1]]
        yield from islice(self._further(standing, pending), room - len(trials[:1]))
        yield from trials[1:]

    def _preceding(self, standing: Standing) -> Trial | Mapping[str, Value]:
        """Return the trial that precedes the proposer's choice.

        If there is none, return the fixed factors with their values: the proposer first chooses among
        settings that have these values.
        """
        plan, room, fixed = self.plan, standing.search_room, self.plan.fixed(standing.history)
        if standing.n_searched >= room - round(plan.campaign.scenario.confirm.share * room):
            return next((self._again(standing, best) for best in self._leaders(standing)), {})
        if fixed and 2 * standing.n_searched >= room:
            ordered = [f for f in plan.design.factors if f.name in fixed] if plan.design else []
            freed = next_freed(plan.space, plan.objectives, ordered, fixed, standing.history)
            if freed is None:
                return {}
            name, point = freed
            note = f"{name} again, at the best setting"
            return plan.trial(standing.number, Phase.SEARCH, point, note, freed=name)
        return fixed

    def _leaders(self, standing: Standing) -> Sequence[Point]:
        """Return the settings for which another launch may change the recommendation."""
        plan = self.plan
        min_gain = plan.campaign.scenario.stop.min_gain
        return doubtful(plan.space, plan.objectives, plan.verifier, min_gain, standing.history)

    def _again(self, standing: Standing, point: Point, reason: str = "") -> Trial:
        return self.plan.trial(standing.number, Phase.SEARCH, point, f"a leader again{reason}")

    def _proposed(self, history: History, fixed: Mapping[str, Value]) -> Trial | None:
        """Return the proposer's choice among settings with these values, else among all settings.

        Return None if nothing is worth a launch.
        """
        plan, scenario = self.plan, self.plan.campaign.scenario
        max_loss = scenario.verify.max_loss if plan.verifier else None
        spaces = [plan.space.fix(fixed), plan.space] if fixed else [plan.space]
        earlier = history.of_discovery(plan.campaign.whole, plan.space).observations
        for space in (failures.applicable(space, history) for space in spaces):
            problem = Problem(space, plan.objectives, scenario.stop.min_gain, max_loss, plan.space, earlier)
            # All calls get the same seed: a proposer that replays its decisions must draw the same numbers.
            suggestion = self.proposer.propose(problem, failures.settled(history), scenario.seed)
            if suggestion is not None:
                return plan.trial(history.next_number, Phase.SEARCH, suggestion.point, suggestion.note)
        return None

    def _further(self, standing: Standing, pending: Iterable[Point]) -> Iterator[Trial]:
        """Yield the proposer's further choices, to be measured at once with settings that have no result yet.

        The proposer is given an expected result for each of those settings: the setting's last result, or
        that of the default. The method is known as the constant liar (Ginsbourger, Le Riche and Carraro,
        "Kriging is well-suited to parallelize optimization", 2010, section 2.3.2). Nothing is chosen in this
        way while it is the turn of leaders, or of factors that are set free.
        """
        planned_points = set(pending)
        history = standing.history
        for point in pending:
            history = history.plus(self._expected(history, point))
        while not isinstance(fixed := self._preceding(self.plan.standing(history, standing.time)), Trial):
            proposal = self._proposed(history, fixed)
            if proposal is None or proposal.point in planned_points:
                return
            yield proposal
            history = history.plus(self._expected(history, proposal.point))
            planned_points.add(proposal.point)

    def _expected(self, history: History, point: Point) -> Iterator[Observation]:
        """Yield the expected observation of a setting: a copy of its last one, or of the default's."""
        observations = history.of_points(self.plan.space)
        last_of = {o.trial.point: o for o in observations if o.ok}
        if (similar := last_of.get(point) or last_of.get(self.plan.space.default)) is not None:
            trial = self.plan.trial(history.next_number, Phase.SEARCH, point, "expected")
            yield replace(similar, trial=trial)


def unproved(suggested: Sequence[Point], history: History) -> Sequence[Point]:
    """Return the suggested points that still need launches, those with the fewest launches first.

    Each is launched twice, or three times if two launches differ.
    """
    launches_of = {p: [o for o in history.of(Phase.SEARCH) if o.trial.point == p] for p in suggested}
    unfinished = (p for p, launches in launches_of.items() if len(launches) < 2 or two_that_differ(launches))
    return sorted(unfinished, key=lambda p: len(launches_of[p]))


def doubtful(
    space: Space,
    objectives: tuple[Objective, ...],
    verifier: Verifier | None,
    min_gain: float,
    history: History,
) -> Sequence[Point]:
    """Return the settings whose next launch may change the recommendation, the largest expected gain first.

    A setting that probably loses somewhere is worth less, as it will not be exported. Launches of one setting
    differ by several per cent, so the best of many settings with a single launch is mostly the luckiest of
    them. A leader that was only lucky falls behind when it is launched again.

    Args:
        space: The space of settings.
        objectives: The objectives.
        verifier: The verification, which knows which settings may lose; None: nothing is verified.
        min_gain: Least relative gain that another launch must promise.
        history: All observations so far.
    """
    seen = verifier.searched(history) if verifier else None
    measured = candidates(objectives, space, history)
    compared = [c for c in measured if not seen or not seen.prevailing.losses(c)]
    if compared and (default := untouched(objectives, space, history)):
        compared.append(default)  # the default may be best too, but launches of the baseline measure it
    if len(compared) < 2:
        return ()
    costs = [loss(objectives, c) / len(objectives) for c in compared]
    beliefs = posterior(space, [c.point for c in compared], costs, [c.launches for c in compared])
    chances = [seen.known.chance(c.point) if seen else 1.0 for c in compared]
    worth = zip(beliefs.worth_of_another() * chances, compared, strict=True)
    min_gain = max(_WORTH_A_LAUNCH, min_gain)
    open_settings = [
        (gain, c.point)
        for gain, c in worth
        if gain > min_gain and c.point in space and c.point != space.default
    ]
    return [point for _, point in sorted(open_settings, key=itemgetter(0), reverse=True)]


def next_freed(
    space: Space,
    objectives: Sequence[Objective],
    factors: Sequence[Factor],
    fixed: Mapping[str, Value],
    history: History,
) -> tuple[str, Point] | None:
    """Return the next fixed factor to try at its other level, and the point to launch; None if none is left.

    The point is the best setting so far, with the other level of the first factor that was not tried yet.

    Args:
        space: The space of settings.
        objectives: The objectives.
        factors: The factors that the screening fixed, in the order in which they are tried.
        fixed: The value to which the screening fixed each factor.
        history: All observations so far; their trials record which factors they tried again.
    """
    freed_names = {o.trial.freed for o in history}
    best = leader(objectives, space, history)
    for factor in factors if best else ():
        if best and factor.name not in freed_names and factor.name in best.point:
            other_level = factor.low if fixed[factor.name] == factor.high else factor.high
            return factor.name, space.complete({**best.point, factor.name: other_level})
    return None
