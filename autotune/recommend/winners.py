"""Which per-size choice wins where: a map over message and communicator sizes (beside step 10, for the page).

Read from the launches of one job-wide setting: in each slot every choice that was swept competes. A *tie* is
a slot whose winner cannot be told from the next best: their times differ by less than 1.96 standard errors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.history.objectives import (
    Objective,
    Slot,
    Winner,
    alternatives,
    by_setting,
    envelope,
    job_setting,
)
from autotune.history.trial import History
from autotune.recommend.front import Candidate, Gain, Recommendation, ranked
from autotune.space import Point, Space

_Z95 = 1.96


@dataclass(frozen=True, slots=True)
class Place:
    """One slot of the map."""

    slot: Slot
    """Where."""
    choice: Point
    """The per-size values that win; empty: whatever the stack decides."""
    rivals: tuple[Point, ...]
    """Choices that cannot be told from the winner, the best first."""
    behind: float
    """Time of the next best over that of the winner; NaN where there is no other."""
    gain: Gain | None
    """The stack's own defaults against the winner, by the search; None where they were not measured here."""

    @property
    def tied(self) -> bool:
        """Whether another choice may be as good."""
        return bool(self.rivals)


def winners(
    objectives: Sequence[Objective],
    space: Space,
    history: History,
    judged: Sequence[Candidate],
    recommendation: Recommendation | None,
) -> tuple[Place, ...]:
    """The map of the recommended setting, or of the best that was swept where that was not; none without one.

    Empty too where there is nothing to choose per size.
    """
    groups = by_setting(space, history.sweeps)
    wanted = [recommendation.point] if recommendation else []
    wanted += [candidate.point for candidate in ranked(objectives, judged)[:1]]
    setting = next((job_setting(space, p) for p in wanted if job_setting(space, p) in groups), None)
    curves = alternatives(space, groups[setting]) if setting is not None else {}
    if all(len(choices) < 2 for choices in curves.values()):
        return ()
    default = envelope(space, history.untouched)
    places = []
    for slot, choices in curves.items():
        first, *others = sorted(choices.values(), key=lambda winner: winner.median_s)
        near = [other for other in others if _alike(first, other)]
        behind = others[0].median_s / first.median_s if others else math.nan
        own = default.get(slot)
        gain = Gain(slot, first.median_s, first.sem_s, own.median_s, own.sem_s) if own else None
        places.append(Place(slot, first.choice, tuple(o.choice for o in near), behind, gain))
    return tuple(places)


def _alike(first: Winner, other: Winner) -> bool:
    """Whether two times of one launch's cells cannot be told apart."""
    error = math.hypot(first.sem_s / first.median_s, other.sem_s / other.median_s)
    return math.log(other.median_s / first.median_s) < _Z95 * error
