"""From the variables that libraries declare to a search space of what can matter here.

What is not in effect is dropped with its reason: a variable whose parent is tried, a component or transport
that no launch uses, a layer below another point-to-point component. Everything is fixed for a job: what can
be chosen per message size is left to the named spaces, which sweep it inside each launch.
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

PML = "pml"  # The parameter by which Open MPI's point-to-point component is chosen.

_OVER: Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]] = {
    ("openmpi", "ucx"): {PML: ("ucx",)},
    ("openmpi", "libfabric"): {PML: ("cm",)},
}
"""(stack, layer) → the condition under which the stack uses the layer."""

_BELOW = {"ucx": "netmod_in_use:ucx", "libfabric": "netmod_in_use:ofi"}
"""Layer → the fact that MPICH, or what is made from it, uses it."""

CHOSEN_PML: Mapping[str, Mapping[str, str]] = {
    "ucx": {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"},
    "ob1": {"pml": "ob1"},
}
"""Point-to-point components that are worth choosing → MCA parameters that select them."""

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "mm": ("sysv", "posix", "xpmem"),
    "sm": ("sysv", "posix", "xpmem", "cma", "knem"),
    "scopy": ("cma", "knem"),
    "rc": ("rc_mlx5", "rc_verbs"),
    "dc": ("dc_mlx5",),
    "ud": ("ud_mlx5", "ud_verbs"),
    "ib": ("rc_mlx5", "rc_verbs", "dc_mlx5", "ud_mlx5", "ud_verbs"),
}
"""Names in UCX's variables that stand for several transports."""


def families_of(lanes: Collection[str]) -> set[str]:
    """The families that any of these transports belongs to."""
    return {family for family, members in FAMILIES.items() if not set(members).isdisjoint(lanes)}


def discovered_space(
    knobs: Sequence[Classed], facts: Collection[str], sizes: Sequence[int], include: Collection[str] = ()
) -> Space:
    """The job-wide parameters that can change speed on this machine.

    Facts are those of the stack (``facts`` of ``Stack``) and of a launch (``in_use``), and ``nodes:N`` and
    ``collective:NAME`` for what is to be tuned; sizes are in bytes; variables of class ``unknown`` are taken
    where they are named.

    Returns:
        A space named ``discover``; ``dropped`` says of every other variable of class ``performance`` why it
        is not there.

    Raises:
        SpaceError: a variable to include is not there or must never be touched, or conditions of the rules
            go in a circle.
    """
    stack = next((name for name in ("mpich", "intelmpi") if f"mpi:{name}" in facts), "openmpi")
    wanted = _wanted(knobs, include)
    listed = {classed.knob.name for classed in knobs}
    reasons = {name: _without_effect(classed, facts, stack, listed) for name, classed in wanted.items()}
    dropped = [Dropped(name, None, reason) for name, reason in reasons.items() if reason]
    candidates = {name: classed for name, classed in wanted.items() if not reasons[name]}
    conditions = {name: _declared(classed, stack) for name, classed in candidates.items()}
    parameters = {PML: choice} if stack == "openmpi" and (choice := _pml(facts)) else {}
    for name in _parents_first(conditions):
        when = dict(_conditions(conditions[name], parameters, facts))
        unmet = [f"{p} = {' or '.join(conditions[name][p])}" for p, values in when.items() if not values]
        if unmet:
            dropped.append(Dropped(name, None, f"in effect only with {', '.join(unmet)}"))
        elif made := _parameter(candidates[name], when, facts, sizes, dropped):
            parameters[name] = made
    return Space("discover", tuple(parameters.values()), tuple(dropped), stack)


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a variable, or one of its levels, is in a discovered space, and why."""

    knob: Classed  # The variable.
    value: Value | None  # The level, or None for the variable as a whole.
    kept: bool  # Whether it is there.
    reason: str  # Why it is, or is not.


def decisions(knobs: Sequence[Classed], space: Space) -> tuple[Decision, ...]:
    """The decision on every variable in a discovered space, in the order of the variables."""
    kept = {parameter.name: parameter.description for parameter in space.parameters}
    dropped: dict[str, list[Dropped]] = {}
    for one in space.dropped:
        dropped.setdefault(one.parameter, []).append(one)

    def of(knob: Classed) -> Iterator[Decision]:
        name = knob.knob.name
        if name in kept:
            # What chooses among components is made here, of a variable that is otherwise left alone.
            why = knob.reason if knob.klass is Class.PERFORMANCE else kept[name]
            yield Decision(knob, None, True, why)
        elif name not in dropped:
            yield Decision(knob, None, False, f"{knob.klass}: {knob.reason}")
        for one in dropped.get(name, ()):
            yield Decision(knob, one.value, False, one.reason)

    return tuple(chain.from_iterable(map(of, knobs)))


def _wanted(knobs: Sequence[Classed], include: Collection[str]) -> dict[str, Classed]:
    """The knobs of class performance, and the unknown ones that are named."""
    wanted = {c.knob.name: c for c in knobs if c.klass is Class.PERFORMANCE or c.knob.name in include}
    unknown = [c.knob.name for c in knobs if c.klass is Class.UNKNOWN]
    for name in include:
        if name not in wanted:
            raise SpaceError(f"no variable {name!r} to include", allowed(name, unknown))
        if wanted[name].klass in (Class.PROTECTED, Class.DIAGNOSTICS):
            raise SpaceError(
                f"{name} is never touched ({wanted[name].klass}: {wanted[name].reason})",
                allowed(name, unknown),
            )
    return wanted


def _declared(classed: Classed, stack: str) -> dict[str, tuple[str, ...]]:
    """The conditions of a knob in the words of the rules."""
    own = classed.rule.when if classed.rule else {}
    return {**_OVER.get((stack, classed.knob.layer), {}), **own}


def _lanes(classed: Classed) -> tuple[str, ...]:
    """Facts of the transports, in all words of ``UCX_TLS`` for them, of which a knob needs one."""
    named = {need.removeprefix(LANE) for need in classed.needs if need.startswith(LANE)}
    lanes = {one for name in named for one in FAMILIES.get(name, (name,))}
    return tuple(LANE + word for word in sorted({"all", *lanes, *families_of(lanes)})) if lanes else ()


def _parents_first(conditions: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The names in an order in which what a condition names comes before it."""
    graph = {name: [p for p in when if p in conditions] for name, when in conditions.items()}
    try:
        return tuple(TopologicalSorter(graph).static_order())
    except CycleError as exc:
        raise SpaceError(f"conditions of the rules go in a circle: {' → '.join(exc.args[1])}") from exc


def _without_effect(classed: Classed, facts: Collection[str], stack: str, listed: Collection[str]) -> str:
    """Why a knob changes nothing here; empty: it may."""
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
    """The choice of the point-to-point component, if there is one: what Open MPI takes is its default."""
    built = [name for name in CHOSEN_PML if f"pml_built:{name}" in facts]
    others = tuple(name for name in built if f"pml_in_use:{name}" not in facts)
    if not others:
        return None
    return Parameter(
        name=PML,
        values=("default", *others),
        default="default",
        apply={name: {"mca": dict(CHOSEN_PML[name])} for name in others},
        description="who moves messages",
    )


def _conditions(
    when: Mapping[str, tuple[str, ...]], parameters: Mapping[str, Parameter], facts: Collection[str]
) -> Iterator[tuple[str, tuple[Value, ...]]]:
    """Each condition in the values of the parameter; without values where it cannot be met.

    A condition on the point-to-point component that always holds is left out.
    """
    for parent, wanted in when.items():
        if parent == PML:
            used = [name for name in wanted if f"pml_in_use:{name}" in facts]
            choices = parameters[PML].values if PML in parameters else ()
            values = (*(["default"] if used else []), *(name for name in wanted if name in choices))
            if not (used and not choices):
                yield parent, values
        else:
            known = parameters[parent].values if parent in parameters else ()
            yield parent, tuple(value for value in known if worded(value) in wanted)


def _parameter(
    classed: Classed,
    when: Mapping[str, tuple[Value, ...]],
    facts: Collection[str],
    sizes: Sequence[int],
    dropped: list[Dropped],
) -> Parameter | None:
    """The knob as a parameter; None where no level but the default is left."""
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
