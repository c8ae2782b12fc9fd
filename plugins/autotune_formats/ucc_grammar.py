"""Define UCC's names for its algorithms, and the grammar of ``ucc.conf``.

Names and grammar were derived from the sources of UCC (August 2026: ``ucc_coll_score.c``, ``ucc_parser.c``,
``tl_ucp.c``, ``ucc_coll_utils.c``) and of Open MPI's ``coll_ucc``; this project was never run with UCC.

A file has ``NAME=value`` lines. After the head of a section, such lines apply to teams (communicators) of
some sizes, numbers of ranks per node and numbers of nodes. ``UCC_TL_UCP_TUNE`` is a score map: it consists of
entries (*tokens*) separated by ``#``, each of which has qualifiers separated by ``:`` in any order. The
scores decide which algorithm runs. If two ranges with the same score share a bound, the size at this bound
belongs to the later range.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from autotune.errors import UserError, allowed
from autotune.space import size_in_bytes

TUNE = "UCC_TL_UCP_TUNE"  # Name of the variable whose value is the score map.

INF = float("inf")  # Upper bound of a range without a limit.


class Counts(Enum):
    """Name the quantity of a call that UCC compares with a range of sizes."""

    MESSAGE = "the message, or the block of each rank"
    TOTAL = "the blocks of all ranks together"
    NOTHING = "nothing: no rank knows the others' sizes, so that size rules mean nothing"


@dataclass(frozen=True, slots=True)
class UccCollective:
    """Describe how UCC names and implements a collective of MPI."""

    name: str  # UCC's name; MPI_Reduce_scatter, whose blocks may differ in size, is ``reduce_scatterv``.
    algorithms: tuple[str, ...]  # Algorithms of UCC's layer over UCP, indexed by their ids.
    counts: Counts = Counts.MESSAGE  # The quantity that UCC compares with ranges of sizes.
    radix: Mapping[str, str] = field(default_factory=dict)  # Maps an algorithm to the variable of its radix.


COLLECTIVES: Mapping[str, UccCollective] = {
    "allreduce": UccCollective(
        "allreduce",
        ("knomial", "sra_knomial", "dbt", "sliding_window", "ring"),
        radix={"knomial": "ALLREDUCE_KN_RADIX", "sra_knomial": "ALLREDUCE_SRA_KN_RADIX"},
    ),
    "allgather": UccCollective(
        "allgather",
        ("knomial", "ring", "neighbor", "bruck", "sparbit", "linear", "batched"),
        Counts.TOTAL,
        {"knomial": "ALLGATHER_KN_RADIX"},
    ),
    "allgatherv": UccCollective("allgatherv", ("ring", "knomial"), Counts.TOTAL),
    "alltoall": UccCollective("alltoall", ("pairwise", "bruck", "onesided"), Counts.TOTAL),
    "alltoallv": UccCollective("alltoallv", ("pairwise", "hybrid", "onesided"), Counts.NOTHING),
    "barrier": UccCollective("barrier", ("knomial",), Counts.NOTHING),
    "bcast": UccCollective(
        "bcast",
        ("knomial", "sag_knomial", "dbt"),
        radix={"knomial": "BCAST_KN_RADIX", "sag_knomial": "BCAST_SAG_KN_RADIX"},
    ),
    "gather": UccCollective("gather", ("knomial",), Counts.TOTAL, {"knomial": "GATHER_KN_RADIX"}),
    "gatherv": UccCollective("gatherv", ("linear",), Counts.NOTHING),
    "reduce": UccCollective(
        "reduce",
        ("knomial", "dbt", "srg"),
        radix={"knomial": "REDUCE_KN_RADIX", "srg": "REDUCE_SRG_KN_RADIX"},
    ),
    "reduce_scatter": UccCollective("reduce_scatterv", ("ring",), Counts.TOTAL),
    "reduce_scatter_block": UccCollective(
        "reduce_scatter", ("ring", "knomial"), radix={"knomial": "REDUCE_SCATTER_KN_RADIX"}
    ),
    "scatter": UccCollective("scatter", ("knomial",), Counts.TOTAL, {"knomial": "SCATTER_KN_RADIX"}),
    "scatterv": UccCollective("scatterv", ("linear",), Counts.NOTHING),
}
"""Maps MPI's name of a collective to UCC's description.

UCC compares the size of the receive buffer with a range of sizes; for UCC's ``reduce_scatter`` this buffer is
one rank's block."""

_RANGED = ("ALLREDUCE_KN", "ALLREDUCE_SRA_KN", "ALLGATHER_KN", "BCAST_SAG_KN", "REDUCE_SRG_KN")
RANGED = frozenset(f"{name}_RADIX" for name in _RANGED)
"""Variables of radices that may differ by message size; each of the other radices is a single number."""

_BY_NAME = {collective.name: collective for collective in COLLECTIVES.values()}
_NAMES = frozenset(_BY_NAME) | {"fanin", "fanout"}
_MEMORY = frozenset(("host", "cuda", "cuda_managed", "rocm", "rocm_managed"))
KEYS = ("vendor", "model", "team_size", "ppn", "sock", "nnodes")  # The conditions that a section can have.
_TEAM_RANGE = re.compile(r"\d+(-(\d+|inf))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """Represent one entry of a score map."""

    collectives: tuple[str, ...]  # UCC's names of the collectives; empty: all.
    ranges: tuple[tuple[float, float], ...] = ((0, INF),)  # Ranges of sizes in bytes.
    algorithm: str = ""  # Name or id of the algorithm; empty: the component's own choice.
    score: str = ""  # Score: ``inf`` forces the algorithm, 0 forbids it; empty: the score is unchanged.
    teams: tuple[tuple[float, float], ...] = ((1, INF),)  # Ranges of team sizes, bounds included.
    sized: bool = False  # Whether the entry has a range of sizes.

    def reaches(self, collective: str, nbytes: int, ranks: int) -> bool:
        """Whether the entry applies to a call; the upper bound of a range of sizes is not included."""
        matches = not self.collectives or collective in self.collectives
        sized = any(low <= nbytes < high or nbytes == low for low, high in self.ranges)
        return matches and sized and any(low <= ranks <= high for low, high in self.teams)


@dataclass(frozen=True, slots=True)
class Section:
    """Represent the lines that apply to all teams which meet the conditions of the section, if it has any."""

    conditions: Mapping[str, tuple[float, float] | str]
    """Maps each condition (one of ``KEYS``) to a range of numbers, bounds included, or to a word."""
    values: dict[str, str]  # Maps the name of each variable in the section to the variable's value.
    line: int = 0  # Line number of the section's head, counted from 1; 0: the section has no head.

    def holds(self, teams: Mapping[str, int]) -> bool:
        """Whether the section applies to a team; a condition on an unknown property counts as met."""
        pairs = ((teams.get(name), condition) for name, condition in self.conditions.items())
        return all(n is None or isinstance(c, str) or c[0] <= n <= c[1] for n, c in pairs)

    def meets(self, section: "Section") -> bool:
        """Whether there are teams to which both this section and the given one apply."""
        for name in self.conditions.keys() & section.conditions.keys():
            own_range, other_range = self.conditions[name], section.conditions[name]
            if isinstance(own_range, tuple) and isinstance(other_range, tuple):
                if own_range[1] < other_range[0] or other_range[1] < own_range[0]:
                    return False
            elif own_range != other_range:
                return False
        return True


def of(collective: str) -> UccCollective:
    """Return UCC's description of a collective, given by its MPI name.

    Raises:
        UserError: UCC has no such collective.
    """
    if collective not in COLLECTIVES:
        raise UserError(f"UCC has no {collective}", allowed(collective, COLLECTIVES))
    return COLLECTIVES[collective]


def check(collective: str, algorithm: str) -> str:
    """Return the algorithm.

    Raises:
        UserError: UCC has no such collective or algorithm.
    """
    names = of(collective).algorithms
    if algorithm not in names:
        raise UserError(f"UCC has no {collective} algorithm {algorithm!r}", allowed(algorithm, names))
    return algorithm


def sections(text: str) -> tuple[Section, ...]:
    """Return the sections of a file; the first one contains the lines before any head.

    Raises:
        UserError: UCC would refuse a line; the message begins with the number of the line.
    """
    parsed = [Section({}, {})]
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.strip()
        if not content or content[0] in "#;":
            continue
        if line[0].isspace() and parsed[-1].values:
            why = f"{number}: an indented line goes on with the value above it"
            raise UserError(why, "begin in column one")
        if content.startswith("["):
            parsed.append(Section(_conditions(content, number), {}, number))
            continue
        name, equals, value = (part.strip() for part in content.partition("="))
        if not equals or not re.fullmatch(r"UCC_\w+", name):
            hint = "UCC_NAME=value, or [KEY=VALUE …]"
            raise UserError(f"{number}: {content!r} is no variable of UCC", hint)
        parsed[-1].values[name] = value
    return tuple(parsed)


def _conditions(head: str, number: int) -> dict[str, tuple[float, float] | str]:
    if not head.endswith("]"):
        raise UserError(f"{number}: the section {head!r} is not closed", "[team_size=8 ppn=1 nnodes=8]")
    conditions: dict[str, tuple[float, float] | str] = {}
    for condition in head[1:-1].split():
        key, _, value = condition.partition("=")
        if key not in KEYS:
            raise UserError(f"{number}: a section cannot ask for {key!r}", allowed(key, KEYS))
        if key in ("vendor", "model"):
            conditions[key] = value
        elif re.fullmatch(r"\d+(-\d+)?", value):
            low, _, high = value.partition("-")
            conditions[key] = float(low), float(high or low)
        else:
            hint = "one number, or LOW-HIGH; there is no inf"
            raise UserError(f"{number}: {condition!r} is no range", hint)
    return conditions


def tokens(value: str) -> tuple[Token, ...]:
    """Return the entries of a score map.

    Raises:
        UserError: UCC does not know a qualifier, and would refuse the whole map.
    """
    return tuple(_token(text) for text in value.split("#"))


def _token(text: str) -> Token:
    qualifiers: dict[str, str] = {}
    for part in text.split(":"):
        kind = _kind(part)
        if not kind or kind in qualifiers:
            why = f"a second {kind}" if kind else "no collective, range, memory, [teams], score or @algorithm"
            raise UserError(f"{part!r} in {text!r} is {why}", "UCC refuses the whole map for it")
        qualifiers[kind] = part
    teams = [item.partition("-") for item in qualifiers.get("teams", "[1-inf]")[1:-1].split(",")]
    return Token(
        tuple(filter(None, qualifiers.get("collective", "").split(","))),
        tuple(ranges(qualifiers.get("sizes", "0-inf"))),
        qualifiers.get("algorithm", "").removeprefix("@"),
        qualifiers.get("score", ""),
        tuple((float(low), float(high or low)) for low, _, high in teams),
        "sizes" in qualifiers,
    )


def _kind(part: str) -> str:
    """Return the kind of a qualifier, such as ``score``; empty if UCC does not know the qualifier."""
    items = part.split(",")
    if set(items) <= _NAMES:
        return "collective"
    if set(items) <= _MEMORY:
        return "memory"
    if re.fullmatch(r"\d+|inf", part, re.IGNORECASE):
        return "score"
    if part.startswith("@") and len(part) > 1:
        return "algorithm"
    if part.startswith("[") and part.endswith("]"):
        return "teams" if all(map(_TEAM_RANGE.fullmatch, part[1:-1].split(","))) else ""
    return "sizes" if all(_range(item) for item in items) else ""


def ranges(text: str) -> Iterator[tuple[float, float]]:
    """Yield the ranges of sizes, in bytes, in a text of ranges separated by commas."""
    yield from filter(None, map(_range, text.split(",")))


def _range(item: str) -> tuple[float, float] | None:
    low, dash, high = item.partition("-")
    start, end = (INF if text.lower() == "inf" else size_in_bytes(text) for text in (low, high))
    return None if not dash or start is None or end is None else (start, end)


def known_algorithm(token: Token) -> bool:
    """Whether all collectives of an entry have the algorithm of the entry, which is a name or an id."""
    listed = [_BY_NAME[name].algorithms for name in token.collectives if name in _BY_NAME]
    name = token.algorithm
    return not name or all(
        name in algorithms or (name.isdecimal() and float(name) < len(algorithms)) for algorithms in listed
    )


def without_sizes(token: Token) -> tuple[str, ...]:
    """Return the collectives of an entry whose message sizes UCC does not know, if the entry has sizes."""
    if not token.sized:
        return ()
    listed = (_BY_NAME[name] for name in token.collectives if name in _BY_NAME)
    return tuple(collective.name for collective in listed if collective.counts is Counts.NOTHING)
