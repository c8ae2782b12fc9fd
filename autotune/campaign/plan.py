"""The plan of a campaign whose space is known: shares of the budget, design, verification (step 3).

A plan changes once at most, when a discovery has found what is left to search. How far a campaign has got
with it is its *standing*, which all phases go by.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from autotune import screening
from autotune.campaign import failures
from autotune.campaign.description import Description, SiteKind
from autotune.campaign.drift import corrected
from autotune.campaign.time_left import TimeLeft
from autotune.errors import ScenarioError, UserError
from autotune.history.memory import remembered
from autotune.history.objectives import Objective, scores, slots
from autotune.history.trial import History, Observation, Phase, Subject, Trial
from autotune.scenario.sections import Budget, Screening
from autotune.screening.decision import Goal
from autotune.space import Point, Space
from autotune.stacks import dialect
from autotune.verification.rounds import Verifier
from autotune.verification.sequential import SequentialDesign

Screened = tuple[tuple[screening.Effects, ...], screening.ScreeningResult]
"""A screening's analyses, one for each objective, and the decision on each factor."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a campaign has got."""

    history: History  # All launches so far, with what moved whole launches taken out.
    time: TimeLeft  # What is left.
    n_baseline: int  # Launches of the baseline, without those at intervals.
    since: int  # Launches since the last one of the baseline.
    room: int  # Launches that are left to screening and search.
    search_room: int  # Launches of the whole search, as many as there is time for.

    @property
    def number(self) -> int:
        """Number of the next trial."""
        return self.history.next_number

    @property
    def n_searched(self) -> int:
        """Launches of the search so far."""
        return len(self.history.of(Phase.SEARCH))


@dataclass(frozen=True)
class Plan:
    """The plan of a campaign, and its trials."""

    campaign: Description  # What was asked for, and of which space.

    @property
    def space(self) -> Space:
        """The space of choices."""
        return self.campaign.space

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """The objectives."""
        return self.campaign.objectives

    @property
    def recorded(self) -> bool:
        """Whether launches are looked up in a table, which says the same again and knows no drift."""
        return self.campaign.site.stamp.kind is SiteKind.REPLAYED

    @cached_property
    def budget(self) -> Budget:
        """Budget of baseline, screening and search: the rest of the limit on all phases.

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
    def verifier(self) -> Verifier | None:
        """Compares what was found with the stack's own defaults; None: not wanted, or a replayed table.

        Raises:
            ScenarioError: an error rate, a loss or a margin out of its range.
        """
        scenario = self.campaign.scenario
        wanted = scenario.verify
        if not wanted.enabled or not wanted.launches or self.recorded:
            return None
        design = SequentialDesign(
            wanted.launches,
            wanted.error_rate,
            max_loss=wanted.max_loss,
            margin=wanted.margin,
            heats=self.campaign.heats,
            timed=scenario.budget.total_seconds is not None,
        )
        one_row = dialect(self.space.stack).one_row
        counts, site = wanted.other_loop == "counts", self.campaign.site.stamp.kind
        if counts and site is not SiteKind.REAL:
            raise ScenarioError(
                f"verify.other_loop=counts, {site}", "only an MPI's calls are timed in two loops"
            )
        how = (one_row, scenario.other_loop, counts, self.campaign.confirmed)
        return Verifier(self.space, self.objectives, design, scenario.seed, *how)

    def kept_launches(self, history: History, in_time: float = 0.0) -> int:
        """For the verification, where time is limited: a round; of all time those of two settings and more.

        Where nothing is found to verify by the time for it, nothing is kept back, so that a discovery that
        took long is followed by a search all the same; where nothing is found after what was refused, a
        round. ``in_time``: launches that could end in time.
        """
        if self.verifier is None:
            return 0
        one, own = self.verifier.design.launches, self.verifier.design.own
        # Two settings and the untouched stack, and one of them with it again where that was inconclusive.
        kept = one if self.budget.total_seconds is None else 5 * own
        if in_time > kept or self.campaign.discovering or self.verifier.wants(corrected(history)):
            return kept
        return one if len(history.of(Phase.VERIFY)) else 0

    @property
    def n_baseline(self) -> int:
        """Untouched launches: what the plan says, but no more than a third of a small budget."""
        return min(self.campaign.scenario.baseline.launches, max(1, self.budget.launches // 3))

    @property
    def _whole_design(self) -> screening.ScreeningDesign | None:
        """The screening's runs, whether they have room or not; None: not wanted, or nothing to screen."""
        scenario = self.campaign.scenario
        return None if self.campaign.discovered else _design(self.space, scenario.screening, scenario.seed)

    @property
    def design(self) -> screening.ScreeningDesign | None:
        """The screening's runs; None where there is none: not wanted, nothing to screen, or no room."""
        design = self._whole_design
        return design if design and design.n_runs < self.budget.launches - self.n_baseline else None

    @cached_property
    def design_points(self) -> Sequence[Point]:
        """The point of each run of the design."""
        return screening.points_of(self.space, self.design) if self.design else ()

    def screening(self, history: History) -> Screened | None:
        """Effects and decisions of the screening; None until it is complete, or where too much failed."""
        rows = failures.first_tries(history.of(Phase.SCREENING))
        design = self._whole_design  # what was run had room, whatever the budget has become since
        if design is None or len(rows) < design.n_runs:
            return None
        scenario = self.campaign.scenario
        return _screened(self.space, scenario.screening, scenario.seed, tuple(self.objectives), rows)

    def standing(self, history: History, time: TimeLeft) -> Standing:
        """How far the campaign has got by this history."""
        done = regular = since = spent = 0
        for observation in history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH):
            if observation.trial.phase is Phase.BASELINE:
                due = self.due(since, self._room(spent, regular))
                done, regular, since = done + due, regular + (not due), 0
            else:
                since += 1
            spent += 1
        room = self.budget.launches - self.n_baseline - done - (self.design.n_runs if self.design else 0)
        in_time = int(min(room, len(history.of(Phase.SEARCH)) + time.launches))
        return Standing(history, time, regular, since, self._room(spent, regular), in_time)

    def due(self, since: int, room: int) -> bool:
        """Whether the baseline is launched again to show a drift, after so many others, with so much room."""
        every = 0 if self.recorded else self.campaign.scenario.baseline.every
        return 0 < every <= since and room > every // 2

    def _room(self, spent: int, n_baseline: int) -> int:
        return self.budget.launches - spent - max(0, self.n_baseline - n_baseline)

    def trial(self, number: int, phase: Phase, point: Point, note: str = "", **more: Any) -> Trial:
        """A trial with a seed of its own."""
        return Trial(number, phase, point, seed=self.seed(number), note=note, **more)

    def baseline(self, number: int, note: str = "") -> Trial:
        """A launch of the stack's own defaults."""
        return self.trial(number, Phase.BASELINE, self.space.default, note, subject=Subject.UNTOUCHED)

    def seed(self, number: int) -> int:
        """Random seed of a trial."""
        return int(np.random.default_rng([self.campaign.scenario.seed, 2, number]).integers(2**31))


@remembered
def _design(space: Space, wanted: Screening, seed: int) -> screening.ScreeningDesign | None:
    factors = screening.factors_of(space)
    if not wanted.enabled or len(factors) < 2:
        return None
    rng = np.random.default_rng([seed, 1])
    centre = wanted.centre_points if any(f.centre is not None for f in factors) else 0
    design = screening.plackett_burman(
        factors, rng, blocks=wanted.replicates, centre_points=centre, min_runs=wanted.runs
    )
    return design.followed_by(screening.foldover(design, rng)) if wanted.foldover else design


@remembered
def _screened(
    space: Space,
    wanted: Screening,
    seed: int,
    objectives: tuple[Objective, ...],
    rows: tuple[Observation, ...],
) -> Screened | None:
    if (design := _design(space, wanted, seed)) is None:
        return None
    measured = slots(rows)
    judged = [scores(objectives, space, [row], measured) for row in rows]
    taken = screening.as_run(design, [row.trial.point for row in rows])
    effects = []
    try:
        for i, objective in enumerate(objectives):
            values = [found[i].value if found else np.nan for found in judged]
            # One sample says nothing about its error; the design's own residuals then do.
            known = [any(e.n > 1 for e in row.usable) for row in rows]
            errors = [s[i].sem if s and k else np.nan for s, k in zip(judged, known, strict=True)]
            effects.append(screening.analyse(taken, values, name=objective.name, sem=errors))
        goals: dict[str, Goal] = {o.name: "max" if o.maximise else "min" for o in objectives}
        return tuple(effects), screening.screened(design.factors, effects, goals)
    except UserError:  # nothing is fixed
        return None
