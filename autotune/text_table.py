"""Read the rows of a user's table as text, so that messages can name the row and the column of a mistake.

What a notebook shows of a result is a table too, in HTML.

Blanks around a field are removed; an empty field is a missing value.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from io import StringIO
from pathlib import Path

from autotune.collectives import MEASURED, called
from autotune.errors import TableError, UserError, needing
from autotune.resources import MOST_BYTES, MOST_CELLS, MOST_COLUMNS, decoded, user_bytes

_QUOTED = re.compile(r"^'(?=[=+@-])")
"""Matches the quote that this project writes before a text which a spreadsheet would read as a formula."""
_HINT = "a table is a CSV or a Parquet file"

LEAST_US = 1e-3
"""Shortest duration of a call in µs that a table may contain: a few cycles of a processor. A smaller number,
such as 1.5e-6, is probably a duration in seconds."""
_YES, _NO = ("1", "1.0", "true", "yes", "y", "t"), ("", "0", "0.0", "false", "no", "n", "f")

Row = Mapping[str, str]  # One row of a table: name of a column → text, which is empty for a missing value.


def read_rows(path: Path, needed: str) -> tuple[Sequence[str], Sequence[Row]]:
    """Return the columns and rows of a CSV or Parquet file (``*.parquet``).

    Messages count the header as row 1 and the row below as row 2, as an editor does.

    Args:
        path: Path of the file.
        needed: Hint of the error if the table has no rows.

    Raises:
        TableError: The file cannot be read, is too large, has no rows, names a column twice, or has a row
            with another number of fields than there are columns.
        UserError: The file is Parquet, and the library for it is not installed.
    """
    content = user_bytes(path, hint=_HINT)
    try:
        if path.suffix == ".parquet":
            columns, rows = _read_parquet(content)
        else:
            reader = csv.DictReader(
                StringIO(decoded(content).removeprefix("\ufeff"), newline=""), strict=True
            )
            columns = list(reader.fieldnames or ())
            _check_room(len(columns))
            rows = list(_checked(path.name, reader))
    except (ValueError, csv.Error) as exc:
        if isinstance(exc, UserError):
            raise
        raise TableError(f"{path} cannot be read: {exc}", _HINT) from exc
    if not rows:
        raise TableError(f"{path.name} has no rows", needed)
    if len(set(columns)) < len(columns):
        raise TableError(f"{path.name} names a column twice: {', '.join(columns)}")
    return columns, rows


def as_delimited(path: Path) -> str:
    """Return the content of a Parquet file as the text of a CSV file.

    Raises:
        TableError: For the same reasons as in `read_rows`.
    """
    columns, rows = read_rows(path, "a table of measurements has rows")
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row[column] for column in columns] for row in rows)
    return text.getvalue()


def _check_room(n_columns: int, n_cells: int = 0) -> None:
    """Raise an error, before a table is built, if the table would fill the memory.

    Raises:
        ValueError: There are too many columns or values; the message is for users.
    """
    if n_columns > MOST_COLUMNS:
        raise ValueError(f"it has {n_columns:,} columns; at most {MOST_COLUMNS:,} are read")
    if n_cells > MOST_CELLS:
        raise ValueError(f"it has {n_cells:,} values or more; at most {MOST_CELLS:,} are read")


def _checked(name: str, reader: "csv.DictReader[str]") -> Iterator[Row]:
    width = len(reader.fieldnames or ())
    for number, row in enumerate(reader, start=2):
        _check_room(width, width * (number - 1))
        if None in row or None in row.values():
            raise TableError(
                f"{name}, row {number}: not as many fields as there are columns",
                f"columns: {', '.join(reader.fieldnames or ())}",
            )
        yield {column: _QUOTED.sub("", text.strip()) for column, text in row.items()}


def _read_parquet(content: bytes) -> tuple[Sequence[str], Sequence[Row]]:
    """Return the columns and rows of a Parquet file.

    The unpacked size is read from the file first, and checked again while the file is read.

    Raises:
        UserError: The library for Parquet is not installed.
        ValueError: The content is no Parquet file, or too large; the message is for users.
    """
    parquet_is_here()
    from pyarrow import ArrowException, BufferReader
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(BufferReader(content))
        metadata = file.metadata
        chunks = [
            metadata.row_group(i).column(j)
            for i in range(metadata.num_row_groups)
            for j in range(metadata.num_columns)
        ]
        _check_room(
            metadata.num_columns,
            max(metadata.num_rows * metadata.num_columns, sum(c.num_values for c in chunks)),
        )
        # No value is longer than its column chunk. A batch with this number of rows therefore fits into
        # memory even if every value is as long as the longest chunk.
        longest = max((chunk.total_uncompressed_size for chunk in chunks), default=1)
        rows: list[Row] = []
        remaining = MOST_BYTES
        for batch in file.iter_batches(batch_size=max(1, min(1 << 16, MOST_BYTES // max(longest, 1)))):
            remaining -= batch.nbytes
            if remaining < 0:
                raise ValueError(f"it unpacks to more than {MOST_BYTES >> 20} MiB")
            rows += ({c: _text(value) for c, value in row.items()} for row in batch.to_pylist())
    except (ArrowException, OSError) as exc:
        raise ValueError(str(exc)) from exc
    return file.schema_arrow.names, rows


def _text(value: object) -> str:
    """Return a value as it is written in a CSV file: empty for null and for NaN."""
    return "" if value is None or value != value else str(value)


def html_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as HTML, for what a notebook shows of a result; every text is escaped."""

    def line(cells: Iterable[object], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"

    head, body = line(header, "th") if header else "", "".join(line(row, "td") for row in rows)
    return f"<table><caption>{escape(caption)}</caption>{head}{body}</table>"


def parquet_is_here() -> None:
    """Raise an error unless Parquet files can be read; call this before a measurement that will need it.

    Raises:
        UserError: The library for Parquet is not installed.
    """
    with needing("parquet", "a Parquet file"):
        import pyarrow.parquet  # noqa: F401


def says_yes(text: str) -> bool | None:
    """Return whether a field of a table means yes; None if it means neither yes nor no."""
    word = text.strip().lower()
    return word in _YES if word in _YES + _NO else None


def operation(text: str) -> str:
    """Return the collective that a field of a table names; any other field is returned in lower case."""
    return called(text) or text.lower().removeprefix("mpi_")


def named_in(text: str) -> str:
    """Return the longest name of a measured collective or pattern in a text; empty if it contains none."""
    words = "".join(letter if letter.isalpha() else "_" for letter in text.lower())
    return max((name for name in MEASURED if f"_{name}_" in f"_{words}_"), key=len, default="")
