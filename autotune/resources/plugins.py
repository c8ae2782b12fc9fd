"""Finds plugins: classes that installed Python distributions add by entry points, listed without an import.

A distribution declares a class in the group ``autotune.exporters`` or ``autotune.lint``. This project's own
exporters for libraries that it has never run are declared in the same way. Any failure of a plugin becomes a
message that names its distribution, and everything else continues to work.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from importlib.metadata import Distribution, EntryPoint, distributions
from types import SimpleNamespace
from typing import Any

from autotune.errors import AutotuneError, UserError

_OURS = "mpi-autotune"  # This project's distribution; other ones cannot replace its entry points.


@dataclass(frozen=True, slots=True)
class Offers:
    """The entry points of one group that the installed distributions declare."""

    found: Mapping[str, EntryPoint]  # Maps a name to the entry point of this name, which is not loaded yet.
    refused: Mapping[str, str]
    """Maps the name of a refused entry point to the reason, which names the distribution.

    If the entry points of a distribution cannot be read, the key is the distribution's name."""


def offers(group: str, reserved: Collection[str] = ()) -> Offers:
    """Return the entry points of a group that the installed distributions declare.

    Names in ``reserved``, and names that several distributions declare, are refused.
    """
    by_name: dict[str, list[EntryPoint]] = {}
    read_distributions, refused = set(), {}
    for place in distributions():
        try:
            group_points = place.entry_points.select(group=group)
            if group_points and place.name not in read_distributions:
                read_distributions.add(place.name)  # of a distribution's copies, the first in sys.path counts
                for point in group_points:
                    by_name.setdefault(point.name, []).append(point)
        except Exception as exc:
            refused[str(place.name)] = (
                f"the entry points of {_called(place)} cannot be read: {_in_words(exc)}"
            )
    accepted = {}
    for name, points in by_name.items():
        own_points = [point for point in points if point.dist and point.dist.name == _OURS]
        wanted_by = ", ".join(sorted(_owner(point) for point in points if point not in own_points))
        if name in reserved or (own_points and wanted_by):
            refused[name] = f"{name!r} of {wanted_by} is a name of autotune's own"
        elif len(points) > 1:
            refused[name] = f"{name!r} is offered more than once, by {wanted_by}"
        if name not in reserved and len(own_points or points) == 1:
            accepted[name] = (own_points or points)[0]
    return Offers(accepted, refused)


def plugged(point: EntryPoint, needs: Collection[str], **checks: Callable[[Any], Any]) -> Any:
    """Load the class of an entry point, and return an object with its methods.

    Args:
        point: The entry point.
        needs: Names of attributes that the object must have.
        checks: Maps the name of a method to a function that checks the method's result: the function returns
            the result, or raises an error if the result is wrong.

    Raises:
        UserError: the class cannot be loaded or instantiated, or lacks an attribute; the message names the
            distribution. Methods of the returned object raise it too, for any exception in the plugin.
    """

    def blamed(call: Callable[..., Any], check: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
        @wraps(call)
        def asked(*args: Any, **options: Any) -> Any:
            try:
                result = call(*args, **options)
                result = list(result) if isinstance(result, Iterator) else result
                return check(result) if check else result
            except AutotuneError:
                raise
            except Exception as exc:
                raise UserError(
                    f"{point.name!r} of {_owner(point)} does not work: {_in_words(exc)}",
                    f"install a version that does, or: pip uninstall {point.dist.name if point.dist else ''}",
                ) from exc

        return asked

    def surface() -> dict[str, Any]:
        plugin = point.load()()
        if missing := [name for name in needs if not hasattr(plugin, name)]:
            raise TypeError(f"{point.value} has no {', '.join(missing)}")
        return {name: getattr(plugin, name) for name in dir(plugin) if not name.startswith("_")}

    offered = blamed(surface)().items()
    return SimpleNamespace(**{n: blamed(v, checks.get(n)) if callable(v) else v for n, v in offered})


def _owner(point: EntryPoint) -> str:
    return _called(point.dist) if point.dist else "an unknown distribution"


def _called(place: Distribution) -> str:
    return f"{place.name} {place.version}"


def _in_words(exc: Exception) -> str:
    return f"{type(exc).__name__}: {exc}"
