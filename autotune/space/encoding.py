"""Convert points into rows of numbers for the models of a search (step 9 of the data flow: propose).

Notation: ``X`` has shape ``(n_points, n_features)`` with entries in [0, 1].
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autotune.space.parameter import Parameter, Point, Value
from autotune.space.space import Space


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of the matrix ``X``, which encodes points."""

    parameter: str  # Name of the parameter that the column encodes.
    value: Value | None = None
    """Value for which the column is 1; for all other values it is 0. It is used if ``positions`` is empty.

    None stands for a parameter that is not active."""
    positions: Mapping[Value, float] = field(default_factory=dict)
    """Maps the values on an ordered scale to their positions, which are the entries of the column. Other
    values have the entry 0.5. Empty for a column that encodes a single value."""

    def __call__(self, point: Point) -> float:
        """Return the entry of this column in the row of a point."""
        actual = point.get(self.parameter)
        if self.positions:
            return 0.5 if actual is None else self.positions.get(actual, 0.5)
        return float(actual == self.value)


def features(space: Space) -> tuple[Feature, ...]:
    """Return the columns of the matrix that ``encode`` returns, in order.

    A parameter that has only one value and no condition has no column.
    """
    return tuple(f for p in space.job if len(p.values) > 1 or p.when for f in _columns(p))


def encode(space: Space, points: Sequence[Point]) -> NDArray[np.float64]:
    """Return job-wide points as rows of ``X``, shape ``(n_points, n_features)``.

    An ordered parameter has a column with the position of its value on the scale (0.5 for values that are not
    on the scale), and a 0/1 column for each value that is not on the scale. Any other parameter has a 0/1
    column for each of its values. A parameter with a condition has an additional column, which is 1 if the
    parameter is not active.
    """
    columns = features(space)
    rows = [[column(point) for column in columns] for point in points]
    return np.asarray(rows, dtype=float).reshape(len(points), len(columns))


def _columns(parameter: Parameter) -> Iterator[Feature]:
    positions = parameter.positions()
    on_scale = positions if len(positions) > 1 else {}
    if on_scale:
        yield Feature(parameter.name, positions=on_scale)
    for value in parameter.values:
        if value not in on_scale:
            yield Feature(parameter.name, value)
    if parameter.when:
        yield Feature(parameter.name)
