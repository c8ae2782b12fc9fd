"""Read ReFrame's records of performance tests: run reports (JSON) and performance logs.

A log of ReFrame 4 has a header with columns such as ``VARIABLE_value`` and ``VARIABLE_unit``; a log of
ReFrame 3, or with ``perflog_compat``, has a line for each variable. The message size is a parameter of a
test, a column, or a part of a name.

References:
    ReFrame, `reframe/schemas/runreport.json` (data versions 1 to 4) and `reframe/core/logging.py`,
    https://github.com/reframe-hpc/reframe.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from autotune.errors import TableError
from autotune.history.benchmark_row import BenchmarkRow
from autotune.tables.importers.delimited import DELIMITERS, MEASURED, TIME_US, column_of, split
from autotune.tables.importers.runlog import Log, amount, collective_in, measurement, words

_MBPS = MEASURED["bandwidth_MBps"].units
_SIZE_IN_NAME = re.compile(r"(?:^|_)(\d+)\s*([kmg]?)i?(?:b|bytes?)?(?=_|$)", re.IGNORECASE)
_PARAMETER = re.compile(r"%([\w.]+)=(\S+)")
_PROPERTIES = ("message_size", "num_tasks")
"""Properties of a test that are read in the same way as its parameters."""
_LINE = re.compile(
    r"[^|]*\|reframe (?P<version>[^|]+)\|(?P<display_name>[^|]+)\|(?:jobid=[^|]*\|)?"
    r"(?:num_tasks=(?P<num_tasks>\d+)\|)?(?P<variable>[^|=]+)=(?P<value>[^|]+)\|ref=[^|]*\|(?P<unit>[^|]*)"
)
"""Line of a log of ReFrame 3."""
_UNSAID = ("", "null", "None")


def announces(log: Log) -> bool:
    """Return whether the log has a header as in logs of ReFrame 4, or a line as in logs of ReFrame 3."""
    return any(_LINE.fullmatch(line) or _titles(line) for line in log.lines)


def read(log: Log) -> Iterator[BenchmarkRow]:
    """Yield a record for each value of a performance log that is a time or a bandwidth.

    Raises:
        TableError: The log has a row of another length than its header, a value that is not a number, a test
            without values, or a test without a message size.
    """
    delimiter, titles = "", list[str]()
    for number, line in enumerate(log.lines, 1):
        if compatible := _LINE.fullmatch(line):
            fields = compatible.groupdict()
            value = amount(log, fields["variable"], fields["value"], 1)
            performance = fields["variable"], value, fields["unit"]
            name = fields["display_name"].split()[0]
            yield from _record(log, number, fields, (name, fields["version"]), performance)
        elif header := _titles(line):
            delimiter, titles = header
        elif titles and line.strip():
            yield from _row(log, number, titles, split(line, delimiter))


def _titles(line: str) -> tuple[str, list[str]] | None:
    """Return the delimiter and the names of the columns in a header; None if the line is not a header."""
    if "_value" not in line or "_unit" not in line:
        return None
    delimiter = max(DELIMITERS, key=line.count)
    titles = [title.removeprefix("check_") for title in split(line, delimiter)]
    has_pair = any(title.endswith("_value") and f"{title[:-6]}_unit" in titles for title in titles)
    return (delimiter, titles) if has_pair else None


def _row(log: Log, number: int, titles: list[str], cells: list[str]) -> Iterator[BenchmarkRow]:
    log.check_width(number, len(cells), titles)
    case = {title: cell for title, cell in zip(titles, cells, strict=True) if cell not in _UNSAID}
    name = next((case[key] for key in ("unique_name", "name", "display_name", "info") if key in case), "test")
    variables = [title[:-6] for title in titles if title.endswith("_value") and title in case]
    if not variables:
        _refuse(log, number, f"test {name}: result {case.get('result')!r}, no performance values")
    version = case.get("version", "").removeprefix("reframe ")
    case["display_name"] = f"{case.get('display_name', '')} {case.get('info', '')}"
    for variable in variables:
        value = amount(log, f"{name}, {variable}", case[f"{variable}_value"], 1)
        performance = variable, value, case.get(f"{variable}_unit", "")
        yield from _record(log, number, case, (name, version), performance)


def report(log: Log, document: Any) -> Iterator[BenchmarkRow]:
    """Yield the records in a run report (a JSON document); the records are numbered from 1."""
    version = str(document["session_info"].get("version", ""))
    number = 1
    for case in (case for run in document["runs"] for case in run["testcases"]):
        name = str(case.get("unique_name") or case.get("name"))
        values = list(_performance(case))
        phase = case.get("fail_phase")
        if (case.get("result") not in ("pass", "success") and phase != "performance") or not values:
            reason = case.get("fail_reason") or f"result {case.get('result')!r}, no performance values"
            _refuse(log, 0, f"test {name}: {str(reason).splitlines()[0]}")
        for performance in values:
            for record in _record(log, number, case, (name, version), performance):
                yield record
                number += 1


def _performance(case: Mapping[str, Any]) -> Iterator[tuple[str, float, str]]:
    """Yield (variable, value, unit) of a test case; data versions below 4 have them in ``perfvars``."""
    for key, (value, *reference) in (case.get("perfvalues") or {}).items():
        if value is not None:
            yield key.rpartition(":")[2], value, str(reference[3]) if len(reference) > 3 else ""
    for variable in case.get("perfvars") or ():
        if variable["value"] is not None:
            yield variable["name"], variable["value"], str(variable.get("unit") or "")


def _record(
    log: Log,
    number: int,
    case: Mapping[str, Any],
    test: tuple[str, str],
    performance: tuple[str, float, str],
) -> Iterator[BenchmarkRow]:
    """Yield a record of a value if the value is a time or a bandwidth.

    ``test`` is (name, version of ReFrame), ``performance`` is (variable, value, unit).
    """
    (name, version), (variable, value, unit) = test, performance
    time, rate = TIME_US.get(unit.lower()), _MBPS.get(unit)
    if time is None and rate is None:
        return  # the value is another quantity, such as flops
    display = f"{case.get('display_name', '')} {name}"
    params = dict(_PARAMETER.findall(display)) | {key: case[key] for key in _PROPERTIES if key in case}
    columns = {kind: (key, v) for key, v in params.items() if (kind := column_of(key).name)}
    size = columns.get("message_bytes", ("", None))[1]
    if size is None and (size_in_name := _SIZE_IN_NAME.search(variable)):
        size = int(size_in_name[1]) << 10 * (" kmg".index(size_in_name[2].lower() or " "))
    if size is None:
        _refuse(log, number, f"test {name}, {variable}: no message size in its name or parameters")
    ranks = columns.get("comm_size", ("", case.get("num_tasks")))[1]
    used_keys = {key for key, _ in columns.values()} | set(_PROPERTIES)
    system = {key: case.get(key) for key in ("system", "partition", "environ") if case.get(key)}
    labels = {**system, "variable": variable, **{k: v for k, v in params.items() if k not in used_keys}}
    yield measurement(
        log,
        number,
        benchmark=name,
        version=version,
        collective=collective_in(str(columns.get("collective", ("", name))[1]), str(case)),
        comm_size=None if ranks is None else int(amount(log, f"{name}, ranks", ranks, 1)),
        message_bytes=int(amount(log, f"{name}, size", size, 1)),
        latency_us=None if time is None else value * time,
        bandwidth_MBps=None if rate is None else value * rate,
        labels=words(labels),
    )


def _refuse(log: Log, number: int, reason: str) -> NoReturn:
    place = f"{log.name}:{number}" if number else log.name
    raise TableError(f"{place}: {reason}", "import reports of which every test was measured")
