"""Reduce a search space to factors with two levels, and turn the runs of a design into points of the space.

Place in the flow of ``autotune/__init__.py``: steps 2 to 4, from the space to trials.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from autotune.screening.design import Factor, ScreeningDesign
from autotune.space import Level, Parameter, Point, Space, Value


def two_levels(parameter: Parameter) -> Factor:
    """Return a factor with the two values of a parameter that probably differ most in their effect.

    For an ordered parameter the levels are the ends of its scale, and the centre is the value closest to the
    middle of the scale, if there is a value within the middle half. For a categorical parameter the low level
    is the default and the high level is the value that differs most from the default. Values that are lists
    (``sm,self``) differ more, the fewer items they share. If several values differ equally, the last of them
    in the file is taken.

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

    Two kinds of parameters have no factor and stay in the search. The first kind has a condition on another
    parameter that neither of the two levels of that parameter meets: the design could not show its effect.
    The second kind are gates (see ``gates_of``), which have the same value in all runs.
    """
    factors: dict[str, Factor] = {}
    gates = gates_of(space)
    for parameter in space.job:
        reachable = all(_reachable(space, factors, gates, *condition) for condition in parameter.when.items())
        if len(parameter.values) > 1 and parameter.name not in gates and reachable:
            factors[parameter.name] = two_levels(parameter)
    return tuple(factors.values())


def gates_of(space: Space) -> dict[str, Value]:
    """Map each gate to the value that makes most other parameters active.

    A gate is a parameter whose default makes several other parameters inactive. If a design varied the gate,
    those parameters would have no effect in half of its runs. So the gate has the activating value in all
    runs. Whether this value is better than the default is left to the search, which compares with the
    defaults.
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
    """Return the point of each run.

    Gates have their activating value, and other parameters without a factor have their default. A point
    leaves out the parameters that have no effect in it.
    """
    gates = gates_of(space)
    return [space.complete({**gates, **point}) for point in design.points()]


def as_run(design: ScreeningDesign, points: Sequence[Point]) -> ScreeningDesign:
    """Return the design with code 0 wherever a factor's parameter was not active in a run.

    Then the effect of such a factor is estimated from the runs in which its parameter was active, and the
    effect of the parameter that activates it from all runs.
    """
    active = np.array([[name in point for name in design.names] for point in points], dtype=float)
    return replace(design, coded=design.coded * active.reshape(design.coded.shape))


def _reachable(
    space: Space,
    factors: Mapping[str, Factor],
    gates: Mapping[str, Value],
    parent: str,
    activating: Sequence[Value | None],
) -> bool:
    """Return whether some run meets the condition that ``parent`` has one of the values ``activating``."""
    if parent in gates:
        return gates[parent] in activating
    if parent in factors:
        return factors[parent].low in activating or factors[parent].high in activating
    return space[parent].default in activating and space[parent].level is not Level.CALL


def _difference(first: Value, second: Value) -> float:
    """Return the Jaccard distance of two comma-separated values: 0 if they have the same items, 1 if none."""
    items_1, items_2 = ({item.strip() for item in str(value).split(",")} for value in (first, second))
    return 1 - len(items_1 & items_2) / len(items_1 | items_2)
