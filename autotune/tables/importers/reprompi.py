"""Read tables of ReproMPI, which contain times of single calls, clock times of each process, or summaries.

Settings are printed as `#@key=value`; a header names the columns. For tables of single calls or of clock
times, a record contains, for each collective and size, the median, the smallest and the largest time of the
valid calls. The time of a call follows from clock times: with a global clock it is last exit − first entry,
without a global clock it is the longest time of a process. A size is a number of elements of the data type
unless the column's name says bytes.

References:
    S. Hunold, A. Carpen-Amarie, "Reproducible MPI benchmarking is still not as easy as you think", IEEE TPDS
    27 (2016) 3617–3630.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from autotune.collectives import called
from autotune.history.benchmark_row import BenchmarkRow
from autotune.tables.importers.runlog import Log, measurement

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
class _Row:
    line: int
    values: dict[str, str]  # Maps the name of each column to the text in the row.

    @property
    def key(self) -> tuple[str, int]:
        """Return the MPI function, and the size in bytes or in elements."""
        return self.values["test"], int(next(self.values[s] for s in _SIZES if s in self.values))


@dataclass(slots=True)
class _Run:
    log: Log
    settings: dict[str, str]
    line: int  # Number of the line with the table's header.
    columns: tuple[str, ...]
    rows: list[_Row] = field(default_factory=list)
    complete: bool = False
    """Whether the table is followed by the line that ReproMPI prints at the end of a run."""

    def number(self, *names: str) -> int:
        """Return the first of the settings ``names`` that the log contains; 0 if it contains none of them."""
        name = next((name for name in names if name in self.settings), "")
        text = self.settings.get(name, "0")
        if not text.isdigit():
            self.log.fail(self.line, f"#@{name}={text} above this table is not a whole number")
        return int(text)


@dataclass(slots=True)
class _Cell:
    first: _Row
    nrep: int = 0  # Number of repetitions, including invalid ones.
    valid_us: list[float] = field(default_factory=list)  # Times of the valid repetitions in µs.


def announces(log: Log) -> bool:
    """Return whether the log has a header of a table of ReproMPI."""
    return any(_columns(line) for line in log.lines)


def read(log: Log) -> list[BenchmarkRow]:
    """Return a record for each collective and size.

    Raises:
        TableError: The log has a table without rows, incomplete rows, missing repetitions or processes, no
            valid repetition, or sizes in elements although the size of the data type is unknown.
    """
    runs: list[_Run] = []
    settings: dict[str, str] = {}
    for number, line in enumerate(log.lines, 1):
        if setting := _SETTING.match(line):
            settings[setting[1]] = setting[2].strip()
        elif columns := _columns(line):
            runs.append(_Run(log, dict(settings), number, columns))
        elif line.startswith(_END) and runs:
            runs[-1].complete = True
        elif runs:
            _take(runs[-1], number, line.split())
    return [record for run in runs for record in _records(run)]


def _columns(line: str) -> tuple[str, ...]:
    names = tuple(line.split())
    is_header = not line.startswith("#") and len(set(names)) == len(names)
    is_table = any(needed <= set(names) for needed in _KINDS) and any(s in names for s in _SIZES)
    return names if is_header and is_table else ()


def _take(run: _Run, number: int, tokens: list[str]) -> None:
    """Add a line to the table if the line is a row.

    A line that names an MPI function but is incomplete raises an error.
    """
    call_column = run.columns.index("test")
    call = tokens[call_column] if len(tokens) > call_column else ""
    if len(tokens) == len(run.columns) and all(
        (token.isdigit() if column in _WHOLE else _NUMBER.fullmatch(token)) or column == "test"
        for column, token in zip(run.columns, tokens, strict=True)
    ):
        run.rows.append(_Row(number, dict(zip(run.columns, tokens, strict=True))))
    elif call.startswith("MPI_"):
        run.log.fail(
            number,
            f"an incomplete row: {' '.join(tokens)[:100]}",
            f"the columns are {', '.join(run.columns)} (line {run.line}); was the run cut off?",
        )


def _records(run: _Run) -> Iterator[BenchmarkRow]:
    log = run.log
    if not run.rows:
        log.fail(run.line, "a table without rows", "was the run cut off?")
    if "total_nrep" in run.columns:
        yield from _summaries(run)
        return
    cells = _single_times(run) if "runtime_sec" in run.columns else _from_stamps(run)
    *others, last = cells
    fewest = min((cell.nrep for cell in others), default=0)
    if not run.complete and last.nrep < fewest:
        message = f"{last.nrep} repetitions where the others have {fewest}"
        log.fail(last.first.line, message, "was the run cut off?")
    for cell in cells:
        if not (times_us := cell.valid_us):
            message = f"none of {cell.nrep} repetitions of {cell.first.values['test']} is valid"
            log.fail(cell.first.line, message, "enlarge ReproMPI's windows")
        yield _record(run, cell.first, (median(times_us), min(times_us), max(times_us)), len(times_us))


def _summaries(run: _Run) -> Iterator[BenchmarkRow]:
    for row in run.rows:
        us = {k.removesuffix("_sec"): float(v) * 1e6 for k, v in row.values.items() if k.endswith("_sec")}
        location = us.get("median", us.get("mean"))
        if location is None:
            hint = "run ReproMPI with --summary=median,min,max"
            run.log.fail(row.line, "a summary without median and mean", hint)
        yield _record(run, row, (location, us.get("min"), us.get("max")), int(row.values["valid_nrep"]))


def _single_times(run: _Run) -> list[_Cell]:
    cells: dict[tuple[str, int], _Cell] = {}
    for row in run.rows:
        cell, repetition = cells.setdefault(row.key, _Cell(row)), row.values["nrep"]
        if int(repetition) != cell.nrep:
            run.log.fail(row.line, f"repetition {repetition} after {cell.nrep} of them", "are rows missing?")
        cell.nrep += 1
        if row.values.get("errorcode", "0") == "0":
            cell.valid_us.append(float(row.values["runtime_sec"]) * 1e6)
    return list(cells.values())


def _from_stamps(run: _Run) -> list[_Cell]:
    clock = "gl" if {"gl_tstart_sec", "gl_tend_sec"} <= set(run.columns) else "loc"
    cells: dict[tuple[str, int], _Cell] = {}
    stamps: dict[tuple[str, int], dict[int, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in run.rows:
        cells.setdefault(row.key, _Cell(row))
        stamps[row.key][int(row.values["nrep"])].append(row.values)
    processes = run.number("nprocs") or len({row.values["process"] for row in run.rows})
    for key, cell in cells.items():
        for repetition, rows in sorted(stamps[key].items()):
            if {int(row["process"]) for row in rows} != set(range(processes)):
                message = f"repetition {repetition}: rows of {len(rows)} of {processes} processes"
                run.log.fail(cell.first.line, message, "was the run cut off?")
            cell.nrep += 1
            if all(row.get("errorcode", "0") == "0" for row in rows):
                starts = [float(row[f"{clock}_tstart_sec"]) for row in rows]
                ends = [float(row[f"{clock}_tend_sec"]) for row in rows]
                longest_s = max(end - start for start, end in zip(starts, ends, strict=True))
                cell.valid_us.append((max(ends) - min(starts) if clock == "gl" else longest_s) * 1e6)
    return list(cells.values())


def _record(
    run: _Run, row: _Row, times_us: tuple[float, float | None, float | None], iterations: int
) -> BenchmarkRow:
    """Return the record of one collective and size.

    ``times_us`` contains the median (or mean), the smallest and the largest time in µs.
    """
    unit = run.number("datatype_size_bytes", "datatype_extent_bytes") if "count" in row.values else 1
    if not unit:
        message = "sizes are counts of a data type of unknown size"
        run.log.fail(run.line, message, "keep the line #@datatype_size_bytes=…")
    call, size = row.key
    return measurement(
        run.log,
        row.line,
        benchmark=f"ReproMPI {call}",
        version=run.settings.get("reproMPIcommitSHA1", ""),
        collective=called(call) or call.removeprefix("MPI_").lower(),
        comm_size=run.number("nprocs") or run.log.processes_before(run.line),
        message_bytes=size * unit,
        latency_us=times_us[0],
        min_us=times_us[1],
        max_us=times_us[2],
        iterations=iterations,
        labels=tuple((k, run.settings[k]) for k in ("procsync", "datatype") if k in run.settings),
    )
