"""Which trial is next, as a function of the history (steps 3, 4 and 9 of the flow).

There is no other state: a campaign that was killed goes on by reading its journal. The order is

    baseline · discovery or screening · baseline · search, one launch at a time · baseline · verification

with the baseline launches spread over the campaign, so that slow drift shows in their spread. The budget is
for all but the verification, which has its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from autotune.campaign import failures
from autotune.campaign.description import Description, SiteKind
from autotune.campaign.discovery import Discovery
from autotune.campaign.drift import levelled
from autotune.campaign.freeing import next_freed
from autotune.campaign.leaders import doubtful, unproved
from autotune.campaign.ports import Problem, Proposer
from autotune.campaign.time_left import PLENTY, TimeLeft
from autotune.errors import ScenarioError, UserError
from autotune.history.objectives import Objective, scores, slots
from autotune.history.trial import History, Observation, Phase, Subject, Trial
from autotune.recommend.front import Same
from autotune.scenario.sections import Budget
from autotune.screening import (
    Effects,
    ScreeningDesign,
    ScreeningResult,
    analyse,
    as_run,
    factors_of,
    foldover,
    plackett_burman,
    points_of,
    screened,
)
from autotune.screening.decision import Goal
from autotune.space import Point, Space
from autotune.stacks import dialect
from autotune.verification.blocks import two_that_differ
from autotune.verification.rounds import Verifier
from autotune.verification.sequential import SequentialDesign


@dataclass(frozen=True)
class Strategy:
    """Which trial is next, as a function of the history."""

    campaign: Description
    """What was asked for, and of which space."""
    proposer: Proposer | None = None
    """Chooses after the screening; None: nothing is searched."""
    suggested: tuple[Point, ...] = ()
    """Points to search first."""
    confirmed: tuple[Point, ...] = ()
    """Points to verify in any case: a discovery confirmed that they gain, and saw them lose at no size."""

    @property
    def space(self) -> Space:
        """What may be chosen."""
        return self.campaign.space

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What is judged."""
        return self.campaign.objectives

    @cached_property
    def budget(self) -> Budget:
        """Of baseline, screening and search: what the limit on all phases leaves to them.

        Raises:
            ScenarioError: it leaves nothing.
        """
        wanted, scenario = self.campaign.scenario.budget, self.campaign.scenario
        if wanted.total_launches is None:
            return wanted
        kept = self.verifier.design.launches if self.verifier else 0
        kept += scenario.discover.launches if self.campaign.knobs is not None else 0
        if wanted.total_launches <= kept:
            raise ScenarioError(
                f"budget.total_launches={wanted.total_launches}: {kept} go to what is not search",
                "raise it, or lower discover.launches and verify.launches",
            )
        return replace(wanted, launches=min(wanted.launches, wanted.total_launches - kept))

    @cached_property
    def discovery(self) -> Discovery | None:
        """What comes before the screening; None: nothing is to be discovered, or it was."""
        wanted = self.campaign.scenario
        if self.campaign.knobs is None or self.campaign.discovered is not None:
            return None
        named = frozenset(p.name for p in self.campaign.space.job)
        return Discovery(self.campaign.whole, wanted.discover, wanted.seed, named)

    def informed(self, history: History, time: TimeLeft = PLENTY) -> "Strategy":
        """The strategy of what a discovery has left to search; this one, where none is complete."""
        if self.discovery is None or not len(history.of(Phase.DISCOVERY)):
            return self
        if not self.discovery.complete(history, time):
            return self
        n_runs = len(history.of(Phase.DISCOVERY))
        if n_runs not in self._informed:
            found = self.discovery.found(history)
            space, scenario = self.discovery.searched(found), self.campaign.scenario
            screened = replace(scenario, screening=replace(scenario.screening, enabled=False))
            campaign = replace(self.campaign, scenario=screened, space=space, discovered=found)
            points = self.discovery.suggested(found, space)
            free = self.discovery.free(found, space)
            self._informed[n_runs] = Strategy(campaign, self.proposer, points, free)
        return self._informed[n_runs]

    @cached_property
    def _informed(self) -> "dict[int, Strategy]":
        """By launches of the discovery."""
        return {}

    @cached_property
    def verifier(self) -> Verifier | None:
        """Compares what was found with the stack's own defaults; None: not wanted, or a replayed table.

        Raises:
            ScenarioError: an error rate, a loss or a margin out of its range.
        """
        wanted, seed = self.campaign.scenario.verify, self.campaign.scenario.seed
        if not wanted.enabled or not wanted.launches or self.campaign.site.stamp.kind is SiteKind.REPLAYED:
            return None
        design = SequentialDesign(
            wanted.launches,
            wanted.error_rate,
            wanted.max_loss,
            wanted.margin,
            timed=self.campaign.scenario.budget.total_seconds is not None,
        )
        one_row = dialect(self.space.stack).one_row
        counts, site = wanted.other_loop == "counts", self.campaign.site.stamp.kind
        if counts and site is not SiteKind.REAL:
            raise ScenarioError(
                f"verify.other_loop=counts, {site}", "only an MPI's calls are timed in two loops"
            )
        return Verifier(
            self.space,
            self.objectives,
            design,
            seed,
            one_row,
            self.campaign.scenario.other_loop,
            counts,
            self.confirmed,
        )

    def kept_launches(self, history: History, in_time: float = 0.0) -> int:
        """For the verification, where time is limited: a round; of all time those of two settings and more.

        Where nothing is found to verify by the time for it, nothing is kept back, so that a discovery that
        took long is followed by a search all the same; where nothing is found after what was refused, a
        round. ``in_time``: launches that could end in time.
        """
        if self.verifier is None:
            return 0
        one, own = self.verifier.design.launches, self.verifier.design.own
        # Two settings and the untouched stack, and one of them with it again where that did not tell.
        kept = one if self.budget.total_seconds is None else 5 * own
        discovering = self.discovery is not None
        if in_time > kept or discovering or self.verifier.wants(levelled(history)):
            return kept
        return one if len(history.of(Phase.VERIFY)) else 0

    @property
    def n_baseline(self) -> int:
        """Untouched launches: what the plan says, but no more than a third of a small budget."""
        return min(self.campaign.scenario.baseline.launches, max(1, self.budget.launches // 3))

    @cached_property
    def _whole_design(self) -> ScreeningDesign | None:
        """The screening's runs, whether they have room or not; None: not wanted, or nothing to screen."""
        factors, wanted = factors_of(self.space), self.campaign.scenario.screening
        if not wanted.enabled or len(factors) < 2:
            return None
        rng = np.random.default_rng([self.campaign.scenario.seed, 1])
        centre = wanted.centre_points if any(f.centre is not None for f in factors) else 0
        design = plackett_burman(
            factors, rng, blocks=wanted.replicates, centre_points=centre, min_runs=wanted.runs
        )
        return design.followed_by(foldover(design, rng)) if wanted.foldover else design

    @property
    def design(self) -> ScreeningDesign | None:
        """The screening's runs; None where there is none: not wanted, nothing to screen, or no room."""
        design = self._whole_design
        return design if design and design.n_runs < self.budget.launches - self.n_baseline else None

    @cached_property
    def design_points(self) -> Sequence[Point]:
        """The point of each run of the design."""
        return points_of(self.space, self.design) if self.design else ()

    def next_trial(self, history: History, time: TimeLeft = PLENTY) -> Trial | None:
        """The next trial; None when there is none left within the budget of launches.

        Where ``time`` is up only the verification is left.
        """
        trial = self._next(levelled(history), time)
        return trial and failures.patient(trial, self.campaign.scenario, self.space, history)

    def _next(self, history: History, time: TimeLeft) -> Trial | None:
        total = self.campaign.scenario.budget.total_launches
        if total is not None and len(history) >= total:
            return None
        if self.discovery is not None and any(o.ok for o in history.of(Phase.BASELINE)):
            trial = self.discovery.next_trial(history, self._seed(history.next_number), time)
            return trial or self.informed(history, time).next_trial(history, time)
        if len(history) and history.observations[-1].trial.phase is Phase.VERIFY and self.verifier:
            begun = self.verifier.next_trial(history, time.raced)
            if begun is not None or (time.all_s < math.inf and self.verifier.holds(history)):
                return begun  # where it ended in nothing, and time is left, the search goes on
        found = None if time.up else self._finding(history, time)
        if found is None and self.verifier is not None:
            found = self.verifier.next_trial(history, time.raced)
        return found

    def _finding(self, history: History, time: TimeLeft) -> Trial | None:
        """The next trial of all phases before the verification."""
        number = history.next_number
        spent = len(history) - len(history.of(Phase.VERIFY, Phase.DISCOVERY))
        at_intervals, since = self._at_intervals(history)
        n_baseline = len(history.of(Phase.BASELINE)) - at_intervals
        n_screened = sum(not o.trial.repeats for o in history.of(Phase.SCREENING))
        wanted = self.n_baseline
        if wanted and not any(o.ok for o in history.of(Phase.BASELINE)):
            return self._baseline(number)
        room = self._room(spent, n_baseline)
        if room > 0 and (after := self._after_failures(history, number)) is not None:
            return after
        if self._due(since, room):
            return self._baseline(number, "how the machine is by now")
        if self.design is not None and n_screened < self.design.n_runs:
            return Trial(
                number,
                Phase.SCREENING,
                self.design_points[n_screened],
                block=self.design.whole_plots[n_screened],
                seed=self._seed(number),
                note=f"row {n_screened + 1} of {self.design.n_runs}",
            )
        if n_baseline < wanted - 1 or (n_baseline < wanted and two_that_differ(history.of(Phase.BASELINE))):
            return self._baseline(number)
        if room > 0:
            found = self._search(history, number, time)
            if found is not None:
                return found
        return self._baseline(number) if n_baseline < wanted else None

    @property
    def _every(self) -> int:
        """After so many launches the baseline is launched again to show a drift; 0: a recording has none."""
        recorded = self.campaign.site.stamp.kind is SiteKind.REPLAYED
        return 0 if recorded else self.campaign.scenario.baseline.every

    def _at_intervals(self, history: History) -> tuple[int, int]:
        """How often that was done, and launches since the last one of the baseline."""
        done = regular = since = 0
        for spent, observation in enumerate(history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)):
            if observation.trial.phase is not Phase.BASELINE:
                since += 1
                continue
            due = self._due(since, self._room(spent, regular))
            done, regular, since = done + due, regular + (not due), 0
        return done, since

    def _due(self, since: int, room: int) -> bool:
        """Whether the baseline is launched again after so many others, with room for so many."""
        return 0 < self._every <= since and room > self._every // 2

    def _room(self, spent: int, n_baseline: int) -> int:
        """Launches that are left to screening and search."""
        return self.budget.launches - spent - max(0, self.n_baseline - n_baseline)

    def screening(self, history: History) -> tuple[tuple[Effects, ...], ScreeningResult] | None:
        """Effects and decisions of the screening; None until it is complete, or where too much failed."""
        rows = Same(failures.first_tries(history.of(Phase.SCREENING)))
        if rows not in self._analysed:
            self._analysed[rows] = self._analysis(rows)
        return self._analysed[rows]

    @cached_property
    def _analysed(self) -> "dict[Same[Observation], tuple[tuple[Effects, ...], ScreeningResult] | None]":
        """By rows of the design as they were measured: each launch of the search asks again."""
        return {}

    def _analysis(self, rows: Sequence[Observation]) -> tuple[tuple[Effects, ...], ScreeningResult] | None:
        design = self._whole_design  # what was run had room, whatever the budget has become since
        if design is None or len(rows) < design.n_runs:
            return None
        wanted = slots(rows)
        judged = [scores(self.objectives, self.space, [row], wanted) for row in rows]
        taken = as_run(design, [row.trial.point for row in rows])
        effects = []
        try:
            for i, objective in enumerate(self.objectives):
                values = [found[i].value if found else np.nan for found in judged]
                # One sample says nothing about its error; the design's own residuals then do.
                known = [any(e.n > 1 for e in row.usable) for row in rows]
                errors = [s[i].sem if s and k else np.nan for s, k in zip(judged, known, strict=True)]
                effects.append(analyse(taken, values, name=objective.name, sem=errors))
            goals: dict[str, Goal] = {o.name: "max" if o.maximise else "min" for o in self.objectives}
            return tuple(effects), screened(design.factors, effects, goals)
        except UserError:  # too few rows have a result: nothing is fixed
            return None

    def _search(self, history: History, number: int, time: TimeLeft) -> Trial | None:
        """The proposer's choice.

        It chooses in the screened space for the first half of the search. Then what the screening fixed is
        free again, each factor first tried once more at the best setting found: a factor that does nothing
        on the average of a two-level design can matter a lot there, by an interaction that the design could
        not see.
        """
        if self.proposer is None:
            return None
        if first := unproved(self.suggested, history):
            return self._searched(number, first, "what the discovery found, together")
        found = self.screening(history)
        fixed = found[1].fixed if found else {}
        spaces = [self.space.fix(fixed), self.space] if fixed else [self.space]
        room = self.budget.launches - self.n_baseline - self._at_intervals(history)[0]
        room -= self.design.n_runs if self.design else 0
        n_searched = len(history.of(Phase.SEARCH))
        room = int(min(room, n_searched + time.launches))
        if n_searched >= room - round(self.campaign.scenario.confirm.share * room):
            if (leader := self._doubtful(history)) is not None:
                return self._searched(number, leader, "a leader again")
            spaces = [self.space]
        elif fixed and 2 * n_searched >= room:
            ordered = [f for f in self.design.factors if f.name in fixed] if self.design else []
            again = next_freed(self.space, self.objectives, ordered, fixed, history, room)
            if again is not None:
                return self._searched(number, again[1], f"{again[0]} again, at the best setting")
            spaces = [self.space]
        wanted = self.campaign.scenario
        max_loss = wanted.verify.max_loss if self.verifier else None
        for space in (failures.applicable(space, history) for space in spaces):
            problem = Problem(space, self.objectives, wanted.stop.min_gain, max_loss, self.space)
            # One seed for all: a proposer that replays its own decisions must draw the same ones again.
            suggestion = self.proposer.propose(
                problem, failures.settled(history), self.campaign.scenario.seed
            )
            if suggestion is not None:
                return self._searched(number, suggestion.point, suggestion.note)
        if self.campaign.site.stamp.kind is SiteKind.REPLAYED:  # a recording says the same again
            return None
        if (leader := self._doubtful(history)) is None:
            return None
        return self._searched(number, leader, "a leader again: nothing else is left")

    def _doubtful(self, history: History) -> Point | None:
        least = self.campaign.scenario.stop.min_gain
        return doubtful(self.space, self.objectives, self.verifier, least, history)

    def _searched(self, number: int, point: Point, note: str) -> Trial:
        return Trial(number, Phase.SEARCH, point, seed=self._seed(number), note=note)

    def _baseline(self, number: int, note: str = "") -> Trial:
        seed = self._seed(number)
        return Trial(number, Phase.BASELINE, self.space.default, Subject.UNTOUCHED, seed=seed, note=note)

    def _after_failures(self, history: History, number: int) -> Trial | None:
        """What launches that failed make necessary; nothing where they are recorded ones, of no machine."""
        made = history.of(Phase.BASELINE, Phase.DISCOVERY, Phase.SCREENING, Phase.SEARCH)
        if self.campaign.site.stamp.kind is SiteKind.REPLAYED:
            return None
        if failures.suspect(made):
            return self._baseline(number, "several points in a row failed: is it the machine?")
        if (failed := failures.second_try(made)) is None:
            return None
        seed, note = self._seed(number), f"trial {failed.number} again: it may have been the machine"
        return replace(failed, number=number, seed=seed, note=note, timeout_s=0.0, repeats=failed.number)

    def _seed(self, number: int) -> int:
        return int(np.random.default_rng([self.campaign.scenario.seed, 2, number]).integers(2**31))
