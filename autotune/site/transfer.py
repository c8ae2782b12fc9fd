"""Predict gains of jobs that were not measured, from the nearest measured job at a scaled message size.

A choice (an algorithm, say) is expected to gain as much on *N* nodes with *m* bytes as it gained on the
nearest measured job, of *n* nodes, with ``m·√(n/N)`` bytes. Where an algorithm's number of steps grows with
the nodes and each step takes a block of the message, calls with equal blocks (``m·n/N``) are comparable.
Where a step takes the whole message, calls with equal messages are comparable. The rule ``m·√(n/N)`` is
half-way between the two. The variance of the prediction grows in proportion to the number of doublings from
one job to the other.

Compared with a cost model with a Gaussian process for its residual, choices by this rule were slower than the
default less often and gained more, on recorded machines (`benchmarks/site_transfer.md`).

Notation: d shapes to predict; a gain is ln(time of the default / time of a choice).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.measure.launch_spread import LAUNCH_SPREAD
from autotune.scenario.whole_site import Job

Vector = NDArray[np.float64]

DEFAULT = ""  # Name of the choice that the library makes itself.
SHARED = 0.5  # Exponent of n/N in the scaled message size; 0.4 … 0.6 are equally good on recorded machines.
OWN = 0.1
"""Standard deviation by which ln(time) of a choice deviates from the scaling rule, for each doubling of the
nodes; it was 0.07 … 0.17 on recorded machines."""


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """A collective call on a job: the case for which a choice is predicted."""

    collective: str
    nodes: int
    ppn: int  # Ranks on each node.
    message_bytes: int

    @property
    def ranks(self) -> int:
        """Return the number of ranks on all nodes."""
        return self.nodes * self.ppn


@dataclass(frozen=True, slots=True)
class Measured:
    """The measured time of one choice at one shape."""

    shape: Shape
    choice: str  # Name of the setting; ``DEFAULT`` is the library's own choice.
    time_s: float  # Time of a call in seconds.
    error: float = 0.0  # Standard error of ln(time).


@dataclass(frozen=True, slots=True)
class Curve:
    """The gain of a choice on one job at k message sizes; each field has the shape (k,)."""

    messages: Vector  # ln(bytes), ascending.
    gains: Vector  # Measured gains.
    variances: Vector  # Variances of the measured gains.

    def at(self, message: float) -> tuple[float, float]:
        """Return the gain and its variance at ln(bytes), interpolated; constant beyond the measured sizes."""
        gain, variance = (np.interp(message, self.messages, y) for y in (self.gains, self.variances))
        return float(gain), float(variance)


@dataclass(frozen=True)
class Transfer:
    """The model of a site, which predicts the gains of jobs that were not measured."""

    curves: Mapping[tuple[str, str], Mapping[Job, Curve]]  # Measured gains by (collective, choice) and job.

    def choices(self, collective: str) -> tuple[str, ...]:
        """Return the choices of a collective that were measured in addition to its default."""
        return tuple(sorted({c for kind, c in self.curves if kind == collective}))

    def nearest(self, choice: str, shape: Shape) -> Job | None:
        """Return the job that is nearest to a shape, among the jobs on which a choice was measured.

        Of equally near jobs, the largest is returned. Jobs whose number of ranks is a power of two do not
        predict other jobs, and vice versa: recursive doubling and halving treat ranks beyond a power of two
        first, and libraries then choose other algorithms. The result is None if no job is left.
        """
        curves = self.curves.get((shape.collective, choice), {})
        jobs = [job for job in curves if _power(job[0] * job[1]) == _power(shape.ranks)]
        return min(sorted(jobs, reverse=True), key=lambda job: _doublings(job, shape), default=None)

    def gains(self, choice: str, shapes: Sequence[Shape]) -> tuple[Vector, Vector]:
        """Return the expected gain of a choice and its standard deviation at each shape, both ``(d,)``.

        The gain is NaN and the deviation infinite where no measured job predicts the shape.
        """
        predictions = []
        for shape in shapes:
            if (job := self.nearest(choice, shape)) is None:
                predictions.append((math.nan, math.inf))
                continue
            scale = SHARED * math.log(job[0] / shape.nodes)
            curve = self.curves[shape.collective, choice][job]
            gain, variance = curve.at(math.log(max(shape.message_bytes, 1)) + scale)
            predictions.append((gain, math.sqrt(variance + 2 * OWN**2 * _doublings(job, shape))))
        means, sds = np.array(predictions).reshape(-1, 2).T
        return means, sds


def _doublings(job: Job, shape: Shape) -> float:
    """Return the distance between a job and a shape, in doublings of nodes and of ranks per node."""
    nodes, ppn = job
    return abs(math.log2(nodes / shape.nodes)) + abs(math.log2(ppn / shape.ppn))


def _power(ranks: int) -> bool:
    return ranks & (ranks - 1) == 0


def fitted(measured: Sequence[Measured]) -> Transfer:
    """Return the model with the gains of all choices at shapes where the default was measured too."""
    times: dict[Shape, dict[str, list[Measured]]] = {}
    for m in measured:
        times.setdefault(m.shape, {}).setdefault(m.choice, []).append(m)
    points: dict[tuple[str, str], dict[Job, list[tuple[float, float, float]]]] = {}
    for shape, by_choice in sorted(times.items()):
        if DEFAULT not in by_choice:
            continue
        mean, variance = _mean(by_choice.pop(DEFAULT))
        for choice, (choice_mean, choice_variance) in ((c, _mean(its)) for c, its in by_choice.items()):
            point = (math.log(max(shape.message_bytes, 1)), mean - choice_mean, variance + choice_variance)
            jobs = points.setdefault((shape.collective, choice), {})
            jobs.setdefault((shape.nodes, shape.ppn), []).append(point)
    return Transfer(
        {key: {job: Curve(*np.array(rows).T) for job, rows in jobs.items()} for key, jobs in points.items()}
    )


def _mean(measured: Sequence[Measured]) -> tuple[float, float]:
    """Return the mean of ln(time) over some measurements of one choice, and the variance of this mean."""
    n = len(measured)
    noise = sum(m.error**2 + LAUNCH_SPREAD.largest_sd**2 for m in measured) / n**2
    return sum(math.log(m.time_s) for m in measured) / n, noise
