"""Read tables of the Intel MPI Benchmarks (all suites, versions 3.2 to 2021) and of oneCCL's benchmark.

oneCCL's benchmark prints tables of the same form. A run prints the header of a suite, a table for each
benchmark and number of processes, and a last line when all processes have ended; if this line is missing, the
run was cut off. With `-multi` several groups of processes run at the same time, and each row begins with the
number of its group. If a message size took too long or too much memory, its row contains words instead of
numbers.
"""

import re
from dataclasses import dataclass, field, replace
from itertools import groupby

from autotune.collectives import called, later
from autotune.history.benchmark_row import BenchmarkRow
from autotune.tables.importers.messages import message_us, with_overlap
from autotune.tables.importers.runlog import Log, LogTable, first, measurement

_SUITE = re.compile(r"Intel\s*\(R\) MPI Benchmark(?:s| Suite) V?(.+?), (?:MPI-|IMB-)?(\S+) part")
_PARTS = {"1": "MPI1", "2": "EXT", "4": "MPI4"}
_BENCHMARK = re.compile(r"^# Benchmarking(:?) (\S+)")  # The colon is in the output of oneCCL's benchmark.
_PROCESSES = re.compile(r"^# (?:#processes(?: =|:) (\d+)|\( (\d+) groups of (\d+) processes each)")
_MODE = re.compile(r"^#\s+MODE: (\S+)")
_TIMES = tuple(f"t{which}[usec]" for which in ("", "_min", "_max", "_avg", "_ovrl", "_pure", "_CPU"))
_COLUMNS = (
    *("Group", "#bytes", "#repetitions", *_TIMES),
    *("overlap[%]", "Mbytes/sec", "Msg/sec", "defects", "stddev[%]"),
)
_FIELD_COLUMNS = frozenset(_COLUMNS) - {"Group", "t_ovrl[usec]", "t_CPU[usec]", "overlap[%]"}
_FAILED_SAMPLE = re.compile(r"\b(out-of-mem\.|int-overflow|time-out\.)")
_END = "# All processes entering MPI_Finalize"
_ENDS = (_END, "# All done")
"""Last line of a complete run, of Intel's benchmarks and of oneCCL's benchmark."""
_USER_LENGTHS = re.compile(r"# Message lengths were user defined|# .* -msg(?:len|size)\b")
"""Line that shows that the user chose the sizes, so that successive sizes need not double. The P2P suite
shows this only in its command line."""


@dataclass(slots=True)
class _Suite:
    line: int = 0
    version: str = ""
    part: str = ""
    doubling: bool = True
    benchmark: str = ""
    comm_size: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    announced: int = 0
    """Number of the line of the last title or mode, if its table was not printed yet; otherwise 0."""


def announces(log: Log) -> bool:
    """Return whether the log has a header or a title of a table of Intel's or oneCCL's benchmarks."""
    return any(_SUITE.search(line) or _BENCHMARK.match(line) for line in log.lines)


def read(log: Log) -> list[BenchmarkRow]:
    """Return all rows of all tables of all suites.

    Raises:
        TableError: The log has a run without its last line, a benchmark without a table, a message size that
            was not measured, wrong results, an incomplete or missing row in a table, or an unknown column.
    """
    measurements: list[BenchmarkRow] = []
    run, table, running = _Suite(), None, False
    for number, line in enumerate(log.lines, 1):
        text = line.strip()
        if suite := _SUITE.search(line):
            if running:  # the previous run never ended
                _refuse_cut_off(log, run, number - 1)
            run = _Suite(line=number, version=suite[1], part=_PARTS.get(suite[2], suite[2]))
            table, running = None, True
        elif benchmark := _BENCHMARK.match(line):
            _refuse_without_table(log, run)
            measurements += _rows(run, table)
            table, running = None, True
            run.benchmark, run.comm_size, run.announced = benchmark[2], None, number
            run.labels = {"library": "oneccl"} if benchmark[1] else {}
        elif running and (processes := _PROCESSES.match(line)):
            run.comm_size = int(processes[1] or processes[3])
            if processes[2]:
                run.labels["groups"] = processes[2]
        elif running and (mode := _MODE.match(line)):
            measurements += _rows(run, table)
            table = None
            run.labels, run.announced = run.labels | {"mode": mode[1].lower()}, number
        elif running and text.startswith(("#bytes", "#repetitions", "Group")):
            if not run.announced:
                log.fail(number, "a table without a title", "was something cut out of the log?")
            table = LogTable(log, number, _columns(log, number, text))
            run.announced = 0
        elif text.startswith(_ENDS):
            _refuse_without_table(log, run)
            measurements += _rows(run, table)
            table, running = None, False
            if not measurements or measurements[-1].line < run.line:
                log.fail(number, "the end of a run without any table", "was something cut out of the log?")
        elif _USER_LENGTHS.match(line):
            run.doubling = False
        elif table is not None and _FAILED_SAMPLE.search(line):
            log.fail(number, f"{run.benchmark}: sample not measured: {text[:100]}", "its row is missing")
        elif table is not None:
            table.take(number, line)
    if running:
        _refuse_cut_off(log, run, len(log.lines))
    return measurements


def _refuse_cut_off(log: Log, run: _Suite, last: int) -> None:
    began = f" that began in line {run.line}" if run.line else ""
    message = f"the run{began} was cut off in {run.benchmark or 'its head'}"
    log.fail(last, message, f"it never came to {_END!r}")


def _refuse_without_table(log: Log, run: _Suite) -> None:
    if run.announced:
        log.fail(run.announced, f"{run.benchmark} has no table", "was the run cut off?")


def _columns(log: Log, number: int, text: str) -> tuple[str, ...]:
    columns = tuple(text.split())
    unknown = [c for c in columns if c not in _COLUMNS]
    if unknown:
        log.fail(number, f"unknown column {unknown[0]!r} of an IMB table", f"known: {', '.join(_COLUMNS)}")
    return columns


def _rows(run: _Suite, table: LogTable | None) -> list[BenchmarkRow]:
    if table is None:
        return []
    _check(run, table)
    records: list[BenchmarkRow] = []
    for number, row in table.rows:
        if float(row.get("defects", 0)):
            table.log.fail(number, f"{run.benchmark}: defects {row['defects']}", "the results were wrong")
        labels = run.labels | {k.lower(): v for k, v in row.items() if k not in _FIELD_COLUMNS}
        record = measurement(
            table.log,
            number,
            benchmark=_title(run),
            version=run.version,
            collective=_operation(run.benchmark),
            comm_size=run.comm_size,
            message_bytes=int(row.get("#bytes", 0)),
            latency_us=first(row, ("t[usec]", "t_avg[usec]", "t_pure[usec]")),
            min_us=first(row, ("t_min[usec]",)),
            max_us=first(row, ("t_max[usec]",)),
            iterations=int(row["#repetitions"]) if "#repetitions" in row else None,
            bandwidth_MBps=first(row, ("Mbytes/sec",)),
            labels=tuple(labels.items()),
        )
        if record.latency_us is None:
            record = replace(record, latency_us=message_us(record, first(row, ("Msg/sec",))))
        records += with_overlap(record, row)
    return records


def _title(run: _Suite) -> str:
    suite = "oneCCL" if "library" in run.labels else f"IMB-{run.part}" if run.part else "IMB"
    return f"{suite} {run.benchmark}"


def _check(run: _Suite, table: LogTable) -> None:
    """Raise an error if a table lacks rows; the rows of each group are checked separately."""
    if "Group" not in table.columns or not table.rows:
        table.check_sizes("#bytes", doubling=run.doubling)
        return
    by_group = sorted(table.rows, key=lambda row: int(row[1]["Group"]))
    for _, rows in groupby(by_group, key=lambda row: row[1]["Group"]):
        group = LogTable(table.log, table.line, table.columns, list(rows))
        group.check_sizes("#bytes", doubling=run.doubling)


def _operation(benchmark: str) -> str:
    """Return the name of a benchmark's operation, without additions for groups and for pure timing."""
    name = benchmark.lower().removeprefix("multi-").removesuffix("_pure")
    if (blocking := called(name.removeprefix("i"))) and name.startswith("i"):
        return later(blocking, "non-blocking")
    blocking = called(name.removesuffix("_persist"))
    return later(blocking, "persistent" if name.endswith("_persist") else "") if blocking else name
