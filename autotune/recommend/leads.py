"""The progress of a search against random order (after step 10, for the report).

The best so far of a search is the best of many noisy scores, and so it is biased: a setting that led by luck
would not score as well again. Launches of a leader *after* it took the lead, in the search or in the
verification, did not select it, so their score is unbiased.

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
    """A setting that led in one objective for a while."""

    from_trial: int  # Number of the trial that made it the leader.
    to_trial: int  # Number of the last trial of the search after which it led.
    point: Point  # The setting.
    first_score: Score  # Its score when it took the lead.
    later_score: Score | None  # Its score by later launches alone; None where there were none.
    launches: int  # Number of these later launches.


def leads(
    objectives: Sequence[Objective], index: int, space: Space, steps: Sequence[Step]
) -> tuple[Lead, ...]:
    """Return the settings that led in the objective with an index, one after the other."""
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
        if setting == previous:  # The launch was of the leader itself, whose score may have got worse.
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
    """Return the expected best of 1, 2, … n values drawn from these n in random order, ``(n,)``."""
    ordered = np.array(sorted(values, reverse=maximise))
    # The number of values that are worse than the i-th, for all but the worst one.
    n, worse = len(ordered), np.arange(len(ordered) - 1, 0, -1.0)
    best = []
    for k in range(1, n + 1):
        ratios = (worse - k + 1).clip(min=0) / worse  # C(n − i − 1, k − 1) / C(n − i, k − 1)
        best.append(float(k / n * np.cumprod([1.0, *ratios]) @ ordered))
    return tuple(best)


@dataclass(frozen=True, slots=True)
class Moment:
    """Says when one launch was requested, on the campaign's own clock."""

    observation: Observation  # The result of the launch.
    from_s: float
    """Time of its request: seconds of queueing and launching since the first launch, without breaks."""


def moments(observations: Sequence[Observation]) -> tuple[Moment, ...]:
    """Return the launches with the time at which each was requested."""
    spent_s = accumulate((o.queue_s + o.duration_s for o in observations), initial=0.0)
    return tuple(map(Moment, observations, spent_s))


def _later(space: Space, steps: Sequence[Step], setting: Point, number: int) -> list[Observation]:
    """Return the successful launches of a setting after a trial.

    Launches of its exported files are preferred; where there are none, the sweeps are returned.
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
