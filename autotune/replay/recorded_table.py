"""Recorded campaigns: a table of measurements as a space and as launches (steps 2 and 5 of the flow).

A table has the columns ``message_bytes`` and ``latency_us``, optionally ``run``, ``comm_size`` and
``is_default``; every other column is a parameter, and an empty field says that it is not active in that row.
The space is read off the table, and points that are not in it do not exist.

Notation: a *run* is one recorded launch of a job-wide point: (cell) → its times.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import TableError, allowed
from autotune.history.trial import Cell
from autotune.importers.table import LEAST_US, Row, named_in, operation, read_rows, says_yes
from autotune.space import Level, Parameter, Point, Space, Value, size_in_bytes

_NAMED = "--collective NAME, or replay.collective=NAME of a campaign"
UNKNOWN = "not recorded"
"""The stack's own value of each parameter, where no row is marked as its default: every value changes it."""

REQUIRED = ("message_bytes", "latency_us")
OPTIONAL = ("run", "comm_size", "is_default")

Run = Mapping[Cell, tuple[float, ...]]
"""One recorded launch: the times of each cell in seconds; a cell that failed is absent."""


_OF_IMPORT = frozenset({"source", "line", "benchmark", "version", "collective"})
"""Columns by which a table of ``import`` is known."""
_FIGURES = frozenset({"min_us", "max_us", "bandwidth_MBps"})
"""Columns that say how a launch went."""
_NO_PARAMETERS = _OF_IMPORT | _FIGURES | {"iterations"}
_UNNAMED = re.compile(r"(?:Unnamed: \d+)?")
"""The index of a data frame, as CSV files have it."""


@dataclass(frozen=True)
class RecordedTable:
    """A recorded campaign."""

    space: Space
    """Points that were tried, by name of the table; ``listed`` holds the job-wide points and the default."""
    collective: str  # What was measured.
    sizes_bytes: tuple[int, ...]  # All message sizes, ascending.
    comm_sizes: tuple[int, ...]  # All communicator sizes, ascending; (0,) where the table does not say.
    runs: Mapping[Point, tuple[Run, ...]]
    """The recorded launches of each job-wide point; none where all of them failed."""
    default: tuple[Point, Point] | None
    """Job-wide point and call-level choice of the rows marked ``is_default``, if any are."""
    untouched: tuple[Run, ...] = ()
    """Launches of the stack's own defaults, where they were recorded beside those of the points."""

    @property
    def knows_defaults(self) -> bool:
        """Whether it says how the stack's own defaults run."""
        return self.default is not None or bool(self.untouched)


def read_recorded(
    path: Path, call_level: Collection[str] = (), per_job: Collection[str] = (), collective: str | None = None
) -> RecordedTable:
    """The recorded campaign in a CSV or Parquet file.

    Parameters of ``call_level`` were swept inside each launch; those of ``per_job`` a deployed job must fix,
    all others can be chosen per message size. The collective is that of a column of this name, or read off
    the names of file and columns, unless it is given. ``*.parquet`` is read as Parquet, all else as CSV.

    Raises:
        TableError: a file that cannot be read, missing columns, a field that is not what its column needs
            (with row and column), two defaults, nothing measured, an unknown parameter, or nothing says which
            collective was measured.
    """
    columns, rows = read_rows(path, f"needed: {', '.join(REQUIRED)} and parameters")
    return recorded(path.name, columns, rows, call_level, per_job, collective)


def recorded(
    name: str,
    columns: Sequence[str],
    rows: Sequence[Row],
    call_level: Collection[str] = (),
    per_job: Collection[str] = (),
    collective: str | None = None,
) -> RecordedTable:
    """The recorded campaign in the rows of a table; see ``read_recorded``."""
    if "collective" in columns:
        columns, rows, collective = _imported(name, columns, rows, collective)
    missing = [c for c in REQUIRED if c not in columns]
    if missing:
        raise TableError(f"{name}: no column {', '.join(missing)}", f"its columns are: {', '.join(columns)}")
    if {"trial", "phase", "status"} <= set(columns):
        raise TableError(f"{name} is the history of a campaign", "replay.table=DIR replays its directory")
    others = [c for c in columns if c not in (*REQUIRED, *OPTIONAL, *_FIGURES) and not _UNNAMED.fullmatch(c)]
    named = [c for c in others if any(row[c] for row in rows)]
    for wanted in (*call_level, *per_job):
        if wanted not in named:
            raise TableError(f"{name}: no parameter {wanted!r}", allowed(wanted, named))
    both = set(call_level) & set(per_job)
    if both:
        raise TableError(
            f"{name}: {', '.join(sorted(both))} cannot be both in call_level and in per_job",
            "what is swept inside a launch can be chosen per size",
        )
    if not any(row["latency_us"] for row in rows):
        raise TableError(f"{name}: no row has a latency_us", "there is nothing to replay: every run failed")
    kinds = {c: _kind(rows, c) for c in named}
    points = [Point.of({c: kinds[c](row[c]) for c in named if row[c]}) for row in rows]
    default = _default(name, rows, points)
    space = _space(name, named, points, default, call_level, per_job)
    job = {p.name for p in space.job}
    collective = collective or next(filter(None, map(named_in, (name, *named))), "")
    if not named_in(collective.rstrip("vw")):  # gatherv and alltoallw can be recorded, if not measured here
        wrong = f"unknown collective {collective!r}" if collective else "nothing says what was measured"
        where = f"{_NAMED}, a column collective, or in the name of the file"
        raise TableError(f"{name}: {wrong}", f"name it as MPI does, without MPI_: {where}")
    sized = any(row.get("comm_size") for row in rows)
    measured: dict[Point, dict[str, dict[Cell, list[float]]]] = {}
    for number, (row, point) in enumerate(zip(rows, points, strict=True), start=2):
        runs = measured.setdefault(point.restricted(job), {}).setdefault(row.get("run", ""), {})
        comm_size = _whole(name, number, row, "comm_size", 1) if row.get("comm_size") else 0
        if sized and row["latency_us"] and not comm_size:
            raise TableError(f"{name}, row {number}: no comm_size, which other rows have", "fill it in")
        choice = point.restricted({p.name for p in space.call})
        cell = Cell(collective, comm_size, _whole(name, number, row, "message_bytes", 0), choice)
        if row["latency_us"]:
            runs.setdefault(cell, []).append(_latency_us(name, number, row) * 1e-6)
    cells = {cell for by_run in measured.values() for run in by_run.values() for cell in run}
    return RecordedTable(
        space,
        collective,
        tuple(sorted({cell.message_bytes for cell in cells})),
        tuple(sorted({cell.comm_size for cell in cells})),
        {point: _launches(by_run.values()) for point, by_run in measured.items()},
        None if default is None else (default.restricted(job), default.restricted(set(named) - job)),
    )


def _imported(
    name: str, columns: Sequence[str], rows: Sequence[Row], collective: str | None
) -> tuple[Sequence[str], Sequence[Row], str | None]:
    """A table with a column of collectives as one of records, of one collective.

    Of one that ``import`` wrote each file is a run; what says how a row was measured is no parameter, nor is
    a label that all rows share.
    """
    own = {text: operation(text) for text in {r["collective"] for r in rows}}
    rows = [{**row, "collective": own[row["collective"]]} for row in rows]
    known = sorted({row["collective"] for row in rows} - {""})
    if len(known) > 1 and collective not in known:
        raise TableError(f"{name} holds {', '.join(known)}", f"name one of them: {_NAMED}")
    collective = collective or next(iter(known), None)
    kept = [row for row in rows if row["collective"] in ("", collective)]
    if not set(columns) >= _OF_IMPORT:
        return [c for c in columns if c != "collective"], kept, collective
    varied = [c for c in columns if len({row[c] for row in kept}) > 1 or c in (*REQUIRED, *OPTIONAL)]
    named = [c for c in varied if c not in _NO_PARAMETERS]
    runs = "run" if "run" in columns else "source"
    return named, [{**{c: row[c] for c in named}, "run": row[runs]} for row in kept], collective


def _launches(runs: Iterable[Mapping[Cell, list[float]]]) -> tuple[Run, ...]:
    """The runs of one point as launches.

    Those that lack a cell which another run has are left out; where every run lacks one (each size was a job
    of its own), the k-th time of each cell makes up the k-th launch.
    """
    recorded_runs = [run for run in runs if run]
    cells = {cell: None for run in recorded_runs for cell in run}
    whole = [run for run in recorded_runs if len(run) == len(cells)]
    if whole or not cells:
        return tuple({cell: tuple(run[cell]) for cell in cells} for run in whole)
    times = {cell: [run[cell] for run in recorded_runs if cell in run] for cell in cells}
    n = min(len(seen) for seen in times.values())
    return tuple({cell: tuple(times[cell][k]) for cell in cells} for k in range(n))


def _space(
    name: str,
    named: Sequence[str],
    points: Sequence[Point],
    default: Point | None,
    call_level: Collection[str],
    per_job: Collection[str],
) -> Space:
    always = [c for c in named if all(c in p for p in points)]
    parameters: list[Parameter] = []
    for column in [*always, *(c for c in named if c not in always)]:
        seen = list(dict.fromkeys(p[column] for p in points if column in p))
        numbers = {v: n for v in seen if (n := size_in_bytes(v)) is not None}
        # An algorithm's number is a name; everything else that reads like a size or a count lies on a scale.
        ordered = len(numbers) > 1 and "algorithm" not in column.lower()
        if ordered:
            seen.sort(key=lambda v: numbers.get(v, -math.inf))
        usual = default.get(column) if default is not None else None
        parameters.append(
            Parameter(
                column,
                tuple(seen),
                usual if usual is not None else seen[0],
                held_from=None if default is not None else UNKNOWN,
                level=Level.CALL if column in call_level else Level.LAUNCH,
                per_size=column not in per_job,
                ordered=ordered,
                when={} if column in always else _condition(column, parameters, points),
            )
        )
    job = {p.name for p in parameters if p.level is not Level.CALL}
    usual_point = default if default is not None else points[0]
    listed = dict.fromkeys(p.restricted(job) for p in [usual_point, *points])
    return Space(name, tuple(parameters), stack="recorded", listed=tuple(listed))


def _condition(
    column: str, earlier: Sequence[Parameter], points: Sequence[Point]
) -> dict[str, tuple[Value, ...]]:
    """Values of an earlier parameter that make a column active: of the parameter that explains it best."""
    best: dict[str, tuple[Value, ...]] = {}
    fewest = len(points)
    for parent in earlier:
        having = [p for p in points if column in p]
        wanted = tuple(v for v in parent.values if any(p.get(parent.name) == v for p in having))
        wrong = sum(p.get(parent.name) in wanted and column not in p for p in points)
        if all(parent.name in p for p in points if column in p) and wrong < fewest:
            best, fewest = {parent.name: wanted}, wrong
    return best


def _default(name: str, rows: Sequence[Row], points: Sequence[Point]) -> Point | None:
    found: dict[Point, int] = {}
    for number, (row, point) in enumerate(zip(rows, points, strict=True), start=2):
        if (so := says_yes(row.get("is_default", ""))) is None:
            where = f"{name}, row {number}, column is_default"
            raise TableError(f"{where}: {row['is_default']!r} is neither yes nor no", "write 1 or 0")
        if so:
            found.setdefault(point, number)
    if len(found) > 1:
        (first, row_1), (second, row_2), *_ = found.items()
        raise TableError(
            f"{name}: is_default marks two configurations: row {row_1} ({first}) and row {row_2} ({second})",
            "mark the rows of one configuration",
        )
    return next(iter(found), None)


def _kind(rows: Sequence[Row], column: str) -> Callable[[str], Value]:
    """How to read the fields of a parameter's column: whole numbers, numbers or text."""
    try:
        numbers = [float(row[column]) for row in rows if row[column]]
    except ValueError:
        return str
    if not all(map(math.isfinite, numbers)):
        return str
    # pandas writes whole numbers as 4096.0 where a column has gaps.
    return (lambda text: int(float(text))) if all(n.is_integer() for n in numbers) else float


def _latency_us(name: str, number: int, row: Row) -> float:
    latency_us = _number(name, number, row, "latency_us")
    where = f"{name}, row {number}, column latency_us: {row['latency_us']}"
    if latency_us <= 0:
        raise TableError(f"{where} is not above 0")
    if latency_us < LEAST_US:
        raise TableError(f"{where} µs is less than any call takes", "are these seconds?")
    return latency_us


def _whole(name: str, number: int, row: Row, column: str, low: int) -> int:
    value = _number(name, number, row, column)
    if value < low or not value.is_integer():
        where = f"{name}, row {number}, column {column}"
        raise TableError(f"{where}: {row[column]!r} is not a whole number from {low} on")
    return int(value)


def _number(name: str, number: int, row: Row, column: str) -> float:
    try:
        value = float(row[column])
        if math.isfinite(value):
            return value
    except ValueError:
        pass
    raise TableError(f"{name}, row {number}, column {column}: {row[column]!r} is not a number")
