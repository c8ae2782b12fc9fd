"""Make a search space of those variables of the libraries that can change speed on this machine.

A variable (*knob*) that would have no effect of its own is left out with the reason: for example, another
variable that sets it is tried instead, no launch uses its component or transport, or only a point-to-point
component that is not in use would use its library. All parameters of the space are fixed for a job.
Parameters that can be chosen per message size are left to the named search spaces, with which one launch
measures all of their values.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import chain

from autotune.errors import SpaceError, allowed
from autotune.space import Dropped, Parameter, Space, Value
from autotune.space.joined import LANE
from autotune.space.parameter import worded
from autotune.stacks.knobs.levels import default_level, is_ordered, levels
from autotune.stacks.knobs.rules import Class, Classed

PML = "pml"  # Name of the parameter that chooses Open MPI's point-to-point component.

_OVER: Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]] = {
    ("openmpi", "ucx"): {PML: ("ucx",)},
    ("openmpi", "libfabric"): {PML: ("cm",)},
}
"""Maps (stack, layer) to the condition under which the stack uses the layer: parameter → accepted values. A
layer is a library below MPI."""

_BELOW = {"ucx": "netmod_in_use:ucx", "libfabric": "netmod_in_use:ofi"}
"""Maps a layer (a library below MPI) to the fact that MPICH, or an MPI derived from MPICH, uses the layer."""

CHOSEN_PML: Mapping[str, Mapping[str, str]] = {
    "ucx": {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"},
    "ob1": {"pml": "ob1"},
}
"""Maps each point-to-point component that is worth choosing to the MCA parameters that select it."""

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "mm": ("sysv", "posix", "xpmem"),
    "sm": ("sysv", "posix", "xpmem", "cma", "knem"),
    "scopy": ("cma", "knem"),
    "rc": ("rc_mlx5", "rc_verbs"),
    "dc": ("dc_mlx5",),
    "ud": ("ud_mlx5", "ud_verbs"),
    "ib": ("rc_mlx5", "rc_verbs", "dc_mlx5", "ud_mlx5", "ud_verbs"),
}
"""Maps a family of transports, by its name in UCX's variables, to the transports of the family."""


def families_of(lanes: Collection[str]) -> set[str]:
    """Return the families of ``FAMILIES`` to which at least one of these transports belongs."""
    return {family for family, members in FAMILIES.items() if not set(members).isdisjoint(lanes)}


def discovered_space(
    knobs: Sequence[Classed], facts: Collection[str], sizes: Sequence[int], include: Collection[str] = ()
) -> Space:
    """Return the space of the job-wide parameters that can change speed on this machine.

    Args:
        knobs: The variables that the libraries declare, each with its class.
        facts: Facts about this machine: the facts of the stack (``Stack.facts``) and of a launch
            (``in_use``), and ``nodes:N`` and ``collective:NAME`` for the job that is to be tuned.
        sizes: Message sizes in bytes that are tuned.
        include: Names of variables of class ``unknown`` that become parameters too.

    Returns:
        A space named ``discover``; its ``dropped`` lists every other variable of class ``performance`` with
        the reason why it is not a parameter.

    Raises:
        SpaceError: a variable to include is not declared or must never be changed, or conditions of the rules
            form a circle.
    """
    stack = next((name for name in ("mpich", "intelmpi") if f"mpi:{name}" in facts), "openmpi")
    eligible = _eligible(knobs, include)
    listed = {classed.knob.name for classed in knobs}
    reasons = {name: _without_effect(classed, facts, stack, listed) for name, classed in eligible.items()}
    dropped = [Dropped(name, None, reason) for name, reason in reasons.items() if reason]
    candidates = {name: classed for name, classed in eligible.items() if not reasons[name]}
    conditions = {name: _declared(classed, stack) for name, classed in candidates.items()}
    parameters = {PML: choice} if stack == "openmpi" and (choice := _pml(facts)) else {}
    for name in _parents_first(conditions):
        when = dict(_conditions(conditions[name], parameters, facts))
        unmet = [f"{p} = {' or '.join(conditions[name][p])}" for p, values in when.items() if not values]
        if unmet:
            dropped.append(Dropped(name, None, f"in effect only with {', '.join(unmet)}"))
        elif parameter := _parameter(candidates[name], when, facts, sizes, dropped):
            parameters[name] = parameter
    return Space("discover", tuple(parameters.values()), tuple(dropped), stack)


@dataclass(frozen=True, slots=True)
class Decision:
    """Says whether a variable, or one of its levels, is in a discovered space, and why."""

    knob: Classed
    value: Value | None  # The level, or None for the variable as a whole.
    kept: bool  # Whether the variable or level is in the space.
    reason: str  # Why the variable or level is in the space, or why it is not.


def decisions(knobs: Sequence[Classed], space: Space) -> tuple[Decision, ...]:
    """Return which variables and levels are in a discovered space, and why, in the order of ``knobs``."""
    descriptions = {parameter.name: parameter.description for parameter in space.parameters}
    dropped: dict[str, list[Dropped]] = {}
    for drop in space.dropped:
        dropped.setdefault(drop.parameter, []).append(drop)

    def of(knob: Classed) -> Iterator[Decision]:
        name = knob.knob.name
        if name in descriptions:
            # The choice among components is in the space whatever its class, since this module adds it.
            why = knob.reason if knob.klass is Class.PERFORMANCE else descriptions[name]
            yield Decision(knob, None, True, why)
        elif name not in dropped:
            yield Decision(knob, None, False, f"{knob.klass}: {knob.reason}")
        for drop in dropped.get(name, ()):
            yield Decision(knob, drop.value, False, drop.reason)

    return tuple(chain.from_iterable(map(of, knobs)))


def _eligible(knobs: Sequence[Classed], include: Collection[str]) -> dict[str, Classed]:
    eligible = {c.knob.name: c for c in knobs if c.klass is Class.PERFORMANCE or c.knob.name in include}
    unknown = [c.knob.name for c in knobs if c.klass is Class.UNKNOWN]
    for name in include:
        if name not in eligible:
            raise SpaceError(f"no variable {name!r} to include", allowed(name, unknown))
        if eligible[name].klass in (Class.PROTECTED, Class.DIAGNOSTICS):
            raise SpaceError(
                f"{name} is never touched ({eligible[name].klass}: {eligible[name].reason})",
                allowed(name, unknown),
            )
    return eligible


def _declared(classed: Classed, stack: str) -> dict[str, tuple[str, ...]]:
    """Return the conditions under which a knob has an effect, by its rule and layer: parameter → values."""
    conditions = classed.rule.when if classed.rule else {}
    return {**_OVER.get((stack, classed.knob.layer), {}), **conditions}


def _lanes(classed: Classed) -> tuple[str, ...]:
    """Return facts about transports, of which a knob needs at least one.

    A transport is listed under all names that ``UCX_TLS`` accepts for it.
    """
    needed = {need.removeprefix(LANE) for need in classed.needs if need.startswith(LANE)}
    lanes = {lane for name in needed for lane in FAMILIES.get(name, (name,))}
    return tuple(LANE + word for word in sorted({"all", *lanes, *families_of(lanes)})) if lanes else ()


def _parents_first(conditions: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    graph = {name: [p for p in when if p in conditions] for name, when in conditions.items()}
    try:
        return tuple(TopologicalSorter(graph).static_order())
    except CycleError as exc:
        raise SpaceError(f"conditions of the rules go in a circle: {' → '.join(exc.args[1])}") from exc


def _without_effect(classed: Classed, facts: Collection[str], stack: str, listed: Collection[str]) -> str:
    """Return the reason why a knob has no effect of its own here; empty if it may have an effect."""
    knob = classed.knob
    if knob.deprecated:
        return "deprecated"
    if parent := next((name for name in knob.inherits if name in listed), None):
        return f"set by {parent}"
    if classed.rule and classed.rule.left_to:
        return f"left to {classed.rule.left_to}"
    needs = [*classed.needs, *([_BELOW[knob.layer]] if stack != "openmpi" and knob.layer in _BELOW else [])]
    missing = [need for need in needs if need not in facts]
    return f"needs {', '.join(missing)}" if missing else ""


def _pml(facts: Collection[str]) -> Parameter | None:
    """Return the parameter that chooses the point-to-point component; None if there is no alternative."""
    built = [name for name in CHOSEN_PML if f"pml_built:{name}" in facts]
    alternatives = tuple(name for name in built if f"pml_in_use:{name}" not in facts)
    if not alternatives:
        return None
    return Parameter(
        name=PML,
        values=("default", *alternatives),
        default="default",
        apply={name: {"mca": dict(CHOSEN_PML[name])} for name in alternatives},
        description="who moves messages",
    )


def _conditions(
    when: Mapping[str, tuple[str, ...]], parameters: Mapping[str, Parameter], facts: Collection[str]
) -> Iterator[tuple[str, tuple[Value, ...]]]:
    """Yield each condition as (parameter, accepted values), without values if it cannot be met.

    A condition on the point-to-point component is left out if it is always met.
    """
    for parent, accepted in when.items():
        if parent == PML:
            used = [name for name in accepted if f"pml_in_use:{name}" in facts]
            choices = parameters[PML].values if PML in parameters else ()
            values = (*(["default"] if used else []), *(name for name in accepted if name in choices))
            if not (used and not choices):
                yield parent, values
        else:
            available = parameters[parent].values if parent in parameters else ()
            yield parent, tuple(value for value in available if worded(value) in accepted)


def _parameter(
    classed: Classed,
    when: Mapping[str, tuple[Value, ...]],
    facts: Collection[str],
    sizes: Sequence[int],
    dropped: list[Dropped],
) -> Parameter | None:
    """Return the knob as a parameter; None if its default is its only level.

    Levels and knobs that are left out are added to ``dropped`` with the reason.
    """
    knob, declared = classed.knob, classed.rule.levels if classed.rule else {}
    default = default_level(knob)
    values: list[Value] = [default]
    if declared:
        for level, needs in declared.items():
            missing = [need for need in needs if need not in facts]
            if missing:
                dropped.append(Dropped(knob.name, level, f"needs {', '.join(missing)}"))
            elif level != worded(default):
                values.append(level)
    else:
        values = list(levels(knob, sizes))
    if len(values) < 2:
        dropped.append(Dropped(knob.name, None, "its type says nothing about other levels"))
        return None
    return Parameter(
        name=knob.name,
        values=tuple(values),
        default=default,
        ordered=not declared and is_ordered(knob),
        when=when,
        apply={knob.way.value: {knob.name: "{value}"}},
        description=knob.documentation[:200],
        requires=_lanes(classed),
        strong=bool(classed.rule and classed.rule.is_strong(knob.name)),
    )
