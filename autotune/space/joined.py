"""Combine the parameters of a named space with discovered parameters, and derive smaller spaces from a space.

These functions belong to step 2 of the data flow, the search space.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from autotune.space.parameter import Parameter, Value, size_in_bytes
from autotune.space.space import Dropped, Space

DISCOVER = "discover"  # Name of the space that consists of all variables that the MPI stack declares.
LANE = "ucx_lane:"  # Prefix of the facts about a machine that name a UCX transport which carries messages.
_PRIORITY = re.compile(r"coll_\w+_priority")
"""Matches names of parameters that set the priority of an Open MPI component for collectives.

The component with the highest priority executes the calls."""


def joined(named_space: Space, knobs: Space) -> Space:
    """Return a named space together with discovered knobs (variables that the libraries declare).

    If a parameter of the named space and a knob set the same variable, the parameter is used. Parameters of
    level ``call`` come last. A knob for some of UCX's transports is active only if the list of transports in
    use contains one of these: otherwise UCX does not use the knob, and launches that set it would fail.
    """
    parameters = {p.name: p for p in named_space.job}
    turned = {variable for p in named_space.job for variable in variables(p)}
    dropped = [*named_space.dropped, *knobs.dropped]
    for knob in knobs.parameters:
        if knob.name in parameters or turned & set(variables(knob)):
            if knob.name not in parameters:
                dropped.append(Dropped(knob.name, None, f"turned by a parameter of {named_space.name}"))
            continue
        when = {
            parent: tuple(v for v in accepted if parent in parameters and v in parameters[parent].values)
            for parent, accepted in knob.when.items()
        }
        lanes = {need.removeprefix(LANE) for need in knob.requires if need.startswith(LANE)}
        if lanes and "UCX_TLS" in parameters:
            lists = parameters["UCX_TLS"].values
            when["UCX_TLS"] = tuple(
                transports for transports in lists if lanes & set(str(transports).split(","))
            )
        if all(when.values()):
            parameters[knob.name] = replace(knob, when=when, requires=())
        else:
            absent = ", ".join(parent for parent, accepted in when.items() if not accepted)
            dropped.append(Dropped(knob.name, None, f"depends on {absent}, not available here"))
    swept = (_reached(p, parameters.values()) for p in named_space.call)
    return Space(DISCOVER, (*parameters.values(), *swept), tuple(dropped), named_space.stack)


def _reached(swept: Parameter, job: Iterable[Parameter]) -> Parameter:
    """Return a parameter of level ``call`` with a condition: its own component executes the calls.

    Another component executes the calls if it has more than its default priority. Then the measured
    differences between the parameter's values would be noise.
    """
    if not any(need.startswith("coll:") for need in swept.requires):
        return swept
    rivals = (p for p in job if _PRIORITY.fullmatch(p.name))
    when = {p.name: tuple(v for v in p.values if float(v) <= float(p.default)) for p in rivals}
    return replace(swept, when={**when, **swept.when})


def narrowed(
    space: Space,
    levels: Mapping[str, Collection[Value]],
    kept_names: Collection[str],
    failing: Collection[tuple[str, Value]] = (),
) -> Space:
    """Return a space with only some of the job-wide parameters and levels; a level is a value of a parameter.

    Parameters with a single value, and parameters of level ``call``, stay as they are, but lose failing
    levels.

    Args:
        space: The whole space.
        levels: Maps a parameter to its levels that matter. In the result it has these levels, its default,
            and finer levels next to them.
        kept_names: Parameters that stay as they are, but lose failing levels.
        failing: Levels with which launches fail, as (parameter, level).
    """
    needed = {parent for name in (*levels, *kept_names) for parent in _ancestors(space, name)}
    parameters = []
    for parameter in space.parameters:
        if parameter not in space.job or parameter.name in kept_names or len(parameter.values) == 1:
            works = tuple(v for v in parameter.values if (parameter.name, v) not in failing)
            parameters.append(replace(parameter, values=works))
        elif parameter.name in levels or parameter.name in needed:
            children = (p.when.get(parameter.name, ()) for p in space.job if p.name in levels)
            required = {v for accepted in children for v in accepted if v is not None}
            chosen_levels = required | set(levels.get(parameter.name, ()))
            parameters.append(_with_levels(parameter, chosen_levels, finer=parameter.name in levels))
    remaining = {p.name: p for p in parameters}
    parameters_left = []
    for parameter in parameters:
        unmet = {n for n, of in parameter.when.items() if n not in remaining and space[n].default not in of}
        if unmet:
            del remaining[parameter.name]  # so later parameters that depend on this one are also removed
        else:
            # A condition on a parameter that is not in the space is met by the parameter's default.
            when = {n: accepted for n, accepted in parameter.when.items() if n in remaining}
            when = {n: tuple(v for v in accepted if v in remaining[n].values) for n, accepted in when.items()}
            parameters_left.append(replace(parameter, when=when))
    return replace(space, parameters=tuple(parameters_left))


def _ancestors(space: Space, name: str) -> Iterator[str]:
    """Yield the parameters that must not have their default for a parameter to be active."""
    for parent, accepted in space[name].when.items():
        if space[parent].default not in accepted:
            yield parent
            yield from _ancestors(space, parent)


def _with_levels(parameter: Parameter, levels: Collection[Value], finer: bool) -> Parameter:
    """Return a parameter with its default and some levels; with ``finer``, also with levels next to these."""
    near = {v for pair in pairwise(parameter.scale) if finer and set(pair) & set(levels) for v in pair}
    values = {v for v in parameter.values if v == parameter.default or v in levels or v in near}
    between = set(_between(parameter.scale, levels)) - set(parameter.values) if finer else set()
    order = {v: i for i, v in enumerate(parameter.values)}
    numbers = [v for v in (*values, *between) if parameter.ordered and size_in_bytes(v) is not None]
    words = sorted((v for v in values if v not in numbers), key=order.__getitem__)
    listed = (*sorted(numbers, key=lambda v: size_in_bytes(v) or 0.0), *words)
    return replace(parameter, values=listed, value_requires={})


def _between(scale: Sequence[Value], levels: Collection[Value]) -> Iterator[Value]:
    for low, high in pairwise(scale):
        a, b = size_in_bytes(low), size_in_bytes(high)
        if (low in levels or high in levels) and a and b and a > 0:
            middle = math.sqrt(a * b)
            both_whole = a == int(a) and b == int(b)
            yield round(middle) if both_whole else float(f"{middle:.3g}")


def variables(parameter: Parameter) -> Iterator[str]:
    """Yield the names of variables and MCA parameters that a parameter sets, or the kind of a placement."""
    by_value = any(key in parameter.values for key in parameter.apply)
    for target in parameter.apply.values() if by_value else (parameter.apply,):
        for kind, targets in target.items() if isinstance(target, Mapping) else ():
            yield from targets if isinstance(targets, Mapping) else (kind,)
