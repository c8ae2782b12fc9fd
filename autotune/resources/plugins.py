"""Classes that installed distributions add by entry points, which are listed without being imported.

A distribution names a class in the group ``autotune.exporters`` or ``autotune.lint``. This project's own
formats for libraries that it has never run come in the same way. Any failure of a plugin becomes a message
that names its distribution, and nothing else stops working.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from importlib.metadata import Distribution, EntryPoint, distributions
from types import SimpleNamespace
from typing import Any

from autotune.errors import AutotuneError, UserError

_OURS = "mpi-autotune"  # Our own distribution, whose names no other distribution can take.


@dataclass(frozen=True, slots=True)
class Offers:
    """Holds the entry points that the installed distributions add to one group."""

    found: Mapping[str, EntryPoint]  # Name → the entry point, which is not loaded yet.
    refused: Mapping[str, str]
    """Name → why its entry point is refused, with the distribution; a distribution that cannot be read is
    listed by its own name."""


def offers(group: str, reserved: Collection[str] = ()) -> Offers:
    """Return the entry points of a group.

    Names in ``reserved``, and names that several distributions offer, are refused.
    """
    by_name: dict[str, list[EntryPoint]] = {}
    read_distributions, refused = set(), {}
    for place in distributions():
        try:
            group_points = place.entry_points.select(group=group)
            if group_points and place.name not in read_distributions:
                read_distributions.add(place.name)  # the first one on the path counts, as for modules
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
    """Return an object of the class behind an entry point, whose exceptions name its distribution.

    Args:
        point: The entry point.
        needs: Names of attributes that the object must have.
        checks: Method → function that its result goes through, which raises if the result is wrong.

    Raises:
        UserError: the class cannot be loaded or instantiated, or lacks an attribute. Methods of the object
            raise it too, for any exception of the plugin's.
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
