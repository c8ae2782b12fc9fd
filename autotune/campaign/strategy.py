"""Choose the next trial as a function of the history (steps 3, 4 and 9 of the flow).

There is no other state: a campaign that was killed goes on by reading its journal. The order is

    baseline · discovery or screening · baseline · search, one choice at a time · baseline · verification

Where launches can be alive at once, each of these has the untouched stack beside it in a heat, and phases
read ratios of heats. The budget is for all but the verification, which has its own, and does not count the
untouched launches beside others. The durations of earlier launches limit the next one.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import TypeAlias

from autotune.campaign import failures
from autotune.campaign.discovery import Discovery
from autotune.campaign.plan import SETTINGS_PER_HEAT, Plan, Standing
from autotune.campaign.ports import Problem, Proposer
from autotune.campaign.same_moment import at_one_moment
from autotune.campaign.spec import CampaignSpec
from autotune.campaign.time_left import PLENTY, TimeLeft
from autotune.history.objectives import Objective
from autotune.history.trial import History, Observation, Phase, Trial
from autotune.recommend.front import candidates, leader, loss, untouched
from autotune.recommend.posterior import posterior
from autotune.recommend.repeats import two_that_differ
from autotune.screening import Factor
from autotune.space import Point, Space, Value
from autotune.verification.rounds import Verifier

_WORTH_A_LAUNCH = 1e-3
"""Least relative gain that another launch of a leader must promise."""


def unproved(suggested: Sequence[Point], history: History) -> Sequence[Point]:
    """Return the suggested points that still need launches, least launched first.

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
    """Return the settings whose next launch may change the recommendation, by gain, the largest first.

    A setting expected to lose somewhere is worth less, as it will not be exported. Launches of one setting
    differ by several per cent, so the best of many that were launched once is mostly the luckiest. A leader
    that was lucky falls behind when it is launched again.

    Args:
        space: The space of settings.
        objectives: The objectives.
        verifier: The verification, which knows what settings may lose; None without one.
        min_gain: Least relative gain that another launch must promise.
        history: All observations so far.
    """
    evidence = verifier.searched(history).known if verifier else None
    compared = [c for c in candidates(objectives, space, history) if not evidence or not evidence.losses(c)]
    if compared and (default := untouched(objectives, space, history)):
        compared.append(default)  # it may turn out best as well, but the baseline measures it
    if len(compared) < 2:
        return ()
    costs = [loss(objectives, c) / len(objectives) for c in compared]
    beliefs = posterior(space, [c.point for c in compared], costs, [c.launches for c in compared])
    chances = [evidence.chance(c.point) if evidence else 1.0 for c in compared]
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
    """Return the next factor to be set free and the point that does it; None when all were freed.

    The point is the best setting so far with the first factor that was not freed yet at its other level.

    Args:
        space: The space of settings.
        objectives: The objectives.
        factors: The factors that the screening fixed, in the order in which they are set free.
        fixed: The values to which it fixed them.
        history: All observations so far, whose trials say which factors they set free.
    """
    freed_names = {o.trial.freed for o in history}
    best = leader(objectives, space, history)
    for factor in factors if best else ():
        if best and factor.name not in freed_names and factor.name in best.point:
            other_level = factor.low if fixed[factor.name] == factor.high else factor.high
            return factor.name, space.complete({**best.point, factor.name: other_level})
    return None


_SUGGESTED = "what the discovery found, together"
CampaignPhase: TypeAlias = Callable[[Standing], Trial | None]
"""Returns the phase's next trial; None if no launch of it is due."""
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
        """Return the plan by this history; once a discovery is complete, with the space it left to search."""
        history = at_one_moment(history)
        discovery_launches = history.of(Phase.DISCOVERY)
        if self.discovery is None or not len(discovery_launches):
            return self._first_plan
        complete = (
            self._discovered[0] == discovery_launches or self.discovery.next_trial(history, 0, time) is None
        )
        return self._after(self.discovery, discovery_launches) if complete else self._first_plan

    def _after(self, discovery: Discovery, discovery_launches: History) -> Plan:
        """Return the plan after these launches of a discovery."""
        if self._discovered[0] != discovery_launches:
            findings = discovery.found(discovery_launches)
            narrowing = self.campaign.narrowing or discovery.narrowing(findings)
            campaign = replace(self.campaign, space=narrowing.space, discovered=findings, narrowing=narrowing)
            self._discovered = discovery_launches, Plan(campaign)
        return self._discovered[1]

    def next_trial(self, history: History, time: TimeLeft = PLENTY) -> Trial | None:
        """Return the next trial; None if none is left in the budget.

        If the time limit of the search is reached, only launches of the verification are returned.
        """
        total, comparable = self.campaign.scenario.budget.total_launches, at_one_moment(history)
        if total is not None and len(history) >= total:
            return None
        trial, plan = None, self._first_plan
        if self.discovery is not None and any(o.ok for o in comparable.of(Phase.BASELINE)):
            seed = plan.seed(comparable.next_number)
            trial = self.discovery.next_trial(comparable, seed, time)
            plan = plan if trial else self._after(self.discovery, comparable.of(Phase.DISCOVERY))
        trial = trial or self._planned(plan, comparable, time)
        return trial and failures.with_time_limit(trial, plan.campaign.scenario, plan.space, history)

    def next_heat(self, history: History, time: TimeLeft = PLENTY) -> tuple[Trial, ...]:
        """Return the next trial and those that are made at once with it; empty if the budget has none left.

        Before the verification the first trial of several is the untouched stack.
        """
        trial = self.next_trial(history, time)
        if trial is None:
            return ()
        plan, comparable = self.plan(history, time), at_one_moment(history)
        if trial.phase is Phase.VERIFY:
            trials = plan.verifier.next_heat(comparable, time.raced) if plan.verifier else (trial,)
        elif not self.campaign.heats or trial.phase is Phase.STARTS:  # starts compare nothing
            return (failures.with_time_limit(trial, plan.campaign.scenario, plan.space, history),)
        else:
            companions = islice(self._companions(trial, plan, comparable, time), SETTINGS_PER_HEAT - 1)
            settings = (trial, *companions)
            default = plan.baseline(trial.number, "beside what follows")
            trials = tuple(
                replace(t, number=n, seed=plan.seed(n), heat=default.number)
                for n, t in enumerate((default, *settings), start=default.number)
            )
        total = self.campaign.scenario.budget.total_launches
        if total is not None and len(history) + len(trials) > total:
            return ()
        limit = (plan.campaign.scenario, plan.space, history)
        return tuple(failures.with_time_limit(t, *limit) for t in trials)

    def _companions(self, trial: Trial, plan: Plan, history: History, time: TimeLeft) -> Iterator[Trial]:
        """Yield trials that may be made at once with one, as they do not depend on its result."""
        standing = plan.standing(history, time)
        room = max(standing.room - 1, 0)
        if trial.repeats or trial.phase is Phase.BASELINE:
            return
        if trial.phase is Phase.DISCOVERY and self.discovery is not None:
            seed = plan.seed(history.next_number)
            yield from islice(self.discovery.next_trials(history, seed, time), 1, None)
        elif trial.phase is Phase.SCREENING:
            rows = islice(_rows(plan, standing), 1, room + 1)
            yield from (row for row in rows if row.block == trial.block)
        elif trial.phase is Phase.SEARCH:
            points = unproved(plan.campaign.suggested, history)
            first, note = trial.point in points, _SUGGESTED
            if not first:
                points, note = _leaders(plan, standing), "a leader again"
            other_points = [point for point in points if point != trial.point][:room]
            yield from (plan.trial(standing.number, Phase.SEARCH, point, note) for point in other_points[:1])
            if not first and self.proposer is not None:
                pending = [trial.point, *other_points[:1]]
                yield from islice(
                    _further(plan, standing, self.proposer, pending), room - len(other_points[:1])
                )
            yield from (plan.trial(standing.number, Phase.SEARCH, point, note) for point in other_points[1:])

    def _planned(self, plan: Plan, history: History, time: TimeLeft) -> Trial | None:
        """Return the next trial of a plan; a verification that was begun goes on before anything else."""
        standing, verifier = plan.standing(history, time), plan.verifier
        searching = not time.up
        if verifier and len(history) and history.observations[-1].trial.phase in (Phase.VERIFY, Phase.STARTS):
            if (verification_trial := verifier.next_trial(history, time.raced)) is not None:
                return verification_trial
            # If it verified nothing and time is left, the search goes on.
            searching &= not (time.all_s < math.inf and verifier.holds(history))
        phases = phases_before_verification(plan, self.proposer) if searching else ()
        next_planned = next((trial for phase in phases if (trial := phase(standing)) is not None), None)
        if next_planned is None and verifier is not None:
            next_planned = verifier.next_trial(history, time.raced)
        return next_planned


def phases_before_verification(plan: Plan, proposer: Proposer | None) -> tuple[CampaignPhase, ...]:
    """Return the phases before the verification; the first one with a trial due is next.

    Without a proposer (None) nothing is searched.
    """
    search = () if proposer is None else (_suggested, partial(_search, proposer=proposer))
    phases: tuple[Callable[..., Trial | None], ...] = (
        *(_first_baseline, _failures, _screening_run, partial(_baseline, searched=False)),
        *(*search, partial(_baseline, searched=True)),
    )
    return tuple(partial(phase, plan) for phase in phases)


def _first_baseline(plan: Plan, standing: Standing) -> Trial | None:
    """Return a launch of the stack's own defaults, until one has been measured."""
    measured = any(o.ok for o in standing.history.of(Phase.BASELINE))
    return plan.baseline(standing.number) if plan.n_baseline and not measured else None


def _failures(plan: Plan, standing: Standing) -> Trial | None:
    """Return a launch made necessary by failures; None without failures, or for recorded launches."""
    if plan.recorded or standing.room <= 0:
        return None
    launches = standing.history.of(Phase.BASELINE, Phase.DISCOVERY, Phase.SCREENING, Phase.SEARCH)
    if failures.suspect(launches):
        return plan.baseline(standing.number, "several points in a row failed: is it the machine?")
    if (failed := failures.second_try(launches)) is None:
        return None
    note = f"trial {failed.number} again: it may have been the machine"
    repetition = replace(failed, note=note, timeout_s=0.0, repeats=failed.number, heat=0)
    return replace(repetition, number=standing.number, seed=plan.seed(standing.number))


def _screening_run(plan: Plan, standing: Standing) -> Trial | None:
    """Return the next row of the design, in its order."""
    return next(_rows(plan, standing), None)


def _rows(plan: Plan, standing: Standing) -> Iterator[Trial]:
    """Yield the remaining rows of the design."""
    if (design := plan.design) is None:
        return
    for row in range(sum(not o.trial.repeats for o in standing.history.of(Phase.SCREENING)), design.n_runs):
        point, note = plan.design_points[row], f"row {row + 1} of {design.n_runs}"
        yield plan.trial(standing.number, Phase.SCREENING, point, note, block=design.whole_plots[row])


def _baseline(plan: Plan, standing: Standing, searched: bool) -> Trial | None:
    """Return the next missing launch of the baseline; None if none is due.

    Before the search the last one is held back, unless two launches differ; after it none is.
    """
    missing, baseline_launches = plan.n_baseline - standing.n_baseline, standing.history.of(Phase.BASELINE)
    due = missing > 1 or (missing == 1 and (searched or two_that_differ(baseline_launches)))
    return plan.baseline(standing.number) if due else None


def _suggested(plan: Plan, standing: Standing) -> Trial | None:
    """Return a launch of what the discovery found; each is launched first, and again if launches differ."""
    points = unproved(plan.campaign.suggested, standing.history) if standing.room > 0 else ()
    return plan.trial(standing.number, Phase.SEARCH, points[0], _SUGGESTED) if points else None


def _leaders(plan: Plan, standing: Standing) -> Sequence[Point]:
    """Return the settings for which another launch may change the recommendation."""
    min_gain = plan.campaign.scenario.stop.min_gain
    return doubtful(plan.space, plan.objectives, plan.verifier, min_gain, standing.history)


def _search(plan: Plan, standing: Standing, proposer: Proposer) -> Trial | None:
    """Return the proposer's choice, or a leader to launch again.

    The proposer chooses in the screened space for the first half of the search. Then the factors that the
    screening fixed are free again, each tried once more at the best setting found: a factor that does nothing
    on the average of a two-level design can matter a lot there, by an interaction that the design could not
    see. The last share of the search is reserved for leaders.
    """
    if standing.room <= 0:
        return None
    due = _due(plan, standing)
    if isinstance(due, Trial):
        return due
    if (proposed := _proposed(plan, standing.history, proposer, due)) is not None:
        return proposed
    best = None if plan.recorded else next(iter(_leaders(plan, standing)), None)
    note = "a leader again: nothing else is left"
    return None if best is None else plan.trial(standing.number, Phase.SEARCH, best, note)


def _due(plan: Plan, standing: Standing) -> Trial | Mapping[str, Value]:
    """Return the trial that precedes the proposer's choice.

    If there is none, return the factors that are fixed where the proposer chooses first.
    """
    room, fixed = standing.search_room, plan.fixed(standing.history)
    if standing.n_searched >= room - round(plan.campaign.scenario.confirm.share * room):
        for best in _leaders(plan, standing)[:1]:
            return plan.trial(standing.number, Phase.SEARCH, best, "a leader again")
        return {}
    if fixed and 2 * standing.n_searched >= room:
        ordered = [f for f in plan.design.factors if f.name in fixed] if plan.design else []
        if (freed := next_freed(plan.space, plan.objectives, ordered, fixed, standing.history)) is not None:
            name, point = freed
            note = f"{name} again, at the best setting"
            return plan.trial(standing.number, Phase.SEARCH, point, note, freed=name)
        return {}
    return fixed


def _proposed(plan: Plan, history: History, proposer: Proposer, fixed: Mapping[str, Value]) -> Trial | None:
    """Return the proposer's choice, which it makes first among settings with these factors fixed."""
    scenario = plan.campaign.scenario
    max_loss = scenario.verify.max_loss if plan.verifier else None
    spaces = [plan.space.fix(fixed), plan.space] if fixed else [plan.space]
    for space in (failures.applicable(space, history) for space in spaces):
        problem = Problem(space, plan.objectives, scenario.stop.min_gain, max_loss, plan.space)
        # All calls get the same seed: a proposer that replays its decisions must draw the same ones again.
        suggestion = proposer.propose(problem, failures.settled(history), scenario.seed)
        if suggestion is not None:
            return plan.trial(history.next_number, Phase.SEARCH, suggestion.point, suggestion.note)
    return None


def _further(plan: Plan, standing: Standing, proposer: Proposer, pending: Iterable[Point]) -> Iterator[Trial]:
    """Yield the proposer's further choices, to be measured beside settings without a result yet.

    The proposer is given an expected result for each of those: the last one of the setting, or that of the
    default. This is the constant liar (Ginsbourger, Le Riche and Carraro, "Kriging is well-suited to
    parallelize optimization", 2010, section 2.3.2). Nothing is chosen in this way while leaders or factors
    that are set free have their turn.
    """
    planned_points = set(pending)
    history = standing.history
    for point in pending:
        history = history.plus(_expected(plan, history, point))
    while not isinstance(due := _due(plan, plan.standing(history, standing.time)), Trial):
        proposal = _proposed(plan, history, proposer, due)
        if proposal is None or proposal.point in planned_points:
            return
        yield proposal
        history = history.plus(_expected(plan, history, proposal.point))
        planned_points.add(proposal.point)


def _expected(plan: Plan, history: History, point: Point) -> Iterator[Observation]:
    """Yield a launch of a setting as it is expected to end: as its last one did, or the default's last."""
    observations = history.of_points(plan.space)
    last_of = {o.trial.point: o for o in observations if o.ok}
    if (similar := last_of.get(point) or last_of.get(plan.space.default)) is not None:
        trial = plan.trial(history.next_number, Phase.SEARCH, point, "expected")
        yield replace(similar, trial=trial)
