"""Collectives and patterns of messages: what is known of one is in its entry of ``collectives.toml`` alone.

Adding one takes its entry there, a timed call in ``probe/kernel.c`` and its declaration in
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
    """Meaning of a message size, here as in the OSU benchmarks."""

    VECTOR = "vector"  # The whole vector of a rank.
    BLOCK = "block"  # The block that a rank gives or gets.
    PEER = "peer"  # The block that a rank has for each other rank.
    MESSAGE = "message"  # The one message.
    NONE = "none"  # Nothing: it carries no data and counts as 0 bytes.


class Pattern(StrEnum):
    """Who sends to whom."""

    ONE_TO_ALL = "one_to_all"
    ALL_TO_ONE = "all_to_one"
    ALL_TO_ALL = "all_to_all"
    PAIR = "pair"  # The first and the last rank send to each other.
    PAIRS = "pairs"  # Each rank of the first half and one of the second; an odd one has no part.
    NEIGHBOURS = "neighbours"  # Neighbours in a periodic grid of ranks.
    ONE_SIDED = "one_sided"  # The first rank reads or writes the last one's memory.
    NONBLOCKING = "nonblocking"  # All to all, by a call that returns before it is done.


class Lookup(StrEnum):
    """Quantity that a row of a ``coll_tuned`` rules file is compared with."""

    SIZE = "bytes per rank"  # The message size as it is counted here.
    TOTAL = "bytes of all blocks"  # The block times the communicator size.
    ROOT = "bytes of all blocks, which not all ranks know"
    """As ``TOTAL``, but ranks can disagree (``scatter`` looks up the send count, which only the root has;
    ``gather`` one that a root with MPI_IN_PLACE has not): they would run different algorithms, and wait for
    each other without end."""
    NOTHING = "0"  # Always 0 bytes, or a number without the count (``scan``, ``exscan``).


@dataclass(frozen=True, slots=True)
class OpenMpi:
    """A collective in Open MPI."""

    id: int  # Its number in rules files.
    algorithms: tuple[str, ...] = ()  # Of ``coll_tuned``, by id from 1; without any there is no choice.
    lookup: Lookup = Lookup.NOTHING  # What rules files compare.
    own_names: Mapping[str, str] = field(default_factory=dict)
    """Open MPI's name of an algorithm, where it differs from ours."""
    since: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """First version (major, minor) of the algorithms that have not always been there."""
    han: bool = False  # Whether ``coll_han`` has dynamic rules for it.
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Open MPI 6's name of an algorithm, where 5.0 has another one; a JSON rule by the old name is void."""


@dataclass(frozen=True, slots=True)
class Mpich:
    """A collective in MPICH."""

    algorithms: Mapping[str, tuple[str, ...]]
    """Algorithm without parameters of its own → what it needs, in the words of ``stacks.mpich``."""
    forcible: tuple[str, ...] = ()
    """Further ones, which a variable can force but a selection tree cannot name without their parameters."""
    size: str = "avg_msg_size"
    """Conditions by size that a selection tree supports: any other condition aborts. Empty: nothing."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective, or a pattern of messages that is tuned like one."""

    name: str  # MPI's, lower case.
    size: Size  # What its message size counts.
    pattern: Pattern  # Who sends to whom.
    aliases: tuple[str, ...] = ()  # What benchmarks and profilers also call it, lower case, without ``mpi_``.
    measured: bool = True  # Whether the probe can measure it.
    costs: str = ""  # Formulas of ``proposers.priors`` for the cost of its algorithms; empty: none.
    openmpi: OpenMpi | None = None  # In Open MPI; None: it has no algorithms there.
    mpich: Mpich | None = None  # In MPICH.
    intel: tuple[str, ...] = ()  # Algorithms of Intel MPI, by id from 1.
    nccl: str = ""  # What NCCL's tuner calls it; empty: it knows none.
    composed: str = ""
    """Combinations that do the same, separated by blanks; ``/p``, ``*p``: sizes by the number of ranks p."""
    sums: bool = False  # Whether it reduces, so that its result can depend on the order of operands.
    overlaps: str = ""  # The same without anything computed meanwhile; empty: nothing is computed.

    @property
    def collective(self) -> bool:
        """Whether it is a blocking collective, for which rules can choose an algorithm."""
        return self.pattern in (Pattern.ONE_TO_ALL, Pattern.ALL_TO_ONE, Pattern.ALL_TO_ALL)

    @property
    def two_sided(self) -> bool:
        """Whether it is messages that one rank sends and another receives, and nothing else."""
        return self.pattern in (Pattern.PAIR, Pattern.PAIRS, Pattern.NEIGHBOURS)


def _entry(name: str, its: dict[str, Any]) -> Collective:
    its |= {"size": Size(its["size"]), "pattern": Pattern(its["pattern"])}
    its |= {"aliases": tuple(its.get("aliases", ())), "intel": tuple(its.get("intel", "").split())}
    its["composed"] = " ".join(its.get("composed", "").split())
    if openmpi := its.get("openmpi"):
        openmpi |= {"algorithms": tuple(openmpi.get("algorithms", "").split())}
        openmpi |= {"lookup": Lookup(openmpi.get("lookup", Lookup.NOTHING))}
        openmpi |= {"since": {algorithm: tuple(at) for algorithm, at in openmpi.get("since", {}).items()}}
        its["openmpi"] = OpenMpi(**openmpi)
    if mpich := its.get("mpich"):
        mpich |= {"algorithms": {one: tuple(needs) for one, needs in mpich["algorithms"].items()}}
        mpich |= {"forcible": tuple(mpich.get("forcible", "").split())}
        its["mpich"] = Mpich(**mpich)
    return Collective(name, **its)


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
COLLECTIVES: Mapping[str, Collective] = {name: _entry(name, its) for name, its in _TABLE.items()}
"""All of them by name."""

MEASURED: tuple[str, ...] = tuple(c.name for c in COLLECTIVES.values() if c.measured)
"""Names of those that the probe can measure; it numbers them so in its kernel."""

PATTERNS: tuple[str, ...] = tuple(name for name in MEASURED if not COLLECTIVES[name].collective)
"""Names of those that are no collectives: no rules choose for them, only settings of a whole job."""

_BLOCKING = [c for c in COLLECTIVES.values() if c.pattern is not Pattern.NONBLOCKING]
_CALLED = {alias: c.name for c in _BLOCKING for alias in (c.name, *c.aliases)}


def called(title: str) -> str:
    """The collective that a benchmark or a profiler calls so; empty where it is none of them."""
    return _CALLED.get(title.lower().removeprefix("mpi_"), "")


def later(name: str, how: str) -> str:
    """A collective's name where its call returns early: `non-blocking`, `persistent`; else as it is."""
    if name in COLLECTIVES and not COLLECTIVES[name].collective:
        return name
    return {"non-blocking": f"i{name}", "persistent": f"{name}_init"}.get(how, name)
