"""Collectives and patterns of messages: everything known of each is in its entry of ``collectives.toml``.

To add one, write its entry there, a timed call in ``probe/kernel.c`` and its declaration in
``probe/operations.py``; a model of it in ``simulate/algorithms.py`` is optional. Names are MPI's without the
prefix, in lower case; the keys of an entry are the fields below.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class Size(StrEnum):
    """Says what a message size counts, as in the OSU benchmarks."""

    VECTOR = "vector"  # The whole vector of a rank.
    BLOCK = "block"  # The block that a rank gives or gets.
    PEER = "peer"  # The block that a rank has for each other rank.
    MESSAGE = "message"  # The single message.
    NONE = "none"  # Nothing: the collective carries no data and counts as 0 bytes.


class Pattern(StrEnum):
    """Says which ranks send to which."""

    ONE_TO_ALL = "one_to_all"
    ALL_TO_ONE = "all_to_one"
    ALL_TO_ALL = "all_to_all"
    PAIR = "pair"  # The first and the last rank send to each other.
    PAIRS = "pairs"  # Each rank of the first half with one of the second; an odd rank takes no part.
    NEIGHBOURS = "neighbours"  # Neighbours in a periodic grid of ranks.
    ONE_SIDED = "one_sided"  # The first rank reads or writes the memory of the last one.
    NONBLOCKING = "nonblocking"  # All to all, by a call that returns before it is complete.


class Lookup(StrEnum):
    """Names the quantity that a row of a ``coll_tuned`` rules file is compared with."""

    SIZE = "bytes per rank"  # The message size as ``Size`` counts it.
    TOTAL = "bytes of all blocks"  # The block times the communicator size.
    ROOT = "bytes of all blocks, which not all ranks know"
    """As ``TOTAL``, but ranks can disagree on it: ``scatter`` looks up the send count, which only the root
    has, and ``gather`` one that a root with MPI_IN_PLACE does not have. They would run different algorithms
    and wait for each other without end."""
    NOTHING = "0"  # Always 0 bytes, or a number that does not depend on the count (``scan``, ``exscan``).


@dataclass(frozen=True, slots=True)
class OpenMpi:
    """Describes a collective in Open MPI."""

    id: int  # Its number in rules files.
    algorithms: tuple[str, ...] = ()  # Algorithms of ``coll_tuned`` by id from 1; empty: there is no choice.
    lookup: Lookup = Lookup.NOTHING  # The quantity that rules files compare.
    own_names: Mapping[str, str] = field(default_factory=dict)
    """Algorithm → Open MPI's name of it, where it differs from ours."""
    since: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Algorithm → first version (major, minor) with it, where older versions lack it."""
    han: bool = False  # Whether ``coll_han`` has dynamic rules for it.
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Algorithm → Open MPI 6's name of it, if 5.0 has another one; a JSON rule with the old name is void."""


@dataclass(frozen=True, slots=True)
class Mpich:
    """Describes a collective in MPICH."""

    algorithms: Mapping[str, tuple[str, ...]]
    """Algorithm without parameters of its own → what it needs, in the words of ``stacks.mpich``."""
    forcible: tuple[str, ...] = ()
    """Further algorithms: a variable can force them, but a selection tree would have to name parameters."""
    size: str = "avg_msg_size"
    """The only condition on the size that a selection tree supports, since MPICH aborts at any other; empty:
    none."""


@dataclass(frozen=True, slots=True)
class Collective:
    """Describes a collective, or a pattern of messages that is tuned like one."""

    name: str  # MPI's name without the prefix, in lower case.
    size: Size  # What its message size counts.
    pattern: Pattern  # Which ranks send to which.
    aliases: tuple[str, ...] = ()  # Names in benchmarks and profilers, in lower case, without ``mpi_``.
    measured: bool = True  # Whether the probe can measure it.
    costs: str = ""  # Formulas of ``proposers.priors`` for the cost of its algorithms; empty: none.
    openmpi: OpenMpi | None = None  # What it is in Open MPI; None: it has no algorithms there.
    mpich: Mpich | None = None  # What it is in MPICH; None: it has no algorithms there.
    intel: tuple[str, ...] = ()  # Algorithms of Intel MPI, by id from 1.
    composed: str = ""
    """Combinations of other collectives with the same result, separated by blanks; ``/p`` and ``*p`` scale
    the size by the number of ranks p."""
    sums: bool = False  # Whether it reduces, so that its result can depend on the order of operands.
    overlaps: str = ""  # Name of the same pattern without computation in between; empty: it computes nothing.

    @property
    def collective(self) -> bool:
        """Whether it is a blocking collective, for which rules can choose an algorithm."""
        return self.pattern in (Pattern.ONE_TO_ALL, Pattern.ALL_TO_ONE, Pattern.ALL_TO_ALL)

    @property
    def two_sided(self) -> bool:
        """Whether it only consists of messages that one rank sends and another receives."""
        return self.pattern in (Pattern.PAIR, Pattern.PAIRS, Pattern.NEIGHBOURS)


def _entry(name: str, entry: dict[str, Any]) -> Collective:
    entry |= {"size": Size(entry["size"]), "pattern": Pattern(entry["pattern"])}
    entry |= {"aliases": tuple(entry.get("aliases", ())), "intel": tuple(entry.get("intel", "").split())}
    entry["composed"] = " ".join(entry.get("composed", "").split())
    if openmpi := entry.get("openmpi"):
        openmpi |= {"algorithms": tuple(openmpi.get("algorithms", "").split())}
        openmpi |= {"lookup": Lookup(openmpi.get("lookup", Lookup.NOTHING))}
        openmpi |= {"since": {algorithm: tuple(at) for algorithm, at in openmpi.get("since", {}).items()}}
        entry["openmpi"] = OpenMpi(**openmpi)
    if mpich := entry.get("mpich"):
        mpich |= {"algorithms": {algorithm: tuple(needs) for algorithm, needs in mpich["algorithms"].items()}}
        mpich |= {"forcible": tuple(mpich.get("forcible", "").split())}
        entry["mpich"] = Mpich(**mpich)
    return Collective(name, **entry)


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
COLLECTIVES: Mapping[str, Collective] = {name: _entry(name, entry) for name, entry in _TABLE.items()}
"""All collectives and patterns by name."""

MEASURED: tuple[str, ...] = tuple(c.name for c in COLLECTIVES.values() if c.measured)
"""Names of collectives and patterns that the probe can measure; its kernel numbers them in this order."""

PATTERNS: tuple[str, ...] = tuple(name for name in MEASURED if not COLLECTIVES[name].collective)
"""Names of measured patterns that are no collectives: no rules choose for them, only job-wide settings."""

_BLOCKING = [c for c in COLLECTIVES.values() if c.pattern is not Pattern.NONBLOCKING]
_CALLED = {alias: c.name for c in _BLOCKING for alias in (c.name, *c.aliases)}


def called(title: str) -> str:
    """Return the collective that a benchmark or a profiler calls by a title; empty where there is none."""
    return _CALLED.get(title.lower().removeprefix("mpi_"), "")


def later(name: str, how: str) -> str:
    """Return MPI's name of the variant of a collective that ``how`` says: `non-blocking` or `persistent`.

    For any other ``how``, and for patterns that are no collectives, it is the name itself.
    """
    if name in COLLECTIVES and not COLLECTIVES[name].collective:
        return name
    return {"non-blocking": f"i{name}", "persistent": f"{name}_init"}.get(how, name)
