"""Read tables of ReproMPI: times of single calls, clock times of every process, or summaries.

Settings are printed as `#@key=value`; a header names the columns. For tables of single calls or clock times,
a record contains, for each collective and size, the median, smallest and largest time of the valid calls.
From clock times the time of a call is last exit − first entry on the global clock or, without a global clock,
the longest time of a process. Sizes are numbers of elements of the data type unless the column names bytes.

References:
    S. Hunold, A. Carpen-Amarie, "Reproducible MPI benchmarking is still not as easy as you think", IEEE TPDS
    27 (2016) 3617–3630.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import TypeAlias

from autotune.collectives import called
from autotune.history.benchmark_row import BenchmarkRow
from autotune.tables.importers.runlog import Log, measurement

Row: TypeAlias = dict[str, str]

_SETTING = re.compile(r"^#@(\w+)=(.*)$")
_SIZES = ("msize_bytes", "count", "msize")
_KINDS = (
    {"test", "nrep", "runtime_sec"},
    {"test", "nrep", "process", "loc_tstart_sec", "loc_tend_sec"},
    {"test", "total_nrep", "valid_nrep"},
)
_WHOLE = ("process", "nrep", "errorcode", "total_nrep", "valid_nrep", *_SIZES)
_NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?|-?(?:nan|inf)", re.IGNORECASE)
_END = "# Execution time"


@dataclass(slots=True)
class _TimesTable:
    settings: dict[str, str]
    line: int  # Number of the line with the table's header.
    columns: tuple[str, ...]
    rows: list[tuple[int, Row]] = field(default_factory=list)  # Line number and values by column of each row.
    complete: bool = False  # Whether the line follows that ReproMPI prints at the end of a run.


@dataclass(slots=True)
class _Cell:
    line: int  # Number of the line with the first row of this collective and size.
    nrep: int = 0  # Number of repetitions, valid or not.
    valid_us: list[float] = field(default_factory=list)  # Times of the valid repetitions in µs.


def announces(log: Log) -> bool:
    """Return whether the log has a header of ReproMPI's tables."""
    return any(_columns(line) for line in log.lines)


def read(log: Log) -> list[BenchmarkRow]:
    """Return a record for each collective and size.

    Raises:
        TableError: The log has a table without rows, incomplete rows, missing repetitions or processes, no
            valid repetition, or sizes in elements without the size of the data type.
    """
    runs: list[_TimesTable] = []
    settings: dict[str, str] = {}
    for number, line in enumerate(log.lines, 1):
        if setting := _SETTING.match(line):
            settings[setting[1]] = setting[2].strip()
        elif columns := _columns(line):
            runs.append(_TimesTable(dict(settings), number, columns))
        elif line.startswith(_END) and runs:
            runs[-1].complete = True
        elif runs and (row := _row(log, runs[-1], number, line.split())):
            runs[-1].rows.append((number, row))
    return [record for run in runs for record in _records(log, run)]


def _columns(line: str) -> tuple[str, ...]:
    names = tuple(line.split())
    is_header = not line.startswith("#") and len(set(names)) == len(names)
    is_table = any(needed <= set(names) for needed in _KINDS) and any(s in names for s in _SIZES)
    return names if is_header and is_table else ()


def _row(log: Log, run: _TimesTable, number: int, tokens: list[str]) -> Row | None:
    """Return the values of a row by column; None for a line that is no row.

    Raises:
        TableError: The line names an MPI function and is incomplete.
    """
    call_column = run.columns.index("test")
    call = tokens[call_column] if len(tokens) > call_column else ""
    complete = len(tokens) == len(run.columns) and all(
        (token.isdigit() if column in _WHOLE else _NUMBER.fullmatch(token)) or column == "test"
        for column, token in zip(run.columns, tokens, strict=True)
    )
    if complete:
        return dict(zip(run.columns, tokens, strict=True))
    if call.startswith("MPI_"):
        log.fail(
            number,
            f"an incomplete row: {' '.join(tokens)[:100]}",
            f"the columns are {', '.join(run.columns)} (line {run.line}); was the run cut off?",
        )
    return None


def _records(log: Log, run: _TimesTable) -> Iterator[BenchmarkRow]:
    if not run.rows:
        log.fail(run.line, "a table without rows", "was the run cut off?")
    if "total_nrep" in run.columns:
        yield from _summaries(log, run)
        return
    cells = _single_times(log, run) if "runtime_sec" in run.columns else _from_stamps(log, run)
    _refuse_cut_off(log, run, [cell for _, cell in cells])
    for row, cell in cells:
        if not cell.valid_us:
            message = f"none of {cell.nrep} repetitions of {row['test']} is valid"
            log.fail(cell.line, message, "enlarge ReproMPI's windows")
        times_us = cell.valid_us
        yield _record(
            log, run, cell.line, row, (median(times_us), min(times_us), max(times_us)), len(times_us)
        )


def _summaries(log: Log, run: _TimesTable) -> Iterator[BenchmarkRow]:
    for number, row in run.rows:
        by_statistic = {k.removesuffix("_sec"): float(v) * 1e6 for k, v in row.items() if k.endswith("_sec")}
        location = by_statistic.get("median", by_statistic.get("mean"))
        if location is None:
            log.fail(
                number, "a summary without median and mean", "run ReproMPI with --summary=median,min,max"
            )
        yield _record(
            log,
            run,
            number,
            row,
            (location, by_statistic.get("min"), by_statistic.get("max")),
            int(row["valid_nrep"]),
        )


def _single_times(log: Log, run: _TimesTable) -> list[tuple[Row, _Cell]]:
    """Return the times by collective and size, from a table with one row for each repetition."""
    cells: dict[tuple[str, int], tuple[Row, _Cell]] = {}
    for number, row in run.rows:
        _, cell = cells.setdefault((row["test"], _size(row)), (row, _Cell(number)))
        if int(row["nrep"]) != cell.nrep:
            log.fail(number, f"repetition {row['nrep']} after {cell.nrep} of them", "are rows missing?")
        cell.nrep += 1
        if row.get("errorcode", "0") == "0":
            cell.valid_us.append(float(row["runtime_sec"]) * 1e6)
    return list(cells.values())


def _from_stamps(log: Log, run: _TimesTable) -> list[tuple[Row, _Cell]]:
    """Return the times by collective and size, from a table with one row for each repetition and process."""
    clock = "gl" if {"gl_tstart_sec", "gl_tend_sec"} <= set(run.columns) else "loc"
    cells: dict[tuple[str, int], tuple[Row, _Cell]] = {}
    stamps: dict[tuple[str, int], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for number, row in run.rows:
        key = row["test"], _size(row)
        cells.setdefault(key, (row, _Cell(number)))
        stamps[key][int(row["nrep"])].append(row)
    process_names = {row["process"] for _, row in run.rows}
    processes = _setting(log, run, "nprocs") or len(process_names)
    for key, (_, cell) in cells.items():
        for repetition, rows in sorted(stamps[key].items()):
            if {int(row["process"]) for row in rows} != set(range(processes)):
                message = f"repetition {repetition}: rows of {len(rows)} of {processes} processes"
                log.fail(cell.line, message, "was the run cut off?")
            cell.nrep += 1
            if all(row.get("errorcode", "0") == "0" for row in rows):
                starts = [float(row[f"{clock}_tstart_sec"]) for row in rows]
                ends = [float(row[f"{clock}_tend_sec"]) for row in rows]
                longest_s = max(end - start for start, end in zip(starts, ends, strict=True))
                cell.valid_us.append((max(ends) - min(starts) if clock == "gl" else longest_s) * 1e6)
    return list(cells.values())


def _refuse_cut_off(log: Log, run: _TimesTable, cells: list[_Cell]) -> None:
    """Raise an error if a table seems to be cut off.

    It does if the last line of the run is missing, and the last collective and size has fewer repetitions
    than all others.
    """
    *complete, last = cells
    fewest = min((cell.nrep for cell in complete), default=0)
    if not run.complete and last.nrep < fewest:
        log.fail(last.line, f"{last.nrep} repetitions where the others have {fewest}", "was the run cut off?")


def _size(row: Row) -> int:
    return int(next(row[s] for s in _SIZES if s in row))


def _setting(log: Log, run: _TimesTable, *names: str) -> int:
    """Return the first of these settings that the log has, as a whole number; 0 if it has none of them."""
    for name in names:
        if name in run.settings:
            text = run.settings[name]
            if not text.isdigit():
                log.fail(run.line, f"#@{name}={text} above this table is not a whole number")
            return int(text)
    return 0


def _record(
    log: Log,
    run: _TimesTable,
    number: int,
    row: Row,
    times_us: tuple[float, float | None, float | None],
    iterations: int,
) -> BenchmarkRow:
    """Return the record of one collective and size.

    ``times_us`` are the median (or mean), the smallest and the largest time in µs.
    """
    unit = _setting(log, run, "datatype_size_bytes", "datatype_extent_bytes") if "count" in row else 1
    if not unit:
        message = "sizes are counts of a data type of unknown size"
        log.fail(run.line, message, "keep the line #@datatype_size_bytes=…")
    latency_us, min_us, max_us = times_us
    return measurement(
        log,
        number,
        benchmark=f"ReproMPI {row['test']}",
        version=run.settings.get("reproMPIcommitSHA1", ""),
        collective=called(row["test"]) or row["test"].removeprefix("MPI_").lower(),
        comm_size=_setting(log, run, "nprocs") or log.processes_before(run.line),
        message_bytes=_size(row) * unit,
        latency_us=latency_us,
        min_us=min_us,
        max_us=max_us,
        iterations=iterations,
        labels=tuple((k, run.settings[k]) for k in ("procsync", "datatype") if k in run.settings),
    )
