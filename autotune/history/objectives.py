"""Compute envelopes and scores from the estimates of launches (data flow: observation to proposer).

Notation: a *slot* is one (collective, communicator size, message size); ``t`` is a time in seconds.
Objectives are computed from the *envelope* of a job-wide setting: in each slot the best of its per-size
choices, whether these were swept inside one launch or tried in several launches.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.collectives import COLLECTIVES, Pattern
from autotune.errors import ScenarioError, allowed
from autotune.history.trial import Cell, Estimate, Observation
from autotune.measure.location import normal_scale
from autotune.space import Point, Space

Slot = tuple[str, int, int]  # (collective, communicator size, message size in bytes).

_REACH = 700.0  # Limit on the logarithm of a ratio; the logarithm of the largest double is 709.8.
_FAR = 1e300  # An end of an interval that is beyond it, or below its reciprocal, is not known.

Z95 = 1.96  # Half of the width of a normal estimate's 95 % interval, in standard errors.

UNITS = {"latency": "µs", "bandwidth": "GB/s", "memory": "MiB", "message_rate": "million/s", "overlap": "µs"}
"""Every objective there is, with its unit."""
_COUNTED = {
    "message_rate": {name for name, collective in COLLECTIVES.items() if collective.pattern is Pattern.PAIRS},
    # The objective is the time that computation does not hide, and not the share of the call's time that is
    # not hidden: this share also falls if the call gets slower.
    "overlap": {name for name, collective in COLLECTIVES.items() if collective.overlaps},
}
"""Maps each objective for which only some collectives count to the names of these collectives."""


@dataclass(frozen=True, slots=True)
class Objective:
    """Describes a quantity by which settings are compared, and the slots (calls and sizes) that count."""

    name: str  # One of ``UNITS``, or a program's response.
    min_bytes: int = 0  # Smallest message size that counts.
    max_bytes: int | None = None  # Largest message size that counts; None: no limit.
    weights: Mapping[Slot, float] = field(default_factory=dict)
    """Weight of each slot; a slot that is missing weighs nothing. Empty: all slots weigh the same."""
    goal: str = ""  # Goal of a program's response: ``min`` or ``max``; empty for objectives of MPI.

    def __post_init__(self) -> None:
        if self.goal:
            if self.goal not in ("min", "max"):
                raise ScenarioError(f"response {self.name}: goal {self.goal!r}", "allowed: min, max")
        elif self.name not in UNITS:
            raise ScenarioError(f"unknown objective {self.name!r}", allowed(self.name, UNITS))
        if self.max_bytes is not None and self.max_bytes < self.min_bytes:
            raise ScenarioError(
                f"objective {self.name}: max_bytes={self.max_bytes} below min_bytes={self.min_bytes}"
            )

    def __hash__(self) -> int:
        return hash((self.name, self.min_bytes, self.max_bytes))

    @property
    def maximise(self) -> bool:
        """Whether a larger value is better."""
        return self.goal == "max" if self.goal else self.name in ("bandwidth", "message_rate")

    @property
    def unit(self) -> str:
        """The unit of the score; empty for a program's response."""
        return "" if self.goal else UNITS[self.name]

    def cost(self, score: "Score") -> float:
        """Return the logarithm of a score, negated if a larger score is better: less cost is better."""
        return -math.log(score.value) if self.maximise else math.log(score.value)

    def covers(self, slot: Slot) -> bool:
        """Whether a slot counts for this objective."""
        if self.goal:
            return slot == response_slot(self.name)
        if self.weights and self.weights.get(slot, 0.0) <= 0:
            return False
        if self.name in _COUNTED and slot[0] not in _COUNTED[self.name]:
            return False
        return slot[2] >= self.min_bytes and (self.max_bytes is None or slot[2] <= self.max_bytes)


def response_slot(name: str) -> Slot:
    """Return the slot of the response (the number that an external program reports).

    A response is stored as if it were the time of a message of one byte, so that every model of curves
    applies to it. The stored value is the response if less is better, and its inverse if more is better.
    """
    return (name, 1, 1)


@dataclass(frozen=True, slots=True)
class Score:
    """Holds the value of one objective with its standard error."""

    value: float  # The value, in the unit of the objective.
    sem: float  # Standard error of the value, in the same unit.

    @property
    def relative_sem(self) -> float:
        """The standard error of the logarithm of the value."""
        return self.sem / self.value


@dataclass(frozen=True, slots=True)
class Winner:
    """Holds the best per-size choice in one slot, with its time."""

    median_s: float  # Time of the choice in seconds, pooled over launches.
    sem_s: float  # Standard error of the time, in seconds.
    choice: Point  # Values of the call, and those of the launch that a file can choose per message size.
    n: int = 0  # Number of samples from which the time was computed.


Envelope = Mapping[Slot, Winner]  # Best per-size choice of one job-wide setting in each slot.

Alternatives = Mapping[Slot, Mapping[Point, Winner]]
"""Every per-size choice of one job-wide setting in each slot."""


def job_setting(space: Space, point: Point) -> Point:
    """Return the part of a point that a whole job must share, without values that a file chooses per size."""
    return point if space.job_wide.issuperset(point) else point.restricted(space.job_wide)


def slots(observations: Iterable[Observation]) -> tuple[Slot, ...]:
    """Return all slots (collective, communicator size, message size) of the observations, sorted."""
    cells = {slot_of(e.cell) for o in observations for e in o.usable}
    return tuple(sorted(cells))


def slot_of(cell: Cell) -> Slot:
    """Return the slot of a cell: its collective, communicator size and message size, without the choice."""
    return (cell.collective, cell.comm_size, cell.message_bytes)


def place_text(slot: Slot) -> str:
    """Return a slot in words, ``8 B of allreduce``; the name alone for a program's response."""
    name, _, size = slot
    return f"{size} B of {name}" if name in COLLECTIVES else name


def ratio_of(logarithm: float) -> float:
    """Return the ratio with this logarithm, limited to 10^±304 so that wild measurements do not overflow."""
    return math.exp(min(max(logarithm, -_REACH), _REACH))


def known_end(ratio: float) -> float:
    """Return an end of a ratio's interval for a document; NaN (null in JSON) if it is not known.

    An end for which there are too few launches is infinite, 0 or NaN, or lies where ``ratio_of`` stops.
    """
    return ratio if 1 / _FAR < ratio < _FAR else math.nan


def pooled(estimates: Sequence[Estimate]) -> tuple[float, float, int]:
    """Return location, standard error and number of samples from repeated launches of the same cell.

    The location, in seconds, is the median of the launches' times on the log scale, so that one disturbed
    launch among three or more does not move it. Its standard error is the larger of two: the one that follows
    from the launches' own errors, and the one that follows from the spread between launches, since launches
    differ more than their samples do. The spread is taken from the median absolute deviation, so that one
    disturbed launch does not move it either.
    """
    if len(estimates) == 1:
        return estimates[0].median_s, estimates[0].sem_s, estimates[0].n
    logs = np.log([e.median_s for e in estimates])
    errors = np.array([e.sem_s / e.median_s for e in estimates])
    centre = float(np.median(logs))
    if len(logs) < 3:  # the median of two values is their mean
        within = float(np.sqrt(np.sum(errors**2))) / len(logs)
        between = float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    else:
        efficiency = math.sqrt(math.pi / 2 / len(logs))  # error of a median of normal values, σ = 1
        within = efficiency * float(np.median(errors))
        between = efficiency * float(normal_scale(np.abs(logs - centre)))
    location = math.exp(centre)
    return location, location * max(within, between), sum(e.n for e in estimates)


def alternatives(space: Space, observations: Iterable[Observation]) -> Alternatives:
    """Return every per-size choice in each slot; the observations should share their job-wide setting."""
    cells: dict[Slot, dict[Point, list[Estimate]]] = defaultdict(lambda: defaultdict(list))
    for observation in observations:
        for slot, choice, estimate in choices_of(space, observation):
            cells[slot][choice].append(estimate)
    return {slot: dict(map(_winner, choices.items())) for slot, choices in sorted(cells.items())}


def choices_of(space: Space, observation: Observation) -> Iterator[tuple[Slot, Point, Estimate]]:
    """Yield each usable estimate of a launch with its slot and its per-size choice.

    The choice has the call-level values of the estimate's cell, and those values of the launch that a file
    can choose per message size.
    """
    per_size = {p.name for p in space.job if p.per_size}
    launch_part = observation.trial.point.restricted(per_size)
    for estimate in observation.usable:
        choice = estimate.cell.choice
        yield slot_of(estimate.cell), Point.of({**launch_part, **choice}) if launch_part else choice, estimate


def _winner(item: tuple[Point, Sequence[Estimate]]) -> tuple[Point, Winner]:
    choice, estimates = item
    location, sem, n = pooled(estimates)
    return choice, Winner(location, sem, choice, n)


def envelope(space: Space, observations: Iterable[Observation]) -> Envelope:
    """Return the best per-size choice in each slot; the observations should share their job-wide setting."""
    return {
        slot: min(choices.values(), key=lambda winner: winner.median_s)
        for slot, choices in alternatives(space, observations).items()
    }


def by_setting(space: Space, observations: Iterable[Observation]) -> dict[Point, list[Observation]]:
    """Return usable observations grouped by the job-wide setting that they share, in order of appearance."""
    groups: dict[Point, list[Observation]] = defaultdict(list)
    for observation in observations:
        if observation.ok:
            groups[job_setting(space, observation.trial.point)].append(observation)
    return dict(groups)


def score(
    objective: Objective,
    curve: Envelope,
    expected: Sequence[Slot] | None = None,
    memory_bytes: float = math.nan,
) -> Score | None:
    """Return the objective's value on an envelope; None if it needs a missing slot, or covers no slot.

    latency: exp(Σ w·ln t) in µs, over the slots that count; bandwidth: exp(Σ w·ln(size/t)) in GB/s, with
    weights that sum to one; message_rate: exp(Σ w·ln(1/t)) in millions a second, over calls that send many
    messages in a row; overlap: as latency, over calls during which ranks compute; a response: as the program
    reported it.
    Standard errors are propagated to first order: sem = value · sqrt(Σ (w·sem_t/t)²).

    Args:
        objective: What is computed.
        curve: The best time in each slot.
        expected: All slots that a complete curve has; None: those of ``curve``.
        memory_bytes: Peak resident set in bytes, for the objective ``memory``; NaN: not known.
    """
    if objective.name == "memory":
        return None if math.isnan(memory_bytes) else Score(memory_bytes / 2**20, 0.0)
    counting = [slot for slot in (expected if expected is not None else curve) if objective.covers(slot)]
    if objective.maximise:
        counting = [slot for slot in counting if slot[2] > 0]
    if not counting or any(slot not in curve for slot in counting):
        return None
    weights = np.array([objective.weights.get(slot, 1.0) if objective.weights else 1.0 for slot in counting])
    weights = weights / weights.sum()
    times = np.array([curve[slot].median_s for slot in counting])
    relative = np.array([curve[slot].sem_s for slot in counting]) / times
    sizes = np.array([max(slot[2], 1) for slot in counting], dtype=float)
    if objective.name == "message_rate":
        sizes, unit = np.ones_like(times), 1e6
    else:
        unit = 1.0 if objective.goal else 1e9 if objective.maximise else 1e-6
    logs = np.log(sizes / times / unit) if objective.maximise else np.log(times / unit)
    value = float(np.exp(weights @ logs))
    return Score(value, value * float(np.sqrt(np.sum((weights * relative) ** 2))))


def scores(
    objectives: Sequence[Objective],
    space: Space,
    observations: Sequence[Observation],
    expected: Sequence[Slot] | None = None,
) -> tuple[Score, ...] | None:
    """Return the values of all objectives on the envelope of observations; None if any value is missing.

    ``expected`` are the slots that a complete envelope has, as for ``score``.
    """
    return scores_of(objectives, envelope(space, observations), observations, expected)


def scores_of(
    objectives: Sequence[Objective],
    curve: Envelope,
    observations: Sequence[Observation],
    expected: Sequence[Slot] | None = None,
) -> tuple[Score, ...] | None:
    """Return the values of all objectives on the envelope of observations; None if any value is missing.

    ``curve`` is that envelope; ``expected`` are the slots that a complete envelope has, as for ``score``.
    """
    memory = [o.extra["memory_bytes"] for o in observations if o.ok and o.extra.get("memory_bytes")]
    peak = max(memory) if memory else math.nan
    values = [score(objective, curve, expected, peak) for objective in objectives]
    complete = tuple(s for s in values if s is not None)
    return complete if len(complete) == len(objectives) else None
