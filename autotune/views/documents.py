"""Format JSON documents, in which null replaces infinite and undefined numbers, and CSV without formulas."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from io import StringIO
from typing import Any

from autotune.structure import plain

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters with which a formula in a spreadsheet can begin (OWASP, "CSV Injection")."""


def json_text(document: Any, ascii_only: bool = True) -> str:
    """Return a document as indented JSON; if ``ascii_only``, characters outside ASCII are escaped."""
    return json.dumps(plain(document), indent=1, ensure_ascii=ascii_only) + "\n"


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
