"""Decide which algorithms may be forced on a user's program, by a table of checked algorithms and failures.

``python -m tests.conformance`` (``make conformance``) writes the table, ``conformance.toml``: it runs every
algorithm that can be forced, and compares the results with results that were computed without MPI. An
algorithm is *cleared* in a version if it was checked there and nothing failed. An algorithm that failed only
for operations that do not commute is cleared for users who say that their programs have no such operations
(``operations=commutative``); for other users it is refused, since Open MPI forces an algorithm on every
operation (``tests/integration/test_conformance.py``). For a version that was not checked, the nearest checked
version of its series decides (``SERIES``). If no version of the series was checked, all versions of the stack
decide together: an algorithm that fails in any of them is refused.

MPICH has more variables that choose how a collective runs: the algorithm of its layer for shared memory, the
composition of parts inside and between nodes, and whether the network device may run the collective. Each of
these has rows of its own, such as ``bcast posix`` (``mpich.chosen_by``), and so has the other way in which
Intel MPI can run a collective within a node. An algorithm without a row was never checked and is refused.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from typing import Any

from autotune.collectives import COLLECTIVES
from autotune.errors import StackError, UserError
from autotune.resources import facts
from autotune.space import Parameter, Space
from autotune.space.parameter import Value
from autotune.stacks import coll_tuned, mpich
from autotune.stacks.installation import MAKERS
from autotune.stacks.words import ALGORITHM_OF, without_algorithms

SERIES = {"openmpi": 2, "mpich": 2, "intelmpi": 1}
"""Maps a stack to how many numbers at the beginning of a version are the name of its series: Open MPI 5.0.11
belongs to the series 5.0, Intel MPI 2021.18.1 to the series 2021."""

_OWN = ("", "0", "-1", "auto", "default", "ignore")  # Values that leave the choice to the library.

_VARIABLES = {
    "openmpi": re.compile(
        r"(?:OMPI_MCA_)?coll_(?:(?:tuned|libnbc)_(?P<row>[a-z_]+)|adapt_(?P<adapt>[a-z]+))_algorithm"
    ),
    "intelmpi": re.compile(r"I_MPI_ADJUST_(?P<row>[A-Z_]+?)(?:_(?P<part>COMPOSITION|NETWORK|NODE|LIST))?"),
}
"""Maps a flavour to the pattern of the variables that force an algorithm. Groups of the pattern are the
collective (``row``; ``adapt`` for the component of this name) and the part of the collective for which the
algorithm is forced (``part``). For MPICH see ``mpich.chosen_by``."""

_SWITCHES: Mapping[tuple[str, str], tuple[str, tuple[tuple[str, str], ...]]] = {
    ("openmpi", "coll_sm_priority"): (
        "",
        tuple((f"{name} component", "sm") for name in ("allreduce", "reduce", "bcast", "barrier")),
    ),
    # By default the component runs algorithm 1 of both collectives.
    ("openmpi", "coll_adapt_priority"): ("", (("reduce adapt", "1"), ("bcast adapt", "1"))),
    ("mpich", "MPIR_CVAR_DEVICE_COLLECTIVES"): (
        "none",
        tuple((f"{name} device", "0") for name, known in COLLECTIVES.items() if known.mpich),
    ),
    ("intelmpi", "I_MPI_COLL_INTRANODE"): (
        "pt2pt",
        tuple((f"{name} intranode", "pt2pt") for name, known in COLLECTIVES.items() if known.intel),
    ),
}
"""Maps (flavour, variable) of a variable that switches several collectives at once to the value that switches
them (empty: any value that is not in ``_OWN``), and to the (row, algorithm) pairs of the table that run then.
The variables of Open MPI make it prefer a component to ``coll_tuned``; the default of Intel MPI's variable is
its other value, ``shm``."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Describes the first case in which an algorithm failed in one version."""

    collective: str
    algorithm: str
    ranks: int
    case: str  # Datatypes or operation, count, and other properties of the call.
    seen: str  # How it failed: wrong values, the error's text, or the signal.
    commuting_right: bool = False  # Whether the algorithm fails only for operations that do not commute.
    version: str = ""  # The version of the library in which the algorithm failed.

    def proof(self, flavour: str) -> str:
        """Return a sentence for users that says which algorithm failed, in which version and how."""
        place = f"{MAKERS[flavour]} {self.version}, {self.ranks} ranks"
        which = " for operations that do not commute" if self.commuting_right else ""
        failure = f"{self.collective} {self.algorithm} gives wrong results or fails{which}"
        return f"{failure} ({place}; {self.case}: {self.seen})"


@dataclass(frozen=True, slots=True)
class Clearance:
    """Says which algorithms may be forced in one version of a stack."""

    flavour: str
    versions: tuple[str, ...]  # Versions whose checks decide: one, or all if none of the series was checked.
    checked: Mapping[str, frozenset[str]]  # Collective → algorithms that were checked.
    faults: Mapping[tuple[str, str], Fault]  # (collective, algorithm) → its failure.
    note: str = ""  # Remark that the version in use was not checked itself; empty if it was checked.
    commutative: bool = False  # Whether all operations of the users' programs commute.

    def refusal(self, collective: str, algorithm: str) -> str:
        """Return the reason why an algorithm may not be forced, in words; empty if it may be forced."""
        name = _canonical(self.flavour, collective, algorithm)
        fault = self.faults.get((collective, name))
        if fault and not (fault.commuting_right and self.commutative):
            return fault.proof(self.flavour)
        if name and name not in self.checked.get(collective, ()):
            versions = ", ".join(self.versions)
            return f"{collective} {algorithm} was never checked ({MAKERS[self.flavour]} {versions})"
        return ""

    def commuting_alone(self, collective: str, algorithm: str) -> str:
        """Return how an algorithm fails, in words, if it fails only for operations that do not commute.

        The text is empty for any other algorithm.
        """
        fault = self.faults.get((collective, _canonical(self.flavour, collective, algorithm)))
        return fault.proof(self.flavour) if fault and fault.commuting_right else ""


def clearance(flavour: str, version: str, commutative: bool = False) -> Clearance | None:
    """Return which algorithms may be forced in a version of a stack; None if no version of it was checked.

    ``commutative`` means that all operations of the users' programs commute.
    """
    by_version = {name: replace(one, commutative=commutative) for name, one in _versions(flavour).items()}
    if not by_version:
        return None
    if version in by_version:
        return by_version[version]
    numbers = _numbers(version)
    series = [v for v in by_version if _numbers(v)[: SERIES[flavour]] == numbers[: SERIES[flavour]]]
    name = f"{MAKERS[flavour]} {version}".rstrip()
    if series:
        below = [v for v in series if _numbers(v) <= numbers]
        nearest = max(below, key=_numbers) if below else min(series, key=_numbers)
        note = f"the algorithms of {name} were not checked: what was seen in {nearest} decides"
        return replace(by_version[nearest], note=note)
    checked: dict[str, frozenset[str]] = {}
    faults: dict[tuple[str, str], Fault] = {}
    for each in by_version.values():
        for collective, names in each.checked.items():
            checked[collective] = checked.get(collective, frozenset()) | names
        for key, fault in each.faults.items():
            if key not in faults or faults[key].commuting_right:
                faults[key] = fault
    everywhere = ", ".join(by_version)
    note = f"no version of the series of {name} was checked: what fails in any of {everywhere} is left out"
    return Clearance(flavour, tuple(by_version), checked, faults, note, commutative)


def clearance_of(described: str, commutative: bool = False) -> Clearance | None:
    """Return the clearance for a ``Stack.description``, such as ``Open MPI 5.0.11, UCX 1.20.1``."""
    for flavour, name in MAKERS.items():
        if match := re.match(rf"{re.escape(name)}\b *([\w.]*)", described):
            return clearance(flavour, match[1], commutative)
    return None


def forced(flavour: str, name: str, value: str) -> list[tuple[str, str]]:
    """Return the (collective, algorithm) pairs that a variable is known to force in a stack of this flavour.

    A pair can have a row of the table, such as ``bcast posix``, in place of the collective.
    """
    words = [value]
    if switch := _SWITCHES.get((flavour, name.removeprefix("OMPI_MCA_"))):
        switching, pairs = switch
        switches = value.strip().lower() == switching if switching else value not in _OWN
        return list(pairs) if switches else []
    if flavour == "mpich":
        collective, choice = mpich.chosen_by(name)
        row = f"{collective} {choice}".rstrip()
    else:
        match = _VARIABLES[flavour].fullmatch(name)
        parts = match.groupdict() if match else {}
        row = (parts.get("row") or "").lower()
        if parts.get("adapt"):
            row = f"{parts['adapt']} adapt"
        if flavour == "intelmpi":
            if row.removeprefix("i") not in COLLECTIVES:
                return []  # the variable sets a radix or a size of an algorithm, and forces none
            words = re.findall(r"(?:^|;)\s*([^:;@]+)", value)
            row = f"{row} {(parts['part'] or '').lower()}".rstrip()
    algorithms = (_canonical(flavour, row, word.strip()) for word in words if row)
    return [(row, algorithm) for algorithm in algorithms if algorithm]


def check_forced(
    flavour: str, version: str, variables: Iterable[tuple[str, str]], commutative: bool = False
) -> None:
    """Refuse variables that force an algorithm which is not cleared (it was never checked, or failed).

    Raises:
        StackError: a variable forces such an algorithm; the message says what failed.
    """
    permission = clearance(flavour, version, commutative)
    for name, value in variables if permission else ():
        for collective, algorithm in forced(flavour, name, str(value)):
            if permission and (why := permission.refusal(collective, algorithm)):
                raise StackError(f"{name}={value}: {why}", _hint(permission, collective))


def check_rules(
    flavour: str,
    described: str,
    rules: Iterable[tuple[str, str]],
    variables: Iterable[tuple[str, str]] = (),
    commutative: bool = False,
) -> None:
    """Refuse to write rules with algorithms that are not cleared (they were never checked, or failed).

    Args:
        flavour: The stack that the rules are written for.
        described: The stack that was measured, as for ``clearance_of``; nothing is refused if its flavour
            is not ``flavour``.
        rules: The rules as (collective, algorithm) pairs.
        variables: Job-wide variables that are written together with the rules, as (name, value) pairs.
        commutative: Whether all operations of the users' programs commute.

    Raises:
        UserError: an algorithm is not cleared; the message says what failed.
    """
    permission = clearance_of(described, commutative)
    if permission is None or permission.flavour != flavour:
        return
    pairs = [pair for pair in rules if pair[0] in permission.checked]
    for collective, algorithm in (
        *pairs,
        *chain.from_iterable(forced(flavour, *each) for each in variables),
    ):
        if why := permission.refusal(collective, algorithm):
            raise UserError(f"no rule for {collective} {algorithm}: {why}", _hint(permission, collective))


def cleared(space: Space, flavour: str, version: str, commutative: bool = False) -> Space:
    """Return the space without values that force an algorithm which is not cleared.

    Each removed value is in ``dropped`` with the reason.
    """
    permission = clearance(flavour, version, commutative)
    if permission is None:
        return space

    def refusal(unset: Value, collective: str, value: Value) -> str:
        return "" if value == unset else permission.refusal(collective, str(value))

    parameters, dropped = [], list(space.dropped)
    for parameter in space.parameters:
        if parameter.name == "algorithm":
            parameter, refused = without_algorithms(parameter, partial(refusal, parameter.unset))
            dropped += refused
        parameters.append(parameter)
    reduced = replace(space, parameters=tuple(parameters), dropped=tuple(dropped))

    def forcing(parameter: Parameter, value: Value | None) -> str:
        if value is None or value == parameter.unset or parameter.collectives:
            return ""
        pairs = (
            pair for name, text in _applied(parameter.apply, value) for pair in forced(flavour, name, text)
        )
        return next(filter(None, (permission.refusal(*pair) for pair in pairs)), "")

    return reduced.without(forcing)


@cache
def _versions(flavour: str) -> Mapping[str, Clearance]:
    by_version = {}
    for title, entry in facts("stacks/conformance").items():
        stack, _, version = title.partition(" ")
        if stack == flavour:
            checked = {c: frozenset(names.split()) for c, names in entry["checked"].items()}
            faults = {
                (case["collective"], case["algorithm"]): Fault(**case, version=version)
                for case in entry.get("faults", ())
            }
            by_version[version] = Clearance(flavour, (version,), checked, faults)
    return by_version


def left_out(space: Space, described: str, collectives: Collection[str] = ()) -> str:
    """Return a sentence on the algorithms that are left out only because some operations do not commute.

    The sentence is empty if there are no such algorithms. ``described`` is the stack, as for
    ``clearance_of``. The sentence names only algorithms of ``collectives``; if these are empty, of all
    collectives.
    """
    permission = clearance_of(described)
    dropped = ((drop.parameter.removeprefix(ALGORITHM_OF), str(drop.value)) for drop in space.dropped)
    pairs = dict.fromkeys(pair for pair in dropped if not collectives or pair[0] in collectives)
    names = [" ".join(pair) for pair in pairs if permission and permission.commuting_alone(*pair)]
    if not names:
        return ""
    were = "1 algorithm was" if len(names) == 1 else f"{len(names)} algorithms were"
    return f"{were} left out, wrong for operations that do not commute: {', '.join(names)}; {_OPT_IN}"


_OPT_IN = "if no program here makes one (MPI_Op_create), operations=commutative tries them"


def _hint(permission: Clearance, collective: str) -> str:
    listed = sorted(permission.checked.get(collective, ()))
    names = [name for name in listed if not permission.refusal(collective, name)]
    note = f"; {permission.note}" if permission.note else ""
    if not permission.commutative and any(permission.commuting_alone(collective, name) for name in listed):
        note += "; operations=commutative allows those that are wrong for operations that do not commute"
    return f"cleared for {collective}: {', '.join(names) or 'none'} (make conformance){note}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _canonical(flavour: str, collective: str, word: str) -> str:
    """Return this project's name of the algorithm that the value ``word`` of a variable selects.

    The name is empty if the value leaves the choice to the library; an unknown value is returned as it is.
    """
    choice = collective.partition(" ")[2]
    own = mpich.OWN[choice] if choice and flavour == "mpich" else _OWN
    if word in own:
        return ""
    if choice or collective not in COLLECTIVES:
        return word
    try:
        if flavour == "mpich":
            return mpich.check(collective, word)
        if flavour == "intelmpi":
            return COLLECTIVES[collective].intel[mpich.intel_id(collective, word) - 1]
        number = coll_tuned.algorithm_id(collective, word)
        return coll_tuned.algorithms(collective)[number] if number else ""
    except (UserError, IndexError):
        return word


def _applied(apply: Mapping[str, Any], value: Value) -> list[tuple[str, str]]:
    """Return the (variable, value) pairs that a value of a parameter sets.

    Only the placeholder ``{value}`` is replaced; placeholders that name other parameters remain.
    """
    declared = apply.get(str(value), apply)
    pairs: list[tuple[str, str]] = []
    for target in declared.values():
        if isinstance(target, Mapping):
            pairs += [(str(n), str(t).replace("{value}", str(value))) for n, t in target.items()]
    return pairs
