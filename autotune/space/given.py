"""Convert values and points that users write in the shell or in YAML (step 2 of the data flow, space)."""

from collections.abc import Mapping

from autotune.errors import ScenarioError
from autotune.space.parameter import Point, Value
from autotune.space.space import Space


def fixed(space: Space, values: Mapping[str, object]) -> Space:
    """Return the space with some parameters fixed at values that a user gives as ``fix.NAME=VALUE``.

    Raises:
        SpaceError: a parameter or a value is unknown; the message lists the known ones.
    """
    return space.fix({name: value_of(space, name, value) for name, value in values.items()})


def value_of(space: Space, name: str, user_value: object) -> Value:
    """Return the value of a parameter that a user means, whatever type the shell or YAML gave to it.

    Raises:
        SpaceError: the parameter or the value is unknown.
    """
    parameter = space[name]
    for value in parameter.values:
        if user_value == value or text_of(user_value) == str(value):
            return value
    parameter.check(text_of(user_value))
    raise AssertionError("check refuses what is not among the values")


def point_of(space: Space, pairs: tuple[str, ...]) -> Point:
    """Return the job-wide point that words ``NAME=VALUE`` describe; other parameters have their default.

    Raises:
        ScenarioError: a word has no ``=``, or a parameter has no effect together with the other values.
        SpaceError: a parameter or a value is unknown.
    """
    values: dict[str, Value] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ScenarioError(f"--point {pair!r}", "expected NAME=VALUE, e.g. --point UCX_TLS=self,posix")
        values[name] = value_of(space, name, text)
    point = space.complete(values)
    for name in (n for n in values if n not in point):
        needed = " and ".join(
            f"--point {parent}={' or '.join(map(str, accepted))}"
            for parent, accepted in space[name].when.items()
        )
        raise ScenarioError(f"--point {name}={values[name]} would change nothing", f"it needs {needed}")
    return point


def text_of(value: object) -> str:
    """Return the text of a value; YAML's true and false become 1 and 0, which MCA parameters expect."""
    return str(int(value)) if isinstance(value, bool) else str(value)
