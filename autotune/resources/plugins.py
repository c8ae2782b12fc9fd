"""Classes that installed distributions add by entry points: listed without being imported, and safe to have.

A distribution names a class in the group ``autotune.exporters`` or ``autotune.lint``. Our own formats of
libraries that never ran here come in the same way. Whatever goes wrong in a plugin is a message that names
its distribution, and nothing else stops working.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from importlib.metadata import Distribution, EntryPoint, distributions
from types import SimpleNamespace
from typing import Any

from autotune.errors import AutotuneError, UserError

_OURS = "mpi-autotune"  # The distribution whose names nobody else can take.


@dataclass(frozen=True, slots=True)
class Offers:
    """Entry points that the installed distributions add to one group."""

    found: Mapping[str, EntryPoint]  # Name → the entry point, which was not loaded.
    refused: Mapping[str, str]
    """Name, or distribution where it cannot be read → why it is not taken, with the distribution."""


def offers(group: str, taken: Collection[str] = ()) -> Offers:
    """The entry points of a group; names that are taken, or that several distributions want, are refused."""
    by_name: dict[str, list[EntryPoint]] = {}
    seen, refused = set(), {}
    for place in distributions():
        try:
            its = place.entry_points.select(group=group)
            if its and place.name not in seen:
                seen.add(place.name)  # the first one on the path, as for modules
                for point in its:
                    by_name.setdefault(point.name, []).append(point)
        except Exception as exc:
            refused[str(place.name)] = f"the entry points of {_called(place)} cannot be read: {_said(exc)}"
    found = {}
    for name, points in by_name.items():
        ours = [point for point in points if point.dist and point.dist.name == _OURS]
        wanted_by = ", ".join(sorted(_owner(point) for point in points if point not in ours))
        if name in taken or (ours and wanted_by):
            refused[name] = f"{name!r} of {wanted_by} is a name of autotune's own"
        elif len(points) > 1:
            refused[name] = f"{name!r} is offered more than once, by {wanted_by}"
        if name not in taken and len(ours or points) == 1:
            found[name] = (ours or points)[0]
    return Offers(found, refused)


def plugged(point: EntryPoint, needs: Collection[str], **checks: Callable[[Any], Any]) -> Any:
    """An object of the class behind an entry point; its exceptions name its distribution.

    ``needs``: attributes that it must have; ``checks``: method → what its result goes through, where an
    exception says what is wrong with it.

    Raises:
        UserError: it cannot be loaded or made, or lacks an attribute; its methods raise it too.
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
                    f"{point.name!r} of {_owner(point)} does not work: {_said(exc)}",
                    f"install a version that does, or: pip uninstall {point.dist.name if point.dist else ''}",
                ) from exc

        return asked

    def surface() -> dict[str, Any]:
        made = point.load()()
        if missing := [name for name in needs if not hasattr(made, name)]:
            raise TypeError(f"{point.value} has no {', '.join(missing)}")
        return {name: getattr(made, name) for name in dir(made) if not name.startswith("_")}

    offered = blamed(surface)().items()
    return SimpleNamespace(**{n: blamed(v, checks.get(n)) if callable(v) else v for n, v in offered})


def _owner(point: EntryPoint) -> str:
    return _called(point.dist) if point.dist else "an unknown distribution"


def _called(place: Distribution) -> str:
    return f"{place.name} {place.version}"


def _said(exc: Exception) -> str:
    return f"{type(exc).__name__}: {exc}"
