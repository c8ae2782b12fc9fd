"""Correct ratios between settings for states of the machine that change what a setting gains.

The ratio ρ of a setting's time to the default's time in the same heat (launches alive at once) depends on the
setting and on the state of the machine. For example, two cores may share a cache in one minute and not in the
next, because a virtual machine was moved to other cores; a job may also get other nodes. The state in a heat
is measured by its default: ``z`` is the mean over message sizes of ln (t₀ / r₀), where t₀ is the default's
time in the heat and r₀ its time in the first heat. A ratio that varies with z is corrected to the prevailing
state z*, which is the median over launches:

    ln ρ' = ln ρ − b · (z − z*).

A setting that loses in a state which the machine was in loses some day. So what is believed of losses is read
in the state, between the quantiles ``STATES.outer`` of z over launches, in which the setting is slowest.

The slope b of a setting in a slot (collective, communicator size, message size) is a weighted median of the
slopes Δ ln ρ / Δz between two launches of the same setting (Sen, Journal of the American Statistical
Association 63, 1968, 1379–1389). Slopes of other settings count too: the weight of a slope is its information
(Δz)² times the likeness of its setting to the setting that is corrected, and the weights are scaled to the
sum of all (Δz)². A slope of zero is added with the weight ``STATES.doubt``. On a machine with a single state
z hardly differs between launches. Nothing is corrected while all (Δz)² together are at most
``STATES.doubt``, and hardly anything after many launches.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from autotune.history.objectives import Slot
from autotune.measure.location import weighted_median
from autotune.space import Point

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StatePriors:
    """Set what is assumed about the states of a machine before launches have shown any."""

    doubt: float = 1.0
    """Weight of the slope of zero. It equals the weight of two launches of one setting if the default is e
    times as fast beside one of them as beside the other."""
    unlike: float = 0.5
    """Factor on the weight of another setting's slope, for each parameter in which the settings differ; 0:
    slopes of other settings do not count. In two recorded campaigns on a machine with two states, launches in
    one state predicted those in the other with an error of 0.10 and 0.23 in ln t (0.26 and 0.36 without a
    correction). The errors are the same with 0.25 and 0.7, and with 0.25 and 2 for ``doubt``."""
    outer: tuple[float, float] = (0.05, 0.95)
    """Quantiles of z between which states count for what is believed of losses; a single heat in which the
    default alone was disturbed does not."""


STATES = StatePriors()


@dataclass(frozen=True)
class Ratios:
    """Hold the logarithms of a launch's ratios to the default of its heat, by slot."""

    point: Point  # The setting's values.
    z: float  # State of the machine in the heat, as defined above.
    logs: Mapping[Slot, float]  # ln (t / t₀), a mean over the choices of a slot.


def slopes(launches: Sequence[Ratios]) -> list[dict[Slot, float]]:
    """Return the slope b of the setting of each launch, by slot; nothing where it does not vary with z."""
    settings: dict[Point, list[int]] = defaultdict(list)
    for i, launch in enumerate(launches):
        settings[launch.point].append(i)
    z = np.array([launch.z for launch in launches])
    pairs = np.array([pair for places in settings.values() for pair in combinations(places, 2)], dtype=int)
    pairs = pairs.reshape(-1, 2)
    first, second = pairs[z[pairs[:, 0]] != z[pairs[:, 1]]].T
    apart = z[second] - z[first]
    information = apart**2
    if information.sum() <= STATES.doubt:
        return [{} for _ in launches]
    slots = sorted({slot for launch in launches for slot in launch.logs})
    curves = np.array([[launch.logs.get(slot, np.nan) for slot in slots] for launch in launches])
    between = (curves[second] - curves[first]) / apart[:, None]
    weights = information * _alike(list(settings), [launches[i].point for i in first])
    totals = weights.sum(axis=1, keepdims=True)  # 0: no slope counts for the setting
    weights *= information.sum() / np.where(totals > 0, totals, 1.0)
    by_setting = {
        point: np.array([_median(column, each) for column in between.T])
        for point, each in zip(settings, weights, strict=True)
    }
    return [
        {slot: float(b) for slot, b in zip(slots, by_setting[launch.point], strict=True) if b}
        for launch in launches
    ]


def corrections(
    launches: Sequence[Ratios], slopes: Sequence[Mapping[Slot, float]], state: float
) -> list[dict[Slot, float]]:
    """Return what to add to ln (t / t₀) of each launch for a state, by slot; nothing without a slope."""
    return [
        {slot: -b * (launch.z - state) for slot, b in by.items() if slot in launch.logs}
        for launch, by in zip(launches, slopes, strict=True)
    ]


def _alike(settings: Sequence[Point], others: Sequence[Point]) -> Floats:
    """Return the likeness of settings to others, shape ``(n_settings, n_others)``: 1 for the same setting."""
    values = [frozenset(point.items()) for point in settings]
    differing = np.array([[len(a ^ frozenset(b.items())) / 2 for b in others] for a in values])
    return np.asarray(STATES.unlike**differing)


def _median(between: Floats, weights: Floats) -> float:
    """Return the weighted median of slopes and of a slope of zero."""
    known = ~np.isnan(between)
    return weighted_median(np.append(between[known], 0.0), np.append(weights[known], STATES.doubt))
