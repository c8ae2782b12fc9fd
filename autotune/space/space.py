"""The set of points of a campaign (step 2 of the flow): parameters with their conditions, enumerated.

Notation: a job-wide point has values for the *active* parameters of level ``launch`` and ``boot``; a
call-level choice has values for the active ones of level ``call``. A parameter whose condition fails is
absent.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np

from autotune.errors import SpaceError, allowed
from autotune.space.parameter import Level, Parameter, Point, Value


@dataclass(frozen=True, slots=True)
class Dropped:
    """A parameter, or one of its values, that this machine cannot offer."""

    parameter: str  # Its name.
    value: Value | None  # The value, or None for the parameter as a whole.
    reason: str  # Why, in words for the user.


@dataclass(frozen=True)
class Space:
    """All parameters of a campaign, parents before children."""

    name: str
    """Where it came from, as the user named it."""
    parameters: tuple[Parameter, ...]
    """In the order of the file."""
    dropped: tuple[Dropped, ...] = ()
    """Parameters and values that this machine lacks."""
    stack: str = "openmpi"
    """The MPI implementation that the parameters belong to."""
    listed: tuple[Point, ...] | None = None
    """Where not every combination exists (a recorded table): the points that do, the default first."""

    def __post_init__(self) -> None:
        seen: dict[str, Parameter] = {}
        for parameter in self.parameters:
            if parameter.name in seen:
                raise SpaceError(f"space {self.name!r} names {parameter.name!r} twice")
            for parent, wanted in parameter.when.items():
                if parent not in seen:
                    raise SpaceError(
                        f"{parameter.name}: condition on {parent!r}, which is not an earlier parameter",
                        allowed(parent, seen),
                    )
                for value in (v for v in wanted if v is not None):
                    seen[parent].check(value)
            seen[parameter.name] = parameter

    def __hash__(self) -> int:
        return hash((self.name, self.stack, len(self.parameters)))

    def __getitem__(self, name: str) -> Parameter:
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise SpaceError(
            f"{name!r} is not a parameter of space {self.name!r}",
            allowed(name, [p.name for p in self.parameters]),
        )

    @cached_property
    def job(self) -> tuple[Parameter, ...]:
        """The parameters that are fixed for a launch: levels ``launch`` and ``boot``."""
        return tuple(p for p in self.parameters if p.level is not Level.CALL)

    @cached_property
    def call(self) -> tuple[Parameter, ...]:
        """The parameters that are swept inside a launch."""
        return tuple(p for p in self.parameters if p.level is Level.CALL)

    @cached_property
    def job_wide(self) -> frozenset[str]:
        """Names of the parameters that a whole job must share: a file cannot choose them per size."""
        return frozenset(p.name for p in self.job if not p.per_size)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(p.name for p in self.job)

    @cached_property
    def _parents(self) -> frozenset[str]:
        """Names of the parameters on whose values it depends whether others are active."""
        return frozenset(name for p in self.parameters for name in p.when)

    @cached_property
    def default(self) -> Point:
        """The job-wide point in which nothing is set."""
        if self.listed is not None:
            return self.listed[0]
        return self.complete({p.name: p.default for p in self.job})

    @property
    def untouched(self) -> Point:
        """The job-wide values of the stack as it is, also where the scenario fixes others."""
        own: dict[str, Value] = {}
        for parameter in self.job:
            if _active(parameter, own):
                own[parameter.name] = parameter.unset
        return Point.of(own)

    @property
    def unset(self) -> Point:
        """The stack's own value of each job-wide parameter, also of those that are not active in it."""
        return Point.of({p.name: p.unset for p in self.job})

    def changes(self, point: Point) -> Point:
        """The job-wide values that differ from the stack's own."""
        own = self.unset
        return Point.of({name: value for name, value in point.items() if own.get(name) != value})

    def says(self, choice: Point) -> bool:
        """Whether a choice is anything but the stack's own."""
        return any(value != self[name].unset for name, value in choice.items())

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits that change whenever what can be tried changes."""
        tried = [asdict(p) for p in self.parameters]
        for parameter in tried:
            del parameter["strong"]  # the order in which they are tried is not what can be tried
            if not parameter["always"]:
                del parameter["always"]
        text = json.dumps(tried, sort_keys=True, default=str)
        if self.listed is not None:
            text += json.dumps([p.items_ for p in self.listed])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def complete(self, values: Mapping[str, Value]) -> Point:
        """The job-wide point with these values, defaults for the rest, without what is not active.

        Raises:
            SpaceError: an unknown parameter, a value outside of it, or one of level ``call``.
        """
        for name in values:
            if name not in self._names:
                raise SpaceError(
                    f"{name!r} is not a launch-level parameter of {self.name!r}", allowed(name, self._names)
                )
        chosen: dict[str, Value] = {}
        for parameter in self.job:
            if _active(parameter, chosen):
                value = values.get(parameter.name, parameter.default)
                parameter.check(value)
                chosen[parameter.name] = value
        return Point.of(chosen)

    def __contains__(self, point: Point) -> bool:
        if self.listed is not None:
            return point in self.listed
        try:
            return self.complete(dict(point)) == point
        except SpaceError:
            return False

    @property
    def size(self) -> int:
        """The number of job-wide points (an upper bound where conditions hold)."""
        return len(self.listed) if self.listed is not None else math.prod(len(p.values) for p in self.job)

    def points(self) -> Iterator[Point]:
        """Every job-wide point once, the default of each parameter first."""
        if self.listed is not None:
            yield from self.listed
            return
        yield from _enumerate(self.job, {})

    def draw(self, rng: np.random.Generator, n: int) -> list[Point]:
        """Up to ``n`` distinct job-wide points, uniform over the values of each parameter."""
        if self.size <= 4 * n:
            everything = list(dict.fromkeys(self.points()))
            order = rng.permutation(len(everything))
            return [everything[i] for i in order[:n]]
        drawn: dict[Point, None] = {}
        levels = [len(p.values) for p in self.job]
        for _ in range(20 * n):
            if self.listed is not None:
                point = self.listed[int(rng.integers(len(self.listed)))]
            else:
                at = zip(self.job, rng.integers(levels).tolist(), strict=True)
                point = self.complete({p.name: p.values[i] for p, i in at})
            drawn[point] = None
            if len(drawn) == n:
                break
        return list(drawn)

    def neighbours(self, point: Point) -> list[Point]:
        """The points of the space that differ from ``point`` in one parameter (and what depends on it).

        Of a point outside (one of the whole space, where this one holds parameters): those beside the point
        that it becomes inside.
        """
        inside = {p.name: point[p.name] for p in self.job if point.get(p.name) in p.values}
        whole = dict(self.complete(inside).items_)
        near: dict[Point, None] = {}
        for parameter in self.job:
            if parameter.name in point:
                for value in parameter.values:
                    # Most are nobody's condition: then nothing else changes, and nothing has to be checked.
                    if parameter.name in whole and parameter.name not in self._parents:
                        near[Point.of({**whole, parameter.name: value})] = None
                    else:
                        near[self.complete({**inside, parameter.name: value})] = None
        near.pop(point, None)
        return [p for p in near if p in self] if self.listed is not None else list(near)

    def choices(self, collective: str, point: Point | None = None) -> tuple[Point, ...]:
        """The call-level choices of one collective under a job-wide point, the all-default one first."""
        parameters = [
            _of(p, collective) if p.collectives else p
            for p in self.call
            if not p.collectives or collective in p.collectives
        ]
        names = {p.name for p in parameters}
        return tuple(dict.fromkeys(q.restricted(names) for q in _enumerate(parameters, dict(point or {}))))

    def fix(self, values: Mapping[str, Value]) -> "Space":
        """The same space with some parameters held at one value.

        Conditions stay meaningful: a held parameter keeps its place with a single value, and children whose
        condition can no longer be met disappear.

        Raises:
            SpaceError: an unknown parameter or a value outside of it.
        """
        for name, value in values.items():
            self[name].check(value)
        kept: list[Parameter] = []
        for parameter in self.parameters:
            if parameter.name in values:
                value = values[parameter.name]
                own = None if value == parameter.unset else parameter.unset
                parameter = replace(
                    parameter, values=(value,), default=value, held_from=own, value_requires={}
                )
            known = {p.name: p for p in kept}
            when = _still(parameter, known)
            if len(when) == len(parameter.when) and all(when.values()):
                kept.append(replace(parameter, when=when))
        listed = self.listed
        if listed is not None:
            listed = tuple(p for p in listed if all(p.get(n, v) == v for n, v in values.items()))
        return replace(self, parameters=tuple(kept), listed=listed)

    def restrict(self, facts: frozenset[str]) -> "Space":
        """The space that a machine with these facts can offer; what it cannot is listed in ``dropped``."""

        def lacking(parameter: Parameter, value: Value | None) -> str:
            tokens = parameter.requires if value is None else parameter.value_requires.get(value, ())
            missing = [token for token in tokens if token not in facts]
            return f"needs {', '.join(missing)}" if missing else ""

        return self.without(lacking)

    def without(self, why: Callable[[Parameter, Value | None], str]) -> "Space":
        """The space without each parameter (value None), and each value, that there is a reason against.

        What goes, also what depends on it, is listed in ``dropped``.
        """
        kept: list[Parameter] = []
        dropped: list[Dropped] = list(self.dropped)
        for parameter in self.parameters:
            if reason := why(parameter, None):
                dropped.append(Dropped(parameter.name, None, reason))
                continue
            reasons = {value: why(parameter, value) for value in parameter.values}
            dropped += [Dropped(parameter.name, v, reason) for v, reason in reasons.items() if reason]
            values = [value for value, reason in reasons.items() if not reason]
            if parameter.default not in values:
                dropped.append(Dropped(parameter.name, None, "its default is not available here"))
                continue
            if len(values) == 1 and len(parameter.values) > 1:
                dropped.append(Dropped(parameter.name, None, "only its default is available here"))
                continue
            known = {p.name: p for p in kept}
            gone = [n for n in parameter.when if n not in known]
            when = _still(parameter, known)
            unmet = [n for n, vs in when.items() if not vs]
            if unmet or any({None, self[n].default}.isdisjoint(parameter.when[n]) for n in gone):
                absent = ", ".join([*gone, *unmet])
                dropped.append(Dropped(parameter.name, None, f"depends on {absent}, not available here"))
                continue
            kept.append(replace(parameter, values=tuple(values), when=when))
        return replace(self, parameters=tuple(kept), dropped=tuple(dropped))


def _of(parameter: Parameter, collective: str) -> Parameter:
    """The parameter with the values of one collective, among which the stack's own choice need not be."""
    values = parameter.collectives[collective]
    first = parameter.default if parameter.default in values else values[0]
    when = {} if collective in parameter.always else parameter.when
    return replace(parameter, values=values, default=first, when=when, collectives={})


def _active(parameter: Parameter, chosen: Mapping[str, Value]) -> bool:
    conditions = parameter.when
    return not conditions or all(chosen.get(parent) in wanted for parent, wanted in conditions.items())


def _still(parameter: Parameter, known: Mapping[str, Parameter]) -> dict[str, tuple[Value | None, ...]]:
    """The conditions of a parameter that can still be met by what is left of its parents."""
    return {
        name: tuple(v for v in wanted if v is None or v in known[name].values)
        for name, wanted in parameter.when.items()
        if name in known
    }


def _enumerate(parameters: Sequence[Parameter], chosen: dict[str, Value]) -> Iterator[Point]:
    if not parameters:
        yield Point.of(chosen)
        return
    first, rest = parameters[0], parameters[1:]
    if not _active(first, chosen):
        yield from _enumerate(rest, chosen)
        return
    for value in sorted(first.values, key=lambda v: v != first.default):
        yield from _enumerate(rest, {**chosen, first.name: value})
