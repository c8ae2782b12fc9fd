"""Converts points into rows of numbers for models of the search (step 9 of the data flow: propose).

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
    """One column of the matrix ``X`` that encodes points."""

    parameter: str  # Name of the parameter that the column encodes.
    value: Value | None = None
    """If ``positions`` is empty, the column is 1 if the parameter has this value and else 0.

    A value of None stands for a parameter that is not active."""
    positions: Mapping[Value, float] = field(default_factory=dict)
    """If not empty, the column is the value's position on an ordered scale, and 0.5 for other values."""

    def __call__(self, point: Point) -> float:
        """Return the entry of this column in the row of one point."""
        actual = point.get(self.parameter)
        if self.positions:
            return 0.5 if actual is None else self.positions.get(actual, 0.5)
        return float(actual == self.value)


def features(space: Space) -> tuple[Feature, ...]:
    """Return the columns of ``encode`` in order.

    A parameter that has only one value and no condition has no column.
    """
    return tuple(f for p in space.job if len(p.values) > 1 or p.when for f in _columns(p))


def encode(space: Space, points: Sequence[Point]) -> NDArray[np.float64]:
    """Return job-wide points as rows of ``X``, shape ``(n_points, n_features)``.

    An ordered parameter has a column with the value's position on the scale (0.5 for values that are not on
    it), and a 0/1 column for each value that is not on the scale. Any other parameter has a 0/1 column for
    each value. A parameter with a condition has one more column, which is 1 if it is not active.
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
