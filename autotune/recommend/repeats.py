"""Estimate how much launches of one setting differ, from all settings that were launched repeatedly.

Place in the flow of ``autotune/__init__.py``: outside it, before step 10, recommend.

Launches of one setting differ by more than the samples within each launch suggest. The variance of a launch
is estimated as s̃² = (ν₀ s₀² + SS) / (ν₀ + ν), with the sum of squares SS and the degrees of freedom ν of
repeated launches, and with a conjugate scaled inverse χ² prior (Gelman et al., Bayesian Data Analysis, 3rd
ed., section 3.2). The prior's s₀ is that of ``measure.launch_spread``. SS follows from a variance that is
usual among the settings (``usual_variance``), because a single setting whose launches differ very much, as
over TCP on one node, says nothing about other settings.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autotune.history.memory import remembered
from autotune.history.objectives import Slot, alternatives, slot_of
from autotune.history.trial import Cell, Observation, Subject
from autotune.measure.launch_spread import LAUNCH_SPREAD
from autotune.measure.location import usual_variance
from autotune.space import Point, Space

FREEDOM = 4
"""ν₀: degrees of freedom of the prior, which has the weight of this number of repeated launches."""
_DISTURBED = 0.1
"""If ln t of two launches differs by more than this, one of the launches was disturbed; the value is three to
five times s₀."""


@dataclass(frozen=True, slots=True)
class LaunchNoise:
    """Noise of launches: how much launches of the same setting differ."""

    squares: float = 0.0
    """SS: sum of the squared deviations of ln t from the mean of the same setting and cell, averaged over
    cells. A cell is a collective with a communicator size, a message size and a per-size choice."""
    repeats: int = 0
    """ν: number of launches minus number of settings, counted over the settings that were launched more than
    once."""
    of_slots: Mapping[Slot, float] = field(default_factory=dict, compare=False)
    """SS of each slot (collective, communicator size, message size). Slots differ: launches may differ by 12
    % at 8 B and by 1 % at 512 KiB."""

    @property
    def sd(self) -> float:
        """Return the standard deviation of ln t of a launch, over all slots."""
        return self._sd(self.squares)

    def sds(self, slots: Iterable[Slot]) -> NDArray[np.float64]:
        """Return the standard deviation of ln t of a launch in each of the given slots, ``(n_slots,)``."""
        return np.array([self._sd(self.of_slots.get(slot, self.squares)) for slot in slots])

    def _sd(self, squares: float) -> float:
        """Return s̃, the estimated standard deviation of a launch, for a sum of squares SS."""
        return math.sqrt((FREEDOM * LAUNCH_SPREAD.usual_sd**2 + squares) / self.freedom)

    @property
    def freedom(self) -> int:
        """Return the degrees of freedom of the estimate, ν₀ + ν."""
        return FREEDOM + self.repeats


def launch_noise(observations: Iterable[Observation]) -> LaunchNoise:
    """Estimate the noise of launches from all settings launched more than once, including the baseline."""
    squares: list[float] = []
    freedom: list[int] = []
    of_slots: dict[Slot, list[tuple[float, int]]] = defaultdict(list)
    for _, logs, cells in repeated(observations):
        of_cells = ((logs - logs.mean(axis=0)) ** 2).sum(axis=0)
        squares.append(float(of_cells.mean()))
        freedom.append(len(logs) - 1)
        by_slot: dict[Slot, list[float]] = defaultdict(list)
        for cell, of_cell in zip(cells, of_cells, strict=True):
            by_slot[slot_of(cell)].append(float(of_cell))
        for slot, each in by_slot.items():
            of_slots[slot].append((float(np.mean(each)), len(logs) - 1))
    repeats = sum(freedom)

    def usual(squares: Sequence[float], freedom: Sequence[int]) -> float:
        return repeats * usual_variance(np.array(squares), np.array(freedom, dtype=int))

    return LaunchNoise(
        usual(squares, freedom),
        repeats,
        {slot: usual(*zip(*shown, strict=True)) for slot, shown in of_slots.items()},
    )


def two_that_differ(launches: Iterable[Observation]) -> bool:
    """Return whether a setting was launched twice with results so different that it needs a third launch."""
    noise = launch_noise(launches)
    return noise.repeats == 1 and math.sqrt(2 * noise.squares) > _DISTURBED


def repeated(
    observations: Iterable[Observation],
) -> Iterator[tuple[list[int], NDArray[np.float64], list[Cell]]]:
    """Yield (launches, times, cells) for each setting that was launched more than once.

    ``launches`` contains indices into ``observations``. ``times`` contains logarithms of times,
    ``(n_launches, n_cells)``. ``cells`` contains the cells (collective, communicator size, message size,
    choice) that all launches of the setting measured.
    """
    groups: dict[tuple[Subject, Point], dict[int, dict[Cell, float]]] = defaultdict(dict)
    for i, observation in enumerate(observations):
        logs = {e.cell: math.log(e.median_s) for e in observation.usable}
        if logs:
            groups[observation.trial.subject, observation.trial.point][i] = logs
    for launches in groups.values():
        first, *repeats = launches.values()
        common = [cell for cell in first if all(cell in launch for launch in repeats)]
        if repeats and common:
            logs_of = np.array([[launch[cell] for cell in common] for launch in launches.values()])
            yield list(launches), logs_of, common


def optimism(space: Space, launches: Iterable[Observation]) -> Mapping[Slot, float]:
    """Return for each slot, in ln t, by how much the best choice of a launch looks faster than it really is.

    The best of several equally good choices is mostly the luckiest (the winner's curse). Let δ be the
    difference between a choice and the best choice in ln t, and τ the noise of a single choice's time. Each
    choice has the weight w = exp(−δ² / 4τ²), the likelihood that only noise separates it from the best
    choice. The optimism of a launch is the weighted mean of δ, and the result is the mean over all launches
    that measured choices in the slot.
    """
    observations = tuple(launches)
    noise = _cell_noise(observations)
    by_slot: dict[Slot, list[float]] = defaultdict(list)
    for observation in observations:
        for slot, gaps in _gaps(space, observation).items():
            by_slot[slot].append(float(np.average(gaps, weights=np.exp(-((gaps / noise) ** 2) / 4))))
    return {slot: float(np.mean(means)) for slot, means in by_slot.items()}


@remembered
def _gaps(space: Space, observation: Observation) -> Mapping[Slot, NDArray[np.float64]]:
    """Return for each slot the difference of ln t between each choice and the best one, ``(n_choices,)``."""
    logs = {
        slot: np.log([winner.median_s for winner in choices.values()])
        for slot, choices in alternatives(space, [observation]).items()
    }
    return {slot: times - times.min() for slot, times in logs.items()}


def _cell_noise(launches: Iterable[Observation]) -> float:
    """Return τ: the standard deviation of a cell's ln t around the means of its launch and its setting."""
    squares: list[float] = []
    freedom: list[int] = []
    for _, logs, _ in repeated(launches):
        residuals = logs - logs.mean(axis=0) - logs.mean(axis=1, keepdims=True) + logs.mean()
        squares.append(float((residuals**2).sum()))
        freedom.append((logs.shape[0] - 1) * (logs.shape[1] - 1))
    usual = sum(freedom) * usual_variance(np.array(squares), np.array(freedom, dtype=int))
    return math.sqrt((FREEDOM * LAUNCH_SPREAD.cell_sd**2 + usual) / (FREEDOM + sum(freedom)))
