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
    """The two levels that show most of what a parameter can do.

    Of an ordered parameter these are the ends of its scale, with the value closest to the middle as the
    centre, where one is within the middle half. Of a category: low is the default and high the value that
    differs most from it; values written as lists (``sm,self``) differ by how few items they share, and of
    equally different ones the later in the file is taken.

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
        others = [value for value in parameter.values if value != low]
        high = max(reversed(others), key=lambda value: _difference(low, value), default=low)
    return Factor(parameter.name, low, high, centre, whole_plot=parameter.level is Level.BOOT)


def factors_of(space: Space) -> tuple[Factor, ...]:
    """A factor for each job-wide parameter with more than one value.

    A parameter whose condition is met by neither level of its parent is left out: its effect cannot be
    seen, so it must stay in the search; so must a gate (see ``gates_of``), which the design holds open.
    """
    factors: dict[str, Factor] = {}
    gates = gates_of(space)
    for p in space.job:
        reached = all(_reached(space, factors, gates, *condition) for condition in p.when.items())
        if len(p.values) > 1 and p.name not in gates and reached:
            factors[p.name] = two_levels(p)
    return tuple(factors.values())


def gates_of(space: Space) -> dict[str, Value]:
    """The parameters whose default shuts several others off, each with the value that activates most.

    A design that varied such a parameter would spend half of its runs where the others cannot be seen. It
    is held open; whether it is worth opening is for the search, which knows the baseline behind it.
    """
    opening: dict[str, Counter[Value]] = {}
    for child in space.job:
        for parent, wanted in child.when.items():
            gate = space[parent]
            if len(child.values) > 1 and gate.level is not Level.CALL and gate.default not in wanted:
                opening.setdefault(parent, Counter()).update(v for v in wanted if v is not None)
    best = {name: max(counts, key=counts.__getitem__) for name, counts in opening.items()}
    return {name: value for name, value in best.items() if opening[name][value] > 1}


def points_of(space: Space, design: ScreeningDesign) -> list[Point]:
    """The point of each run, gates open, with defaults for the rest and without what is not active."""
    gates = gates_of(space)
    return [space.complete({**gates, **point}) for point in design.points()]


def as_run(design: ScreeningDesign, points: Sequence[Point]) -> ScreeningDesign:
    """The design as it took effect: a factor that was not active in a point has code 0 there.

    The effect of such a factor is then estimated from the runs in which it was active, and the effect of
    its parent from all of them.
    """
    active = np.array([[name in point for name in design.names] for point in points], dtype=float)
    return replace(design, coded=design.coded * active.reshape(design.coded.shape))


def ordered_codes(parameters: Sequence[Parameter], points: Sequence[Point]) -> NDArray[np.float64]:
    """(n_points, n_parameters) places on the parameters' scales, in [−1, 1]; nan beside a scale."""
    places = [{value: 2 * at - 1 for value, at in its.positions().items()} for its in parameters]
    codes = [
        [place.get(point.get(its.name, ""), math.nan) for its, place in zip(parameters, places, strict=True)]
        for point in points
    ]
    return np.array(codes, dtype=float).reshape(len(points), len(parameters))


def _reached(
    space: Space,
    own: Mapping[str, Factor],
    gates: Mapping[str, Value],
    parent: str,
    wanted: Sequence[Value | None],
) -> bool:
    """Whether some level of a parent meets a condition on it."""
    if parent in gates:
        return gates[parent] in wanted
    if parent in own:
        return own[parent].low in wanted or own[parent].high in wanted
    return space[parent].default in wanted and space[parent].level is not Level.CALL


def _difference(one: Value, other: Value) -> float:
    """Jaccard distance of the items of two comma-separated values, 0 to 1."""
    items, others = ({item.strip() for item in str(value).split(",")} for value in (one, other))
    return 1 - len(items & others) / len(items | others)
