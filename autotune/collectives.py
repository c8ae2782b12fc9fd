"""Read from ``collectives.toml`` what is known about each collective and each pattern of messages.

To add a collective, write its entry in that file, a timed call in ``probe/kernel.c`` and its declaration in
``probe/operations.py``; a model of its time in ``simulate/algorithms.py`` is optional. Names are those of
MPI, in lower case and without the prefix; the keys of an entry are the fields of the classes below.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class Size(StrEnum):
    """Says which bytes a collective's message size counts, as in the OSU benchmarks."""

    VECTOR = "vector"  # The whole vector of a rank.
    BLOCK = "block"  # The block that a rank contributes or receives.
    PEER = "peer"  # The block that a rank has for each other rank.
    MESSAGE = "message"  # A single message.
    NONE = "none"  # The collective carries no data; its message size is 0 bytes.


class Pattern(StrEnum):
    """Says which ranks send messages to which ranks."""

    ONE_TO_ALL = "one_to_all"
    ALL_TO_ONE = "all_to_one"
    ALL_TO_ALL = "all_to_all"
    PAIR = "pair"  # The first and the last rank send to each other.
    PAIRS = "pairs"  # Each rank of the first half and one of the second half; an odd last rank is idle.
    NEIGHBOURS = "neighbours"  # Ranks that are neighbours in a periodic grid.
    ONE_SIDED = "one_sided"  # The first rank reads or writes the memory of the last rank.
    NONBLOCKING = "nonblocking"  # All send to all, by a call that returns before the messages arrived.


class Lookup(StrEnum):
    """Says with which size Open MPI looks up a call in the rows of a rules file for ``coll_tuned``."""

    SIZE = "bytes per rank"  # The message size as ``Size`` defines it.
    TOTAL = "bytes of all blocks"  # The bytes of a block times the communicator size.
    ROOT = "bytes of all blocks, which not all ranks know"
    """Like ``TOTAL``, but ranks may compute different sizes.

    ``scatter`` uses the send count, which only the root has, and ``gather`` a count that a root with
    MPI_IN_PLACE does not have. With different sizes, ranks could run different algorithms and wait for each
    other forever."""
    NOTHING = "0"  # Always 0 bytes, or a number that does not depend on the count (``scan``, ``exscan``).


@dataclass(frozen=True, slots=True)
class OpenMpi:
    """Holds the facts about a collective in Open MPI."""

    id: int  # Number of the collective in rules files.
    algorithms: tuple[str, ...] = ()  # Algorithms of ``coll_tuned`` by id from 1; empty: there is no choice.
    lookup: Lookup = Lookup.NOTHING  # The size with which calls are looked up in rules files.
    own_names: Mapping[str, str] = field(default_factory=dict)
    """Maps an algorithm to its name in Open MPI, if that differs from the name in ``algorithms``."""
    since: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Maps an algorithm to the first version (major, minor) that has it, unless all versions have it."""
    han: bool = False  # Whether ``coll_han`` has dynamic rules for the collective.
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Maps an algorithm to its name in Open MPI 6, if that differs from the name in 5.0.

    Open MPI 6 ignores a rule in JSON that has the old name."""


@dataclass(frozen=True, slots=True)
class Mpich:
    """Holds the facts about a collective in MPICH."""

    algorithms: Mapping[str, tuple[str, ...]]
    """Maps each algorithm without parameters to its requirements, in the words of ``stacks.mpich``."""
    forcible: tuple[str, ...] = ()
    """Further algorithms, with parameters: a variable can select them, but the file of selection rules (the
    selection tree) would have to set their parameters."""
    size: str = "avg_msg_size"
    """Name of the only condition on message sizes that a selection tree may have; MPICH aborts at any other.

    Empty: a selection tree cannot depend on the message size."""


@dataclass(frozen=True, slots=True)
class Collective:
    """Describes a collective, or a pattern of messages that is tuned like a collective."""

    name: str  # MPI's name without the prefix, in lower case.
    size: Size  # What the message size means.
    pattern: Pattern  # Which ranks send to which ranks.
    aliases: tuple[str, ...] = ()  # Names in benchmarks and profilers, in lower case, without ``mpi_``.
    measured: bool = True  # Whether the probe can measure this collective.
    costs: str = ""  # Name of the formulas in ``recommend.priors`` for the algorithms' times; empty: none.
    openmpi: OpenMpi | None = None  # Facts about Open MPI; None: it has no algorithms for this collective.
    mpich: Mpich | None = None  # Facts about MPICH; None: it has no algorithms for this collective.
    intel: tuple[str, ...] = ()  # Algorithms of Intel MPI, by id from 1.
    composed: str = ""
    """Combinations of other collectives with the same result, separated by blanks.

    In a combination ``/p`` and ``*p`` divide and multiply the message size by the number of ranks p."""
    sums: bool = False  # Whether the collective reduces data; its result can then depend on operands' order.
    overlaps: str = ""
    """Name of the pattern that has the same messages but no computation that overlaps them; empty: this
    pattern itself contains no computation."""

    @property
    def collective(self) -> bool:
        """Whether the entry is a blocking collective, for which rules can choose an algorithm."""
        return self.pattern in (Pattern.ONE_TO_ALL, Pattern.ALL_TO_ONE, Pattern.ALL_TO_ALL)

    @property
    def two_sided(self) -> bool:
        """Whether the entry consists only of messages that one rank sends and another receives."""
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
"""All collectives and patterns of messages by name."""

MEASURED: tuple[str, ...] = tuple(c.name for c in COLLECTIVES.values() if c.measured)
"""Names of collectives and patterns that the probe can measure; the probe's C code numbers them in this
order."""

PATTERNS: tuple[str, ...] = tuple(name for name in MEASURED if not COLLECTIVES[name].collective)
"""Names of measured patterns that are no collectives.

No rule chooses an algorithm for these patterns; only settings of the whole job affect them."""

_BLOCKING = [c for c in COLLECTIVES.values() if c.pattern is not Pattern.NONBLOCKING]
_CALLED = {alias: c.name for c in _BLOCKING for alias in (c.name, *c.aliases)}


def called(title: str) -> str:
    """Return the name of the collective that a benchmark or profiler calls ``title``; empty if unknown."""
    return _CALLED.get(title.lower().removeprefix("mpi_"), "")


def later(name: str, how: str) -> str:
    """Return MPI's name of a variant of a collective: ``iNAME`` if ``how`` is `non-blocking`.

    If ``how`` is `persistent`, the result is ``NAME_init``. For any other ``how``, and for patterns that are
    no collectives, the result is the name itself.
    """
    if name in COLLECTIVES and not COLLECTIVES[name].collective:
        return name
    return {"non-blocking": f"i{name}", "persistent": f"{name}_init"}.get(how, name)
