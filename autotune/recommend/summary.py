"""Summarise a campaign, launch by launch, for the console and the report.

Place in the flow of ``autotune/__init__.py``: between steps 10, recommend, and 12, export.

Notation: a *step* is one launch together with the state of the campaign after it. *Best so far* is one
setting, by the product of its speed-ups in all objectives. The stack's own defaults count as a setting, so
the best is never worse than they are.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.history.lookup import choice_at
from autotune.history.objectives import Z95, Objective, Score, Slot, job_setting, ratio_of, scores, slots
from autotune.history.trial import Observation, Subject
from autotune.recommend.recommendation import Gain, Recommendation
from autotune.space import Point, Space


@dataclass(frozen=True, slots=True)
class Step:
    """One launch of a campaign with the state of the campaign after it."""

    observation: Observation
    scores: tuple[Score, ...] | None
    """Scores of this launch alone; None if the launch did not measure all slots."""
    best: tuple[Score, ...] | None
    """Scores of the best setting so far, from all of its launches together; None until a setting was measured
    in all slots."""
    baseline: tuple[Score, ...] | None
    """Scores of the stack's own defaults, from all launches of the defaults so far; None until they were
    measured in all slots."""
    leads: bool = False  # Whether the launch is of the best setting so far, and that is not the defaults.
    beside: tuple[Score, ...] | None = None
    """Scores of the stack's own defaults in the heat of this launch; None if it was launched alone."""

    @property
    def reference(self) -> tuple[Score, ...] | None:
        """Return what the launch is compared with: the defaults at the same moment, else all of them."""
        return self.beside or self.baseline


@dataclass(frozen=True, slots=True)
class SizeRow:
    """Choice of a recommendation at one measured size, with its gain."""

    gain: Gain  # Times of the default and the recommendation.
    choice: Point  # Per-size values that the recommendation sets at this size.


class Tally:
    """The summary of a campaign, to which launches are added as they end."""

    def __init__(self, objectives: Sequence[Objective], space: Space) -> None:
        self._objectives = tuple(objectives)
        self._space = space
        self._groups: dict[tuple[Subject, Point], list[Observation]] = {}
        self._slots: set[Slot] = set()
        self._settings: dict[Point, tuple[Score, ...]] = {}  # Scores of each setting of the search.
        self._baseline: tuple[Score, ...] | None = None
        self._leader: Point | None = None  # The best setting; None: none is better than the defaults.

    def add(self, launches: Iterable[Observation]) -> tuple[Step, ...]:
        """Add launches to the summary, and return each with the state of the campaign after it.

        All launches of a heat are added together, unless their times are ratios to the defaults already.
        """
        launches, heats = tuple(launches), defaultdict[int, list[Observation]](list)
        for launch in launches:
            if launch.trial.heat:
                heats[launch.trial.heat].append(launch)
        return tuple(self._add(launch, heats[launch.trial.heat]) for launch in launches)

    def _add(self, observation: Observation, heat: Sequence[Observation]) -> Step:
        launch_scores = None
        setting, subject = job_setting(self._space, observation.trial.point), observation.trial.subject
        if observation.ok:
            self._slots.update(slots([observation]))
            launch_scores = self._scores([observation])
        if observation.ok and not heat:  # times of heats can be compared within their heat alone
            group = self._groups.setdefault((subject, setting), [])
            group.append(observation)
            pooled = launch_scores if len(group) == 1 else self._scores(group)
            if pooled is not None and subject is Subject.SWEEP:
                self._settings[setting] = pooled
            elif pooled is not None and subject is Subject.UNTOUCHED:
                self._baseline = pooled
            if pooled is not None:
                self._follow(setting if subject is Subject.SWEEP else None)
        leads = subject is Subject.SWEEP and self._leader == setting
        untouched = [o for o in heat if o.ok and o.trial.subject is Subject.UNTOUCHED]
        beside = self._scores(untouched) if untouched else None
        return Step(observation, launch_scores, self._best, self._baseline, leads, beside)

    @property
    def _best(self) -> tuple[Score, ...] | None:
        return self._baseline if self._leader is None else self._settings[self._leader]

    def _follow(self, changed: Point | None) -> None:
        """Find the best setting after one setting, or the defaults (None), got new scores."""
        if changed in (None, self._leader):  # what all others were compared with has changed
            self._leader, rivals = None, list(self._settings)
        else:
            rivals = [changed] if changed in self._settings else []
        for rival in rivals:
            best = self._best
            if best is None or self._gain(self._settings[rival], best) > 1:
                self._leader = rival

    def _gain(self, scores: Sequence[Score], reference: Sequence[Score]) -> float:
        """Return the product of the speed-ups in all objectives."""
        return math.prod(map(ratio_to, self._objectives, scores, reference))

    def _scores(self, observations: Sequence[Observation]) -> tuple[Score, ...] | None:
        return scores(self._objectives, self._space, observations, tuple(sorted(self._slots)))


def steps(objectives: Sequence[Objective], space: Space, launches: Iterable[Observation]) -> tuple[Step, ...]:
    """Return a step for each launch, in the order of the launches."""
    return Tally(objectives, space).add(launches)


def size_rows(recommendation: Recommendation) -> tuple[SizeRow, ...]:
    """Return the choice and the gain at each measured size, in the order of the gains."""
    return tuple(SizeRow(gain, choice_at(recommendation.rules, gain.slot)) for gain in recommendation.gains)


def speedup_interval(recommendation: Recommendation) -> tuple[float, float]:
    """Return the ends of an interval of about 95 % for the geometric mean of the speed-ups.

    If there are pairs of fresh launches, the interval is theirs. Otherwise it follows from the standard
    errors of all gains; both ends are NaN if there are no gains.
    """
    if recommendation.average is not None:
        return recommendation.average[1:]
    gains = recommendation.gains
    if not gains:
        return math.nan, math.nan
    spread = Z95 * math.hypot(*(gain.error for gain in gains)) / len(gains)
    return recommendation.speedup * ratio_of(-spread), recommendation.speedup * ratio_of(spread)


def ratio_to(objective: Objective, score: Score, reference: Score) -> float:
    """Return by what factor a score is better than a reference; a factor below one means worse."""
    return score.value / reference.value if objective.maximise else reference.value / score.value
