"""Results as JSON: ReFrame's run reports, Kernel Tuner's caches and results, and tables of anybody's rows.

What a document is, its own keys say. A report of tests or configurations of which some failed is refused;
`salvage` leaves those out and names them. A record's line is its number in the document, from 1.

References:
    ReFrame, `reframe/schemas/runreport.json` (data versions 1 to 4), https://github.com/reframe-hpc/reframe.
    Kernel Tuner, its cache files (https://kerneltuner.github.io/kernel_tuner/stable/cache_files.html) and the
    schema `T4/1.0.0/results-schema.json`, https://github.com/KernelTuner/kernel_tuner.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from autotune.collectives import called
from autotune.errors import TableError
from autotune.importers.benchmark_row import BenchmarkRow
from autotune.importers.delimited import MEASURED, TIME_US, column_of
from autotune.importers.osu import operation
from autotune.importers.runlog import Log, measurement
from autotune.importers.table import named_in

_MBPS = MEASURED["bandwidth_MBps"].units
_SIZE_IN_NAME = re.compile(r"(?:^|_)(\d+)\s*([kmg]?)i?(?:b|bytes?)?(?=_|$)", re.IGNORECASE)
_PARAMETER = re.compile(r"%([\w.]+)=(\S+)")
_PROPERTIES = ("message_size", "num_tasks")
"""Of a test, where they are no parameters."""
_MANY = 3
"""Of what was left out, so many are named in a refusal."""


@dataclass(slots=True)
class _Found:
    """What is read of one document."""

    log: Log
    records: list[BenchmarkRow] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, labels: Mapping[str, object], **fields: object) -> None:
        """Take a record; what is no number, word or truth of the labels is dropped."""
        words = tuple((name, _word(value)) for name, value in labels.items() if _is_word(value))
        number = len(self.records) + 1
        self.records.append(measurement(self.log, number, **fields, labels=words))

    def leave_out(self, what: str) -> None:
        """Name what was not measured."""
        self.left_out.append(f"{self.log.name}: {what}")


def announces(log: Log) -> bool:
    """Whether the text begins as a JSON document does."""
    return next((line.strip()[0] in "{[" for line in log.lines if line.strip()), False)


def read(log: Log) -> list[BenchmarkRow]:
    """All records of a document.

    Raises:
        TableError: no JSON, cut off, of an unknown kind, or with tests or configurations that failed.
    """
    found, cut = _read(log)
    if cut:
        raise TableError(f"{log.name} is cut off", "--complete takes what is whole")
    if found.left_out:
        some = "; ".join(why.removeprefix(f"{log.name}: ") for why in found.left_out[:_MANY])
        more = f"; and {len(found.left_out) - _MANY} more" if len(found.left_out) > _MANY else ""
        raise TableError(f"{log.name}: {some}{more}", "--complete takes the others and says what it left out")
    return found.records


def salvage(log: Log) -> tuple[list[BenchmarkRow], list[str]]:
    """The records of what is whole, and what was left out; raises as ``read`` where there is no document."""
    found, cut = _read(log)
    return found.records, found.left_out + ([f"{log.name}: its end is cut off"] if cut else [])


def _read(log: Log) -> tuple[_Found, bool]:
    document, cut = _document(log)
    found = _Found(log)
    keys = document.keys() if isinstance(document, dict) else set()
    take = next((take for needed, take in _KINDS if needed <= keys), _rows)
    if take is _rows and not any(True for _ in _row_lists(document, {})):
        raise TableError(
            f"{log.name}: JSON without a table of measurements",
            "known: ReFrame's run reports, Kernel Tuner's caches and results, rows with a size and a latency",
        )
    try:
        take(document, found)
    except (KeyError, TypeError, AttributeError, IndexError) as exc:
        what = f"{log.name}: a document of {take.__name__.strip('_')} that lacks or changes {exc}"
        raise TableError(what, "known are the formats that docs/import.md names") from exc
    return found, cut


def _document(log: Log) -> tuple[Any, bool]:
    """The parsed document, and whether it had to be closed: a cache is so while Kernel Tuner writes it."""
    text = "\n".join(log.lines).strip()
    try:
        return json.loads(text, parse_constant=_no_number), False
    except (ValueError, RecursionError) as exc:
        error = exc
    end = text.rfind("}")
    if '"cache"' in text and end > 0:
        try:
            return json.loads(text[: end + 1] + "}}", parse_constant=_no_number), True
        except (ValueError, RecursionError):
            pass
    line = getattr(error, "lineno", 1)
    raise TableError(f"{log.name}:{line}: no JSON: {getattr(error, 'msg', error)}", "was the file cut off?")


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _reframe(document: Any, found: _Found) -> None:
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
    case: Mapping[str, Any], name: str, version: str, its: tuple[str, float, str], found: _Found
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
    used = {key for key, _ in columns.values()} | set(_PROPERTIES)
    system = {key: case.get(key) for key in ("system", "partition", "environ") if case.get(key)}
    found.add(
        {**system, "variable": variable, **{k: v for k, v in params.items() if k not in used}},
        benchmark=name,
        version=version,
        collective=_collective(str(columns.get("collective", ("", name))[1]), str(case)),
        comm_size=columns.get("comm_size", ("", case.get("num_tasks")))[1],
        message_bytes=int(_amount(found.log, f"{name}, size", size, 1)),
        latency_us=None if time is None else value * time,
        bandwidth_MBps=None if rate is None else value * rate,
    )


def _collective(*texts: str) -> str:
    return next((name for text in texts if (name := called(text) or named_in(text))), "")


def _cache_of_kernel_tuner(document: Any, found: _Found) -> None:
    names = document["tune_params_keys"]
    device = {"device": document.get("device_name", "")}
    for key, result in document["cache"].items():
        values = {name: result[name] for name in names}
        if not isinstance(result.get("time"), int | float):
            found.leave_out(f"configuration {key}: {result.get('time')}")
            continue
        _kernel(document["kernel_name"], {**device, **values}, result["time"], result.get("times"), found)


def _results_of_kernel_tuner(document: Any, found: _Found) -> None:
    for number, result in enumerate(document["results"], 1):
        if result["invalidity"] != "correct":
            found.leave_out(f"configuration {number}: {result['invalidity']}")
            continue
        times = result["times"].get("runtimes") or []
        stated = {its["name"]: its["value"] for its in result.get("measurements", ())}.get("time")
        if stated is None and not times:
            found.leave_out(f"configuration {number}: no time among its measurements")
            continue
        _kernel("", result["configuration"], fmean(times) if stated is None else stated, times, found)


def _kernel(
    name: str, values: Mapping[str, object], time_ms: float, times_ms: list[float] | None, found: _Found
) -> None:
    """A configuration; a kernel has no message, its size is 0."""
    us = [1e3 * ms for ms in times_ms or ()]
    found.add(
        values,
        benchmark=f"Kernel Tuner {name}".strip(),
        message_bytes=0,
        latency_us=1e3 * time_ms,
        min_us=min(us, default=None),
        max_us=max(us, default=None),
        iterations=len(us) or None,
    )


def _rows(document: Any, found: _Found) -> None:
    """Rows as of a plain table, wherever they stand; words above them are labels of all."""
    for rows, above in _row_lists(document, {}):
        for row in rows:
            fields: dict[str, Any] = {}
            labels: dict[str, object] = {}
            for title, value in {**above, **row}.items():
                name, unit = column_of(title)
                if title.lower() in ("benchmark", "version") and title not in row:
                    fields[title.lower()] = str(value)
                elif not name:
                    labels[title] = value
                elif value is not None and unit == unit and (name not in fields or title in row):
                    fields[name] = value if MEASURED[name].text else _amount(found.log, title, value, unit)
            for whole in ("comm_size", "message_bytes", "iterations"):
                if whole in fields:
                    fields[whole] = int(fields[whole])
            said = str(fields.get("collective") or "")
            if not said and (title := str(fields.get("benchmark", ""))):
                said = operation(title)
            collective = _collective(said, found.log.name) or said.lower()
            found.add(labels, **{"latency_us": None, **fields, "collective": collective})


def _amount(log: Log, title: str, value: object, unit: float) -> float:
    try:
        return float(value) * unit  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError):
        raise TableError(f"{log.name}: {title} is {value!r}", "it must be a number") from None


def _row_lists(node: Any, above: Mapping[str, object]) -> Iterator[tuple[list[Any], Mapping[str, object]]]:
    """Lists of objects that name a size and something measured, with the words that stand above them."""
    if isinstance(node, dict):
        here = {**above, **{key: value for key, value in node.items() if _is_word(value)}}
        for value in node.values():
            yield from _row_lists(value, here)
    elif isinstance(node, list):
        if node and all(isinstance(row, dict) for row in node):
            names = {column_of(title)[0] for row in node for title in row}
            if "message_bytes" in names and names & {"latency_us", "bandwidth_MBps"}:
                yield node, above
                return
        for value in node:
            yield from _row_lists(value, above)


def _is_word(value: object) -> bool:
    return isinstance(value, str | int | float) and value != ""


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_KINDS: tuple[tuple[set[str], Callable[[Any, _Found], None]], ...] = (
    ({"session_info", "runs"}, _reframe),
    ({"kernel_name", "cache"}, _cache_of_kernel_tuner),
    ({"results", "schema_version"}, _results_of_kernel_tuner),
)
"""Keys by which a document is told → what takes it; any other one can hold rows."""
