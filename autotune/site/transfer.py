"""Gains of unmeasured shapes: those of the nearest job at a scaled message, with growing variance.

A choice is expected to gain what it gained on the nearest job, at the message ``m·√(n/N)`` of *n* nodes for
*m* bytes on *N*. Where an algorithm's steps grow with the nodes and each takes a block of the message, equal
blocks (``m·n/N``) are comparable; where a step takes the whole message, equal messages are. The rule is
half-way. The uncertainty is a Wiener process in the doublings between the two jobs.

A cost model with a Gaussian process for its residual was used before; on recorded machines this rule lost
less often and gained more (`benchmarks/site_transfer.md`).

Notation: n measurements; d shapes to predict; a gain is ln(time of the default / time of a choice).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.measure.launch_spread import LAUNCH_SPREAD

Vector = NDArray[np.float64]

DEFAULT = ""  # The choice of the library itself.
SHARED = 0.5
"""Exponent of the node ratio that scales messages; 0.4 … 0.6 are equally good on recorded machines."""
OWN = 0.1
"""Standard deviation of ln(time) of a choice for each doubling of the nodes: 0.07 … 0.17 on recorded
machines."""


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """A case for which a choice is made."""

    collective: str
    nodes: int
    ppn: int  # Ranks on each node.
    message_bytes: int

    @property
    def ranks(self) -> int:
        """Return the number of ranks on all nodes."""
        return self.nodes * self.ppn


Job = tuple[int, int]  # Number of nodes, and of ranks on each.


@dataclass(frozen=True, slots=True)
class Measured:
    """One choice measured at one shape."""

    shape: Shape
    choice: str  # The setting; ``DEFAULT``: the library's own choice.
    time_s: float
    error: float = 0.0  # Standard error of ln(time).


@dataclass(frozen=True, slots=True)
class Curve:
    """The gain of a choice on one job by message size, shape (k,) each."""

    messages: Vector  # ln(bytes), ascending.
    gains: Vector  # Measured gains.
    variances: Vector  # Variances of the measured gains.

    def at(self, message: float) -> tuple[float, float]:
        """Return gain and its variance at ln(bytes); beyond the measured messages those of the last one."""
        interpolated = (np.interp(message, self.messages, column) for column in (self.gains, self.variances))
        gain, variance = (float(value) for value in interpolated)
        return gain, variance


@dataclass(frozen=True)
class Transfer:
    """Measurements, ready to predict."""

    curves: Mapping[tuple[str, str], Mapping[Job, Curve]]  # Curves by (collective, choice) and job.

    def choices(self, collective: str) -> tuple[str, ...]:
        """Return the choices of a collective that were measured beside its default."""
        return tuple(sorted({c for kind, c in self.curves if kind == collective}))

    def nearest(self, choice: str, shape: Shape) -> Job | None:
        """Return the measured job of a choice that is nearest to a shape; of equally near ones the largest.

        Numbers of ranks that are powers of two do not predict others: recursive doubling and halving fold the
        extra ranks first, and libraries then choose other algorithms.
        """
        curves = self.curves.get((shape.collective, choice), {})
        jobs = [job for job in curves if _power(job[0] * job[1]) == _power(shape.ranks)]
        return min(sorted(jobs, reverse=True), key=lambda job: _doublings(job, shape), default=None)

    def gains(self, choice: str, shapes: Sequence[Shape]) -> tuple[Vector, Vector]:
        """Return expectation and standard deviation of the gain of a choice, shapes ``(d,)``.

        They are NaN and infinite where choice or default were not measured for the collective.
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
    """Return the distance between a job and a shape in doublings of nodes and of ranks a node."""
    nodes, ppn = job
    return abs(math.log2(nodes / shape.nodes)) + abs(math.log2(ppn / shape.ppn))


def _power(ranks: int) -> bool:
    """Return whether a number of ranks is a power of two."""
    return ranks & (ranks - 1) == 0


def fitted(measured: Sequence[Measured]) -> Transfer:
    """Return the gains of choices that were measured beside the default of the same shape."""
    times: dict[Shape, dict[str, list[Measured]]] = {}
    for m in measured:
        times.setdefault(m.shape, {}).setdefault(m.choice, []).append(m)
    points: dict[tuple[str, str], dict[Job, list[tuple[float, float, float]]]] = {}
    for shape, by_choice in sorted(times.items()):
        if DEFAULT not in by_choice:
            continue
        default_mean, default_variance = _mean(by_choice[DEFAULT])
        for choice in by_choice.keys() - {DEFAULT}:
            choice_mean, choice_variance = _mean(by_choice[choice])
            jobs = points.setdefault((shape.collective, choice), {})
            point = (
                math.log(max(shape.message_bytes, 1)),
                default_mean - choice_mean,
                default_variance + choice_variance,
            )
            jobs.setdefault((shape.nodes, shape.ppn), []).append(point)
    return Transfer(
        {key: {job: Curve(*np.array(rows).T) for job, rows in jobs.items()} for key, jobs in points.items()}
    )


def _mean(measured: Sequence[Measured]) -> tuple[float, float]:
    """Return the mean of ln(time), and its variance."""
    n = len(measured)
    noise = sum(m.error**2 + LAUNCH_SPREAD.largest_sd**2 for m in measured) / n**2
    return sum(math.log(m.time_s) for m in measured) / n, noise
