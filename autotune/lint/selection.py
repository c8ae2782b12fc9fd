"""Check lists of components that a framework of Open MPI may use, such as ``btl = self,sm``, ``coll = ^han``.

A framework is a part of Open MPI with one task, such as ``btl``; its components are implementations of that
task, such as ``sm``.

Every effect that is reported here was tried on 5.0.11, with a launch for each framework. Open MPI compares
names literally, including blanks and capitals, and skips empty names.
"""

import re
from collections.abc import Collection, Iterator, Mapping

from autotune.errors import allowed
from autotune.lint.assignment import Assignment
from autotune.lint.finding import Finding, likely_name
from autotune.stacks.known import KNOWN

FRAMEWORKS: Mapping[str, str] = {
    name: effect for effect, names in KNOWN["frameworks"].items() for name in names.split()
}
"""Maps each framework to a text that says what happens if its list has a name that is no component."""

_END = (99, 0)  # A version later than all others.


def _spans(names: str) -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
    matches = (
        re.fullmatch(r"(\w+)(?::(\d)\.(\d))?(?:<(\d)\.(\d))?", component) for component in names.split()
    )
    return {
        m[1]: ((int(m[2] or 0), int(m[3] or 0)), (int(m[4]), int(m[5])) if m[4] else _END)
        for m in matches
        if m is not None
    }


RELEASED: Mapping[str, Mapping[str, tuple[tuple[int, int], tuple[int, int]]]] = {
    framework: _spans(names) for framework, names in KNOWN["components"].items()
}
"""Maps each framework, and each component that it has in any release, to (the first version that has the
component, the first later version that lacks the component)."""

_OTHER_NAMES = {"btl": ("vader",)}
"""Maps a framework to old names that Open MPI 5.0 still accepts for its components (``vader`` is ``sm``)."""

_EVERY_CALL = ("basic", "libnbc")
"""Components of ``coll`` that some collectives need: a job aborts if one of them is left out."""


def listed(value: str) -> tuple[bool, list[str]]:
    """Return (whether a list excludes components rather than naming those to use, the names in the list)."""
    return value.startswith("^"), [name for name in value.removeprefix("^").split(",") if name]


def is_list(name: str) -> bool:
    """Whether the value of a parameter is a list of components."""
    return name in FRAMEWORKS


def component_of(name: str) -> tuple[str, str] | None:
    """Return the (framework, component) with which a parameter's name begins; None if there is none."""
    framework, _, component_part = name.partition("_")
    components = [
        component
        for component in RELEASED.get(framework, ())
        if f"{component_part}_".startswith(f"{component}_")
    ]
    return (framework, max(components, key=len)) if components else None


def lacks(name: str, version: tuple[int, int]) -> str:
    """Return a sentence that says that a version of Open MPI lacks the component of a parameter.

    The result is empty if the version has the component, or if no release has it.
    """
    if (component := component_of(name)) is None:
        return ""
    since, until = RELEASED[component[0]][component[1]]
    sentence = f"Open MPI {{}} has no {component[0]}_{component[1]}"
    if version >= until:
        return sentence.format(until[0])
    later = f" ({since[0]}.{since[1]} has)"
    return sentence.format(f"{version[0]}.{version[1]}") + later if version < since else ""


def selection(
    a: Assignment, version: tuple[int, int], built: Mapping[str, Collection[str]]
) -> Iterator[Finding]:
    """Yield findings on a list of components that a framework may use.

    Args:
        a: The assignment of the list.
        version: Open MPI's (major, minor).
        built: Maps each framework to the components that are installed here, as far as these are known.
    """
    effect = FRAMEWORKS[a.name]
    if "^" in a.value[1:]:
        remedy = "one ^ before the whole list leaves all of its names out; names to use stand without any"
        yield a.finding("MPI321", f"{a.name} = {a.value}: ^ stands within the list: {effect}", remedy)
        return
    without, names = listed(a.value)
    if not without:
        for name in names:
            yield from _component(a, name, version, built)
    missing = [n for n in _EVERY_CALL if (n in names) == without] if names and a.name == "coll" else []
    if missing:
        lacking = f"without {' and '.join(missing)} some collectives have nobody: MPI_Init aborts"
        leave = "leave out what shall not be used: coll = ^NAME"
        yield a.finding(
            "MPI323", f"coll = {a.value}: {lacking}", leave if not without else f"keep {', '.join(missing)}"
        )


def _component(
    a: Assignment, name: str, version: tuple[int, int], built: Mapping[str, Collection[str]]
) -> Iterator[Finding]:
    effect = FRAMEWORKS[a.name]
    usable = (
        (*built.get(a.name, ()), *_OTHER_NAMES.get(a.name, ())) if version >= (5, 0) else built.get(a.name)
    )
    of_any, plain = RELEASED.get(a.name, ()), name.strip().lower()
    if which := lacks(f"{a.name}_{name}", version) if name in of_any else "":
        which = which.replace(f"{a.name}_", f"{a.name} ")
        remedy = "leave it out" if "," in a.value else f"leave {a.name} out"
        yield a.finding("MPI322", f"{which}: {effect}", "vader" if name == "sm" else remedy)
    elif built.get(a.name) and usable and name not in usable:
        release = f"Open MPI {version[0]}.{version[1]}"
        place = f"in the {release} that is installed here" if name in of_any else f"in {release}"
        problem = f"there is no {a.name} {name!r} {place}: {effect}"
        yield a.finding("MPI322", problem, allowed(name, sorted(built[a.name])), sure=name not in of_any)
    elif name not in of_any and (close := plain if plain in of_any else likely_name(plain, of_any)):
        yield a.finding("MPI322", f"there is no {a.name} {name!r}: {effect}", f"did you mean {close}?")
