"""Times of shapes that were not measured: a cost model of each algorithm, a Gaussian process for the rest.

``ln t = cost model(ranks, bytes) + common(shape) + job(shape) + own(collective, choice, shape) + noise``. The
cost model is `screening.cost_terms`', all its forms averaged by Akaike weights; where they disagree is doubt.
The common part is shared by all collectives and choices of the site, the job's by all choices of a shape, so
that both cancel in a gain. The common and the own part are Wiener processes in log2(nodes): doubt about what
is larger than all measured grows with each doubling, however smooth the smaller ones were. Sources:
`docs/sources.md`.

Notation: n measurements; d shapes to predict; a gain is ln(time of the default / time of a choice).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from autotune.screening.cost_terms import averaged

Vector = NDArray[np.float64]
CostMean = Callable[[Vector, Vector], tuple[Vector, Vector]]
"""Ranks and bytes → mean and variance of ln t."""

DEFAULT = ""  # The choice of the library itself.


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

    def distance(self, other: "Shape") -> float:
        """Doublings between the messages and between the ranks on a node."""
        ratios = (max(self.message_bytes, 1) / max(other.message_bytes, 1), self.ppn / other.ppn)
        return sum(abs(math.log2(ratio)) for ratio in ratios)


@dataclass(frozen=True, slots=True)
class Measured:
    """One choice at one shape."""

    shape: Shape
    choice: str  # ``DEFAULT``: the library's own.
    time_s: float
    error: float = 0.0  # Standard error of ln(time).


@dataclass(frozen=True, slots=True)
class Scales:
    """Hyperparameters, standard deviations of ln t."""

    own: float = (
        0.1  # Of a choice's own part, for each doubling of the nodes: 0.07 … 0.17 on recorded machines.
    )
    common: float = 0.2  # Of the common part, for each doubling.
    reach: float = 2.0  # Doublings of the message over which the parts change.
    job: float = 0.1  # Of all choices at one shape together, as one job has its day.
    noise: float = 0.05  # Of one measurement beyond its standard error.

    @classmethod
    def of(cls, logs: Vector) -> "Scales":
        """Those with these logarithms, (5,)."""
        return cls(*np.exp(logs).tolist())

    @property
    def logs(self) -> Vector:
        """Their logarithms, (5,)."""
        return np.log([self.own, self.common, self.reach, self.job, self.noise])


PRIOR = Scales()
_OTHER_RANKS = 0.5
"""Correlation of a choice's own part between ranks that are a power of two and ranks that are none: recursive
doubling and halving fold the others first, and libraries then choose otherwise."""
PRIOR_SPREAD = 1.0  # Standard deviation of ln(scale): a factor of e either way is nothing special.
MOST_FITTED = 250
"""Measurements from which the scales are estimated: more say hardly more of five numbers, at cubic cost."""


@dataclass(frozen=True)
class Transfer:
    """Measurements, ready to predict."""

    measured: Sequence[Measured]
    scales: Scales
    _means: Mapping[tuple[str, str], CostMean] = field(repr=False)
    _factor: Vector = field(repr=False)  # (n, n) lower Cholesky factor.
    _rest: Vector = field(repr=False)  # (n,) inverse covariance × residual.

    def choices(self, collective: str) -> tuple[str, ...]:
        """Those that were measured of a collective, the default aside."""
        return tuple(sorted({c for kind, c in self._means if kind == collective and c != DEFAULT}))

    def gains(self, choice: str, shapes: Sequence[Shape]) -> tuple[Vector, Vector]:
        """Expectation and standard deviation of the gain of a choice, shapes ``(d,)``.

        NaN and infinite where choice or default were not measured of the collective.
        """
        mean, variance = np.full(len(shapes), np.nan), np.full(len(shapes), np.inf)
        at = [
            i
            for i, s in enumerate(shapes)
            if (s.collective, choice) in self._means and (s.collective, DEFAULT) in self._means
        ]
        if not at:
            return mean, np.sqrt(variance)
        known = [shapes[i] for i in at]
        (usual, doubt_0), (mine, doubt_1) = self._cost(DEFAULT, known), self._cost(choice, known)
        keys = [(m.shape, m.choice) for m in self.measured]
        here = [[(s, c) for s in known] for c in (DEFAULT, choice)]
        cross = _pairs(here[0], keys).covariance(self.scales)
        cross = cross - _pairs(here[1], keys).covariance(self.scales)
        from scipy.linalg import solve_triangular

        half = solve_triangular(self._factor, cross.T, lower=True)
        nodes = np.array([float(s.nodes) for s in known])
        prior = 2 * self.scales.own**2 * (1 + np.log2(nodes))
        mean[at] = usual - mine + cross @ self._rest
        variance[at] = (
            np.maximum(prior - np.sum(half**2, axis=0), 0) + doubt_0 + doubt_1 + 2 * self.scales.noise**2
        )
        return mean, np.sqrt(variance)

    def _cost(self, choice: str, shapes: Sequence[Shape]) -> tuple[Vector, Vector]:
        return self._means[shapes[0].collective, choice](*_terms(shapes))


def _terms(shapes: Sequence[Shape]) -> tuple[Vector, Vector]:
    return np.array([float(s.ranks) for s in shapes]), np.array([float(s.message_bytes) for s in shapes])


def fitted(measured: Sequence[Measured], scales: Scales | None = None) -> Transfer:
    """The model of what was measured; scales are estimated by their posterior mode where none are given."""
    by_choice: dict[tuple[str, str], list[Measured]] = {}
    for m in measured:
        by_choice.setdefault((m.shape.collective, m.choice), []).append(m)
    means = {
        key: averaged(*_terms([m.shape for m in mine]), np.array([m.time_s for m in mine]))
        for key, mine in by_choice.items()
    }
    rest = np.log([m.time_s for m in measured])
    for key, mean in means.items():
        mine = [i for i, m in enumerate(measured) if (m.shape.collective, m.choice) == key]
        rest[mine] -= mean(*_terms([measured[i].shape for i in mine]))[0]
    errors = np.array([m.error for m in measured])
    keys = [(m.shape, m.choice) for m in measured]
    if scales is None:
        some = np.unique(np.linspace(0, len(keys) - 1, MOST_FITTED).astype(int))
        scales = _estimated([keys[i] for i in some], rest[some], errors[some])
    from scipy.linalg import cho_solve, cholesky

    factor = cholesky(
        _pairs(keys, keys).covariance(scales) + np.diag(errors**2 + scales.noise**2), lower=True
    )
    return Transfer(measured, scales, means, factor, cho_solve((factor, True), rest))


def _estimated(keys: Sequence[tuple[Shape, str]], rest: Vector, errors: Vector) -> Scales:
    from scipy.linalg import LinAlgError, cho_solve, cholesky
    from scipy.optimize import minimize

    pairs = _pairs(keys, keys)

    def misfit(logs: Vector) -> float:
        scales = Scales.of(logs)
        covariance = pairs.covariance(scales) + np.diag(errors**2 + scales.noise**2)
        try:
            factor = cholesky(covariance, lower=True)
        except LinAlgError:
            return 1e9
        away = (logs - PRIOR.logs) / PRIOR_SPREAD
        fit = rest @ cho_solve((factor, True), rest) / 2 + np.sum(np.log(np.diag(factor)))
        return float(fit + away @ away / 2)

    found = Scales.of(minimize(misfit, PRIOR.logs, method="L-BFGS-B", options={"maxiter": 15}).x)
    # What few small jobs show is no evidence that large ones drift less than on recorded machines.
    return replace(found, own=max(found.own, PRIOR.own))


@dataclass(frozen=True, slots=True)
class _Pairs:
    """How two lists of (shape, choice) are to each other, (n, m) each."""

    together: Vector  # Covariance in log2(nodes) that both have; one at a single node.
    messages: Vector  # Doublings between the messages, squared.
    ppn: Vector  # Doublings between the ranks on a node.
    job: Vector  # 1: the same shape.
    own: Vector  # 1: the same choice of the same collective; less where one has a power of two and one not

    def covariance(self, scales: Scales) -> Vector:
        # A doubling of the ranks on a node is taken to change as much as one of the message.
        near = np.exp(-self.messages / (2 * scales.reach**2) - self.ppn / scales.reach)
        parts = scales.common**2 + scales.own**2 * self.own
        kept: Vector = self.together * near * parts + scales.job**2 * self.job
        return kept


def _pairs(one: Sequence[tuple[Shape, str]], other: Sequence[tuple[Shape, str]]) -> _Pairs:
    both = [*one, *other]
    kinds = {kind: i for i, kind in enumerate(dict.fromkeys(s.collective for s, _ in both))}
    choices = {choice: i for i, choice in enumerate(dict.fromkeys(c for _, c in both))}

    def numbers(keys: Sequence[tuple[Shape, str]]) -> Vector:
        rows = [
            (
                s.nodes,
                max(s.message_bytes, 1),
                s.ppn,
                s.ranks & (s.ranks - 1),
                kinds[s.collective],
                choices[c],
            )
            for s, c in keys
        ]
        table = np.array(rows, dtype=float).T
        table[:3] = np.log2(table[:3])
        return table

    (n1, m1, p1, r1, k1, c1), (n2, m2, p2, r2, k2, c2) = numbers(one)[:, :, None], numbers(other)
    kind = k1 == k2
    alike = np.where((r1 > 0) == (r2 > 0), 1.0, _OTHER_RANKS)
    return _Pairs(
        1 + np.minimum(n1, n2),
        (m1 - m2) ** 2,
        np.abs(p1 - p2),
        1.0 * (kind & (n1 == n2) & (m1 == m2) & (p1 == p2)),
        alike * (kind & (c1 == c2)),
    )
