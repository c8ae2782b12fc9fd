"""Progress of a search against random order (beside step 10, for the report).

The best so far of a search is the best of many noisy figures, and so too good: what led by luck would not do
as well again. Launches that a leader got *after* it took the lead, in the search or in the verification, did
not choose it: their mean is an honest figure of it.

Notation: of n settings, v₍₁₎ is the best score and v₍ₙ₎ the worst. The expected best of k different ones
drawn at random is Σᵢ v₍ᵢ₎ C(n − i, k − 1) / C(n, k).
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

    from_trial: int  # The launch that made it the leader.
    to_trial: int  # The last launch of the search for which it led.
    point: Point  # The setting.
    then: Score  # What it was taken for when it took the lead.
    again: Score | None  # By launches that came later; None where there was none.
    launches: int  # How many those are.


def leads(
    objectives: Sequence[Objective], index: int, space: Space, steps: Sequence[Step]
) -> tuple[Lead, ...]:
    """Who led in an objective, the ``index``-th, one after the other."""
    objective, wanted = objectives[index], tuple(sorted(set(slots(s.observation for s in steps))))
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
        judged = scores(objectives, space, group, wanted)
        if judged is None:
            continue
        standing[setting] = judged[index]
        sign = -1 if objective.maximise else 1
        before = turns[-1][1] if turns else setting
        leader = min((before, setting), key=lambda one: sign * standing[one].value)
        if setting == before:  # it led, and may have got worse
            leader = min(standing, key=lambda one: sign * standing[one].value)
        if not turns or before != leader:
            turns.append((trial.number, leader, standing[leader]))
    ends = [*(start - 1 for start, _, _ in turns[1:]), last][: len(turns)]
    found = []
    for (start, point, then), end in zip(turns, ends, strict=True):
        later = _later(space, steps, point, start)
        judged = scores(objectives, space, later, wanted) if later else None
        again = judged[index] if judged else None
        found.append(Lead(start, max(start, end), point, then, again, len(later) if again else 0))
    return tuple(found)


def random_best(values: Sequence[float], maximise: bool) -> tuple[float, ...]:
    """The expected best of 1, 2, … n of these values in random order, shape ``(n,)``."""
    ordered = np.array(sorted(values, reverse=maximise))
    n, worse = len(ordered), np.arange(len(ordered) - 1, 0, -1.0)  # than the i-th, but for the worst
    best = []
    for k in range(1, n + 1):
        ratios = (worse - k + 1).clip(min=0) / worse  # C(n − i − 1, k − 1) / C(n − i, k − 1)
        best.append(float(k / n * np.cumprod([1.0, *ratios]) @ ordered))
    return tuple(best)


@dataclass(frozen=True, slots=True)
class Moment:
    """One launch on the campaign's own clock."""

    observation: Observation  # What it showed.
    from_s: float  # When it was asked for: seconds of waiting and launching since the first, no breaks.


def moments(observations: Sequence[Observation]) -> tuple[Moment, ...]:
    """When each launch was asked for."""
    spent_s = accumulate((o.queue_s + o.duration_s for o in observations), initial=0.0)
    return tuple(map(Moment, observations, spent_s))


def _later(space: Space, steps: Sequence[Step], setting: Point, number: int) -> list[Observation]:
    """Usable launches of a setting after a trial: those of its files where there are any, else its sweeps."""
    mine = [
        s.observation
        for s in steps
        if s.observation.ok
        and s.observation.trial.number > number
        and s.observation.trial.subject is not Subject.UNTOUCHED
        and job_setting(space, s.observation.trial.point) == setting
    ]
    deployed = [o for o in mine if o.trial.phase is Phase.VERIFY]
    return deployed or mine
