"""Tables of ``ucc_perftest``, the benchmark that UCC brings along.

A run says what it does in lines ``Collective: …``, then come two lines of header and a row for each count;
times are the mean, least and largest of all ranks. A barrier has one row, of N/A bytes.

References:
    https://github.com/openucx/ucc, `tools/perf/ucc_pt_benchmark.cc`.
"""

import re

from autotune.collectives import called
from autotune.importers.benchmark_row import BenchmarkRow
from autotune.importers.runlog import Log, LogTable, measurement

_TITLE = re.compile(r"^\s*Collective: +(\S+)\s*$")
_SETTING = re.compile(r"^\s*(Memory type|Data ?type|Reduction|Operation type|Inplace): +(\S+)\s*$")
_TIMES = ("avg", "min", "max")
_HEADER = re.compile(r"^\s+avg\s+min\s+max(\s+avg\s+m\w+\s+m\w+)?\s*$")
_UNSAID = "N/A"


def announces(log: Log) -> bool:
    """Whether the log has a title and the second line of a header."""
    return any(map(_TITLE.match, log.lines)) and any(map(_HEADER.match, log.lines))


def read(log: Log) -> list[BenchmarkRow]:
    """All rows of all tables.

    Raises:
        TableError: a title without a table, a table without rows, or with an incomplete or missing row.
    """
    measurements: list[BenchmarkRow] = []
    title, line, labels, table = "", 0, dict[str, str](), None
    for number, text in enumerate(log.lines, 1):
        if found := _TITLE.match(text):
            measurements += _rows(title, labels, table)
            _refuse_without_table(log, line, title, table)
            title, line, labels, table = found[1], number, {}, None
        elif setting := _SETTING.match(text):
            if setting[2] != _UNSAID:
                labels[setting[1].lower().replace(" ", "")] = setting[2]
        elif title and (header := _HEADER.match(text)):
            bandwidths = ("bandwidth", "fastest", "slowest") if header[1] else ()
            table = LogTable(log, number, ("Count", "#bytes", *_TIMES, *bandwidths))
        elif table is not None:
            table.take(number, text)
    measurements += _rows(title, labels, table)
    _refuse_without_table(log, line, title, table)
    return measurements


def _refuse_without_table(log: Log, line: int, title: str, table: LogTable | None) -> None:
    if title and table is None:
        log.fail(line, f"{title} has no table", "was the run cut off?")


def _rows(title: str, labels: dict[str, str], table: LogTable | None) -> list[BenchmarkRow]:
    if table is None:
        return []
    sized = [(number, row) for number, row in table.rows if row["#bytes"] != _UNSAID]
    if len(table.rows) > 1 or sized:
        LogTable(table.log, table.line, table.columns, sized).check_sizes("#bytes")
    elif not table.rows:
        table.check_sizes("#bytes")
    return [
        measurement(
            table.log,
            number,
            benchmark=f"ucc_perftest {title}",
            collective=called(title) or title.lower(),
            comm_size=table.log.processes_before(table.line),
            message_bytes=0 if row["#bytes"] == _UNSAID else int(row["#bytes"]),
            latency_us=float(row["avg"]),
            min_us=float(row["min"]),
            max_us=float(row["max"]),
            bandwidth_MBps=_megabytes(row.get("bandwidth", _UNSAID)),
            labels=tuple(labels.items()),
        )
        for number, row in table.rows
    ]


def _megabytes(said: str) -> float | None:
    return None if said == _UNSAID else 1e3 * float(said)
