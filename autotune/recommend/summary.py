"""The summary of a campaign, launch by launch, for the console and the report.

Place in the flow of ``autotune/__init__.py``: between steps 10, recommend, and 12, export.

Notation: a *step* is one launch with the state of the campaign after it. *Best so far* means the best score
in each objective of the settings that were searched; the stack's own defaults are not among them.
"""

import math
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

    observation: Observation  # The result of the launch.
    scores: tuple[Score, ...] | None  # Scores of this launch alone; None if it did not measure all slots.
    best: tuple[Score, ...] | None
    """Score of the best setting so far in each objective, from all of the setting's launches together; None
    until a setting was measured in all slots."""
    baseline: tuple[Score, ...] | None
    """Scores of the stack's own defaults, from all their launches so far; None until they were measured in
    all slots."""


@dataclass(frozen=True, slots=True)
class SizeRow:
    """The per-size choice of a recommendation at one measured size, and its gain."""

    gain: Gain  # Comparison of the default with the recommendation.
    choice: Point  # The per-size values that the recommendation sets at this size.


class Tally:
    """Keeps a summary of a campaign, launch by launch."""

    def __init__(self, objectives: Sequence[Objective], space: Space) -> None:
        self._objectives = tuple(objectives)
        self._space = space
        self._groups: dict[tuple[Subject, Point], list[Observation]] = {}
        self._slots: set[Slot] = set()
        self._best: tuple[Score, ...] | None = None
        self._baseline: tuple[Score, ...] | None = None

    def add(self, observation: Observation) -> Step:
        """Add one more launch to the summary, and return the state of the campaign after it."""
        launch_scores = None
        if observation.ok:
            subject = observation.trial.subject
            group = self._groups.setdefault((subject, job_setting(self._space, observation.trial.point)), [])
            group.append(observation)
            self._slots.update(slots([observation]))
            launch_scores = self._scores([observation])
            pooled = launch_scores if len(group) == 1 else self._scores(group)
            if pooled is not None and subject is Subject.SWEEP:
                self._best = self._better(pooled)
            if pooled is not None and subject is Subject.UNTOUCHED:
                self._baseline = pooled
        return Step(observation, launch_scores, self._best, self._baseline)

    def _scores(self, observations: Sequence[Observation]) -> tuple[Score, ...] | None:
        return scores(self._objectives, self._space, observations, tuple(sorted(self._slots)))

    def _better(self, scores: tuple[Score, ...]) -> tuple[Score, ...]:
        """Return for each objective the better one of a setting's score and the best score so far."""
        if self._best is None:
            return scores
        return tuple(
            new if ratio_to(objective, new, old) > 1 else old
            for objective, new, old in zip(self._objectives, scores, self._best, strict=True)
        )


def steps(objectives: Sequence[Objective], space: Space, launches: Iterable[Observation]) -> tuple[Step, ...]:
    """Return every launch with the best scores so far, in the order of the launches."""
    tally = Tally(objectives, space)
    return tuple(tally.add(observation) for observation in launches)


def size_rows(recommendation: Recommendation) -> tuple[SizeRow, ...]:
    """Return the per-size choices and their gains at the measured sizes, in the order of the gains."""
    return tuple(SizeRow(gain, choice_at(recommendation.rules, gain.slot)) for gain in recommendation.gains)


def speedup_interval(recommendation: Recommendation) -> tuple[float, float]:
    """Return the ends of an interval of about 95 % for the geometric mean of the speed-ups.

    The interval is that of pairs of fresh launches if there are any. Else it follows from the standard errors
    of all gains; both ends are NaN if there are no gains.
    """
    if recommendation.average is not None:
        return recommendation.average[1:]
    gains = recommendation.gains
    if not gains:
        return math.nan, math.nan
    spread = Z95 * math.hypot(*(gain.error for gain in gains)) / len(gains)
    return recommendation.speedup * ratio_of(-spread), recommendation.speedup * ratio_of(spread)


def ratio_to(objective: Objective, score: Score, reference: Score) -> float:
    """Return how many times better a score is than a reference; a ratio below one means worse."""
    return score.value / reference.value if objective.maximise else reference.value / score.value
