"""Which trial is next, as a function of the history (steps 3, 4 and 9 of the flow).

There is no other state: a campaign that was killed goes on by reading its journal. The order is

    baseline · discovery or screening · baseline · search, one launch at a time · baseline · verification

with the baseline launches spread over the campaign, so that slow drift shows in their spread. The budget is
for all but the verification, which has its own. What moved whole launches is taken out before any phase is
asked, and how long others took limits the next launch.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TypeAlias

from autotune.campaign import failures
from autotune.campaign.description import Description
from autotune.campaign.discovery import Discovery
from autotune.campaign.drift import corrected, wants_baseline
from autotune.campaign.plan import Plan, Standing
from autotune.campaign.ports import Problem, Proposer
from autotune.campaign.time_left import PLENTY, TimeLeft
from autotune.history.objectives import Objective
from autotune.history.trial import History, Phase, Trial
from autotune.recommend.front import candidates, leader, loss, untouched
from autotune.recommend.posterior import posterior
from autotune.recommend.repeats import two_that_differ
from autotune.screening import Factor
from autotune.space import Point, Space, Value
from autotune.verification.rounds import Verifier

_WORTH_A_LAUNCH = 1e-3
"""Relative gain that another launch of a leader must promise."""


def unproved(suggested: Sequence[Point], history: History) -> Point | None:
    """The suggested point launched least, until each was launched twice, or three times if these differ."""
    made = {p: [o for o in history.of(Phase.SEARCH) if o.trial.point == p] for p in suggested}
    waiting = (p for p, launches in made.items() if len(launches) < 2 or two_that_differ(launches))
    return min(waiting, key=lambda p: len(made[p]), default=None)


def doubtful(
    space: Space, objectives: tuple[Objective, ...], verifier: Verifier | None, least: float, history: History
) -> Point | None:
    """The setting whose next launch gains most by changing what is recommended; None where none does.

    A setting expected to lose somewhere is worth less, as it will not be exported.
    Launches of one setting differ by several per cent, so the best of many that were launched once is
    mostly the luckiest. A leader that was lucky falls behind when it is launched again.
    """
    known = verifier.searched(history).known if verifier else None
    judged = [c for c in candidates(objectives, space, history) if not known or not known.losses(c)]
    if judged and (default := untouched(objectives, space, history)):
        judged.append(default)  # it may be chosen too; the baseline measures it
    if len(judged) < 2:
        return None
    costs = [loss(objectives, c) / len(objectives) for c in judged]
    found = posterior(space, [c.point for c in judged], costs, [c.launches for c in judged])
    chances = [known.chance(c.point) if known else 1.0 for c in judged]
    worth = zip(found.worth_of_another() * chances, judged, strict=True)
    least = max(_WORTH_A_LAUNCH, least)
    open_ones = [
        (gain, c.point) for gain, c in worth if gain > least and c.point in space and c.point != space.default
    ]
    return max(open_ones, key=itemgetter(0))[1] if open_ones else None


def next_freed(
    space: Space,
    objectives: Sequence[Objective],
    factors: Sequence[Factor],
    fixed: Mapping[str, Value],
    history: History,
    room: int,
) -> tuple[str, Point] | None:
    """The next factor to be set free and the point that does it; None when all were.

    Which ones were is read off the points of the second half of the search: each was the best setting of its
    time with one fixed factor changed. ``factors``: those that the screening fixed, in the order in which
    they are set free, at the values ``fixed``; ``room``: launches of the whole search.
    """
    tried: set[str] = set()

    def freed(before: History) -> tuple[str, Point] | None:
        """The best setting by then with the first factor that was not tried at its other level."""
        best = leader(objectives, space, before)
        for factor in factors if best else ():
            if factor.name not in tried and best and factor.name in best.point:
                other = factor.low if fixed[factor.name] == factor.high else factor.high
                return factor.name, space.complete({**best.point, factor.name: other})
        return None

    searched = [i for i, o in enumerate(history) if o.trial.phase is Phase.SEARCH]
    for i in searched[-(-room // 2) :]:
        point = history.observations[i].trial.point
        if any(point.get(name, value) != value for name, value in fixed.items() if name not in tried):
            one = freed(History(history.observations[:i]))
            tried |= {one[0]} if one is not None and one[1] == point else set()
    return freed(history)


CampaignPhase: TypeAlias = Callable[[Standing], Trial | None]  # Its next trial; None: nothing of it is due.
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
        """The next trial; None when none is left in the budget. Time is up: only the verification is left."""
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

    def heat(self, trial: Trial, history: History, time: TimeLeft = PLENTY) -> tuple[Trial, ...]:
        """The trial, and those that are made at once with it."""
        plan, seen = self.plan(history, time), corrected(history)
        if not trial.heat or plan.verifier is None:
            return (trial,)
        due = plan.verifier.next_heat(seen, time.raced)
        return tuple(failures.with_time_limit(t, plan.campaign.scenario, plan.space, history) for t in due)

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
        found = next((trial for phase in phases if (trial := phase(now)) is not None), None)
        if found is None and verifier is not None:
            found = verifier.next_trial(history, time.raced)
        return found


def phases_before_verification(plan: Plan, proposer: Proposer | None) -> tuple[CampaignPhase, ...]:
    """All of them, whichever comes first is heard first; None: nothing is searched."""
    search = () if proposer is None else (_suggested, partial(_search, proposer=proposer))
    phases: tuple[Callable[..., Trial | None], ...] = (
        *(_first_baseline, _failures, _drift, _screening_run, partial(_baseline, searched=False)),
        *(*search, partial(_baseline, searched=True)),
    )
    return tuple(partial(phase, plan) for phase in phases)


def _first_baseline(plan: Plan, now: Standing) -> Trial | None:
    """The stack's own defaults, until they were measured once."""
    known = any(o.ok for o in now.history.of(Phase.BASELINE))
    return plan.baseline(now.number) if plan.n_baseline and not known else None


def _failures(plan: Plan, now: Standing) -> Trial | None:
    """Launches made necessary by failures; none where launches are recorded ones, of no machine."""
    if plan.recorded or now.room <= 0:
        return None
    made = now.history.of(Phase.BASELINE, Phase.DISCOVERY, Phase.SCREENING, Phase.SEARCH)
    if failures.suspect(made):
        return plan.baseline(now.number, "several points in a row failed: is it the machine?")
    if (failed := failures.second_try(made)) is None:
        return None
    seed, note = plan.seed(now.number), f"trial {failed.number} again: it may have been the machine"
    return replace(failed, number=now.number, seed=seed, note=note, timeout_s=0.0, repeats=failed.number)


def _drift(plan: Plan, now: Standing) -> Trial | None:
    """The baseline at intervals, so that slow drift shows, and where cores lie as it was not launched yet."""
    unknown = plan.n_baseline > 0 < now.since and now.room > 0 and wants_baseline(now.history)
    due = unknown or plan.due(now.since, now.room)
    return plan.baseline(now.number, "how the machine is by now") if due else None


def _screening_run(plan: Plan, now: Standing) -> Trial | None:
    """The rows of the design, in its order."""
    design, row = plan.design, sum(not o.trial.repeats for o in now.history.of(Phase.SCREENING))
    if design is None or row >= design.n_runs:
        return None
    point, note = plan.design_points[row], f"row {row + 1} of {design.n_runs}"
    return plan.trial(now.number, Phase.SCREENING, point, note, block=design.whole_plots[row])


def _baseline(plan: Plan, now: Standing, searched: bool) -> Trial | None:
    """Missing launches of the baseline: before the search all but one, unless two differ; then it too."""
    left, made = plan.n_baseline - now.n_baseline, now.history.of(Phase.BASELINE)
    wanted = left > 1 or (left == 1 and (searched or two_that_differ(made)))
    return plan.baseline(now.number) if wanted else None


def _suggested(plan: Plan, now: Standing) -> Trial | None:
    """The discovery's findings, together: launched first, and again where launches differ."""
    if now.room <= 0 or (point := unproved(plan.campaign.suggested, now.history)) is None:
        return None
    return plan.trial(now.number, Phase.SEARCH, point, "what the discovery found, together")


def _search(plan: Plan, now: Standing, proposer: Proposer) -> Trial | None:
    """The proposer's choices, and leaders again.

    It chooses in the screened space for the first half of the search. Then what the screening fixed is free
    again, each factor first tried once more at the best setting found: a factor that does nothing on the
    average of a two-level design can matter a lot there, by an interaction that the design could not see. The
    last share is kept for leaders.
    """
    if now.room <= 0:
        return None
    scenario, room = plan.campaign.scenario, now.search_room

    def trial(point: Point, note: str) -> Trial:
        return plan.trial(now.number, Phase.SEARCH, point, note)

    def leader() -> Point | None:
        least = scenario.stop.min_gain
        return doubtful(plan.space, plan.objectives, plan.verifier, least, now.history)

    found = plan.screening(now.history)
    fixed = found[1].fixed if found else {}
    spaces = [plan.space.fix(fixed), plan.space] if fixed else [plan.space]
    if now.n_searched >= room - round(scenario.confirm.share * room):
        if (best := leader()) is not None:
            return trial(best, "a leader again")
        spaces = [plan.space]
    elif fixed and 2 * now.n_searched >= room:
        ordered = [f for f in plan.design.factors if f.name in fixed] if plan.design else []
        again = next_freed(plan.space, plan.objectives, ordered, fixed, now.history, room)
        if again is not None:
            return trial(again[1], f"{again[0]} again, at the best setting")
        spaces = [plan.space]
    max_loss = scenario.verify.max_loss if plan.verifier else None
    for space in (failures.applicable(space, now.history) for space in spaces):
        problem = Problem(space, plan.objectives, scenario.stop.min_gain, max_loss, plan.space)
        # One seed for all: a proposer that replays its own decisions must draw the same ones again.
        suggestion = proposer.propose(problem, failures.settled(now.history), scenario.seed)
        if suggestion is not None:
            return trial(suggestion.point, suggestion.note)
    best = None if plan.recorded else leader()
    return None if best is None else trial(best, "a leader again: nothing else is left")
