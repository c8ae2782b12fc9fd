"""Compare the progress of a search with that of launches in random order, for the report.

Place in the flow of ``autotune/__init__.py``: after step 10, recommend.

The best score so far is the best of many noisy scores, so it is biased: if a setting was the best by luck,
its next score will be worse. Launches of a setting *after* it became the best, in the search or in the
verification, did not contribute to this choice, so the score from these launches is unbiased.

Notation: among n settings, v₍₁₎ is the best score and v₍ₙ₎ the worst. The expected best of k different
settings drawn at random is Σᵢ v₍ᵢ₎ C(n − i, k − 1) / C(n, k).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from autotune.history.objectives import Objective, Score, job_setting, scores, slots
from autotune.history.trial import Observation, Phase, Subject
from autotune.recommend.summary import Step
from autotune.space import Point, Space


@dataclass(frozen=True, slots=True)
class Lead:
    """A period of the search in which one setting, the leader, was the best in an objective."""

    from_trial: int  # Number of the trial with which the setting became the leader.
    to_trial: int  # Number of the last trial of the search after which the setting was still the leader.
    point: Point
    first_score: Score  # Score of the setting when it became the leader.
    later_score: Score | None
    """Score of the setting from later launches alone; None if there were no later launches."""
    launches: int  # Number of the later launches.


def leads(
    objectives: Sequence[Objective], index: int, space: Space, steps: Sequence[Step]
) -> tuple[Lead, ...]:
    """Return the leaders in the objective number ``index``, in the order of the search."""
    objective, all_slots = objectives[index], tuple(sorted(set(slots(s.observation for s in steps))))
    groups: dict[Point, list[Observation]] = {}
    standing: dict[Point, Score] = {}
    turns: list[tuple[int, Point, Score]] = []
    last = 0
    for step in steps:
        trial = step.observation.trial
        if trial.subject is not Subject.SWEEP or not step.observation.ok:
            continue
        last = trial.number
        setting = job_setting(space, trial.point)
        group = groups.setdefault(setting, [])
        group.append(step.observation)
        group_scores = scores(objectives, space, group, all_slots)
        if group_scores is None:
            continue
        standing[setting] = group_scores[index]
        sign = -1 if objective.maximise else 1
        previous = turns[-1][1] if turns else setting
        leader = min((previous, setting), key=lambda s: sign * standing[s].value)
        if setting == previous:  # The leader itself was launched again, which may have made its score worse.
            leader = min(standing, key=lambda s: sign * standing[s].value)
        if not turns or previous != leader:
            turns.append((trial.number, leader, standing[leader]))
    ends = [*(start - 1 for start, _, _ in turns[1:]), last][: len(turns)]
    sequence = []
    for (start, point, first_score), end in zip(turns, ends, strict=True):
        later = _later(space, steps, point, start)
        later_scores = scores(objectives, space, later, all_slots) if later else None
        later_score = later_scores[index] if later_scores else None
        n_later = len(later) if later_score else 0
        sequence.append(Lead(start, max(start, end), point, first_score, later_score, n_later))
    return tuple(sequence)


def random_best(values: Sequence[float], maximise: bool) -> tuple[float, ...]:
    """Return the expected best of the first 1, 2, … n values if the values are in random order, ``(n,)``."""
    ordered = np.array(sorted(values, reverse=maximise))
    # Number of worse values, for each value except the worst.
    n, worse = len(ordered), np.arange(len(ordered) - 1, 0, -1.0)
    best = []
    for k in range(1, n + 1):
        ratios = (worse - k + 1).clip(min=0) / worse  # C(n − i − 1, k − 1) / C(n − i, k − 1)
        best.append(float(k / n * np.cumprod([1.0, *ratios]) @ ordered))
    return tuple(best)


@dataclass(frozen=True, slots=True)
class Moment:
    """A launch and the time of its request on the campaign's own clock, which stops during breaks."""

    observation: Observation
    from_s: float
    """Time in seconds at which the launch was requested: the sum of the durations of earlier launches of the
    campaign, including their time in the queue."""


def moments(observations: Sequence[Observation]) -> tuple[Moment, ...]:
    """Return the launches, each with the time of its request on the campaign's own clock."""
    spent_s = accumulate((o.took_s for o in observations), initial=0.0)
    return tuple(map(Moment, observations, spent_s))


def _later(space: Space, steps: Sequence[Step], setting: Point, number: int) -> list[Observation]:
    """Return the launches of a setting after trial ``number``.

    These are the launches of the verification or, if there are none, those of the search.
    """
    launches = [
        s.observation
        for s in steps
        if s.observation.ok
        and s.observation.trial.number > number
        and s.observation.trial.subject is not Subject.UNTOUCHED
        and job_setting(space, s.observation.trial.point) == setting
    ]
    deployed = [o for o in launches if o.trial.phase is Phase.VERIFY]
    return deployed or launches
