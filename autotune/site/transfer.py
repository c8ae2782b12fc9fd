"""Gains of shapes that were not measured: those of the nearest job at a scaled message, in growing doubt.

A choice is taken to gain what it gained on the nearest job, at the message ``m·√(n/N)`` of *n* nodes for *m*
bytes on *N*. Where an algorithm's steps grow with the nodes and each takes a block of the message, equal
blocks (``m·n/N``) are what compares; where a step takes the whole message, equal messages are. This is
half-way. Doubt is a Wiener process in the doublings between the two jobs.

A cost model with a Gaussian process for its residual stood here before; on recorded machines this lost less
often and gained more (`benchmarks/site_transfer.md`).

Notation: n measurements; d shapes to predict; a gain is ln(time of the default / time of a choice).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

DEFAULT = ""  # The choice of the library itself.
SHARED = (
    0.5  # So much of the doublings in nodes divides the message; 0.4 … 0.6 do alike on recorded machines.
)
OWN = 0.1
"""Standard deviation of ln t of a choice for each doubling of the nodes: 0.07 … 0.17 on recorded machines."""
NOISE = 0.05  # That of one measurement beyond its standard error.


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """Where a choice is made."""

    collective: str
    nodes: int
    ppn: int  # Ranks on each node.
    message_bytes: int

    @property
    def ranks(self) -> int:
        """On all nodes."""
        return self.nodes * self.ppn


Job = tuple[int, int]  # Nodes, and ranks on each.


@dataclass(frozen=True, slots=True)
class Measured:
    """One choice at one shape."""

    shape: Shape
    choice: str  # ``DEFAULT``: the library's own.
    time_s: float
    error: float = 0.0  # Standard error of ln(time).


@dataclass(frozen=True, slots=True)
class Curve:
    """The gain of a choice on one job by message, (k,) each."""

    messages: Vector  # ln(bytes), ascending.
    gains: Vector
    variances: Vector  # Of their measurement.

    def at(self, message: float) -> tuple[float, float]:
        """Gain and its variance at ln(bytes); beyond the measured messages that of the last one."""
        both = (np.interp(message, self.messages, column) for column in (self.gains, self.variances))
        gain, variance = (float(value) for value in both)
        return gain, variance


@dataclass(frozen=True)
class Transfer:
    """Measurements, ready to predict."""

    curves: Mapping[tuple[str, str], Mapping[Job, Curve]]  # By collective and choice.

    def choices(self, collective: str) -> tuple[str, ...]:
        """Those that were measured beside the default of a collective."""
        return tuple(sorted({c for kind, c in self.curves if kind == collective}))

    def nearest(self, choice: str, shape: Shape) -> Job | None:
        """The job nearest to a shape on which the choice was measured; of equally near ones the largest.

        Of ranks that are a power of two nothing follows for others: recursive doubling and halving fold those
        first, and libraries then choose otherwise.
        """
        curves = self.curves.get((shape.collective, choice), {})
        jobs = [job for job in curves if _power(job[0] * job[1]) == _power(shape.ranks)]
        return min(sorted(jobs, reverse=True), key=lambda job: _doublings(job, shape), default=None)

    def gains(self, choice: str, shapes: Sequence[Shape]) -> tuple[Vector, Vector]:
        """Expectation and standard deviation of the gain of a choice, shapes ``(d,)``.

        NaN and infinite where choice or default were not measured of the collective.
        """
        found = []
        for shape in shapes:
            if (job := self.nearest(choice, shape)) is None:
                found.append((math.nan, math.inf))
                continue
            scale = SHARED * math.log(job[0] / shape.nodes)
            curve = self.curves[shape.collective, choice][job]
            gain, variance = curve.at(math.log(max(shape.message_bytes, 1)) + scale)
            found.append((gain, math.sqrt(variance + 2 * OWN**2 * _doublings(job, shape))))
        means, sds = np.array(found).reshape(-1, 2).T
        return means, sds


def _doublings(job: Job, shape: Shape) -> float:
    nodes, ppn = job
    return abs(math.log2(nodes / shape.nodes)) + abs(math.log2(ppn / shape.ppn))


def _power(ranks: int) -> bool:
    return ranks & (ranks - 1) == 0


def fitted(measured: Sequence[Measured]) -> Transfer:
    """The gains of what was measured beside the default of the same shape."""
    times: dict[Shape, dict[str, list[Measured]]] = {}
    for m in measured:
        times.setdefault(m.shape, {}).setdefault(m.choice, []).append(m)
    points: dict[tuple[str, str], dict[Job, list[tuple[float, float, float]]]] = {}
    for shape, by in sorted(times.items()):
        if DEFAULT not in by:
            continue
        usual, doubt = _mean(by[DEFAULT])
        for choice in by.keys() - {DEFAULT}:
            mine, own = _mean(by[choice])
            jobs = points.setdefault((shape.collective, choice), {})
            point = (math.log(max(shape.message_bytes, 1)), usual - mine, doubt + own)
            jobs.setdefault((shape.nodes, shape.ppn), []).append(point)
    return Transfer(
        {key: {job: Curve(*np.array(rows).T) for job, rows in jobs.items()} for key, jobs in points.items()}
    )


def _mean(measured: Sequence[Measured]) -> tuple[float, float]:
    """Mean of ln(time), and its variance."""
    n = len(measured)
    noise = sum(m.error**2 + NOISE**2 for m in measured) / n**2
    return sum(math.log(m.time_s) for m in measured) / n, noise
