"""Read results in JSON: ReFrame's run reports, and lists of rows in any other document.

The keys of a document determine its format. A report with failed tests raises an error. The records of a
document are numbered from 1, and a record's ``line`` is its number.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from autotune.errors import TableError
from autotune.history.benchmark_row import BenchmarkRow
from autotune.tables.importers import reframe
from autotune.tables.importers.delimited import MEASURED, column_of
from autotune.tables.importers.found import RowsFound, amount, collective_in, is_word
from autotune.tables.importers.osu import operation
from autotune.tables.importers.runlog import Log


def announces(log: Log) -> bool:
    """Return whether the text begins like a JSON document."""
    return next((line.strip()[0] in "{[" for line in log.lines if line.strip()), False)


def read(log: Log) -> list[BenchmarkRow]:
    """Return all records of a document.

    Raises:
        TableError: The text is no JSON, is cut off, is of an unknown format, or has tests that failed.
    """
    return _read(log).whole()


def _read(log: Log) -> RowsFound:
    document = _document(log)
    records = RowsFound(log)
    keys = document.keys() if isinstance(document, dict) else set()
    take = reframe.report if {"session_info", "runs"} <= keys else _rows
    if take is _rows and not any(True for _ in _row_lists(document, {})):
        raise TableError(
            f"{log.name}: JSON without a table of measurements",
            "known: ReFrame's run reports, rows with a size and a latency",
        )
    try:
        take(document, records)
    except (KeyError, TypeError, AttributeError, IndexError) as exc:
        message = f"{log.name}: a report of ReFrame that lacks or changes {exc}"
        raise TableError(message, "known are the formats that docs/import.md names") from exc
    return records


def _document(log: Log) -> Any:
    try:
        return json.loads("\n".join(log.lines).strip(), parse_constant=_no_number)
    except (ValueError, RecursionError) as exc:
        line, reason = getattr(exc, "lineno", 1), getattr(exc, "msg", exc)
        raise TableError(f"{log.name}:{line}: no JSON: {reason}", "was the file cut off?") from exc


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _rows(document: Any, records: RowsFound) -> None:
    """Add a record for each row of a document, wherever the row is.

    Keys have the meaning of the titles in a plain table. Values in the objects around a list of rows belong
    to all of its rows.
    """
    for rows, outer in _row_lists(document, {}):
        for row in rows:
            fields: dict[str, Any] = {}
            labels: dict[str, object] = {}
            for title, value in {**outer, **row}.items():
                name, unit = column_of(title)
                if title.lower() in ("benchmark", "version") and title not in row:
                    fields[title.lower()] = str(value)
                elif not name:
                    labels[title] = value
                elif value is not None and unit == unit and (name not in fields or title in row):
                    fields[name] = value if MEASURED[name].text else amount(records.log, title, value, unit)
            for integer in ("comm_size", "message_bytes", "iterations"):
                if integer in fields:
                    fields[integer] = int(fields[integer])
            text = str(fields.get("collective") or "")
            if not text and (title := str(fields.get("benchmark", ""))):
                text = operation(title)
            collective = collective_in(text, records.log.name) or text.lower()
            records.add(labels, **{"latency_us": None, **fields, "collective": collective})


def _row_lists(node: Any, outer: Mapping[str, object]) -> Iterator[tuple[list[Any], Mapping[str, object]]]:
    """Yield each list of rows in a part of a document, with the values of the objects around the list.

    A list of rows is a list of objects with a message size and a time or bandwidth.
    """
    if isinstance(node, dict):
        inner = {**outer, **{key: value for key, value in node.items() if is_word(value)}}
        for value in node.values():
            yield from _row_lists(value, inner)
    elif isinstance(node, list):
        if node and all(isinstance(row, dict) for row in node):
            names = {column_of(title)[0] for row in node for title in row}
            if "message_bytes" in names and names & {"latency_us", "bandwidth_MBps"}:
                yield node, outer
                return
        for value in node:
            yield from _row_lists(value, outer)
