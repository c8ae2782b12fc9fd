"""The progress of a search, compared with that of a random order; for the report.

Place in the flow of ``autotune/__init__.py``: after step 10, recommend.

The best score so far is the best of many noisy scores, and so it is biased: a setting that was best by luck
would not have as good a score again. Launches of a setting *after* it became the best, in the search or in
the verification, were not the reason why it was chosen, so their score is unbiased.

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
    """A setting that was the best one in an objective (the leader) during a part of the search."""

    from_trial: int  # Number of the trial that made the setting the leader.
    to_trial: int  # Number of the last trial of the search after which the setting was the leader.
    point: Point  # The setting.
    first_score: Score  # Score of the setting when it became the leader.
    later_score: Score | None  # Score of the setting from later launches alone; None if there were none.
    launches: int  # Number of these later launches.


def leads(
    objectives: Sequence[Objective], index: int, space: Space, steps: Sequence[Step]
) -> tuple[Lead, ...]:
    """Return the settings that were the best ones in an objective, in order; ``index`` is the objective's."""
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
        if setting == previous:  # The leader itself was launched again, and its score may have got worse.
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
    """Return the expected best of the first 1, 2, … n of these n values in random order, ``(n,)``."""
    ordered = np.array(sorted(values, reverse=maximise))
    # For each value except the worst one, the number of worse values.
    n, worse = len(ordered), np.arange(len(ordered) - 1, 0, -1.0)
    best = []
    for k in range(1, n + 1):
        ratios = (worse - k + 1).clip(min=0) / worse  # C(n − i − 1, k − 1) / C(n − i, k − 1)
        best.append(float(k / n * np.cumprod([1.0, *ratios]) @ ordered))
    return tuple(best)


@dataclass(frozen=True, slots=True)
class Moment:
    """A launch and the time of its request on the campaign's own clock, which stops during breaks."""

    observation: Observation  # The result of the launch.
    from_s: float
    """Seconds that earlier launches of the campaign took together, including their time in the queue."""


def moments(observations: Sequence[Observation]) -> tuple[Moment, ...]:
    """Return the launches with the time at which each one was requested, on the campaign's own clock."""
    spent_s = accumulate((o.queue_s + o.duration_s for o in observations), initial=0.0)
    return tuple(map(Moment, observations, spent_s))


def _later(space: Space, steps: Sequence[Step], setting: Point, number: int) -> list[Observation]:
    """Return the later launches of a setting: of the verification or, without any, of the search."""
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
