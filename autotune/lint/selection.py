"""Lists of components, ``btl = self,sm`` or ``coll = ^han``: which plug-ins a framework of Open MPI may use.

Every effect here was tried on 5.0.11, a launch for each framework. Names are compared as they stand, blanks
and capitals included; an empty name is skipped.
"""

import re
from collections.abc import Collection, Iterator, Mapping

from autotune.errors import allowed
from autotune.lint.assignment import Assignment
from autotune.lint.finding import Finding, meant
from autotune.stacks.known import KNOWN

FRAMEWORKS: Mapping[str, str] = {
    name: effect for effect, names in KNOWN["frameworks"].items() for name in names.split()
}
"""Framework → what becomes of a name in its list that is none of its components."""

_END = (99, 0)


def _spans(names: str) -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
    found = (re.fullmatch(r"(\w+)(?::(\d)\.(\d))?(?:<(\d)\.(\d))?", one) for one in names.split())
    return {
        m[1]: ((int(m[2] or 0), int(m[3] or 0)), (int(m[4]), int(m[5])) if m[4] else _END)
        for m in found
        if m is not None
    }


RELEASED: Mapping[str, Mapping[str, tuple[tuple[int, int], tuple[int, int]]]] = {
    framework: _spans(names) for framework, names in KNOWN["components"].items()
}
"""Framework → component of a release → the first version with it, and the first without it again."""

_OTHER_NAMES = {"btl": ("vader",)}
"""Names that 5.0 takes for one of its components (``sm``)."""

_EVERY_CALL = ("basic", "libnbc")
"""Components of ``coll`` without which some collective has nobody: alone or left out, each aborts."""


def listed(value: str) -> tuple[bool, list[str]]:
    """Whether a list leaves its names out, in place of naming what may be used, and its names."""
    return value.startswith("^"), [name for name in value.removeprefix("^").split(",") if name]


def is_list(name: str) -> bool:
    """Whether a parameter chooses components."""
    return name in FRAMEWORKS


def component_of(name: str) -> tuple[str, str] | None:
    """Framework and component of the releases that a parameter, or ``framework_component``, is of."""
    framework, _, rest = name.partition("_")
    its = [one for one in RELEASED.get(framework, ()) if f"{rest}_".startswith(f"{one}_")]
    return (framework, max(its, key=len)) if its else None


def lacks(name: str, version: tuple[int, int]) -> str:
    """Which version of Open MPI has no such component, where a release has; empty: this one has it."""
    if (found := component_of(name)) is None:
        return ""
    since, until = RELEASED[found[0]][found[1]]
    said = f"Open MPI {{}} has no {found[0]}_{found[1]}"
    if version >= until:
        return said.format(until[0])
    later = f" ({since[0]}.{since[1]} has)"
    return said.format(f"{version[0]}.{version[1]}") + later if version < since else ""


def selection(
    a: Assignment, version: tuple[int, int], here: Mapping[str, Collection[str]]
) -> Iterator[Finding]:
    """Mistakes in a component list; ``here`` has each framework's components where they are known."""
    effect = FRAMEWORKS[a.name]
    if "^" in a.value[1:]:
        remedy = "one ^ before the whole list leaves all of its names out; names to use stand without any"
        yield a.finding(f"{a.name} = {a.value}: ^ stands within the list: {effect}", remedy)
        return
    without, names = listed(a.value)
    if not without:
        for name in names:
            yield from _component(a, name, version, here)
    missing = [n for n in _EVERY_CALL if (n in names) == without] if names and a.name == "coll" else []
    if missing:
        lacking = f"without {' and '.join(missing)} some collectives have nobody: MPI_Init aborts"
        leave = "leave out what shall not be used: coll = ^NAME"
        yield a.finding(
            f"coll = {a.value}: {lacking}", leave if not without else f"keep {', '.join(missing)}"
        )


def _component(
    a: Assignment, name: str, version: tuple[int, int], here: Mapping[str, Collection[str]]
) -> Iterator[Finding]:
    effect = FRAMEWORKS[a.name]
    known = (*here.get(a.name, ()), *_OTHER_NAMES.get(a.name, ())) if version >= (5, 0) else here.get(a.name)
    of_any, plain = RELEASED.get(a.name, ()), name.strip().lower()
    if which := lacks(f"{a.name}_{name}", version) if name in of_any else "":
        which = which.replace(f"{a.name}_", f"{a.name} ")
        remedy = "leave it out" if "," in a.value else f"leave {a.name} out"
        yield a.finding(f"{which}: {effect}", "vader" if name == "sm" else remedy)
    elif here.get(a.name) and known and name not in known:
        release = f"Open MPI {version[0]}.{version[1]}"
        where = f"in the {release} that is installed here" if name in of_any else f"in {release}"
        said = f"there is no {a.name} {name!r} {where}: {effect}"
        yield a.finding(said, allowed(name, sorted(here[a.name])), sure=name not in of_any)
    elif name not in of_any and (close := plain if plain in of_any else meant(plain, of_any)):
        yield a.finding(f"there is no {a.name} {name!r}: {effect}", f"did you mean {close}?")
