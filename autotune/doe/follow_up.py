"""After a screening: response surfaces over the factors that matter, and the best point for all responses.

Notation: as in ``surface``. All numbers are on the scale of the analysis (logarithms on log scale). d, from 0
to 1, is the desirability of one response: 1 if the response is as good as in its best run, 0 if it is as bad
as in its worst run. D is the mean desirability of all responses. It is the geometric mean of the d's,
weighted by importance, so a single unacceptable response makes a point unacceptable.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.doe.surface import Surface, response_surface
from autotune.doe.table import Response, Table
from autotune.errors import TableError, UserError
from autotune.screening.effects import Scale


@dataclass(frozen=True, slots=True)
class Desire:
    """The two values of a response at which its desirability is 0 and 1, and its importance."""

    worst: float  # This value and all worse values are unacceptable (d = 0).
    best: float  # This value and all better values are equally desirable (d = 1).
    weight: float = 1.0  # Importance relative to that of the other responses.

    def of(self, value: float) -> float:
        """Return the desirability d of a value, in [0, 1]."""
        return min(max((value - self.worst) / (self.best - self.worst), 0.0), 1.0)


def desirability(desires: Mapping[str, Desire], values: Mapping[str, float]) -> float:
    """Return the mean desirability D, from 0 to 1, of a point with these values of the responses."""
    total = sum(desire.weight for desire in desires.values())
    return float(math.prod(d.of(values[name]) ** (d.weight / total) for name, d in desires.items()))


@dataclass(frozen=True, slots=True)
class Overlay:
    """The point, within the ranges of all factors, that suits all responses best."""

    codes: Mapping[str, float]  # Code of each factor at the point.
    desirability: float  # D at the point; 0 if every point is unacceptable in some response.
    each: Mapping[str, float]  # Desirability d of each response at the point.
    values: Mapping[str, float]  # Predicted mean of each response at the point.


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The quadratic functions that were fitted to a table, and the best point for all responses."""

    table: str  # Name of the file.
    rows: int  # Number of rows of the table.
    scale: Scale  # Scale on which responses were fitted.
    ranges: Mapping[str, tuple[float, float]]
    """Values of each factor at its codes −1 and +1; sizes are in bytes."""
    responses: tuple[Response, ...]
    surfaces: tuple[Surface, ...]  # Surface of each response, in the order of ``responses``.
    overlay: Overlay | None  # Best point for all responses; None if it was not requested.

    def numbers(self, codes: Mapping[str, float]) -> dict[str, float]:
        """Convert codes of factors to numbers in the table's units; sizes are in bytes."""
        return {name: low + (codes[name] + 1) / 2 * (high - low) for name, (low, high) in self.ranges.items()}


def follow_up(
    table: Table, factors: Sequence[str], responses: Sequence[Response], scale: Scale, overlaid: bool
) -> FollowUp:
    """Fit a quadratic function of columns of numbers to each response.

    ``overlaid`` says whether to find the point that suits all responses best. An empty response means that
    the run failed. With the scale ``log`` the logarithms of responses are fitted, which have to be positive.

    Raises:
        UserError: a column is unknown or named twice, a factor consists of words, a field does not have the
            kind of value that its column needs, there are too few runs, or ``overlaid`` is set and a response
            is the same in all runs.
    """
    table.check(factors, [response.name for response in responses], None)
    columns = [table.factor(name) for name in factors]
    ranges: dict[str, tuple[float, float]] = {}
    for name, column in zip(factors, columns, strict=True):
        if column.ends is None:
            words = f"{column.factor.low} and {column.factor.high} have no order"
            hint = "a surface needs factors of numbers or sizes"
            raise TableError(f"{table.name}, column {name}: {words}", hint)
        ranges[name] = column.ends
    codes = np.array([column.codes for column in columns]).T
    measured = {response.name: table.response(response.name, scale) for response in responses}
    if scale == "log":
        measured = {name: np.log(values) for name, values in measured.items()}
    surfaces = {
        r.name: response_surface(factors, codes, measured[r.name], np.random.default_rng(0), goal=r.goal)
        for r in responses
    }
    overlay = None
    if overlaid:
        overlay = _overlay(factors, surfaces, {r.name: _desire(r, measured[r.name]) for r in responses})
    figures = (ranges, tuple(responses), tuple(surfaces.values()), overlay)
    return FollowUp(table.name, len(table.rows), scale, *figures)


def _overlay(
    factors: Sequence[str], surfaces: Mapping[str, Surface], desires: Mapping[str, Desire]
) -> Overlay:
    """Return the point with the highest mean desirability of all responses."""
    from scipy.optimize import Bounds, differential_evolution

    def predicted(codes: NDArray[np.float64]) -> dict[str, float]:
        return {name: float(surface.predict(codes[None])[0]) for name, surface in surfaces.items()}

    def loss(codes: NDArray[np.float64]) -> float:
        return -desirability(desires, predicted(codes))

    ends = np.ones(len(factors))
    search = differential_evolution(loss, Bounds(-ends, ends), rng=np.random.default_rng(0), tol=1e-8)
    values = predicted(search.x)
    each = {name: desire.of(values[name]) for name, desire in desires.items()}
    return Overlay(dict(zip(factors, search.x.tolist(), strict=True)), float(-search.fun), each, values)


def _desire(response: Response, measured: NDArray[np.float64]) -> Desire:
    """Return the desirability that is 1 at the best measured value of a response and 0 at the worst."""
    low, high = float(np.nanmin(measured)), float(np.nanmax(measured))
    if low == high:
        raise UserError(f"{response.name} is {low:g} in every run", "there is nothing to improve")
    worst, best = (high, low) if response.goal == "min" else (low, high)
    return Desire(worst, best, response.weight)
