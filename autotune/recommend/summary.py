"""The summary of a campaign for console and report (between steps 10 and 12 of the flow).

Notation: a *step* is one launch with what was known after it; *best so far* is per objective, over settings
that were searched, never over the stack's own defaults.
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
    """One launch of a campaign and what was known after it."""

    observation: Observation  # The launch.
    scores: tuple[Score, ...] | None  # Of this launch alone; None where its curve is not complete.
    best: tuple[Score, ...] | None
    """The best setting so far in each objective, all its launches pooled; None before any is complete."""
    baseline: tuple[Score, ...] | None
    """The stack's own defaults by all their launches so far; None before the first complete curve."""


@dataclass(frozen=True, slots=True)
class SizeRow:
    """One measured size of a recommendation."""

    gain: Gain  # Default against tuned.
    choice: Point  # The per-size values in effect.


class Tally:
    """Follows a campaign launch by launch and knows the best so far."""

    def __init__(self, objectives: Sequence[Objective], space: Space) -> None:
        self._objectives = tuple(objectives)
        self._space = space
        self._groups: dict[tuple[Subject, Point], list[Observation]] = {}
        self._wanted: set[Slot] = set()
        self._best: tuple[Score, ...] | None = None
        self._baseline: tuple[Score, ...] | None = None

    def add(self, observation: Observation) -> Step:
        """The state after one more launch."""
        own = None
        if observation.ok:
            subject = observation.trial.subject
            group = self._groups.setdefault((subject, job_setting(self._space, observation.trial.point)), [])
            group.append(observation)
            self._wanted.update(slots([observation]))
            own = self._scores([observation])
            pooled = own if len(group) == 1 else self._scores(group)
            if pooled is not None and subject is Subject.SWEEP:
                self._best = self._better(pooled)
            if pooled is not None and subject is Subject.UNTOUCHED:
                self._baseline = pooled
        return Step(observation, own, self._best, self._baseline)

    def _scores(self, observations: Sequence[Observation]) -> tuple[Score, ...] | None:
        return scores(self._objectives, self._space, observations, tuple(sorted(self._wanted)))

    def _better(self, judged: tuple[Score, ...]) -> tuple[Score, ...]:
        if self._best is None:
            return judged
        return tuple(
            new if ratio_to(objective, new, old) > 1 else old
            for objective, new, old in zip(self._objectives, judged, self._best, strict=True)
        )


def steps(objectives: Sequence[Objective], space: Space, made: Iterable[Observation]) -> tuple[Step, ...]:
    """Every launch in the order in which it was made, with the best so far."""
    tally = Tally(objectives, space)
    return tuple(tally.add(observation) for observation in made)


def size_rows(recommendation: Recommendation) -> tuple[SizeRow, ...]:
    """The per-size table at the measured sizes, in the order of the gains."""
    return tuple(SizeRow(gain, choice_at(recommendation.rules, gain.slot)) for gain in recommendation.gains)


def speedup_interval(recommendation: Recommendation) -> tuple[float, float]:
    """About 95 % for the geometric mean of the speed-ups: of fresh pairs, else from all standard errors."""
    if recommendation.average is not None:
        return recommendation.average[1:]
    gains = recommendation.gains
    if not gains:
        return math.nan, math.nan
    spread = Z95 * math.hypot(*(gain.error for gain in gains)) / len(gains)
    return recommendation.speedup * ratio_of(-spread), recommendation.speedup * ratio_of(spread)


def ratio_to(objective: Objective, score: Score, reference: Score) -> float:
    """How many times better a score is than another one; below one: worse."""
    return score.value / reference.value if objective.maximise else reference.value / score.value
