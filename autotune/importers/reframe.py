"""ReFrame's records of performance tests: its run reports (JSON), and its performance logs.

A log of version 4 names its columns, ``VARIABLE_value`` and ``VARIABLE_unit`` among them; one of version 3,
or with ``perflog_compat``, has a line for each variable. Message sizes are parameters, columns, or in
names.

References:
    ReFrame, `reframe/schemas/runreport.json` (data versions 1 to 4) and `reframe/core/logging.py`,
    https://github.com/reframe-hpc/reframe.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from autotune.importers.benchmark_row import BenchmarkRow
from autotune.importers.delimited import DELIMITERS, MEASURED, TIME_US, column_of, split
from autotune.importers.found import RowsFound, amount, collective_in
from autotune.importers.runlog import Log

_MBPS = MEASURED["bandwidth_MBps"].units
_SIZE_IN_NAME = re.compile(r"(?:^|_)(\d+)\s*([kmg]?)i?(?:b|bytes?)?(?=_|$)", re.IGNORECASE)
_PARAMETER = re.compile(r"%([\w.]+)=(\S+)")
_PROPERTIES = ("message_size", "num_tasks")  # A test's properties, where they are no parameters.
_LINE = re.compile(
    r"[^|]*\|reframe (?P<version>[^|]+)\|(?P<display_name>[^|]+)\|(?:jobid=[^|]*\|)?"
    r"(?:num_tasks=(?P<num_tasks>\d+)\|)?(?P<variable>[^|=]+)=(?P<value>[^|]+)\|ref=[^|]*\|(?P<unit>[^|]*)"
)
"""A line of a version 3 log."""
_UNSAID = ("", "null", "None")


def announces(log: Log) -> bool:
    """Whether a line names such columns, or is one of version 3."""
    return any(_LINE.fullmatch(line) or _titles(line) for line in log.lines)


def read(log: Log) -> list[BenchmarkRow]:
    """All values in units of time or bandwidth of a performance log.

    Raises:
        TableError: a row of another length than its header, a value that is no number, a test without values,
            or one of whose message size nothing is said.
    """
    return _read(log).whole()


def salvage(log: Log) -> tuple[list[BenchmarkRow], list[str]]:
    """The records of tests that were measured, and what was left out."""
    found = _read(log)
    return found.records, found.left_out


def _read(log: Log) -> RowsFound:
    found, delimiter = RowsFound(log), ""
    titles: list[str] = []
    for number, line in enumerate(log.lines, 1):
        found.line = number
        if old := _LINE.fullmatch(line):
            its = old.groupdict()
            value = amount(log, its["variable"], its["value"], 1)
            name = its["display_name"].split()[0]
            _performance_value(its, name, its["version"], (its["variable"], value, its["unit"]), found)
        elif header := _titles(line):
            delimiter, titles = header
        elif titles and line.strip():
            _row(found, titles, split(line, delimiter))
    return found


def _titles(line: str) -> tuple[str, list[str]] | None:
    """Delimiter and columns of a header; None for any other line."""
    if "_value" not in line or "_unit" not in line:
        return None
    delimiter = max(DELIMITERS, key=line.count)
    titles = [title.removeprefix("check_") for title in split(line, delimiter)]
    named = any(title.endswith("_value") and f"{title[:-6]}_unit" in titles for title in titles)
    return (delimiter, titles) if named else None


def _row(found: RowsFound, titles: list[str], cells: list[str]) -> None:
    """Take a test of a log of version 4."""
    if len(cells) != len(titles):
        found.log.fail(
            found.line,
            f"a row of {len(cells)} values in a table of {len(titles)} columns",
            f"the columns are {', '.join(titles)}",
        )
    case = {title: cell for title, cell in zip(titles, cells, strict=True) if cell not in _UNSAID}
    name = next((case[key] for key in ("unique_name", "name", "display_name", "info") if key in case), "test")
    names = [title[:-6] for title in titles if title.endswith("_value") and title in case]
    if not names:
        found.leave_out(f"test {name}: result {case.get('result')!r}, no performance values")
    version = case.get("version", "").removeprefix("reframe ")
    case["display_name"] = f"{case.get('display_name', '')} {case.get('info', '')}"
    for variable in names:
        value = amount(found.log, f"{name}, {variable}", case[f"{variable}_value"], 1)
        _performance_value(case, name, version, (variable, value, case.get(f"{variable}_unit", "")), found)


def report(document: Any, found: RowsFound) -> None:
    """Take what a run report holds."""
    version = str(document["session_info"].get("version", ""))
    for run in document["runs"]:
        for case in run["testcases"]:
            name = str(case.get("unique_name") or case.get("name"))
            values = list(_performance(case))
            phase = case.get("fail_phase")
            if (case.get("result") not in ("pass", "success") and phase != "performance") or not values:
                reason = case.get("fail_reason") or f"result {case.get('result')!r}, no performance values"
                found.leave_out(f"test {name}: {str(reason).splitlines()[0]}")
                continue
            for variable, value, unit in values:
                _performance_value(case, name, version, (variable, value, unit), found)


def _performance(case: Mapping[str, Any]) -> Iterator[tuple[str, float, str]]:
    """Variable, value and unit of a test case; ``perfvars`` is what data versions below 4 have."""
    for key, (value, *rest) in (case.get("perfvalues") or {}).items():
        if value is not None:
            yield key.rpartition(":")[2], value, str(rest[3]) if len(rest) > 3 else ""
    for its in case.get("perfvars") or ():
        if its["value"] is not None:
            yield its["name"], its["value"], str(its.get("unit") or "")


def _performance_value(
    case: Mapping[str, Any], name: str, version: str, its: tuple[str, float, str], found: RowsFound
) -> None:
    variable, value, unit = its
    time, rate = TIME_US.get(unit.lower()), _MBPS.get(unit)
    if time is None and rate is None:
        return  # of something else, as flops are
    shown = f"{case.get('display_name', '')} {name}"
    params = dict(_PARAMETER.findall(shown)) | {key: case[key] for key in _PROPERTIES if key in case}
    columns = {kind: (key, v) for key, v in params.items() if (kind := column_of(key)[0])}
    size = columns.get("message_bytes", ("", None))[1]
    if size is None and (said := _SIZE_IN_NAME.search(variable)):
        size = int(said[1]) << 10 * (" kmg".index(said[2].lower() or " "))
    if size is None:
        found.leave_out(f"test {name}, {variable}: no message size in its name or parameters")
        return
    ranks = columns.get("comm_size", ("", case.get("num_tasks")))[1]
    used = {key for key, _ in columns.values()} | set(_PROPERTIES)
    system = {key: case.get(key) for key in ("system", "partition", "environ") if case.get(key)}
    found.add(
        {**system, "variable": variable, **{k: v for k, v in params.items() if k not in used}},
        benchmark=name,
        version=version,
        collective=collective_in(str(columns.get("collective", ("", name))[1]), str(case)),
        comm_size=None if ranks is None else int(amount(found.log, f"{name}, ranks", ranks, 1)),
        message_bytes=int(amount(found.log, f"{name}, size", size, 1)),
        latency_us=None if time is None else value * time,
        bandwidth_MBps=None if rate is None else value * rate,
    )
