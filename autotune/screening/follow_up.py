"""After a screening: response surfaces over the factors that matter, and the point that suits all responses.

Notation: as in ``surface``; all numbers are on the scale of the analysis (logarithms on log scale). d in
[0, 1] is the desirability of one response, 1 as good as its best run and 0 as bad as its worst; D is the
geometric mean of the d's, weighted by importance, so that one unacceptable response makes all unacceptable.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.errors import TableError, UserError
from autotune.screening.effects import Scale
from autotune.screening.surface import Surface, response_surface
from autotune.screening.table import Response, Table


@dataclass(frozen=True, slots=True)
class Desire:
    """The desired range of one response."""

    worst: float  # Here and beyond it is unacceptable.
    best: float  # Here and beyond it is as good as wanted.
    weight: float = 1.0  # Importance against the other responses.

    def of(self, value: float) -> float:
        """The desirability of a value."""
        return min(max((value - self.worst) / (self.best - self.worst), 0.0), 1.0)


def desirability(desires: Mapping[str, Desire], values: Mapping[str, float]) -> float:
    """D in [0, 1] of values by response."""
    total = sum(desire.weight for desire in desires.values())
    return float(math.prod(its.of(values[name]) ** (its.weight / total) for name, its in desires.items()))


@dataclass(frozen=True, slots=True)
class Overlay:
    """The point within the range of all factors that suits all responses best."""

    codes: Mapping[str, float]  # Where, by factor, in codes.
    desirability: float  # D there, in [0, 1]; 0: every point is unacceptable in some response.
    each: Mapping[str, float]  # d of each response there.
    values: Mapping[str, float]  # The predicted mean of each response there.


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The quadratics through a table, and their overlaid optimum."""

    table: str  # Name of the file.
    rows: int  # How many it has.
    scale: Scale  # On which responses were fitted.
    ranges: Mapping[str, tuple[float, float]]  # By factor the numbers at −1 and +1 (sizes in bytes).
    responses: tuple[Response, ...]  # What is wanted.
    surfaces: tuple[Surface, ...]  # One for each response, in the same order.
    overlay: Overlay | None  # None where nothing was asked for.

    def numbers(self, codes: Mapping[str, float]) -> dict[str, float]:
        """Codes of factors as the numbers that they stand for."""
        return {name: low + (codes[name] + 1) / 2 * (high - low) for name, (low, high) in self.ranges.items()}


def follow_up(
    table: Table, factors: Sequence[str], responses: Sequence[Response], scale: Scale, overlaid: bool
) -> FollowUp:
    """Fit a quadratic over ordered columns to each response, and find the point that suits all.

    An empty response is a failed run; ``log`` fits logarithms of positive responses.

    Raises:
        TableError: an unknown column, a factor of words, or a field that is not what its column needs.
        UserError: a column named twice, too few runs, or a response that is the same in all runs.
    """
    table.check(factors, [response.name for response in responses], None)
    columns = [table.factor(name) for name in factors]
    ranges: dict[str, tuple[float, float]] = {}
    for name, column in zip(factors, columns, strict=True):
        if column.ends is None:
            raise TableError(
                f"{table.name}, column {name}: {column.factor.low} and {column.factor.high} have no order",
                "a surface needs factors of numbers or sizes",
            )
        ranges[name] = column.ends
    codes = np.array([column.codes for column in columns]).T
    measured = {its.name: table.response(its.name, scale) for its in responses}
    if scale == "log":
        measured = {name: np.log(values) for name, values in measured.items()}
    surfaces = tuple(
        response_surface(factors, codes, measured[its.name], np.random.default_rng(0), goal=its.goal)
        for its in responses
    )
    desires = {its.name: _desire(its, measured[its.name]) for its in responses} if overlaid else {}
    overlay = overlaid_optimum(surfaces, desires) if overlaid else None
    return FollowUp(table.name, len(table.rows), scale, ranges, tuple(responses), surfaces, overlay)


def overlaid_optimum(surfaces: Sequence[Surface], desires: Mapping[str, Desire]) -> Overlay:
    """The point of highest desirability on surfaces of the same factors, one for each desire."""
    from scipy.optimize import Bounds, differential_evolution

    def predicted(codes: NDArray[np.float64]) -> dict[str, float]:
        return {name: float(its.predict(codes[None])[0]) for name, its in zip(desires, surfaces, strict=True)}

    def loss(codes: NDArray[np.float64]) -> float:
        return -desirability(desires, predicted(codes))

    names = surfaces[0].names
    ends = np.ones(len(names))
    search = differential_evolution(loss, Bounds(-ends, ends), rng=np.random.default_rng(0), tol=1e-8)
    best = np.asarray(search.x, dtype=np.float64)
    values = predicted(best)
    each = {name: desire.of(values[name]) for name, desire in desires.items()}
    return Overlay(dict(zip(names, best.tolist(), strict=True)), float(-search.fun), each, values)


def _desire(response: Response, measured: NDArray[np.float64]) -> Desire:
    low, high = float(np.nanmin(measured)), float(np.nanmax(measured))
    if low == high:
        raise UserError(f"{response.name} is {low:g} in every run", "there is nothing to improve")
    worst, best = (high, low) if response.goal == "min" else (low, high)
    return Desire(worst, best, response.weight)
