"""From the variables that libraries declare to a search space of what can matter here.

What is not in effect is dropped with its reason: a variable whose parent is tried, a component or transport
that no launch uses, a layer below another point-to-point component. Everything is fixed for a job: what can
be chosen per message size is left to the named spaces, which sweep it inside each launch.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.space import Dropped, Parameter, Space, Value
from autotune.stacks.knobs.knob import Knob
from autotune.stacks.knobs.levels import default_level, is_ordered, levels
from autotune.stacks.knobs.rules import Class, Classed

PML = "pml"
"""The parameter by which Open MPI's point-to-point component is chosen."""

_OVER: Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]] = {
    ("openmpi", "ucx"): {PML: ("ucx",)},
    ("openmpi", "libfabric"): {PML: ("cm",)},
}
"""(stack, layer) → the condition under which the stack uses the layer."""

_BELOW = {"ucx": "netmod_in_use:ucx", "libfabric": "netmod_in_use:ofi"}
"""Layer → the fact that MPICH uses it."""

_CHOICES: Mapping[str, Mapping[str, str]] = {
    "ucx": {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"},
    "ob1": {"pml": "ob1"},
}
"""Point-to-point components that are worth choosing → MCA parameters that put them into force."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A knob that has an effect here, if its conditions can be met."""

    classed: Classed
    """With its rule."""
    when: Mapping[str, tuple[str, ...]]
    """Conditions, in the words of the rules."""


def discovered_space(
    knobs: Sequence[Classed], facts: Collection[str], sizes: Sequence[int], include: Collection[str] = ()
) -> Space:
    """The job-wide parameters that can change speed on this machine.

    Args:
        knobs: Of all layers, classed.
        facts: Of the stack (``facts`` of ``Stack``) and of a launch (``in_use``); ``nodes:N`` and
            ``collective:NAME`` for what is to be tuned.
        sizes: Message sizes that are measured, bytes.
        include: Names of variables of class ``unknown`` to take as well.

    Returns:
        A space named ``discover``; ``dropped`` says of every other variable of class ``performance`` why it
        is not there.
    """
    stack = "mpich" if "mpi:mpich" in facts else "openmpi"
    parameters = {PML: choice} if stack == "openmpi" and (choice := _pml(facts)) else {}
    dropped: list[Dropped] = []
    waiting: list[_Candidate] = []
    listed = {classed.knob.name for classed in knobs}
    for classed in knobs:
        if classed.klass is not Class.PERFORMANCE and classed.knob.name not in include:
            continue
        reason = _without_effect(classed, facts, stack, listed)
        if reason:
            dropped.append(Dropped(classed.knob.name, None, reason))
        else:
            own = classed.rule.when if classed.rule else {}
            waiting.append(_Candidate(classed, {**_OVER.get((stack, classed.knob.layer), {}), **own}))
    while waiting:
        later: list[_Candidate] = []
        names = {candidate.classed.knob.name for candidate in waiting}
        for candidate in waiting:
            name = candidate.classed.knob.name
            if any(parent in names and parent != name for parent in candidate.when):
                later.append(candidate)
                continue
            when = dict(_conditions(candidate.when, parameters, facts))
            unmet = [parent for parent, values in when.items() if not values]
            made = _parameter(candidate.classed, when, facts, sizes, dropped) if not unmet else None
            if unmet:
                wanted = ", ".join(f"{p} = {' or '.join(candidate.when[p])}" for p in unmet)
                dropped.append(Dropped(name, None, f"in effect only with {wanted}"))
            elif made:
                parameters[name] = made
        if len(later) == len(waiting):
            dropped += [Dropped(c.classed.knob.name, None, "its conditions go in a circle") for c in later]
            break
        waiting = later
    return Space("discover", tuple(parameters.values()), tuple(dropped), stack)


def _without_effect(classed: Classed, facts: Collection[str], stack: str, listed: Collection[str]) -> str:
    """Why a knob changes nothing here; empty: it may."""
    knob = classed.knob
    if knob.deprecated:
        return "deprecated"
    if parent := next((name for name in knob.inherits if name in listed), None):
        return f"set by {parent}, which is tried"
    needs = [*classed.needs, *([_BELOW[knob.layer]] if stack == "mpich" and knob.layer in _BELOW else [])]
    missing = [need for need in needs if need not in facts]
    return f"needs {', '.join(missing)}" if missing else ""


def _pml(facts: Collection[str]) -> Parameter | None:
    """The choice of the point-to-point component, if there is one: what Open MPI takes is its default."""
    others = tuple(
        name for name in _CHOICES if f"pml_built:{name}" in facts and f"pml_in_use:{name}" not in facts
    )
    if not others:
        return None
    return Parameter(
        name=PML,
        values=("default", *others),
        default="default",
        apply={name: {"mca": dict(_CHOICES[name])} for name in others},
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
            yield parent, tuple(value for value in known if _text(value) in wanted)


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
            elif level != _text(default):
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
        apply=_apply(knob),
        description=knob.documentation[:200],
    )


def _apply(knob: Knob) -> dict[str, object]:
    return {knob.way.value: {knob.name: "{value}"}}


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
