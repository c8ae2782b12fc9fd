"""Few points of a space in which each value of each job-wide parameter is met."""

from autotune.space import Point, Space, Value


def needed_for(space: Space, name: str, value: Value) -> dict[str, Value]:
    """A value, and what puts its parameter into effect."""
    chosen = {name: value}
    for parent, values in space[name].when.items():
        chosen |= needed_for(space, parent, values[0])
    return chosen


def covering(space: Space) -> list[Point]:
    """The points, each of which has what puts its values into effect."""
    left = {(p.name, value): None for p in space.job for value in p.values}
    points = []

    while left:
        name, value = next(reversed(left))
        chosen = needed_for(space, name, value)
        for parameter in space.job:
            fresh = [v for n, v in left if n == parameter.name]
            if parameter.name not in chosen and fresh:
                met = {**{p.name: p.default for p in space.job}, **chosen}
                if all(met[parent] in values for parent, values in parameter.when.items()):
                    chosen[parameter.name] = fresh[0]
        point = space.complete(chosen)
        points.append(point)
        for item in point.items():
            left.pop(item, None)
    return points
