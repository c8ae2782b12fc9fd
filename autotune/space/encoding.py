"""Points as numbers, for models (step 9 of the flow).

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
    """Describes one column of the encoding."""

    parameter: str  # Name of the parameter that the column encodes.
    value: Value | None = None
    """The value that the column indicates, without ``positions``; None: it indicates "not active"."""
    positions: Mapping[Value, float] = field(default_factory=dict)
    """If not empty, the column is the value's position on an ordered scale, and 0.5 off the scale."""

    def __call__(self, point: Point) -> float:
        """Return the entry of this column for one point."""
        actual = point.get(self.parameter)
        if self.positions:
            return 0.5 if actual is None else self.positions.get(actual, 0.5)
        return float(actual == self.value)


def features(space: Space) -> tuple[Feature, ...]:
    """Return the columns of ``encode`` in order; a parameter with one value and no condition has none."""
    return tuple(f for p in space.job if len(p.values) > 1 or p.when for f in _columns(p))


def encode(space: Space, points: Sequence[Point]) -> NDArray[np.float64]:
    """Return job-wide points as rows of ``X``, shape ``(n_points, n_features)``.

    An ordered parameter has a column with its position on the scale (0.5 off the scale), and an indicator of
    each value off the scale. Any other parameter has an indicator of each value. A parameter with a condition
    has one more indicator, of not being active.
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
