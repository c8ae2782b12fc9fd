"""Spaces made of others: named parameters beside discovered ones, and what is left of both (step 2)."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from autotune.space.parameter import Parameter, Value, size_in_bytes
from autotune.space.space import Dropped, Space

DISCOVER = "discover"  # The name of a space that the stack's own variables make up.
LANE = "ucx_lane:"  # How a fact begins that says which transport carries messages.
_PRIORITY = re.compile(r"coll_\w+_priority")
"""Names of the variables by which components of collectives compete for the calls."""


def joined(named: Space, knobs: Space) -> Space:
    """A named space together with discovered knobs; where both turn the same, the named one does.

    What is swept inside a launch comes last. A knob of some of UCX's transports waits for a list of these
    that has one: beside others UCX does not use it, and a discovery would say that launches fail with it.
    """
    parameters = {p.name: p for p in named.job}
    turned = {variable for p in named.job for variable in variables(p)}
    dropped = [*named.dropped, *knobs.dropped]
    for knob in knobs.parameters:
        if knob.name in parameters or turned & set(variables(knob)):
            if knob.name not in parameters:
                dropped.append(Dropped(knob.name, None, f"turned by a parameter of {named.name}"))
            continue
        when = {
            parent: tuple(v for v in wanted if parent in parameters and v in parameters[parent].values)
            for parent, wanted in knob.when.items()
        }
        lanes = {need.removeprefix(LANE) for need in knob.requires if need.startswith(LANE)}
        if lanes and "UCX_TLS" in parameters:
            lists = parameters["UCX_TLS"].values
            when["UCX_TLS"] = tuple(one for one in lists if lanes & set(str(one).split(",")))
        if all(when.values()):
            parameters[knob.name] = replace(knob, when=when, requires=())
        else:
            absent = ", ".join(parent for parent, wanted in when.items() if not wanted)
            dropped.append(Dropped(knob.name, None, f"depends on {absent}, not available here"))
    swept = (_reached(p, parameters.values()) for p in named.call)
    return Space(DISCOVER, (*parameters.values(), *swept), tuple(dropped), named.stack)


def _reached(swept: Parameter, job: Iterable[Parameter]) -> Parameter:
    """Confine a component's sweep to points where no other component is raised above its default priority.

    That one would take the calls, and what was seen of choices that no call reaches is noise.
    """
    if not any(need.startswith("coll:") for need in swept.requires):
        return swept
    rivals = (p for p in job if _PRIORITY.fullmatch(p.name))
    when = {p.name: tuple(v for v in p.values if float(v) <= float(p.default)) for p in rivals}
    return replace(swept, when={**when, **swept.when})


def narrowed(
    whole: Space,
    levels: Mapping[str, Collection[Value]],
    kept: Collection[str],
    failing: Collection[tuple[str, Value]] = (),
) -> Space:
    """A space with only some parameters of a launch: with the levels that matter, and finer ones beside them.

    What is kept stays as it is but for levels that make launches fail, and so does what is held or swept
    inside a launch.
    """
    needed = {parent for name in (*levels, *kept) for parent in _ancestors(whole, name)}
    parameters = []
    for parameter in whole.parameters:
        if parameter not in whole.job or parameter.name in kept or len(parameter.values) == 1:
            works = tuple(v for v in parameter.values if (parameter.name, v) not in failing)
            parameters.append(replace(parameter, values=works))
        elif parameter.name in levels or parameter.name in needed:
            children = (p.when.get(parameter.name, ()) for p in whole.job if p.name in levels)
            asked = {v for wanted in children for v in wanted if v is not None}
            wanted = asked | set(levels.get(parameter.name, ()))
            parameters.append(_with_levels(parameter, wanted, finer=parameter.name in levels))
    known = {p.name: p for p in parameters}
    left = []
    for parameter in parameters:
        unmet = {n for n, of in parameter.when.items() if n not in known and whole[n].default not in of}
        if unmet:
            del known[parameter.name]  # and what waits for it, which follows
        else:
            when = {n: wanted for n, wanted in parameter.when.items() if n in known}  # others are met
            when = {n: tuple(v for v in wanted if v in known[n].values) for n, wanted in when.items()}
            left.append(replace(parameter, when=when))
    return replace(whole, parameters=tuple(left))


def _ancestors(space: Space, name: str) -> Iterator[str]:
    """The parameters that have to leave their default so that one is in effect."""
    for parent, wanted in space[name].when.items():
        if space[parent].default not in wanted:
            yield parent
            yield from _ancestors(space, parent)


def _with_levels(parameter: Parameter, wanted: Collection[Value], finer: bool) -> Parameter:
    """The parameter with its default, these levels, their neighbours on the scale, and those half-way."""
    near = {v for pair in pairwise(parameter.scale) if finer and set(pair) & set(wanted) for v in pair}
    values = {v for v in parameter.values if v == parameter.default or v in wanted or v in near}
    between = set(_between(parameter.scale, wanted)) - set(parameter.values) if finer else set()
    order = {v: i for i, v in enumerate(parameter.values)}
    numbers = [v for v in (*values, *between) if parameter.ordered and size_in_bytes(v) is not None]
    words = sorted((v for v in values if v not in numbers), key=order.__getitem__)
    listed = (*sorted(numbers, key=lambda v: size_in_bytes(v) or 0.0), *words)
    return replace(parameter, values=listed, value_requires={})


def _between(scale: Sequence[Value], wanted: Collection[Value]) -> Iterator[Value]:
    for low, high in pairwise(scale):
        a, b = size_in_bytes(low), size_in_bytes(high)
        if (low in wanted or high in wanted) and a and b and a > 0:
            middle = math.sqrt(a * b)
            whole = a == int(a) and b == int(b)
            yield round(middle) if whole else float(f"{middle:.3g}")


def variables(parameter: Parameter) -> Iterator[str]:
    """Targets of a parameter: MCA parameters and environment variables by name, placement by kind."""
    by_value = any(key in parameter.values for key in parameter.apply)
    for target in parameter.apply.values() if by_value else (parameter.apply,):
        for kind, what in target.items() if isinstance(target, Mapping) else ():
            yield from what if isinstance(what, Mapping) else (kind,)
