"""Read ReFrame's records of performance tests: its run reports (JSON), and its performance logs.

A log of ReFrame 4 has a header, with columns such as ``VARIABLE_value`` and ``VARIABLE_unit``; a log of
ReFrame 3, or with ``perflog_compat``, has a line for each variable. Message sizes are parameters of a test,
columns, or parts of names.

References:
    ReFrame, `reframe/schemas/runreport.json` (data versions 1 to 4) and `reframe/core/logging.py`,
    https://github.com/reframe-hpc/reframe.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from autotune.history.benchmark_row import BenchmarkRow
from autotune.tables.importers.delimited import DELIMITERS, MEASURED, TIME_US, column_of, split
from autotune.tables.importers.found import RowsFound, amount, collective_in
from autotune.tables.importers.runlog import Log

_MBPS = MEASURED["bandwidth_MBps"].units
_SIZE_IN_NAME = re.compile(r"(?:^|_)(\d+)\s*([kmg]?)i?(?:b|bytes?)?(?=_|$)", re.IGNORECASE)
_PARAMETER = re.compile(r"%([\w.]+)=(\S+)")
_PROPERTIES = ("message_size", "num_tasks")
"""Properties of a test that are read like its parameters."""
_LINE = re.compile(
    r"[^|]*\|reframe (?P<version>[^|]+)\|(?P<display_name>[^|]+)\|(?:jobid=[^|]*\|)?"
    r"(?:num_tasks=(?P<num_tasks>\d+)\|)?(?P<variable>[^|=]+)=(?P<value>[^|]+)\|ref=[^|]*\|(?P<unit>[^|]*)"
)
"""A line of a log of ReFrame 3."""
_UNSAID = ("", "null", "None")


def announces(log: Log) -> bool:
    """Return whether the log contains a header as in logs of ReFrame 4, or a line as in logs of ReFrame 3."""
    return any(_LINE.fullmatch(line) or _titles(line) for line in log.lines)


def read(log: Log) -> list[BenchmarkRow]:
    """Return a record for each value of a performance log that is a time or a bandwidth.

    Raises:
        TableError: The log has a row of another length than its header, a value that is no number, a test
            without values, or a test without a message size.
    """
    return _read(log).whole()


def _read(log: Log) -> RowsFound:
    records, delimiter = RowsFound(log), ""
    titles: list[str] = []
    for number, line in enumerate(log.lines, 1):
        records.line = number
        if compatible := _LINE.fullmatch(line):
            fields = compatible.groupdict()
            value = amount(log, fields["variable"], fields["value"], 1)
            name = fields["display_name"].split()[0]
            _performance_value(
                fields, name, fields["version"], (fields["variable"], value, fields["unit"]), records
            )
        elif header := _titles(line):
            delimiter, titles = header
        elif titles and line.strip():
            _row(records, titles, split(line, delimiter))
    return records


def _titles(line: str) -> tuple[str, list[str]] | None:
    """Return the delimiter and the columns' names in a header; None if the line is no header."""
    if "_value" not in line or "_unit" not in line:
        return None
    delimiter = max(DELIMITERS, key=line.count)
    titles = [title.removeprefix("check_") for title in split(line, delimiter)]
    has_pair = any(title.endswith("_value") and f"{title[:-6]}_unit" in titles for title in titles)
    return (delimiter, titles) if has_pair else None


def _row(records: RowsFound, titles: list[str], cells: list[str]) -> None:
    """Add the records of one row (one test) in a log of ReFrame 4."""
    if len(cells) != len(titles):
        records.log.fail(
            records.line,
            f"a row of {len(cells)} values in a table of {len(titles)} columns",
            f"the columns are {', '.join(titles)}",
        )
    case = {title: cell for title, cell in zip(titles, cells, strict=True) if cell not in _UNSAID}
    name = next((case[key] for key in ("unique_name", "name", "display_name", "info") if key in case), "test")
    names = [title[:-6] for title in titles if title.endswith("_value") and title in case]
    if not names:
        records.leave_out(f"test {name}: result {case.get('result')!r}, no performance values")
    version = case.get("version", "").removeprefix("reframe ")
    case["display_name"] = f"{case.get('display_name', '')} {case.get('info', '')}"
    for variable in names:
        value = amount(records.log, f"{name}, {variable}", case[f"{variable}_value"], 1)
        _performance_value(case, name, version, (variable, value, case.get(f"{variable}_unit", "")), records)


def report(document: Any, records: RowsFound) -> None:
    """Add the measurements in a run report (a JSON document) to ``records``."""
    version = str(document["session_info"].get("version", ""))
    for run in document["runs"]:
        for case in run["testcases"]:
            name = str(case.get("unique_name") or case.get("name"))
            values = list(_performance(case))
            phase = case.get("fail_phase")
            if (case.get("result") not in ("pass", "success") and phase != "performance") or not values:
                reason = case.get("fail_reason") or f"result {case.get('result')!r}, no performance values"
                records.leave_out(f"test {name}: {str(reason).splitlines()[0]}")
                continue
            for variable, value, unit in values:
                _performance_value(case, name, version, (variable, value, unit), records)


def _performance(case: Mapping[str, Any]) -> Iterator[tuple[str, float, str]]:
    """Yield variable, value and unit in a test case; data versions below 4 have them in ``perfvars``."""
    for key, (value, *reference) in (case.get("perfvalues") or {}).items():
        if value is not None:
            yield key.rpartition(":")[2], value, str(reference[3]) if len(reference) > 3 else ""
    for variable in case.get("perfvars") or ():
        if variable["value"] is not None:
            yield variable["name"], variable["value"], str(variable.get("unit") or "")


def _performance_value(
    case: Mapping[str, Any], name: str, version: str, performance: tuple[str, float, str], records: RowsFound
) -> None:
    """Add the record of a value if it is a time or bandwidth; ``performance`` is (variable, value, unit)."""
    variable, value, unit = performance
    time, rate = TIME_US.get(unit.lower()), _MBPS.get(unit)
    if time is None and rate is None:
        return  # another quantity, such as flops
    display = f"{case.get('display_name', '')} {name}"
    params = dict(_PARAMETER.findall(display)) | {key: case[key] for key in _PROPERTIES if key in case}
    columns = {kind: (key, v) for key, v in params.items() if (kind := column_of(key)[0])}
    size = columns.get("message_bytes", ("", None))[1]
    if size is None and (size_in_name := _SIZE_IN_NAME.search(variable)):
        size = int(size_in_name[1]) << 10 * (" kmg".index(size_in_name[2].lower() or " "))
    if size is None:
        records.leave_out(f"test {name}, {variable}: no message size in its name or parameters")
        return
    ranks = columns.get("comm_size", ("", case.get("num_tasks")))[1]
    used_keys = {key for key, _ in columns.values()} | set(_PROPERTIES)
    system = {key: case.get(key) for key in ("system", "partition", "environ") if case.get(key)}
    records.add(
        {**system, "variable": variable, **{k: v for k, v in params.items() if k not in used_keys}},
        benchmark=name,
        version=version,
        collective=collective_in(str(columns.get("collective", ("", name))[1]), str(case)),
        comm_size=None if ranks is None else int(amount(records.log, f"{name}, ranks", ranks, 1)),
        message_bytes=int(amount(records.log, f"{name}, size", size, 1)),
        latency_us=None if time is None else value * time,
        bandwidth_MBps=None if rate is None else value * rate,
    )
