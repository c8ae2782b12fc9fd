"""Values and points as users write them, in the shell or in YAML (step 2 of the flow)."""

from collections.abc import Mapping

from autotune.errors import ScenarioError
from autotune.space.parameter import Point, Value
from autotune.space.space import Space


def fixed(space: Space, given: Mapping[str, object]) -> Space:
    """The space with what a user fixes (``fix.NAME=VALUE``).

    Raises:
        SpaceError: an unknown parameter or value; the message lists what is allowed.
    """
    return space.fix({name: value_of(space, name, value) for name, value in given.items()})


def value_of(space: Space, name: str, given: object) -> Value:
    """The value of a parameter that a user wrote, whatever type the shell or YAML made of it.

    Raises:
        SpaceError: unknown parameter or value.
    """
    parameter = space[name]
    for value in parameter.values:
        if given == value or text_of(given) == str(value):
            return value
    parameter.check(text_of(given))
    raise AssertionError("check refuses what is not among the values")


def point_of(space: Space, pairs: tuple[str, ...]) -> Point:
    """The job-wide point that ``NAME=VALUE`` words describe, defaults for the rest.

    Raises:
        ScenarioError: a word without ``=``, or a parameter that the other values leave without effect.
        SpaceError: an unknown parameter or value.
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
            f"--point {parent}={' or '.join(map(str, wanted))}" for parent, wanted in space[name].when.items()
        )
        raise ScenarioError(f"--point {name}={values[name]} would change nothing", f"it needs {needed}")
    return point


def text_of(value: object) -> str:
    """YAML's true and false are what MCA calls 1 and 0; everything else is its own text."""
    return str(int(value)) if isinstance(value, bool) else str(value)
