"""Names in Open MPI's component ``coll_tuned``, and its rules file as text, for launches and exports.

The names are in ``collectives``; everything else is tested against an installed Open MPI 5.0. Notation: an
*algorithm* is one of the names that ``ompi_info`` lists, or ``default``; a *threshold* is the number of bytes
that a row of a rules file is compared with, which is not always the message size that a benchmark counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass

from autotune.collectives import COLLECTIVES, Lookup, OpenMpi
from autotune.errors import UserError, allowed
from autotune.history.lookup import last_up_to, table_starts
from autotune.history.objectives import Slot
from autotune.history.trial import Rule
from autotune.space.parameter import Point, size_in_bytes

DEFAULT = "default"  # Name that leaves the choice of the algorithm to Open MPI; its id is 0.

_OPEN_MPI: Mapping[str, OpenMpi] = {c.name: c.openmpi for c in COLLECTIVES.values() if c.openmpi}

COLLECTIVE_IDS: Mapping[str, int] = {name: openmpi.id for name, openmpi in _OPEN_MPI.items()}
"""Maps a collective to its id; ``coll_tuned`` offers no choice for a collective that is not in
``ALGORITHMS``."""

ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    name: (DEFAULT, *openmpi.algorithms) for name, openmpi in _OPEN_MPI.items() if openmpi.algorithms
}
"""Maps a collective to its algorithms, indexed by their ids. Old versions lack some algorithms: see
``algorithms``."""

ONE_ROW = frozenset(name for name in ALGORITHMS if _OPEN_MPI[name].lookup in (Lookup.NOTHING, Lookup.ROOT))
"""Collectives whose rules must be the same for all message sizes: see ``Lookup``."""

HAN = frozenset(name for name, openmpi in _OPEN_MPI.items() if openmpi.han)
"""Collectives for which ``coll_han`` has dynamic rules."""

PAIRS_ONLY = "two_proc"
"""The algorithm for two ranks; on more ranks it fails with MPI_ERR_UNSUPPORTED_OPERATION."""

CHAIN_FANOUT = 4
"""Fan-out that a rules file gives to ``chain``: Open MPI's own for a forced chain
(``coll_tuned_init_chain_fanout``). With a fan-out of 0 the chain would be a pipeline."""


SEGMENTED: Mapping[str, frozenset[str]] = {
    "allreduce": frozenset({"segmented_ring"}),
    "bcast": frozenset({"chain", "pipeline", "split_binary", "binary", "binomial", "knomial"}),
    "gather": frozenset({"linear_sync"}),
    "reduce": frozenset({"chain", "pipeline", "binary", "binomial", "in_order_binary", "knomial"}),
}
"""Maps a collective to its algorithms that cut messages into segments; others ignore a segment size."""


@dataclass(frozen=True, slots=True)
class TunedRow:
    """Holds one row of a rules file."""

    threshold_bytes: int  # Bytes from which the row applies, as the function ``threshold_bytes`` counts them.
    algorithm: int  # Id of the algorithm; 0: Open MPI decides.
    fanout: int = 0  # Fan-out of a chain; 0 for other algorithms.
    segment_bytes: int = 0  # Bytes of a segment; 0: no segmentation.


_UNTOUCHED = (TunedRow(0, 0),)  # A table that leaves every choice to Open MPI.

Tables = Mapping[str, Mapping[int, tuple[TunedRow, ...]]]  # Collective → communicator size → rows, ascending.

NO_ALGORITHM = 99
"""Id that no algorithm has in any version; Open MPI refuses a call for which a rule names this id."""


def algorithm_id(collective: str, name: str | int) -> int:
    """Return the id of an algorithm, given by this project's name, by Open MPI's name, or as the id itself.

    Raises:
        UserError: ``coll_tuned`` offers no choice for the collective, or has no such algorithm.
    """
    names = algorithms(collective)
    if isinstance(name, int) or name.isdecimal():
        if int(name) < len(names):
            return int(name)
    else:
        plain_name = _plain(name)
        for i, candidate in enumerate(names):
            library_names = (
                {_plain(enumerator(collective, i, version)) for version in ((5, 0), (6, 0))} if i else set()
            )
            if plain_name == _plain(candidate) or plain_name in library_names:
                return i
        if plain_name in ("", "ignore", "auto"):
            return 0
    raise UserError(f"coll_tuned has no {collective} algorithm {name!r}", allowed(name, names))


def algorithms(collective: str, version: tuple[int, int] | None = None) -> tuple[str, ...]:
    """Return the names of a collective's algorithms in the order of their ids, ``default`` first.

    ``version`` is Open MPI's (major, minor): newer algorithms are left out. None: no algorithm is left out.

    Raises:
        UserError: ``coll_tuned`` offers no choice for this collective.
    """
    if collective not in ALGORITHMS:
        raise UserError(
            f"coll_tuned offers no algorithms for {collective!r}", allowed(collective, ALGORITHMS)
        )
    names = ALGORITHMS[collective]
    if version is None:
        return names
    since = _OPEN_MPI[collective].since
    return tuple(name for name in names if since.get(name, (0, 0)) <= version)


def enumerator(collective: str, algorithm: int, version: tuple[int, int] = (5, 0)) -> str:
    """Return Open MPI's name for an algorithm id, as ``ompi_info`` and rules files in JSON spell it."""
    if algorithm == 0:
        return "ignore"
    name, openmpi = algorithms(collective)[algorithm], _OPEN_MPI[collective]
    return (openmpi.renamed if version >= (6, 0) else {}).get(name) or openmpi.own_names.get(name, name)


def segments(collective: str, algorithm: int) -> bool:
    """Whether an algorithm, given by its id, cuts messages into segments; true also for an unknown id."""
    names = ALGORITHMS.get(collective, ())
    return algorithm >= len(names) or names[algorithm] in SEGMENTED.get(collective, ())


def one_row(collective: str) -> str:
    """Return a sentence on why the rules of a collective in ``ONE_ROW`` must not differ by message size."""
    if collective in ("scatter", "gather"):
        return f"not all ranks know the size of a {collective}: they may reach different rows and deadlock"
    return f"{collective} is not looked up by its message size"


def threshold_bytes(collective: str, message_bytes: int, comm_size: int) -> int:
    """Return the bytes that Open MPI compares with the rows of a rules file for a call; see ``Lookup``.

    Raises:
        UserError: ``coll_tuned`` offers no choice for this collective.
    """
    algorithms(collective)
    lookup = _OPEN_MPI[collective].lookup
    if lookup in (Lookup.TOTAL, Lookup.ROOT):
        return message_bytes * comm_size
    return message_bytes if lookup is Lookup.SIZE else 0


def table(rules: Iterable[Rule]) -> dict[str, dict[int, tuple[TunedRow, ...]]]:
    """Return the rules as collective → communicator size → rows, in Open MPI's own units.

    A collective for which Open MPI decides every call is left out. Communicator sizes to which no rules apply
    (see ``history.lookup``) get a row with id 0, with which Open MPI decides. Tables with an algorithm for
    two ranks apply to two ranks only. Open MPI also decides for a collective of ``ONE_ROW`` whose rules
    differ by size.

    Raises:
        UserError: ``coll_tuned`` cannot express a collective, an algorithm or a value of the rules.
    """
    tables: dict[str, dict[int, list[TunedRow]]] = {}
    for rule in sorted(rules, key=lambda r: (COLLECTIVE_IDS.get(r.collective, 99), r.comm_size, r.min_bytes)):
        rows = tables.setdefault(rule.collective, {}).setdefault(rule.comm_size, [])
        row = _row(rule)
        if not rows or astuple(row)[1:] != astuple(rows[-1])[1:]:
            rows.append(row)
    result = {}
    for collective, by_size in tables.items():
        if collective in ONE_ROW:
            by_size = {n: rows if len(rows) == 1 else list(_UNTOUCHED) for n, rows in by_size.items()}
        for rows in by_size.values():
            if rows[0].threshold_bytes:
                rows.insert(0, *_UNTOUCHED)
        if any(row.algorithm for rows in by_size.values() for row in rows):
            result[collective] = _fenced(collective, {n: tuple(rows) for n, rows in by_size.items()})
    return result


def row_at(tables: Tables, slot: Slot) -> TunedRow:
    """Return the row that applies to a call (collective, ranks, bytes); if none applies, a row with id 0."""
    collective, comm_size, size = slot
    rows = last_up_to(tables.get(collective, {}), comm_size) or _UNTOUCHED
    threshold = threshold_bytes(collective, size, comm_size) if collective in tables else 0
    return last_up_to({row.threshold_bytes: row for row in rows}, threshold) or rows[0]


def rules_file(rules: Iterable[Rule], comments: Sequence[str] = ()) -> str:
    """Return the rules as a classic rules file for Open MPI 4.x and 5.x; empty if they choose no algorithm.

    The file begins with ``comments``, given without the ``#``.

    Raises:
        UserError: ``coll_tuned`` cannot express a collective, an algorithm or a value of the rules.
    """
    tables = table(rules)
    return text(tables, comments) if tables else ""


def refusing(tables: Tables, spared_bytes: int) -> Tables:
    """Return the tables with ``NO_ALGORITHM`` in each row for messages of ``spared_bytes`` or more.

    Open MPI then refuses calls with such messages. Rows that leave the choice to Open MPI stay as they are.
    """

    def with_refusals(collective: str, comm_size: int, rows: Sequence[TunedRow]) -> tuple[TunedRow, ...]:
        bound = threshold_bytes(collective, spared_bytes, comm_size)
        reached_row = row_at(tables, (collective, comm_size, spared_bytes))
        refused = (
            TunedRow(max(row.threshold_bytes, bound), row.algorithm and NO_ALGORITHM, *astuple(row)[2:])
            for row in rows
            if row is reached_row or row.threshold_bytes > bound
        )
        return (*(row for row in rows if row.threshold_bytes < bound), *refused)

    return {
        collective: {size: with_refusals(collective, size, rows) for size, rows in by_size.items()}
        for collective, by_size in tables.items()
    }


def text(tables: Tables, comments: Sequence[str] = ()) -> str:
    """Return tables as a classic rules file that begins with ``comments``, given without the ``#``."""
    lines = [f"# {line}".rstrip() for line in comments]
    lines.append(f"{len(tables)}  # collectives")
    for collective, by_size in tables.items():
        lines.append(f"{COLLECTIVE_IDS[collective]}  # {collective}")
        lines.append(f"{len(by_size)}  # communicator sizes")
        lookup = _OPEN_MPI[collective].lookup
        unit = Lookup.NOTHING.value if lookup is Lookup.ROOT else lookup.value
        for comm_size, rows in by_size.items():
            lines.append(f"{comm_size}  # ranks and more")
            lines.append(f"{len(rows)}  # rows: {unit}, algorithm, fan-out, segment bytes")
            for row in rows:
                name = dict(enumerate(algorithms(collective))).get(row.algorithm, "refused")
                lines.append(
                    f"{row.threshold_bytes} {row.algorithm} {row.fanout} {row.segment_bytes}  # {name}"
                )
    return "\n".join(lines) + "\n"


def _row(rule: Rule) -> TunedRow:
    words = {"algorithm", "segsize", "fanout"}
    for name in rule.choice:
        if name not in words and (name, rule.choice[name]) != (
            "component",
            "tuned",
        ):  # component=tuned is written to the rules file of coll_han
            raise UserError(
                f"coll_tuned rules cannot say {name}={rule.choice[name]!r}", allowed(name, sorted(words))
            )
    algorithm = rule.choice.get("algorithm", DEFAULT)
    number = algorithm_id(rule.collective, algorithm if isinstance(algorithm, int) else str(algorithm))
    threshold = threshold_bytes(rule.collective, rule.min_bytes, rule.comm_size)
    if number == 0:
        return TunedRow(threshold, 0)
    chain = algorithms(rule.collective)[number] == "chain"
    fanout = _number(rule.choice, "fanout") or (CHAIN_FANOUT if chain else 0)
    return TunedRow(threshold, number, fanout, _number(rule.choice, "segsize"))


def _number(choice: Point, name: str) -> int:
    value = choice.get(name, 0)
    number = 0.0 if value in ("", DEFAULT, "auto") else size_in_bytes(value)
    if number is None or number != int(number) or number < 0:
        raise UserError(
            f"{name}={value!r} in a rule is not a whole number of bytes", "such as 0, 65536 or 64k"
        )
    return int(number)


def _fenced(collective: str, by_size: Mapping[int, tuple[TunedRow, ...]]) -> dict[int, tuple[TunedRow, ...]]:
    """Return the tables of one collective, with a table of id 0 for communicator sizes that have none."""
    names = algorithms(collective)
    pairs = {n for n, rows in by_size.items() if PAIRS_ONLY in {names[row.algorithm] for row in rows}}
    fenced: dict[int, tuple[TunedRow, ...]] = {}
    for start, owner in table_starts(sorted(by_size), pairs).items():
        rows = by_size[owner] if owner else _UNTOUCHED
        if not fenced or rows != next(reversed(fenced.values())):
            fenced[start] = rows
    return fenced


def _plain(name: str) -> str:
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    return "nonoverlapping" if plain == "non_overlapping" else plain
