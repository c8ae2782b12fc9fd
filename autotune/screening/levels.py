"""From the space to a two-level design and back (steps 2 to 4 of the flow)."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from autotune.screening.design import Factor, ScreeningDesign
from autotune.space import Level, Parameter, Point, Space, Value


def two_levels(parameter: Parameter) -> Factor:
    """Return the factor whose two levels show most of what a parameter can do.

    For an ordered parameter the levels are the ends of its scale, and the centre is the value closest to the
    middle if it lies within the middle half. For a categorical parameter the low level is the default and the
    high level is the value that differs most from it: values written as lists (``sm,self``) differ the more,
    the fewer items they share, and among equally different values the last one in the file is taken.

    Raises:
        UserError: the parameter has a single value.
    """
    scale = parameter.scale
    if len(scale) >= 2:
        positions = parameter.positions()
        middle = min(scale, key=lambda value: (abs(positions[value] - 0.5), positions[value]))
        centre = middle if abs(positions[middle] - 0.5) <= 0.25 else None
        low, high = scale[0], scale[-1]
    else:
        low, centre = parameter.default, None
        alternatives = [value for value in parameter.values if value != low]
        high = max(reversed(alternatives), key=lambda value: _difference(low, value), default=low)
    return Factor(parameter.name, low, high, centre, whole_plot=parameter.level is Level.BOOT)


def factors_of(space: Space) -> tuple[Factor, ...]:
    """Return a factor for each job-wide parameter with more than one value.

    A parameter whose condition is met by neither level of its parent is left out: its effect cannot be
    seen, so it must stay in the search. So must a gate (see ``gates_of``), which the design holds open.
    """
    factors: dict[str, Factor] = {}
    gates = gates_of(space)
    for parameter in space.job:
        reachable = all(_reachable(space, factors, gates, *condition) for condition in parameter.when.items())
        if len(parameter.values) > 1 and parameter.name not in gates and reachable:
            factors[parameter.name] = two_levels(parameter)
    return tuple(factors.values())


def gates_of(space: Space) -> dict[str, Value]:
    """Return the gates with the value of each that activates most parameters.

    A gate is a parameter whose default deactivates several others. A design that varied it would spend half
    of its runs where the parameters behind it cannot be seen. So the gate is held open; whether opening it
    pays is for the search to find out, which knows the baseline.
    """
    opening: dict[str, Counter[Value]] = {}
    for child in space.job:
        for parent, activating in child.when.items():
            gate = space[parent]
            if len(child.values) > 1 and gate.level is not Level.CALL and gate.default not in activating:
                opening.setdefault(parent, Counter()).update(v for v in activating if v is not None)
    best = {name: max(counts, key=counts.__getitem__) for name, counts in opening.items()}
    return {name: value for name, value in best.items() if opening[name][value] > 1}


def points_of(space: Space, design: ScreeningDesign) -> list[Point]:
    """Return the point of each run, with gates open and defaults for parameters that are no factors.

    Parameters that are not active in a point are absent from it.
    """
    gates = gates_of(space)
    return [space.complete({**gates, **point}) for point in design.points()]


def as_run(design: ScreeningDesign, points: Sequence[Point]) -> ScreeningDesign:
    """Return the design as it took effect: a factor that was not active in a point has code 0 there.

    The effect of such a factor is then estimated from the runs in which it was active, and the effect of
    its parent from all of them.
    """
    active = np.array([[name in point for name in design.names] for point in points], dtype=float)
    return replace(design, coded=design.coded * active.reshape(design.coded.shape))


def ordered_codes(parameters: Sequence[Parameter], points: Sequence[Point]) -> NDArray[np.float64]:
    """Return the positions of points on the parameters' scales, (n_points, n_parameters) in [−1, 1].

    The position is nan where a parameter is absent or its value is not on its scale.
    """
    scales = [
        {value: 2 * position - 1 for value, position in parameter.positions().items()}
        for parameter in parameters
    ]
    codes = [
        [scale.get(point.get(p.name, ""), math.nan) for p, scale in zip(parameters, scales, strict=True)]
        for point in points
    ]
    return np.array(codes, dtype=float).reshape(len(points), len(parameters))


def _reachable(
    space: Space,
    factors: Mapping[str, Factor],
    gates: Mapping[str, Value],
    parent: str,
    activating: Sequence[Value | None],
) -> bool:
    """Return whether some level of a parent in the design is one of the values that a condition requires."""
    if parent in gates:
        return gates[parent] in activating
    if parent in factors:
        return factors[parent].low in activating or factors[parent].high in activating
    return space[parent].default in activating and space[parent].level is not Level.CALL


def _difference(first: Value, second: Value) -> float:
    """Return the Jaccard distance, 0 to 1, between the items of two comma-separated values."""
    items_1, items_2 = ({item.strip() for item in str(value).split(",")} for value in (first, second))
    return 1 - len(items_1 & items_2) / len(items_1 | items_2)
