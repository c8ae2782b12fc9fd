"""Differences between launches of one setting, and their noise (beside step 10 of the flow).

Launches of one setting differ by more than their samples say. The variance of one launch is estimated from
all that were repeated, s̃² = (ν₀ s₀² + SS) / (ν₀ + ν): the conjugate scaled inverse χ² prior, SS and ν of the
launches (Gelman et al., Bayesian Data Analysis, 3rd ed., section 3.2).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from autotune.history.memory import remembered
from autotune.history.objectives import Slot, alternatives
from autotune.history.trial import Observation, Subject
from autotune.space import Point, Space


@dataclass(frozen=True, slots=True)
class SpreadPrior:
    """How far launches of one setting lie apart, on the log scale, before any was repeated."""

    launch_sd: float = 0.03  # s₀, on the log scale: launches of recorded campaigns lie 2 to 5 % apart.
    cell_sd: float = 0.02
    """The same of cells of a launch, beside what they have in common: they lie nearer to each other."""
    freedom: int = 4
    """ν₀, degrees of freedom that either is worth: with as many repeated launches both count alike."""
    disturbed: float = 0.1
    """Two launches that lie so far apart, three to five times s₀, were not both undisturbed."""


PRIOR = SpreadPrior()


@dataclass(frozen=True, slots=True)
class LaunchNoise:
    """How far launches of one setting lie apart."""

    squares: float = 0.0
    """SS: sum of squared deviations of ln t from the mean of setting and cell, as a mean over the cells."""
    repeats: int = 0  # ν: launches less settings, of those that were launched more than once.

    @property
    def sd(self) -> float:
        """Standard deviation of ln t of one launch."""
        return math.sqrt((PRIOR.freedom * PRIOR.launch_sd**2 + self.squares) / self.freedom)

    def at_most(self, sd: float) -> "LaunchNoise":
        """The same where as many other launches lay no further apart than this."""
        return replace(self, squares=min(self.squares, sd**2 * self.repeats))

    @property
    def freedom(self) -> int:
        """Degrees of freedom behind it."""
        return PRIOR.freedom + self.repeats


def launch_noise(observations: Iterable[Observation]) -> LaunchNoise:
    """The noise that the baseline, spread over the campaign, and all else launched more than once show."""
    squares, repeats = 0.0, 0
    for _, logs in repeated(observations):
        squares += float(((logs - logs.mean(axis=0)) ** 2).sum(axis=0).mean())
        repeats += len(logs) - 1
    return LaunchNoise(squares, repeats)


def two_that_differ(launches: Iterable[Observation]) -> bool:
    """Whether these are two of one setting that differ, so that a third one has to decide."""
    seen = launch_noise(launches)
    return seen.repeats == 1 and math.sqrt(2 * seen.squares) > PRIOR.disturbed


def repeated(observations: Iterable[Observation]) -> Iterator[tuple[list[int], NDArray[np.float64]]]:
    """Each setting launched again: where its launches stand, ln of their times ``(launches, cells)``."""
    groups: dict[tuple[Subject, Point], dict[int, dict[object, float]]] = defaultdict(dict)
    for i, observation in enumerate(observations):
        logs: dict[object, float] = {e.cell: math.log(e.median_s) for e in observation.usable}
        if logs:
            groups[observation.trial.subject, observation.trial.point][i] = logs
    for launches in groups.values():
        common = set.intersection(*map(set, launches.values())) if len(launches) > 1 else set()
        if common:
            yield list(launches), np.array([[one[cell] for cell in common] for one in launches.values()])


def optimism(space: Space, launches: Iterable[Observation]) -> Mapping[Slot, float]:
    """By how much the best choice of a launch looks better than it is, on the log scale, in each slot.

    The best of several choices that are as good is mostly the luckiest (the winner's curse). Choices are
    weighted by how likely noise alone sets them apart from the best, w = exp(−δ² / 4τ²) with δ the distance
    to it and τ the noise of a cell; what their mean lies above the best is the answer, as a mean over the
    launches that had a choice there.
    """
    made = tuple(launches)
    noise = _cell_noise(made)
    shown: dict[Slot, list[float]] = defaultdict(list)
    for one in made:
        for slot, behind in _behind(space, one).items():
            shown[slot].append(float(np.average(behind, weights=np.exp(-((behind / noise) ** 2) / 4))))
    return {slot: float(np.mean(of)) for slot, of in shown.items()}


@remembered
def _behind(space: Space, one: Observation) -> Mapping[Slot, NDArray[np.float64]]:
    logs = {
        slot: np.log([winner.median_s for winner in choices.values()])
        for slot, choices in alternatives(space, [one]).items()
    }
    return {slot: of - of.min() for slot, of in logs.items()}


def _cell_noise(launches: Iterable[Observation]) -> float:
    """How far a cell lies from what its launch and its setting have in common, on the log scale."""
    squares, freedom = PRIOR.freedom * PRIOR.cell_sd**2, PRIOR.freedom
    for _, logs in repeated(launches):
        left = logs - logs.mean(axis=0) - logs.mean(axis=1, keepdims=True) + logs.mean()
        squares += float((left**2).sum())
        freedom += (logs.shape[0] - 1) * (logs.shape[1] - 1)
    return math.sqrt(squares / freedom)
