"""Which algorithms may be forced on a user's program: the table of those that were checked and what failed.

``conformance.toml`` is written by ``python -m tests.conformance`` (``make conformance``), which runs every
algorithm that can be forced against results that no MPI computed. An algorithm is *cleared* in a version if
it was checked there and nothing failed, or failed for operations alone that do not commute. Versions that
were not checked go by the nearest one of their series (``SERIES``); of a series without any, by all versions
of the stack together: what fails in one of them is refused.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from autotune.collectives import COLLECTIVES
from autotune.errors import StackError, UserError
from autotune.resources import facts
from autotune.space import Dropped, Parameter, Space
from autotune.space.parameter import Value
from autotune.stacks import coll_tuned, mpich

SERIES = {"openmpi": 2, "mpich": 2, "intelmpi": 1}
"""How many numbers of a version name its series: 5.0 of Open MPI 5.0.11, 2021 of Intel MPI 2021.18.1."""

_STACKS = {"openmpi": "Open MPI", "mpich": "MPICH", "intelmpi": "Intel MPI"}

_OWN = ("", "0", "-1", "auto", "default", "ignore")  # Words for the library's own choice.

_VARIABLES = {
    "openmpi": re.compile(r"(?:OMPI_MCA_)?coll_tuned_([a-z_]+)_algorithm"),
    "mpich": re.compile(r"MPIR_CVAR_([A-Z_]+)_INTRA_ALGORITHM"),
    "intelmpi": re.compile(r"I_MPI_ADJUST_([A-Z_]+)"),
}
"""Variables that force an algorithm, each with a group for the collective."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An algorithm's first failing case in one version."""

    collective: str
    algorithm: str
    ranks: int
    case: str  # Datatypes or operation, count, and what else is special.
    seen: str  # What was wrong: values, the error's text, the signal.
    commuting_right: bool = False  # Whether only operations fail that do not commute.
    version: str = ""  # In which it was seen.

    def proof(self, flavour: str) -> str:
        """One sentence for users."""
        where = f"{_STACKS[flavour]} {self.version}, {self.ranks} ranks"
        what = f"{self.collective} {self.algorithm} gives wrong results or fails"
        return f"{what} ({where}; {self.case}: {self.seen})"


@dataclass(frozen=True, slots=True)
class Clearance:
    """Algorithms that may be forced in one version of a stack."""

    flavour: str
    versions: tuple[str, ...]  # Whose checks decide; several where its series has none.
    checked: Mapping[str, frozenset[str]]  # Collective → algorithms.
    faults: Mapping[tuple[str, str], Fault]  # Collective and algorithm → what failed.
    note: str = ""  # Where another version was checked than the one in use.

    def refusal(self, collective: str, algorithm: str) -> str:
        """Why an algorithm is not forced, in words; empty: it may be."""
        name = _named(self.flavour, collective, algorithm)
        fault = self.faults.get((collective, name))
        if fault and not fault.commuting_right:
            return fault.proof(self.flavour)
        if name and name not in self.checked.get(collective, ()):
            tried = ", ".join(self.versions)
            return f"{collective} {algorithm} was never checked ({_STACKS[self.flavour]} {tried})"
        return ""

    def commuting_alone(self, collective: str, algorithm: str) -> str:
        """The fault with operations that do not commute, in words; empty: none."""
        fault = self.faults.get((collective, _named(self.flavour, collective, algorithm)))
        return fault.proof(self.flavour) if fault and fault.commuting_right else ""


def clearance(flavour: str, version: str) -> Clearance | None:
    """The algorithms of this version of a stack that may be forced; None: nobody checks that stack."""
    known = _versions(flavour) if flavour in SERIES else {}
    if not known:
        return None
    if version in known:
        return known[version]
    numbers = _numbers(version)
    series = [v for v in known if _numbers(v)[: SERIES[flavour]] == numbers[: SERIES[flavour]]]
    name = f"{_STACKS[flavour]} {version}".rstrip()
    if series:
        below = [v for v in series if _numbers(v) <= numbers]
        nearest = max(below, key=_numbers) if below else min(series, key=_numbers)
        note = f"the algorithms of {name} were not checked: what was seen in {nearest} decides"
        return replace(known[nearest], note=note)
    checked: dict[str, frozenset[str]] = {}
    faults: dict[tuple[str, str], Fault] = {}
    for each in known.values():
        for collective, names in each.checked.items():
            checked[collective] = checked.get(collective, frozenset()) | names
        for where, fault in each.faults.items():
            if where not in faults or faults[where].commuting_right:
                faults[where] = fault
    everywhere = ", ".join(known)
    note = f"no version of the series of {name} was checked: what fails in any of {everywhere} is left out"
    return Clearance(flavour, tuple(known), checked, faults, note)


def clearance_of(described: str) -> Clearance | None:
    """As ``clearance``, of a stack as ``Stack.description`` has it: ``Open MPI 5.0.11, UCX 1.20.1``."""
    for flavour, name in _STACKS.items():
        if match := re.match(rf"{re.escape(name)}\b *([\w.]*)", described):
            return clearance(flavour, match[1])
    return None


def forced_by(name: str, value: str) -> list[tuple[str, str]]:
    """Collectives and algorithms that a variable forces; empty: none that is known."""
    for flavour, pattern in _VARIABLES.items():
        if match := pattern.fullmatch(name):
            collective, ranges = match[1].lower(), r"(?:^|;)\s*([^:;@]+)"
            words = re.findall(ranges, value) if flavour == "intelmpi" else [value]
            named = (_named(flavour, collective, word.strip()) for word in words)
            return [(collective, algorithm) for algorithm in named if algorithm]
    return []


def check_forced(flavour: str, version: str, variables: Iterable[tuple[str, str]]) -> None:
    """Refuse variables by which somebody forces an algorithm that is not cleared.

    Raises:
        StackError: there is one; the message has the proof.
    """
    known = clearance(flavour, version)
    for name, value in variables if known else ():
        for collective, algorithm in forced_by(name, str(value)):
            if known and (why := known.refusal(collective, algorithm)):
                raise StackError(f"{name}={value}: {why}", _hint(known, collective))


def check_rules(flavour: str, described: str, rules: Iterable[tuple[str, str]]) -> None:
    """Refuse to write rules, as collectives and algorithms, for users' programs that are not cleared.

    The stack that was measured is as in ``clearance_of``; of another flavour nothing is known.

    Raises:
        UserError: there is one; the message has the proof.
    """
    known = clearance_of(described)
    for collective, algorithm in rules if known and known.flavour == flavour else ():
        if known and collective in known.checked and (why := known.refusal(collective, algorithm)):
            raise UserError(f"no rule for {collective} {algorithm}: {why}", _hint(known, collective))


def cleared(space: Space, flavour: str, version: str) -> Space:
    """The space without values that force what is not cleared; each is listed with its proof."""
    known = clearance(flavour, version)
    if known is None:
        return space
    kept, dropped = [], list(space.dropped)
    for parameter in space.parameters:
        if parameter.name == "algorithm" and parameter.collectives:
            lists = {}
            for collective, values in parameter.collectives.items():
                reasons = {v: known.refusal(collective, str(v)) for v in values if v != parameter.unset}
                reasons = {v: why for v, why in reasons.items() if why}
                dropped += [Dropped(f"algorithm of {collective}", v, why) for v, why in reasons.items()]
                if left := tuple(v for v in values if v not in reasons):
                    lists[collective] = left
            parameter = replace(parameter, collectives=lists)
        kept.append(parameter)
    rest = replace(space, parameters=tuple(kept), dropped=tuple(dropped))

    def forcing(parameter: Parameter, value: Value | None) -> str:
        if value is None or value == parameter.unset or parameter.collectives:
            return ""
        pairs = (pair for name, text in _applied(parameter.apply, value) for pair in forced_by(name, text))
        return next(filter(None, (known.refusal(*pair) for pair in pairs)), "")

    return rest.without(forcing)


@cache
def _versions(flavour: str) -> Mapping[str, Clearance]:
    known = {}
    for title, entry in facts("stacks/conformance").items():
        its, _, version = title.partition(" ")
        if its == flavour:
            checked = {c: frozenset(names.split()) for c, names in entry["checked"].items()}
            faults = {
                (one["collective"], one["algorithm"]): Fault(**one, version=version)
                for one in entry.get("faults", ())
            }
            known[version] = Clearance(flavour, (version,), checked, faults)
    return known


def _hint(known: Clearance, collective: str) -> str:
    names = sorted(a for a in known.checked.get(collective, ()) if not known.refusal(collective, a))
    note = f"; {known.note}" if known.note else ""
    return f"cleared for {collective}: {', '.join(names) or 'none'} (make conformance){note}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _named(flavour: str, collective: str, word: str) -> str:
    """The algorithm of a value by our name, unchanged where nobody knows it; empty: the library's own."""
    if word in _OWN or collective not in COLLECTIVES:
        return ""
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
    """Variables of a value of a parameter, as far as its declaration says them without others."""
    declared = apply.get(str(value), apply)
    pairs: list[tuple[str, str]] = []
    for target in declared.values():
        if isinstance(target, Mapping):
            pairs += [(str(n), str(t).replace("{value}", str(value))) for n, t in target.items()]
    return pairs
