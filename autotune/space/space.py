"""The search space of a campaign (step 2 of the data flow): parameters with conditions, and their points.

Notation: a job-wide *point* has values for the *active* parameters of level ``launch`` and ``boot``; a
call-level *choice* has values for the active parameters of level ``call``. A parameter is active if its
condition holds; otherwise it is absent from points and choices.
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
    """A parameter or a value of a parameter that is not available on this machine, and the reason."""

    parameter: str
    value: Value | None  # Unavailable value; None if the whole parameter is not available.
    reason: str  # Reason why it is not available, in words for the user.


@dataclass(frozen=True)
class Space:
    """All parameters of a campaign; a parameter comes after the parameters on which it depends."""

    name: str
    """Name of the space, or path of its file, as the user gave it."""
    parameters: tuple[Parameter, ...]
    """Parameters in the order of the space's file."""
    dropped: tuple[Dropped, ...] = ()
    """Parameters and values that are not available on this machine."""
    stack: str = "openmpi"
    """The MPI implementation that the parameters belong to."""
    listed: tuple[Point, ...] | None = None
    """All existing points, the default first, if only some combinations of values exist, as in a recorded
    table.

    None means that every combination of values exists."""

    def __post_init__(self) -> None:
        earlier: dict[str, Parameter] = {}
        for parameter in self.parameters:
            if parameter.name in earlier:
                raise SpaceError(f"space {self.name!r} names {parameter.name!r} twice")
            for parent, accepted in parameter.when.items():
                if parent not in earlier:
                    raise SpaceError(
                        f"{parameter.name}: condition on {parent!r}, which is not an earlier parameter",
                        allowed(parent, earlier),
                    )
                for value in (v for v in accepted if v is not None):
                    earlier[parent].check(value)
            earlier[parameter.name] = parameter

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
        """The parameters with one value during a launch: those of levels ``launch`` and ``boot``."""
        return tuple(p for p in self.parameters if p.level is not Level.CALL)

    @cached_property
    def call(self) -> tuple[Parameter, ...]:
        """The parameters of level ``call``; each launch measures all of their values."""
        return tuple(p for p in self.parameters if p.level is Level.CALL)

    @cached_property
    def job_wide(self) -> frozenset[str]:
        """The names of parameters with one value for a whole job, which files cannot set per message size."""
        return frozenset(p.name for p in self.job if not p.per_size)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(p.name for p in self.job)

    @cached_property
    def _parents(self) -> frozenset[str]:
        return frozenset(name for p in self.parameters for name in p.when)

    @cached_property
    def default(self) -> Point:
        """The job-wide point in which every parameter has its default."""
        if self.listed is not None:
            return self.listed[0]
        return self.complete({p.name: p.default for p in self.job})

    @property
    def untouched(self) -> Point:
        """The job-wide point of an MPI without any setting, even if the scenario fixes other values."""
        values: dict[str, Value] = {}
        for parameter in self.job:
            if _active(parameter, values):
                values[parameter.name] = parameter.unset
        return Point.of(values)

    @property
    def unset(self) -> Point:
        """The MPI's default of each job-wide parameter, including those that are inactive by default."""
        return Point.of({p.name: p.unset for p in self.job})

    def changes(self, point: Point) -> Point:
        """Return the values of a job-wide point that differ from the MPI's defaults."""
        unset = self.unset
        return Point.of({name: value for name, value in point.items() if unset.get(name) != value})

    def says(self, choice: Point) -> bool:
        """Return whether a call-level choice differs from the MPI's own choice."""
        return any(value != self[name].unset for name, value in choice.items())

    @property
    def fingerprint(self) -> str:
        """A hash of twelve hexadecimal digits, which changes if the set of possible points changes."""
        documents = [asdict(p) for p in self.parameters]
        for parameter in documents:
            del parameter["strong"]  # this field changes only the order in which points are tried
            if not parameter["always"]:
                del parameter["always"]
        text = json.dumps(documents, sort_keys=True, default=str)
        if self.listed is not None:
            text += json.dumps([p.items_ for p in self.listed])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def complete(self, values: Mapping[str, Value]) -> Point:
        """Return the job-wide point with these values, and with defaults for all other active parameters.

        Raises:
            SpaceError: a parameter is unknown or of level ``call``, or a value is not one of the parameter's
                values.
        """
        for name in values:
            if name not in self._names:
                raise SpaceError(
                    f"{name!r} is not a launch-level parameter of {self.name!r}", allowed(name, self._names)
                )
        completed: dict[str, Value] = {}
        for parameter in self.job:
            if _active(parameter, completed):
                value = values.get(parameter.name, parameter.default)
                parameter.check(value)
                completed[parameter.name] = value
        return Point.of(completed)

    def translated(self, point: Point, other: "Space") -> Point | None:
        """Return a point of this space as a point of another one; None if it has none there.

        Each value must exist in the other space, and a parameter that only one of the two spaces has must be
        at the MPI stack's own value.
        """
        names = {p.name for p in other.job}
        if any(p.name not in names and point.get(p.name, p.unset) != p.unset for p in self.job):
            return None
        values = {p.name: point.get(p.name, p.unset) for p in other.job}
        return other.complete(values) if all(values[p.name] in p.values for p in other.job) else None

    def __contains__(self, point: Point) -> bool:
        if self.listed is not None:
            return point in self.listed
        try:
            return self.complete(dict(point)) == point
        except SpaceError:
            return False

    @property
    def size(self) -> int:
        """The number of job-wide points; an upper bound of this number if parameters have conditions."""
        return len(self.listed) if self.listed is not None else math.prod(len(p.values) for p in self.job)

    def points(self) -> Iterator[Point]:
        """Yield every job-wide point once, beginning with the default of each parameter."""
        if self.listed is not None:
            yield from self.listed
            return
        yield from _enumerate(self.job, {})

    def draw(self, rng: np.random.Generator, n: int) -> list[Point]:
        """Return up to ``n`` distinct random job-wide points; each value of a parameter is equally likely."""
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
        """Return the points that differ from ``point`` in one parameter, and in parameters that depend on it.

        A point that is not in this space, for instance because this space fixes a parameter at another value,
        is first converted to a point of this space.
        """
        inside = {p.name: point[p.name] for p in self.job if point.get(p.name) in p.values}
        start = dict(self.complete(inside).items_)
        near: dict[Point, None] = {}
        for parameter in self.job:
            if parameter.name in point:
                for value in parameter.values:
                    # If no condition depends on the parameter, its change does not affect other values, so
                    # nothing has to be checked.
                    if parameter.name in start and parameter.name not in self._parents:
                        near[Point.of({**start, parameter.name: value})] = None
                    else:
                        near[self.complete({**inside, parameter.name: value})] = None
        near.pop(point, None)
        return [p for p in near if p in self] if self.listed is not None else list(near)

    def choices(self, collective: str, point: Point | None = None) -> tuple[Point, ...]:
        """Return the call-level choices of one collective with a job-wide point, the default choice first."""
        parameters = [
            _of(p, collective) if p.collectives else p
            for p in self.call
            if not p.collectives or collective in p.collectives
        ]
        names = {p.name for p in parameters}
        return tuple(dict.fromkeys(q.restricted(names) for q in _enumerate(parameters, dict(point or {}))))

    def fix(self, values: Mapping[str, Value]) -> "Space":
        """Return the space with some parameters fixed at one value each.

        A fixed parameter stays in the space with its single value, because other parameters may have
        conditions on it. Parameters whose condition can no longer be met are removed.

        Raises:
            SpaceError: a parameter is unknown, or a value is not one of the parameter's values.
        """
        for name, value in values.items():
            self[name].check(value)
        parameters: list[Parameter] = []
        for parameter in self.parameters:
            if parameter.name in values:
                value = values[parameter.name]
                held_from = None if value == parameter.unset else parameter.unset
                parameter = replace(
                    parameter, values=(value,), default=value, held_from=held_from, value_requires={}
                )
            parents = {p.name: p for p in parameters}
            when = _still(parameter, parents)
            if len(when) == len(parameter.when) and all(when.values()):
                parameters.append(replace(parameter, when=when))
        listed = self.listed
        if listed is not None:
            listed = tuple(p for p in listed if all(p.get(n, v) == v for n, v in values.items()))
        return replace(self, parameters=tuple(parameters), listed=listed)

    def restrict(self, facts: frozenset[str]) -> "Space":
        """Return the space without everything that is not available on a machine with these facts.

        Parameters and values that need other facts are moved to ``dropped``.
        """

        def lacking(parameter: Parameter, value: Value | None) -> str:
            tokens = parameter.requires if value is None else parameter.value_requires.get(value, ())
            missing = [token for token in tokens if token not in facts]
            return f"needs {', '.join(missing)}" if missing else ""

        return self.without(lacking)

    def without(self, why: Callable[[Parameter, Value | None], str]) -> "Space":
        """Return the space without the parameters and values against which ``why`` returns a reason.

        The removed parameters and values are added to ``dropped``, together with the parameters that depend
        on them.

        Args:
            why: Function that returns the reason against a value of a parameter, or against the whole
                parameter if the value is None. If it returns an empty text, the value or the parameter stays
                in the space.
        """
        parameters: list[Parameter] = []
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
            parents = {p.name: p for p in parameters}
            absent_parents = [n for n in parameter.when if n not in parents]
            when = _still(parameter, parents)
            unmet = [n for n, vs in when.items() if not vs]
            if unmet or any({None, self[n].default}.isdisjoint(parameter.when[n]) for n in absent_parents):
                absent = ", ".join([*absent_parents, *unmet])
                dropped.append(Dropped(parameter.name, None, f"depends on {absent}, not available here"))
                continue
            parameters.append(replace(parameter, values=tuple(values), when=when))
        return replace(self, parameters=tuple(parameters), dropped=tuple(dropped))


def _of(parameter: Parameter, collective: str) -> Parameter:
    values = parameter.collectives[collective]
    first = parameter.default if parameter.default in values else values[0]
    when = {} if collective in parameter.always else parameter.when
    return replace(parameter, values=values, default=first, when=when, collectives={})


def _active(parameter: Parameter, values: Mapping[str, Value]) -> bool:
    conditions = parameter.when
    return not conditions or all(values.get(parent) in accepted for parent, accepted in conditions.items())


def _still(parameter: Parameter, parents: Mapping[str, Parameter]) -> dict[str, tuple[Value | None, ...]]:
    return {
        name: tuple(v for v in accepted if v is None or v in parents[name].values)
        for name, accepted in parameter.when.items()
        if name in parents
    }


def _enumerate(parameters: Sequence[Parameter], values: dict[str, Value]) -> Iterator[Point]:
    if not parameters:
        yield Point.of(values)
        return
    first, remaining = parameters[0], parameters[1:]
    if not _active(first, values):
        yield from _enumerate(remaining, values)
        return
    for value in sorted(first.values, key=lambda v: v != first.default):
        yield from _enumerate(remaining, {**values, first.name: value})
