"""Reads a table of recorded measurements as a search space and as launches of its points.

A table has the columns ``message_bytes`` and ``latency_us``, optionally ``run``, ``comm_size`` and
``is_default``. Every other column is a parameter; an empty field means that the parameter is not active in
that row. The search space is derived from the table, and contains only the points of the table.

Notation: a *cell* is one collective, communicator size, message size and per-size choice; a *run* is one
recorded launch with the same job-wide parameters, and maps each cell to its times.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import TableError, allowed
from autotune.history.trial import Cell
from autotune.space import Level, Parameter, Point, Space, Value, size_in_bytes
from autotune.text_table import LEAST_US, Row, named_in, operation, read_rows, says_yes

_NAMED = "--collective NAME, or replay.collective=NAME of a campaign"
UNKNOWN = "not recorded"
"""Value that stands for the MPI's own default of each parameter if no row is marked as the default. Every
recorded value then counts as a change."""

REQUIRED = ("message_bytes", "latency_us")
OPTIONAL = ("run", "comm_size", "is_default")

Run = Mapping[Cell, tuple[float, ...]]
"""One recorded launch: the times in seconds of each cell (collective, communicator size, message size and
per-size choice); a cell that failed is absent."""


_IMPORT_COLUMNS = frozenset({"source", "line", "benchmark", "version", "collective"})
"""Columns of every table that ``import`` writes."""
_FIGURES = frozenset({"min_us", "max_us", "bandwidth_MBps"})
"""Columns with results of a launch; they are not parameters."""
_NO_PARAMETERS = _IMPORT_COLUMNS | _FIGURES | {"iterations"}
_UNNAMED = re.compile(r"(?:Unnamed: \d+)?")  # Column name of a data frame's index, as CSV files have it.


@dataclass(frozen=True)
class RecordedTable:
    """A recorded campaign."""

    space: Space
    """The search space of the recorded points, with the name of the table; ``listed`` contains the job-wide
    points and the default."""
    collective: str  # The collective that was measured.
    sizes_bytes: tuple[int, ...]  # All message sizes in bytes, ascending.
    comm_sizes: tuple[int, ...]  # All communicator sizes, ascending; (0,) if the table has none.
    runs: Mapping[Point, tuple[Run, ...]]
    """Maps each job-wide point to its recorded launches, an empty tuple if all of them failed."""
    default: tuple[Point, Point] | None
    """Job-wide point and per-size choice of the rows marked ``is_default``; None without such rows."""
    untouched: tuple[Run, ...] = ()
    """Launches with the MPI's own defaults, if such launches were recorded beside those of the points."""

    @property
    def knows_defaults(self) -> bool:
        """Whether the table has times that were measured with the MPI's own defaults."""
        return self.default is not None or bool(self.untouched)


def read_recorded(
    path: Path, call_level: Collection[str] = (), per_job: Collection[str] = (), collective: str | None = None
) -> RecordedTable:
    """Return the recorded campaign in a CSV or Parquet file.

    Args:
        path: The file; ``*.parquet`` is read as Parquet, any other name as CSV.
        call_level: Parameters whose values were all measured within each launch.
        per_job: Parameters that have one value in a job; all others can be chosen per message size.
        collective: The collective; None: the one in the column ``collective``, or the one that the name of
            the file or of a column contains.

    Raises:
        TableError: If the file cannot be read, columns are missing, a field does not fit its column (with row
            and column), there are two defaults, nothing was measured, a parameter is unknown, or no
            collective is named.
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
    """Return the recorded campaign in the rows of a table; for the arguments see ``read_recorded``."""
    if "collective" in columns:
        columns, rows, collective = _imported(name, columns, rows, collective)
    if missing := [c for c in REQUIRED if c not in columns]:
        raise TableError(f"{name}: no column {', '.join(missing)}", f"its columns are: {', '.join(columns)}")
    if {"trial", "phase", "status"} <= set(columns):
        raise TableError(f"{name} is the history of a campaign", "replay.table=DIR replays its directory")
    candidates = [
        c for c in columns if c not in (*REQUIRED, *OPTIONAL, *_FIGURES) and not _UNNAMED.fullmatch(c)
    ]
    parameters = [c for c in candidates if any(row[c] for row in rows)]
    for parameter in (*call_level, *per_job):
        if parameter not in parameters:
            raise TableError(f"{name}: no parameter {parameter!r}", allowed(parameter, parameters))
    if in_both := set(call_level) & set(per_job):
        raise TableError(
            f"{name}: {', '.join(sorted(in_both))} cannot be both in call_level and in per_job",
            "what is swept inside a launch can be chosen per size",
        )
    if not any(row["latency_us"] for row in rows):
        raise TableError(f"{name}: no row has a latency_us", "there is nothing to replay: every run failed")
    kinds = {c: _kind(rows, c) for c in parameters}
    points = [Point.of({c: kinds[c](row[c]) for c in parameters if row[c]}) for row in rows]
    default = _default(name, rows, points)
    space = _space(name, parameters, points, default, call_level, per_job)
    job = {p.name for p in space.job}
    collective = collective or next(filter(None, map(named_in, (name, *parameters))), "")
    # Tables can contain gatherv and alltoallw, although this project cannot measure them.
    if not named_in(collective.rstrip("vw")):
        problem = f"unknown collective {collective!r}" if collective else "nothing says what was measured"
        remedy = f"{_NAMED}, a column collective, or in the name of the file"
        raise TableError(f"{name}: {problem}", f"name it as MPI does, without MPI_: {remedy}")
    sized = any(row.get("comm_size") for row in rows)
    measured: dict[Point, dict[str, dict[Cell, list[float]]]] = {}
    for number, (row, point) in enumerate(zip(rows, points, strict=True), start=2):
        runs = measured.setdefault(point.restricted(job), {}).setdefault(row.get("run", ""), {})
        comm_size = _whole_number(name, number, row, "comm_size", 1) if row.get("comm_size") else 0
        if sized and row["latency_us"] and not comm_size:
            raise TableError(f"{name}, row {number}: no comm_size, which other rows have", "fill it in")
        choice = point.restricted({p.name for p in space.call})
        cell = Cell(collective, comm_size, _whole_number(name, number, row, "message_bytes", 0), choice)
        if row["latency_us"]:
            runs.setdefault(cell, []).append(_latency_us(name, number, row) * 1e-6)
    cells = {cell for by_run in measured.values() for run in by_run.values() for cell in run}
    return RecordedTable(
        space,
        collective,
        tuple(sorted({cell.message_bytes for cell in cells})),
        tuple(sorted({cell.comm_size for cell in cells})),
        {point: _launches(by_run.values()) for point, by_run in measured.items()},
        None if default is None else (default.restricted(job), default.restricted(set(parameters) - job)),
    )


def _imported(
    name: str, columns: Sequence[str], rows: Sequence[Row], collective: str | None
) -> tuple[Sequence[str], Sequence[Row], str | None]:
    """Select the rows of one collective in a table with a column ``collective``.

    Returns the columns, the selected rows and the collective. In a table that ``import`` wrote, the rows of
    each source file are a run if there is no column ``run``. Columns that describe how a row was measured are
    left out, and so are columns in which all rows have the same value.
    """
    operation_of = {text: operation(text) for text in {r["collective"] for r in rows}}
    rows = [{**row, "collective": operation_of[row["collective"]]} for row in rows]
    collectives = sorted({row["collective"] for row in rows} - {""})
    if len(collectives) > 1 and collective not in collectives:
        raise TableError(f"{name} holds {', '.join(collectives)}", f"name one of them: {_NAMED}")
    collective = collective or next(iter(collectives), None)
    selected = [row for row in rows if row["collective"] in ("", collective)]
    if not set(columns) >= _IMPORT_COLUMNS:
        return [c for c in columns if c != "collective"], selected, collective
    varied = [c for c in columns if len({row[c] for row in selected}) > 1 or c in (*REQUIRED, *OPTIONAL)]
    parameters = [c for c in varied if c not in _NO_PARAMETERS]
    runs = "run" if "run" in columns else "source"
    return parameters, [{**{c: row[c] for c in parameters}, "run": row[runs]} for row in selected], collective


def _launches(runs: Iterable[Mapping[Cell, list[float]]]) -> tuple[Run, ...]:
    """Return the runs of one point as launches, each with times of all cells.

    An incomplete run, which lacks times of a cell that another run has, is left out. If no run is complete
    (because each size was a job of its own), the k-th time of each cell is assigned to the k-th launch.
    """
    recorded_runs = [run for run in runs if run]
    cells = {cell: None for run in recorded_runs for cell in run}
    complete = [run for run in recorded_runs if len(run) == len(cells)]
    if complete or not cells:
        return tuple({cell: tuple(run[cell]) for cell in cells} for run in complete)
    times = {cell: [run[cell] for run in recorded_runs if cell in run] for cell in cells}
    n = min(len(cell_times) for cell_times in times.values())
    return tuple({cell: tuple(times[cell][k]) for cell in cells} for k in range(n))


def _space(
    name: str,
    columns: Sequence[str],
    points: Sequence[Point],
    default: Point | None,
    call_level: Collection[str],
    per_job: Collection[str],
) -> Space:
    always = [c for c in columns if all(c in p for p in points)]
    parameters: list[Parameter] = []
    for column in [*always, *(c for c in columns if c not in always)]:
        values = list(dict.fromkeys(p[column] for p in points if column in p))
        numbers = {v: n for v in values if (n := size_in_bytes(v)) is not None}
        # The number of an algorithm is a name; all other numbers, such as sizes and counts, are ordered.
        ordered = len(numbers) > 1 and "algorithm" not in column.lower()
        if ordered:
            values.sort(key=lambda v: numbers.get(v, -math.inf))
        usual = default.get(column) if default is not None else None
        parameters.append(
            Parameter(
                column,
                tuple(values),
                usual if usual is not None else values[0],
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
    """Return the condition under which a column is active, as an earlier parameter and the values it needs.

    The chosen parameter has the fewest rows in which the condition is met although the column is empty.
    """
    best: dict[str, tuple[Value, ...]] = {}
    fewest = len(points)
    for parent in earlier:
        having = [p for p in points if column in p]
        activating = tuple(v for v in parent.values if any(p.get(parent.name) == v for p in having))
        exceptions = sum(p.get(parent.name) in activating and column not in p for p in points)
        if all(parent.name in p for p in points if column in p) and exceptions < fewest:
            best, fewest = {parent.name: activating}, exceptions
    return best


def _default(name: str, rows: Sequence[Row], points: Sequence[Point]) -> Point | None:
    first_rows: dict[Point, int] = {}
    for number, (row, point) in enumerate(zip(rows, points, strict=True), start=2):
        if (is_default := says_yes(row.get("is_default", ""))) is None:
            place = f"{name}, row {number}, column is_default"
            raise TableError(f"{place}: {row['is_default']!r} is neither yes nor no", "write 1 or 0")
        if is_default:
            first_rows.setdefault(point, number)
    if len(first_rows) > 1:
        (first, row_1), (second, row_2), *_ = first_rows.items()
        raise TableError(
            f"{name}: is_default marks two configurations: row {row_1} ({first}) and row {row_2} ({second})",
            "mark the rows of one configuration",
        )
    return next(iter(first_rows), None)


def _kind(rows: Sequence[Row], column: str) -> Callable[[str], Value]:
    """Return a function that converts fields of a parameter's column to whole numbers, numbers or text."""
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
    place = f"{name}, row {number}, column latency_us: {row['latency_us']}"
    if latency_us <= 0:
        raise TableError(f"{place} is not above 0")
    if latency_us < LEAST_US:
        raise TableError(f"{place} µs is less than any call takes", "are these seconds?")
    return latency_us


def _whole_number(name: str, number: int, row: Row, column: str, minimum: int) -> int:
    value = _number(name, number, row, column)
    if value < minimum or not value.is_integer():
        place = f"{name}, row {number}, column {column}"
        raise TableError(f"{place}: {row[column]!r} is not a whole number from {minimum} on")
    return int(value)


def _number(name: str, number: int, row: Row, column: str) -> float:
    try:
        value = float(row[column])
        if math.isfinite(value):
            return value
    except ValueError:
        pass
    raise TableError(f"{name}, row {number}, column {column}: {row[column]!r} is not a number")
