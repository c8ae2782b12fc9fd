"""Read results in JSON: run reports of ReFrame, and lists of rows in any other document.

The keys of a document determine its format. A report with failed tests raises an error. The records of a
document are numbered from 1; the field ``line`` of a record contains this number.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from autotune.errors import TableError
from autotune.history.benchmark_row import BenchmarkRow
from autotune.tables.importers import reframe
from autotune.tables.importers.delimited import MEASURED, column_of
from autotune.tables.importers.osu import operation
from autotune.tables.importers.runlog import Log, amount, collective_in, measurement, words


def announces(log: Log) -> bool:
    """Return whether the text begins like a JSON document."""
    return next((line.strip()[0] in "{[" for line in log.lines if line.strip()), False)


def read(log: Log) -> list[BenchmarkRow]:
    """Return all records of a document.

    Raises:
        TableError: The text is not JSON, is cut off, is of an unknown format, or has failed tests.
    """
    document = _document(log)
    if isinstance(document, dict) and {"session_info", "runs"} <= document.keys():
        try:
            return list(reframe.report(log, document))
        except (KeyError, TypeError, AttributeError, IndexError) as exc:
            message = f"{log.name}: a report of ReFrame that lacks or changes {exc}"
            raise TableError(message, "known are the formats that docs/import.md names") from exc
    records = _rows(log, document)
    if not records:
        raise TableError(
            f"{log.name}: JSON without a table of measurements",
            "known: ReFrame's run reports, rows with a size and a latency",
        )
    return records


def _document(log: Log) -> Any:
    try:
        return json.loads("\n".join(log.lines).strip(), parse_constant=_no_number)
    except (ValueError, RecursionError) as exc:
        line, reason = getattr(exc, "lineno", 1), getattr(exc, "msg", exc)
        raise TableError(f"{log.name}:{line}: no JSON: {reason}", "was the file cut off?") from exc


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _rows(log: Log, document: Any) -> list[BenchmarkRow]:
    """Return a record for each row, wherever the row is in the document.

    Keys have the same meaning as titles of columns in a plain table. Values in the objects around a list of
    rows belong to all rows of the list.
    """
    records: list[BenchmarkRow] = []
    for row, outer in ((row, outer) for rows, outer in _row_lists(document, {}) for row in rows):
        fields: dict[str, Any] = {}
        labels: dict[str, object] = {}
        for title, value in {**outer, **row}.items():
            column = column_of(title)
            name, unit = column.name, column.unit
            if title.lower() in ("benchmark", "version") and title not in row:
                fields[title.lower()] = str(value)
            elif not name:
                labels[title] = value
            elif value is not None and unit == unit and (name not in fields or title in row):
                fields[name] = value if MEASURED[name].text else amount(log, title, value, unit)
        for integer in ("comm_size", "message_bytes", "iterations"):
            if integer in fields:
                fields[integer] = int(fields[integer])
        text = str(fields.get("collective") or "")
        if not text and (title := str(fields.get("benchmark", ""))):
            text = operation(title)
        fields["collective"] = collective_in(text, log.name) or text.lower()
        records.append(measurement(log, len(records) + 1, **fields, labels=words(labels)))
    return records


def _row_lists(node: Any, outer: Mapping[str, object]) -> Iterator[tuple[list[Any], Mapping[str, object]]]:
    """Yield each list of rows in a part of a document, with the values of the objects around the list.

    A list of rows is a list of objects with a message size and a time or bandwidth.
    """
    if isinstance(node, dict):
        inner = {
            **outer,
            **{
                key: value
                for key, value in node.items()
                if isinstance(value, str | int | float) and value != ""
            },
        }
        for value in node.values():
            yield from _row_lists(value, inner)
    elif isinstance(node, list):
        if node and all(isinstance(row, dict) for row in node):
            names = {column_of(title).name for row in node for title in row}
            if "message_bytes" in names and names & {"latency_us", "bandwidth_MBps"}:
                yield node, outer
                return
        for value in node:
            yield from _row_lists(value, outer)
