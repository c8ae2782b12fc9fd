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
    """One column of the encoding."""

    parameter: str  # Whose value it shows.
    value: Value | None = None  # An indicator of this value; None: of "not active" (or a position, see below)
    positions: Mapping[Value, float] = field(default_factory=dict)
    """Not empty: the position of the value on an ordered scale, 0.5 beside the scale."""

    def __call__(self, point: Point) -> float:
        """The entry of this column for one point."""
        actual = point.get(self.parameter)
        if self.positions:
            return 0.5 if actual is None else self.positions.get(actual, 0.5)
        return float(actual == self.value)


def features(space: Space) -> tuple[Feature, ...]:
    """The columns of ``encode``, in order; parameters with a single value and no condition have none."""
    return tuple(f for p in space.job if len(p.values) > 1 or p.when for f in _columns(p))


def encode(space: Space, points: Sequence[Point]) -> NDArray[np.float64]:
    """Job-wide points as rows of ``X``, shape ``(n_points, n_features)``.

    An ordered parameter gives its position on the scale (0.5 beside the scale) and an indicator of each
    value beside it; any other parameter an indicator of each value; a parameter with a condition one more
    indicator, of not being active.
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
