"""Lists of components, ``btl = self,sm`` or ``coll = ^han``: which plug-ins a framework of Open MPI may use.

Every effect here was tried on 5.0.11, a launch for each framework. Names are compared as they stand, blanks
and capitals included; an empty name is skipped.
"""

from collections.abc import Collection, Iterator, Mapping

from autotune.errors import allowed
from autotune.lint.assignment import Assignment
from autotune.lint.finding import Finding, meant
from autotune.stacks.known import KNOWN

FRAMEWORKS: Mapping[str, str] = {
    name: effect for effect, names in KNOWN["frameworks"].items() for name in names.split()
}
"""Framework → what becomes of a name in its list that is none of its components."""

GONE: Mapping[tuple[int, int], tuple[str, ...]] = {
    (int(since[0]), int(since[2:])): tuple(names.split()) for since, names in KNOWN["gone"].items()
}
"""Version → components that it no longer has, each behind its framework."""

RELEASED: Mapping[str, tuple[str, ...]] = {
    framework: tuple(names.split()) for framework, names in KNOWN["released"].items()
}
"""Components of the releases from 4.1 to 6.0: a site's build has some that others lack (``coll_hcoll``)."""

_OTHER_NAMES = {"btl": ("vader",)}
"""Names that 5.0 takes for one of its components (``sm``)."""

_EVERY_CALL = ("basic", "libnbc")
"""Components of ``coll`` without which some collective has nobody: alone or left out, each aborts."""


def is_list(name: str) -> bool:
    """Whether a parameter chooses components."""
    return name in FRAMEWORKS


def gone(name: str, version: tuple[int, int]) -> tuple[str, tuple[int, int]] | None:
    """The component that a parameter or ``framework_component`` is of, and since when there is none."""
    return next(
        (
            (component, since)
            for since, components in GONE.items()
            for component in components
            if version >= since and (name == component or name.startswith(f"{component}_"))
        ),
        None,
    )


def selection(
    a: Assignment, version: tuple[int, int], here: Mapping[str, Collection[str]]
) -> Iterator[Finding]:
    """Mistakes in a component list; ``here`` has each framework's components where they are known."""
    effect = FRAMEWORKS[a.name]
    if "^" in a.value[1:]:
        remedy = "one ^ before the whole list leaves all of its names out; names to use stand without any"
        yield a.finding(f"{a.name} = {a.value}: ^ stands within the list: {effect}", remedy)
        return
    without = a.value.startswith("^")
    names = [name for name in a.value.removeprefix("^").split(",") if name]
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
    if found := gone(f"{a.name}_{name}", version):
        which = f"Open MPI {found[1][0]} has no {a.name} {name}"
        yield a.finding(f"{which}: {effect}", "leave it out" if "," in a.value else f"leave {a.name} out")
    elif here.get(a.name) and known and name not in known:
        where = "in the Open MPI that is installed here" if name in of_any else "in Open MPI"
        yield a.finding(
            f"there is no {a.name} {name!r} {where}: {effect}", allowed(name, sorted(here[a.name]))
        )
    elif name not in of_any and (close := plain if plain in of_any else meant(plain, of_any)):
        yield a.finding(f"there is no {a.name} {name!r}: {effect}", f"did you mean {close}?")
