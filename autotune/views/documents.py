"""Format JSON documents, in which null replaces infinite and undefined numbers, and CSV without formulas."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from io import StringIO
from typing import Any

from autotune.structure import plain

SCHEMAS = {
    **dict.fromkeys(("status", "status-site", "verify", "verify-app", "report-worth"), 1),
    **dict.fromkeys(("compare", "compare-logs", "compare-guidelines", "compare-winners"), 1),
    **dict.fromkeys(("doctor", "doctor-knobs", "lint", "lint-explain", "plan"), 1),
    **dict.fromkeys(("screen", "screen-surface", "screen-design", "model"), 1),
    **dict.fromkeys(("record", "run", "diagnose"), 1),
    **dict.fromkeys(("guard-check", "guard-history", "guard-bisect"), 1),
}
"""Maps the name of each document that a verb prints with ``--json`` to the version of its schema.

The name consists of the verb and the option that selects its work. The version is raised when a key changes
or is removed, and not when a key is added. ``docs/schemas/NAME.schema.json`` describes the document."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters with which a formula in a spreadsheet can begin (OWASP, "CSV Injection")."""


def json_text(document: Any, ascii_only: bool = True) -> str:
    """Return a document as indented JSON; if ``ascii_only``, characters outside ASCII are escaped."""
    return json.dumps(plain(document), indent=1, ensure_ascii=ascii_only) + "\n"


def answer_text(name: str, document: Mapping[str, Any]) -> str:
    """Return the JSON text that a verb prints for programs; its first key is ``schema``."""
    return json_text({"schema": f"autotune/{name}/{SCHEMAS[name]}", **document})


def cell(value: Any) -> Any:
    """Return a value for a spreadsheet, with a quote before it if a spreadsheet would read it as a formula.

    Numbers are returned unchanged, also numbers that are written as text.
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    with suppress(ValueError):
        float(value)
        return value
    return f"'{value}"


def csv_text(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return rows as CSV with a header; ``cell`` makes values safe, and a missing value is an empty field."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(cell, columns))
    writer.writerows([cell(row.get(column, "")) for column in columns] for row in rows)
    return text.getvalue()


def fields_of(item: object, *names: str) -> dict[str, Any]:
    """Return the named fields of an object, as a dictionary."""
    return {name: getattr(item, name) for name in names}
