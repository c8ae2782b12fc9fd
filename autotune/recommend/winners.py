"""Which per-size choice wins where: a map over message and communicator sizes (beside step 10, for the page).

Read from the launches of one job-wide setting: in each slot every choice that was swept competes. A *tie* is
a slot whose winner is not significantly faster than the next best: their times, compared within the launches
that have both, differ by less than 1.96 standard errors.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.history.objectives import (
    Z95,
    Objective,
    Slot,
    alternatives,
    by_setting,
    envelope,
    job_setting,
    slot_of,
)
from autotune.history.trial import Estimate, History, Observation
from autotune.recommend.front import Candidate, ranked
from autotune.recommend.recommendation import Gain, Recommendation
from autotune.space import Point, Space


@dataclass(frozen=True, slots=True)
class SlotWinner:
    """One slot of the map."""

    slot: Slot  # Where.
    choice: Point  # The per-size values that win; empty: whatever the stack decides.
    rivals: tuple[Point, ...]  # Choices not significantly slower than the winner, the best first.
    behind: float  # Time of the next best over that of the winner; NaN where there is no other.
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
) -> tuple[SlotWinner, ...]:
    """The map of the recommended setting, else of the best that was swept; empty: nothing to choose."""
    groups = by_setting(space, history.sweeps)
    wanted = [recommendation.point] if recommendation else []
    wanted += [candidate.point for candidate in ranked(objectives, judged)[:1]]
    setting = next((job_setting(space, p) for p in wanted if job_setting(space, p) in groups), None)
    curves = alternatives(space, groups[setting]) if setting is not None else {}
    if all(len(choices) < 2 for choices in curves.values()):
        return ()
    default = envelope(space, history.untouched)
    seen = _by_launch(space, groups[setting]) if setting is not None else {}
    places = []
    for slot, choices in curves.items():
        first, *others = sorted(choices.values(), key=lambda winner: winner.median_s)
        near = [o for o in others if not _apart(seen[slot, first.choice], seen[slot, o.choice])]
        behind = others[0].median_s / first.median_s if others else math.nan
        own = default.get(slot)
        gain = Gain(slot, first.median_s, first.sem_s, own.median_s, own.sem_s) if own else None
        places.append(SlotWinner(slot, first.choice, tuple(o.choice for o in near), behind, gain))
    return tuple(places)


def _by_launch(space: Space, group: Iterable[Observation]) -> dict[tuple[Slot, Point], dict[int, Estimate]]:
    """Slot and choice → launch → what was measured."""
    per_size = {p.name for p in space.job if p.per_size}
    seen: dict[tuple[Slot, Point], dict[int, Estimate]] = defaultdict(dict)
    for observation in group:
        part = observation.trial.point.restricted(per_size)
        for its in observation.usable:
            choice = Point.of({**part, **its.cell.choice}) if part else its.cell.choice
            seen[slot_of(its.cell), choice][observation.trial.number] = its
    return seen


def _apart(first: Mapping[int, Estimate], other: Mapping[int, Estimate]) -> bool:
    """Whether a choice is surely slower, by the launches that have both, else by all of each."""
    both = sorted(first.keys() & other.keys())
    pairs: Sequence[tuple[Estimate, Estimate]] = [(first[n], other[n]) for n in both]
    if not pairs:
        pairs = list(zip(first.values(), other.values(), strict=False))
    logs = np.array([math.log(o.median_s / f.median_s) for f, o in pairs])
    errors = np.array([math.hypot(f.sem_s / f.median_s, o.sem_s / o.median_s) for f, o in pairs])
    within = float(np.sqrt(np.sum(errors**2))) / len(logs)
    between = float(np.std(logs, ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    return float(logs.mean()) > Z95 * max(within, between)
