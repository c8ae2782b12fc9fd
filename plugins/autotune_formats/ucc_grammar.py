"""Define UCC's names for its algorithms, and the grammar of ``ucc.conf``.

It was read in the sources of UCC (August 2026: ``ucc_coll_score.c``, ``ucc_parser.c``, ``tl_ucp.c``,
``ucc_coll_utils.c``) and of Open MPI's ``coll_ucc``; it was never run here.

A file has ``NAME=value`` lines, and after a section's head those that hold for teams of some size, ranks a
node and nodes. ``UCC_TL_UCP_TUNE`` is a map of scores: tokens separated by ``#``, each with qualifiers
separated by ``:`` in any order. Where ranges of one score meet, the size at which they do belongs to the
later one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from autotune.errors import UserError, allowed
from autotune.space import size_in_bytes

TUNE = "UCC_TL_UCP_TUNE"  # The variable that holds the map of scores.

INF = float("inf")  # An open end of a range.


class Counts(Enum):
    """Name the bytes of a call with which a size range is compared."""

    MESSAGE = "the message, or the block of each rank"
    TOTAL = "the blocks of all ranks together"
    NOTHING = "nothing: no rank knows the others' sizes, so that size rules mean nothing"


@dataclass(frozen=True, slots=True)
class UccCollective:
    """Describe a collective of MPI in UCC."""

    name: str  # UCC's name: MPI_Reduce_scatter, whose blocks may differ, is its ``reduce_scatterv``.
    algorithms: tuple[str, ...]  # Algorithms of the layer over UCP, by id from 0.
    counts: Counts = Counts.MESSAGE  # The bytes that its sizes count.
    radix: Mapping[str, str] = field(default_factory=dict)
    """For each algorithm that has one, the variable with its radix."""


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
"""Collectives by MPI's name. UCC compares the receive buffer, so its ``reduce_scatter`` counts one rank's
block."""

RANGED = frozenset(
    (
        *("ALLREDUCE_KN_RADIX", "ALLREDUCE_SRA_KN_RADIX", "ALLGATHER_KN_RADIX"),
        *("BCAST_SAG_KN_RADIX", "REDUCE_SRG_KN_RADIX"),
    )
)
"""Radices that may differ by size; each of the others is a single number."""

_BY_NAME = {collective.name: collective for collective in COLLECTIVES.values()}
_NAMES = frozenset(_BY_NAME) | {"fanin", "fanout"}
_MEMORY = frozenset(("host", "cuda", "cuda_managed", "rocm", "rocm_managed"))
KEYS = ("vendor", "model", "team_size", "ppn", "sock", "nnodes")  # The conditions that a section can have.
_TEAM_RANGE = re.compile(r"\d+(-(\d+|inf))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """Represent one entry of a map of scores."""

    collectives: tuple[str, ...]  # UCC's names of the collectives; empty: all.
    ranges: tuple[tuple[float, float], ...] = ((0, INF),)  # Ranges of sizes in bytes.
    algorithm: str = ""  # Name or id of the algorithm; empty: the component's own choice.
    score: str = ""  # Score, where ``inf`` forces and 0 forbids; empty: unchanged.
    teams: tuple[tuple[float, float], ...] = ((1, INF),)  # Ranges of team sizes, ends inclusive.
    sized: bool = False  # Whether the entry has a range of sizes.

    def reaches(self, collective: str, nbytes: int, ranks: int) -> bool:
        """Whether the entry applies to a call; size ranges end before their upper bound."""
        matches = not self.collectives or collective in self.collectives
        sized = any(low <= nbytes < high or nbytes == low for low, high in self.ranges)
        return matches and sized and any(low <= ranks <= high for low, high in self.teams)


@dataclass(frozen=True, slots=True)
class Section:
    """Hold lines that hold for some teams; without conditions for all."""

    conditions: Mapping[str, tuple[float, float] | str]
    """For each condition the range of numbers, ends inclusive, or the word."""
    values: dict[str, str]  # Values by variable.
    line: int = 0  # Line of its head, counted from 1; 0: it has none.

    def holds(self, teams: Mapping[str, int]) -> bool:
        """Whether it holds for a team; a condition on a property that is not known counts as met."""
        pairs = ((teams.get(name), condition) for name, condition in self.conditions.items())
        return all(
            n is None or isinstance(condition, str) or condition[0] <= n <= condition[1]
            for n, condition in pairs
        )

    def meets(self, section: "Section") -> bool:
        """Whether there are teams for which both sections hold."""
        for name in self.conditions.keys() & section.conditions.keys():
            own_range, other_range = self.conditions[name], section.conditions[name]
            if isinstance(own_range, tuple) and isinstance(other_range, tuple):
                if own_range[1] < other_range[0] or other_range[1] < own_range[0]:
                    return False
            elif own_range != other_range:
                return False
        return True


def of(collective: str) -> UccCollective:
    """Return a collective of MPI in UCC.

    Raises:
        UserError: it has none.
    """
    if collective not in COLLECTIVES:
        raise UserError(f"UCC has no {collective}", allowed(collective, COLLECTIVES))
    return COLLECTIVES[collective]


def check(collective: str, algorithm: str) -> str:
    """Return the algorithm, if UCC has it.

    Raises:
        UserError: it has no such collective or algorithm.
    """
    names = of(collective).algorithms
    if algorithm not in names:
        raise UserError(f"UCC has no {collective} algorithm {algorithm!r}", allowed(algorithm, names))
    return algorithm


def sections(text: str) -> tuple[Section, ...]:
    """Return the parts of a file, the one without a head first.

    Raises:
        UserError: a line that UCC would not take; the message begins with the line's number.
    """
    parsed = [Section({}, {})]
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.strip()
        if not content or content[0] in "#;":
            continue
        if line[0].isspace() and parsed[-1].values:
            raise UserError(
                f"{number}: an indented line goes on with the value above it", "begin in column one"
            )
        if content.startswith("["):
            parsed.append(Section(_conditions(content, number), {}, number))
            continue
        name, equals, value = (part.strip() for part in content.partition("="))
        if not equals or not re.fullmatch(r"UCC_\w+", name):
            raise UserError(
                f"{number}: {content!r} is no variable of UCC", "UCC_NAME=value, or [KEY=VALUE …]"
            )
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
            raise UserError(
                f"{number}: {condition!r} is no range", "one number, or LOW-HIGH; there is no inf"
            )
    return conditions


def tokens(value: str) -> tuple[Token, ...]:
    """Return the entries of a map of scores.

    Raises:
        UserError: a qualifier that UCC would not take: it then refuses the whole map.
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
    """Return the kind of a qualifier; empty if UCC does not know it."""
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
    """Yield the ranges of sizes in bytes of a text that has only ranges."""
    for item in text.split(","):
        if size_range := _range(item):
            yield size_range


def _range(item: str) -> tuple[float, float] | None:
    low, dash, high = item.partition("-")
    start, end = (INF if text.lower() == "inf" else size_in_bytes(text) for text in (low, high))
    return None if not dash or start is None or end is None else (start, end)


def known_algorithm(token: Token) -> bool:
    """Whether each collective of a token has its algorithm, by name or id."""
    listed = [_BY_NAME[name].algorithms for name in token.collectives if name in _BY_NAME]
    name = token.algorithm
    return not name or all(
        name in algorithms or (name.isdecimal() and float(name) < len(algorithms)) for algorithms in listed
    )


def without_sizes(token: Token) -> tuple[str, ...]:
    """Return the collectives of a token whose sizes UCC does not know, if the token has sizes."""
    if not token.sized:
        return ()
    listed = (_BY_NAME[name] for name in token.collectives if name in _BY_NAME)
    return tuple(collective.name for collective in listed if collective.counts is Counts.NOTHING)
