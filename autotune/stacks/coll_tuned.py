"""What Open MPI's component ``coll_tuned`` calls things, and its rules file as text (used by steps 5 and 12).

Everything here was read in the sources of 4.1.8, 5.0.10 and the main branch (6.x) and is checked against a
real 5.0 in the tests. Notation: an *algorithm* is one of the names that ``ompi_info`` lists, or ``default``;
a *threshold* is the number of bytes that a row of a rules file is compared with, which is not always the
message size that a benchmark counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autotune.errors import UserError, allowed
from autotune.history.trial import Rule
from autotune.recommend.comm_sizes import reaches
from autotune.space.parameter import Point, size_in_bytes

DEFAULT = "default"
"""Leave the choice to the stack: id 0."""

COLLECTIVE_IDS: Mapping[str, int] = {
    "allgather": 0,
    "allgatherv": 1,
    "allreduce": 2,
    "alltoall": 3,
    "alltoallv": 4,
    "alltoallw": 5,
    "barrier": 6,
    "bcast": 7,
    "exscan": 8,
    "gather": 9,
    "gatherv": 10,
    "reduce": 11,
    "reduce_scatter": 12,
    "reduce_scatter_block": 13,
    "scan": 14,
    "scatter": 15,
    "scatterv": 16,
}
"""The ids of all collectives; those that are not in ``ALGORITHMS`` have no choice in ``coll_tuned``."""

ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "allgather": (
        DEFAULT,
        "linear",
        "bruck",
        "recursive_doubling",
        "ring",
        "neighbor",
        "two_proc",
        "sparbit",
        "direct",
    ),
    "allgatherv": (DEFAULT, "linear", "bruck", "ring", "neighbor", "two_proc", "sparbit"),
    "allreduce": (
        DEFAULT,
        "linear",
        "nonoverlapping",
        "recursive_doubling",
        "ring",
        "segmented_ring",
        "rabenseifner",
        "allgather_reduce",
    ),
    "alltoall": (DEFAULT, "linear", "pairwise", "modified_bruck", "linear_sync", "two_proc"),
    "alltoallv": (DEFAULT, "linear", "pairwise"),
    "barrier": (DEFAULT, "linear", "double_ring", "recursive_doubling", "bruck", "two_proc", "tree"),
    "bcast": (
        DEFAULT,
        "linear",
        "chain",
        "pipeline",
        "split_binary",
        "binary",
        "binomial",
        "knomial",
        "scatter_allgather",
        "scatter_allgather_ring",
    ),
    "exscan": (DEFAULT, "linear", "recursive_doubling"),
    "gather": (DEFAULT, "linear", "binomial", "linear_sync"),
    "reduce": (
        DEFAULT,
        "linear",
        "chain",
        "pipeline",
        "binary",
        "binomial",
        "in_order_binary",
        "rabenseifner",
        "knomial",
    ),
    "reduce_scatter": (DEFAULT, "nonoverlapping", "recursive_halving", "ring", "butterfly"),
    "reduce_scatter_block": (DEFAULT, "linear", "recursive_doubling", "recursive_halving", "butterfly"),
    "scan": (DEFAULT, "linear", "recursive_doubling"),
    "scatter": (DEFAULT, "linear", "binomial", "linear_nb"),
}
"""The algorithms of each collective; the place in the tuple is the id. Some are newer, see ``SINCE``."""

SINCE: Mapping[tuple[str, str], tuple[int, int]] = {
    ("allgather", "sparbit"): (5, 0),
    ("allgatherv", "sparbit"): (5, 0),
    ("allgather", "direct"): (6, 0),
    ("allreduce", "allgather_reduce"): (6, 0),
    ("reduce", "knomial"): (6, 0),
}
"""First version (major, minor) of the algorithms that have not always been there."""

_ENUMERATORS: Mapping[tuple[str, int], str] = {
    ("allgather", 8): "direct-messaging",
    ("allgatherv", 1): "default",
    ("allreduce", 1): "basic_linear",
    ("alltoallv", 1): "basic_linear",
    ("bcast", 1): "basic_linear",
    ("bcast", 4): "split_binary_tree",
    ("bcast", 5): "binary_tree",
    ("gather", 1): "basic_linear",
    ("reduce", 6): "in-order_binary",
    ("reduce_scatter", 1): "non-overlapping",
    ("reduce_scatter_block", 1): "basic_linear",
    ("scatter", 1): "basic_linear",
}
"""What Open MPI itself calls an algorithm, where its name is not ours."""

_PER_RANK = frozenset({"allreduce", "bcast", "reduce", "allgatherv"})
_TOTAL = frozenset({"allgather", "alltoall", "gather", "scatter", "reduce_scatter", "reduce_scatter_block"})

ONE_ROW = frozenset({"alltoallv", "barrier", "exscan", "gather", "scan", "scatter"})
"""Collectives for which a rules file must not tell message sizes apart.

``alltoallv`` and ``barrier`` always look up 0 bytes; ``scan`` and ``exscan`` look up the size of the datatype
times the communicator size and forget the count. ``scatter`` looks up the send count, which only the root
has, and ``gather`` too, which a root with MPI_IN_PLACE has not: the ranks would reach different rows, run
different algorithms, and wait for each other for ever.
"""

PAIRS_ONLY = "two_proc"
"""The algorithm that fails with MPI_ERR_UNSUPPORTED_OPERATION on any other number of ranks than two."""

CHAIN_FANOUT = 4
"""What a forced ``chain`` uses (``coll_tuned_init_chain_fanout``); a file that says 0 gets a pipeline."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a rules file."""

    threshold_bytes: int
    """From this many bytes on, in the unit of the collective (see ``threshold_bytes``)."""
    algorithm: int
    """Its id; 0: the stack decides."""
    fanout: int = 0
    """Of chains; 0 where it means nothing."""
    segment_bytes: int = 0
    """0: no segmentation."""


_UNTOUCHED = (Row(0, 0),)


def algorithm_id(collective: str, name: str | int) -> int:
    """The id of an algorithm, given by our name, by Open MPI's own, or as the id itself.

    Raises:
        UserError: no such collective in ``coll_tuned``, or no such algorithm.
    """
    names = algorithms(collective)
    if isinstance(name, int) or name.isdecimal():
        if int(name) < len(names):
            return int(name)
    else:
        wanted = _plain(name)
        for i, known in enumerate(names):
            if wanted == _plain(known) or (i and wanted == _plain(enumerator(collective, i))):
                return i
        if wanted in ("", "ignore", "auto"):
            return 0
    raise UserError(f"coll_tuned has no {collective} algorithm {name!r}", allowed(name, names))


def algorithms(collective: str, version: tuple[int, int] | None = None) -> tuple[str, ...]:
    """The names of a collective's algorithms in the order of their ids, ``default`` first.

    Args:
        collective: MPI's name without the prefix, lower case.
        version: Open MPI's (major, minor); None: all that any version has.

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
    return tuple(n for n in names if SINCE.get((collective, n), (0, 0)) <= version)


def enumerator(collective: str, algorithm: int) -> str:
    """What Open MPI calls an algorithm in ``ompi_info`` and in JSON rules."""
    if algorithm == 0:
        return "ignore"
    return _ENUMERATORS.get((collective, algorithm), algorithms(collective)[algorithm])


def threshold_bytes(collective: str, message_bytes: int, comm_size: int) -> int:
    """The number that a rules file compares when the benchmark counts ``message_bytes``.

    Per-rank bytes for allreduce, bcast, reduce and allgatherv; the block times the communicator size for
    allgather, alltoall, gather, scatter and reduce_scatter(_block); 0 where the size is not looked up.

    Raises:
        UserError: ``coll_tuned`` offers no choice for this collective.
    """
    algorithms(collective)
    if collective in _TOTAL:
        return message_bytes * comm_size
    return message_bytes if collective in _PER_RANK else 0


def table(rules: Iterable[Rule]) -> dict[str, dict[int, tuple[Row, ...]]]:
    """The rules in Open MPI's own units; collectives that are left to the stack altogether are left out.

    Outside of the reach of all tables (see ``reach``) the stack decides, by a row with id 0. Tables with an
    algorithm for two ranks hold for two ranks only. A collective of ``ONE_ROW`` whose rules differ by size is
    left to the stack.

    Raises:
        UserError: a collective, an algorithm or a value that ``coll_tuned`` has no word for.
    """
    found: dict[str, dict[int, list[Row]]] = {}
    for rule in sorted(rules, key=lambda r: (COLLECTIVE_IDS.get(r.collective, 99), r.comm_size, r.min_bytes)):
        rows = found.setdefault(rule.collective, {}).setdefault(rule.comm_size, [])
        row = _row(rule)
        if not rows or (row.algorithm, row.fanout, row.segment_bytes) != (
            rows[-1].algorithm,
            rows[-1].fanout,
            rows[-1].segment_bytes,
        ):
            rows.append(row)
    result = {}
    for collective, by_size in found.items():
        if collective in ONE_ROW:
            by_size = {n: rows if len(rows) == 1 else list(_UNTOUCHED) for n, rows in by_size.items()}
        for rows in by_size.values():
            if rows[0].threshold_bytes:
                rows.insert(0, *_UNTOUCHED)
        if any(row.algorithm for rows in by_size.values() for row in rows):
            result[collective] = _fenced(collective, {n: tuple(rows) for n, rows in by_size.items()})
    return result


def rules_file(rules: Iterable[Rule], comments: Sequence[str] = ()) -> str:
    """The rules as a classic rules file for Open MPI 4.x and 5.x; empty where the stack decides everything.

    Args:
        rules: The per-size table, in any order.
        comments: Lines for the head of the file, without the ``#``.

    Raises:
        UserError: a collective, an algorithm or a value that ``coll_tuned`` has no word for.
    """
    tables = table(rules)
    if not tables:
        return ""
    lines = [f"# {line}".rstrip() for line in comments]
    lines.append(f"{len(tables)}  # collectives")
    for collective, by_size in tables.items():
        lines.append(f"{COLLECTIVE_IDS[collective]}  # {collective}")
        lines.append(f"{len(by_size)}  # communicator sizes")
        for comm_size, rows in by_size.items():
            lines.append(f"{comm_size}  # ranks and more")
            lines.append(f"{len(rows)}  # rows: {_unit(collective)}, algorithm, fan-out, segment bytes")
            for row in rows:
                name = algorithms(collective)[row.algorithm]
                lines.append(
                    f"{row.threshold_bytes} {row.algorithm} {row.fanout} {row.segment_bytes}  # {name}"
                )
    return "\n".join(lines) + "\n"


def _row(rule: Rule) -> Row:
    words = {"algorithm", "segsize", "fanout"}
    for name in rule.choice:
        if name not in words:
            raise UserError(
                f"coll_tuned rules cannot say {name}={rule.choice[name]!r}", allowed(name, sorted(words))
            )
    algorithm = rule.choice.get("algorithm", DEFAULT)
    number = algorithm_id(rule.collective, algorithm if isinstance(algorithm, int) else str(algorithm))
    threshold = threshold_bytes(rule.collective, rule.min_bytes, rule.comm_size)
    if number == 0:
        return Row(threshold, 0)
    chain = algorithms(rule.collective)[number] == "chain"
    fanout = _whole(rule.choice, "fanout") or (CHAIN_FANOUT if chain else 0)
    return Row(threshold, number, fanout, _whole(rule.choice, "segsize"))


def _whole(choice: Point, name: str) -> int:
    value = choice.get(name, 0)
    number = 0.0 if value in ("", DEFAULT, "auto") else size_in_bytes(value)
    if number is None or number != int(number) or number < 0:
        raise UserError(f"{name}={value!r} in a rule is no whole number of bytes", "such as 0, 65536 or 64k")
    return int(number)


def _fenced(collective: str, by_size: Mapping[int, tuple[Row, ...]]) -> dict[int, tuple[Row, ...]]:
    """The tables of one collective, with tables that leave it to the stack where nothing was measured."""
    pairs = {
        n
        for n, rows in by_size.items()
        for row in rows
        if algorithms(collective)[row.algorithm] == PAIRS_ONLY
    }
    fenced: dict[int, tuple[Row, ...]] = {}
    for start, owner in reaches(sorted(by_size), pairs):
        rows = by_size[owner] if owner else _UNTOUCHED
        if not fenced or rows != next(reversed(fenced.values())):
            fenced[start] = rows
    return fenced


def _unit(collective: str) -> str:
    if collective in ONE_ROW:
        return "0"
    return "bytes per rank" if collective in _PER_RANK else "bytes of all blocks"


def _plain(name: str) -> str:
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    return "nonoverlapping" if plain == "non_overlapping" else plain
