"""Map the fastest per-size choice over message sizes and communicator sizes, for the report.

Place in the flow of ``autotune/__init__.py``: after step 10, recommend.

The map uses the launches of one job-wide setting, and compares all choices that were measured in each slot
(collective, communicator size, message size). A slot is a *tie* if its winner is not significantly faster
than the next best choice: their times, compared within the launches that measured both, differ by less than
1.96 standard errors.
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
    choices_of,
    envelope,
    job_setting,
)
from autotune.history.trial import Estimate, History, Observation
from autotune.recommend.front import Candidate, ranked
from autotune.recommend.recommendation import Gain, Recommendation
from autotune.space import Point, Space


@dataclass(frozen=True, slots=True)
class SlotWinner:
    """The fastest choice in one slot of the map."""

    slot: Slot  # Collective, communicator size and message size.
    choice: Point  # Per-size values of the fastest choice; empty if it is the stack's own choice.
    rivals: tuple[Point, ...]
    """Choices that are not significantly slower than the fastest one, the best first."""
    behind: float
    """Time of the next best choice divided by that of the fastest choice; NaN if there is no other choice."""
    gain: Gain | None
    """Times of the stack's defaults and of the fastest choice, from the search; None if the defaults were not
    measured."""

    @property
    def tied(self) -> bool:
        """Return whether another choice may be as fast as the winner."""
        return bool(self.rivals)


def winners(
    objectives: Sequence[Objective],
    space: Space,
    history: History,
    candidates: Sequence[Candidate],
    recommendation: Recommendation | None,
) -> tuple[SlotWinner, ...]:
    """Return the map of the recommended setting or, if the search did not measure it, of the best candidate.

    The map is empty if no slot has two choices. ``recommendation`` is None if there is none yet.
    """
    groups = by_setting(space, history.sweeps)
    points = [recommendation.point] if recommendation else []
    points += [candidate.point for candidate in ranked(objectives, candidates)[:1]]
    setting = next((job_setting(space, p) for p in points if job_setting(space, p) in groups), None)
    curves = alternatives(space, groups[setting]) if setting is not None else {}
    if all(len(choices) < 2 for choices in curves.values()):
        return ()
    default = envelope(space, history.untouched)
    estimates = _by_launch(space, groups[setting]) if setting is not None else {}
    slot_winners = []
    for slot, choices in curves.items():
        first, *slower = sorted(choices.values(), key=lambda winner: winner.median_s)
        tied = [w for w in slower if not _slower(estimates[slot, first.choice], estimates[slot, w.choice])]
        behind = slower[0].median_s / first.median_s if slower else math.nan
        untouched = default.get(slot)
        gain = (
            Gain(slot, first.median_s, first.sem_s, untouched.median_s, untouched.sem_s)
            if untouched
            else None
        )
        slot_winners.append(SlotWinner(slot, first.choice, tuple(w.choice for w in tied), behind, gain))
    return tuple(slot_winners)


def _by_launch(space: Space, group: Iterable[Observation]) -> dict[tuple[Slot, Point], dict[int, Estimate]]:
    """Map (slot, choice) to the estimated time in each launch, by the number of the launch."""
    estimates: dict[tuple[Slot, Point], dict[int, Estimate]] = defaultdict(dict)
    for observation in group:
        for slot, choice, estimate in choices_of(space, observation):
            estimates[slot, choice][observation.trial.number] = estimate
    return estimates


def _slower(first: Mapping[int, Estimate], second: Mapping[int, Estimate]) -> bool:
    """Return whether the second choice is significantly slower than the first.

    Times within the same launches are compared if there are such launches.
    """
    common = sorted(first.keys() & second.keys())
    pairs: Sequence[tuple[Estimate, Estimate]] = [(first[n], second[n]) for n in common]
    if not pairs:
        pairs = list(zip(first.values(), second.values(), strict=False))
    logs = np.array([math.log(s.median_s / f.median_s) for f, s in pairs])
    errors = np.array([math.hypot(f.sem_s / f.median_s, s.sem_s / s.median_s) for f, s in pairs])
    within = float(np.sqrt(np.sum(errors**2))) / len(logs)
    between = float(np.std(logs, ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    return float(logs.mean()) > Z95 * max(within, between)
