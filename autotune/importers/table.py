"""The rows of anybody's table as text, so that what is wrong can be named by row and column.

A field is stripped of blanks; an empty field is a missing value.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from autotune.collectives import MEASURED
from autotune.errors import TableError

Row = Mapping[str, str]
"""One line of a table as text, by column; empty = missing."""


def read_rows(path: Path, needed: str) -> tuple[Sequence[str], Sequence[Row]]:
    """Columns and rows of a CSV or Parquet file (``*.parquet``); the first row is number 2, as in an editor.

    Args:
        path: the file.
        needed: the hint for a table without rows.

    Raises:
        TableError: a file that cannot be read, without rows, with a column named twice, or with a row that
            has not as many fields as there are columns.
    """
    try:
        if path.suffix == ".parquet":
            columns, rows = _read_parquet(path)
        else:
            with path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.DictReader(file, strict=True)
                columns, rows = list(reader.fieldnames or ()), list(_checked(path.name, reader))
    except (OSError, UnicodeDecodeError, csv.Error) as exc:
        raise TableError(f"cannot read {path}: {exc}", "a table is a CSV or a Parquet file") from exc
    if not rows:
        raise TableError(f"{path.name} has no rows", needed)
    if len(set(columns)) < len(columns):
        raise TableError(f"{path.name} names a column twice: {', '.join(columns)}")
    return columns, rows


def _checked(name: str, reader: "csv.DictReader[str]") -> Iterator[Row]:
    for number, row in enumerate(reader, start=2):
        if None in row or None in row.values():
            raise TableError(
                f"{name}, row {number}: not as many fields as there are columns",
                f"columns: {', '.join(reader.fieldnames or ())}",
            )
        yield {column: text.strip() for column, text in row.items()}


def _read_parquet(path: Path) -> tuple[Sequence[str], Sequence[Row]]:
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import read_table

    try:
        table = read_table(path)
    except ArrowInvalid as exc:
        raise OSError(str(exc)) from exc
    return table.column_names, [
        {column: "" if value is None or value != value else str(value) for column, value in row.items()}
        for row in table.to_pylist()
    ]


def named_in(text: str) -> str:
    """The measured collective whose name stands in a text as words; the longest of several, else empty."""
    words = "".join(letter if letter.isalpha() else "_" for letter in text.lower())
    return max((name for name in MEASURED if f"_{name}_" in f"_{words}_"), key=len, default="")
