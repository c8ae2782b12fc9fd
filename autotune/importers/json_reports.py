"""Results as JSON: ReFrame's run reports, Kernel Tuner's caches and results, and tables of anybody's rows.

What a document is, its own keys say. A report of tests or configurations of which some failed is refused;
`salvage` leaves those out and names them. A record's line is its number in the document, from 1.

References:
    Kernel Tuner, its cache files (https://kerneltuner.github.io/kernel_tuner/stable/cache_files.html) and the
    schema `T4/1.0.0/results-schema.json`, https://github.com/KernelTuner/kernel_tuner.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from statistics import fmean
from typing import Any

from autotune.errors import TableError
from autotune.importers import reframe
from autotune.importers.benchmark_row import BenchmarkRow
from autotune.importers.delimited import MEASURED, column_of
from autotune.importers.found import RowsFound, amount, collective_in, is_word
from autotune.importers.osu import operation
from autotune.importers.runlog import Log


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
    return found.whole()


def salvage(log: Log) -> tuple[list[BenchmarkRow], list[str]]:
    """The records of what is whole, and what was left out; raises as ``read`` where there is no document."""
    found, cut = _read(log)
    return found.records, found.left_out + ([f"{log.name}: its end is cut off"] if cut else [])


def _read(log: Log) -> tuple[RowsFound, bool]:
    document, cut = _document(log)
    found = RowsFound(log)
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


def _reframe(document: Any, found: RowsFound) -> None:
    reframe.report(document, found)


def _cache_of_kernel_tuner(document: Any, found: RowsFound) -> None:
    names = document["tune_params_keys"]
    device = {"device": document.get("device_name", "")}
    for key, result in document["cache"].items():
        values = {name: result[name] for name in names}
        if not isinstance(result.get("time"), int | float):
            found.leave_out(f"configuration {key}: {result.get('time')}")
            continue
        _kernel(document["kernel_name"], {**device, **values}, result["time"], result.get("times"), found)


def _results_of_kernel_tuner(document: Any, found: RowsFound) -> None:
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
    name: str, values: Mapping[str, object], time_ms: float, times_ms: list[float] | None, found: RowsFound
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


def _rows(document: Any, found: RowsFound) -> None:
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
                    fields[name] = value if MEASURED[name].text else amount(found.log, title, value, unit)
            for whole in ("comm_size", "message_bytes", "iterations"):
                if whole in fields:
                    fields[whole] = int(fields[whole])
            said = str(fields.get("collective") or "")
            if not said and (title := str(fields.get("benchmark", ""))):
                said = operation(title)
            collective = collective_in(said, found.log.name) or said.lower()
            found.add(labels, **{"latency_us": None, **fields, "collective": collective})


def _row_lists(node: Any, above: Mapping[str, object]) -> Iterator[tuple[list[Any], Mapping[str, object]]]:
    """Lists of objects that name a size and something measured, with the words that stand above them."""
    if isinstance(node, dict):
        here = {**above, **{key: value for key, value in node.items() if is_word(value)}}
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


_KINDS: tuple[tuple[set[str], Callable[[Any, RowsFound], None]], ...] = (
    ({"session_info", "runs"}, _reframe),
    ({"kernel_name", "cache"}, _cache_of_kernel_tuner),
    ({"results", "schema_version"}, _results_of_kernel_tuner),
)
"""Keys that identify a document → its reader; any other document can hold rows."""
