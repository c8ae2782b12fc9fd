"""Plan a campaign whose space is known: shares of the budget, design, verification (data flow: screening).

A plan changes once at most, when a discovery has found the space to search. How far a campaign has got with
its plan is its *standing*, from which every phase derives its trials.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from autotune import screening
from autotune.campaign import failures
from autotune.campaign.same_moment import at_one_moment
from autotune.campaign.spec import BenchKind, CampaignSpec
from autotune.campaign.time_left import TimeLeft
from autotune.errors import ScenarioError, UserError
from autotune.history.memory import remembered
from autotune.history.objectives import Objective, scores, slots
from autotune.history.trial import History, Observation, Phase, Subject, Trial
from autotune.scenario.sections import Budget, Screening
from autotune.screening.decision import Goal
from autotune.space import Point, Space, Value
from autotune.stacks import dialect
from autotune.verification.rounds import Verifier
from autotune.verification.sequential import SequentialDesign

SETTINGS_PER_HEAT = 3
"""Largest number of settings in a heat (launches that are alive at once and measure in turns), besides the
untouched stack (the MPI's own defaults). If k settings share a heat, each costs 1 + 1/k launches: 2, 1.5 and
1.33 for one to three settings, 1.2 for five. The more settings share a heat, the more of them are chosen
without the results of the others."""

Screened = tuple[tuple[screening.Effects, ...], screening.ScreeningResult]
"""A screening's analyses, one for each objective, and the decision on each factor."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Describe how far a campaign has got."""

    history: History  # All launches so far, those of a heat as ratios to its launch of the defaults.
    time: TimeLeft  # The time that is left before the verification.
    n_baseline: int  # Number of launches of the baseline so far.
    room: int  # Number of launches that screening and search may still make.
    search_room: int  # Number of launches of the whole search that budget and time allow.

    @property
    def number(self) -> int:
        """Return the number of the next trial."""
        return self.history.next_number

    @property
    def n_searched(self) -> int:
        """Return the number of launches of the search so far."""
        return len(self.history.of(Phase.SEARCH))


@dataclass(frozen=True)
class Plan:
    """Plan a campaign and make its trials."""

    campaign: CampaignSpec  # The campaign's description.

    @property
    def space(self) -> Space:
        """Return the space of settings."""
        return self.campaign.space

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """Return the objectives."""
        return self.campaign.objectives

    @property
    def recorded(self) -> bool:
        """Whether launches are looked up in a recorded table: repetitions are equal, and nothing drifts."""
        return self.campaign.bench.stamp.kind is BenchKind.REPLAYED

    @cached_property
    def budget(self) -> Budget:
        """Return the budget of baseline, screening and search, as far as the limit on all phases allows it.

        Raises:
            ScenarioError: the limit leaves no launch for these phases.
        """
        requested, scenario = self.campaign.scenario.budget, self.campaign.scenario
        if requested.total_launches is None:
            return requested
        reserved = self._first_round
        reserved += scenario.discover.launches if self.campaign.knobs is not None else 0
        if requested.total_launches <= reserved:
            raise ScenarioError(
                f"budget.total_launches={requested.total_launches}: {reserved} go to what is not search",
                "raise it, or lower discover.launches and verify.launches",
            )
        remaining = requested.total_launches - reserved
        if self.campaign.heats:  # each heat spends one launch on the stack's own defaults
            remaining = max(remaining * SETTINGS_PER_HEAT // (SETTINGS_PER_HEAT + 1), 1)
        return replace(requested, launches=min(requested.launches, remaining))

    @cached_property
    def verifier(self) -> Verifier | None:
        """Return the verifier, which compares candidates with the stack's own defaults.

        Return None if the verification is disabled, or launches are replayed from a recorded table.

        Raises:
            ScenarioError: an error rate, a loss or a margin out of its range.
        """
        scenario = self.campaign.scenario
        options = scenario.verify
        if not options.enabled or not options.launches or self.recorded:
            return None
        design = SequentialDesign.of_setting(
            options.launches,
            self.campaign.heats,
            alpha=options.error_rate,
            max_loss=options.max_loss,
            margin=options.margin,
            max_failures=options.max_failures,
            timed=scenario.budget.total_seconds is not None,
        )
        one_row = dialect(self.space.stack).one_row
        counts, bench = options.other_loop == "counts", self.campaign.bench.stamp.kind
        if counts and bench is not BenchKind.REAL:
            raise ScenarioError(
                f"verify.other_loop=counts, {bench}", "only an MPI's calls are timed in two loops"
            )
        details = (one_row, scenario.other_loop, counts, self.campaign.confirmed, self.campaign.whole)
        return Verifier(self.space, self.objectives, design, scenario.seed, *details)

    @property
    def _first_round(self) -> int:
        """Return the number of launches that are reserved for a round of the verification."""
        return self.verifier.design.launches if self.verifier else 0

    def undecided(self, history: History) -> bool:
        """Whether a setting waits for its verdict, and none is verified."""
        verifier, comparable = self.verifier, at_one_moment(history)
        return verifier is not None and verifier.wants(comparable) and not verifier.holds(comparable)

    def kept_launches(self, history: History, in_time: float = 0.0) -> int:
        """Return the number of launches for which time is reserved for the verification.

        Without a time limit on all phases this is one round. With a time limit it is enough to compare two
        settings with the defaults, and one of them once more. If the remaining time does not suffice for
        these launches, and the search has found nothing to verify yet, nothing is reserved, so that a search
        can follow even a long discovery. If a verification was begun before, one round is reserved then.

        Args:
            history: All observations so far.
            in_time: Number of launches of the verification that could end in time.
        """
        if self.verifier is None:
            return 0
        round_launches, setting_launches = (
            self.verifier.design.launches,
            self.verifier.design.setting_launches,
        )
        # Launches of two settings and the defaults, and again of one setting and the defaults if it was
        # inconclusive.
        reserved = round_launches if self.budget.total_seconds is None else 5 * setting_launches
        if in_time > reserved or self.campaign.discovering or self.verifier.wants(at_one_moment(history)):
            return reserved
        return round_launches if len(history.of(Phase.VERIFY)) else 0

    @property
    def n_baseline(self) -> int:
        """Return the number of launches of the defaults: as requested, at most a third of a small budget."""
        return min(self.campaign.scenario.baseline.launches, max(1, self.budget.launches // 3))

    @property
    def _whole_design(self) -> screening.ScreeningDesign | None:
        """Return the screening's design, even if the budget has no room for it; None without a screening."""
        scenario = self.campaign.scenario
        return None if self.campaign.discovered else _design(self.space, scenario.screening, scenario.seed)

    @property
    def design(self) -> screening.ScreeningDesign | None:
        """Return the screening's design; None without a screening, or if the budget has no room for it."""
        design = self._whole_design
        return design if design and design.n_runs < self.budget.launches - self.n_baseline else None

    @cached_property
    def design_points(self) -> Sequence[Point]:
        """Return the point of each run of the design."""
        return screening.points_of(self.space, self.design) if self.design else ()

    def screening(self, history: History) -> Screened | None:
        """Return effects and decisions of a complete screening; else None, also if too many runs failed."""
        rows = failures.first_tries(history.of(Phase.SCREENING))
        design = self._whole_design  # complete runs count even if a smaller budget now has no room for them
        if design is None or len(rows) < design.n_runs:
            return None
        scenario = self.campaign.scenario
        return _screened(self.space, scenario.screening, scenario.seed, tuple(self.objectives), rows)

    def fixed(self, history: History) -> Mapping[str, Value]:
        """Return the factors that the screening fixed, with their values."""
        screened = self.screening(history)
        return screened[1].fixed if screened else {}

    def standing(self, history: History, time: TimeLeft) -> Standing:
        """Return how far the campaign has got by this history."""
        launches = history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)
        n_baseline, n_searched = len(launches.of(Phase.BASELINE)), len(launches.of(Phase.SEARCH))
        room = self.budget.launches - len(launches) - max(0, self.n_baseline - n_baseline)
        if self.budget.total_launches is not None:
            n_untouched = 1 if self.campaign.heats else 0
            remaining = self.budget.total_launches - (history.next_number - 1) - self._first_round
            room = min(room, remaining - n_untouched)
        search_launches = self.budget.launches - self.n_baseline - (self.design.n_runs if self.design else 0)
        return Standing(
            history, time, n_baseline, room, int(min(search_launches, n_searched + time.launches))
        )

    def trial(self, number: int, phase: Phase, point: Point, note: str = "", **fields: Any) -> Trial:
        """Return a trial with a seed of its own; ``fields`` are further fields of ``Trial``."""
        return Trial(number, phase, point, seed=self.seed(number), note=note, **fields)

    def baseline(self, number: int, note: str = "") -> Trial:
        """Return a launch of the stack's own defaults."""
        return self.trial(number, Phase.BASELINE, self.space.default, note, subject=Subject.UNTOUCHED)

    def seed(self, number: int) -> int:
        """Return the random seed of a trial."""
        return int(np.random.default_rng([self.campaign.scenario.seed, 2, number]).integers(2**31))


@remembered
def _design(space: Space, options: Screening, seed: int) -> screening.ScreeningDesign | None:
    factors = screening.factors_of(space)
    if not options.enabled or len(factors) < 2:
        return None
    rng = np.random.default_rng([seed, 1])
    centre = options.centre_points if any(f.centre is not None for f in factors) else 0
    design = screening.plackett_burman(
        factors, rng, blocks=options.replicates, centre_points=centre, min_runs=options.runs
    )
    return design.followed_by(screening.foldover(design, rng)) if options.foldover else design


@remembered
def _screened(
    space: Space,
    options: Screening,
    seed: int,
    objectives: tuple[Objective, ...],
    rows: tuple[Observation, ...],
) -> Screened | None:
    if (design := _design(space, options, seed)) is None:
        return None
    measured = slots(rows)
    row_scores = [scores(objectives, space, [row], measured) for row in rows]
    design_as_run = screening.as_run(design, [row.trial.point for row in rows])
    effects = []
    try:
        for i, objective in enumerate(objectives):
            values = [score[i].value if score else np.nan for score in row_scores]
            # One sample gives no standard error; without errors the design's residuals are used.
            has_error = [any(e.n > 1 for e in row.usable) for row in rows]
            errors = [s[i].sem if s and k else np.nan for s, k in zip(row_scores, has_error, strict=True)]
            effects.append(screening.analyse(design_as_run, values, name=objective.name, sem=errors))
        goals: dict[str, Goal] = {o.name: "max" if o.maximise else "min" for o in objectives}
        return tuple(effects), screening.screened(design.factors, effects, goals)
    except UserError:  # without an analysis no factor is fixed
        return None
