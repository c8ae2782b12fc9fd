"""Read plain delimited tables such as CSV, with a header like `Processes,Size,Latency`.

The first line that is neither empty nor a comment contains the names of the columns. Case, blanks, quotes and
underscores in these names are ignored (`MessageSize`). A unit may be part of a name, in brackets or as its
last word: `Latency (us)`, `time_ms`, `Message Size [KiB]`. Without a unit a latency is in µs and a size in
bytes; 1 KB is 1024 bytes, as in all MPI benchmarks. Columns are separated by commas, semicolons, tabs or
vertical bars; if the separator is not a comma, numbers may have decimal commas. A column with any other name
becomes a label.
"""

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from autotune.collectives import COLLECTIVES, Size
from autotune.history.benchmark_row import BenchmarkRow
from autotune.resources import MOST_COLUMNS, facts
from autotune.tables.importers.runlog import Log, measurement
from autotune.text_table import LEAST_US, named_in, operation

_KILO = {f"{k}{b}": float(1 << 10 * (i + 1)) for i, k in enumerate("kmg") for b in ("", "b", "ib")}
_BYTES = {"b": 1.0, "byte": 1.0, "bytes": 1.0} | _KILO
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
DELIMITERS = (",", ";", "\t", "|")  # Possible separators of columns.


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """A quantity that a column can contain, and the usual titles of columns with this quantity."""

    names: str  # Titles in lower case, with underscores between their words; blanks separate the titles.
    units: Mapping[str, float] = field(default_factory=dict)
    """Maps each unit to the factor that converts a value to this project's unit."""
    whole: bool = False  # Whether only whole numbers are valid.
    text: bool = False  # Whether the column contains text instead of numbers.
    unit_needed: str = ""
    """Titles, in the form of ``names``, that mean this quantity only if they contain a unit."""


_TABLE = facts("tables/importers/columns")
_UNITS: Mapping[str, Mapping[str, float]] = _TABLE["units"] | {"bytes": _BYTES, "": {}}
TIME_US = _UNITS["time_us"]  # Maps each unit of time to its length in µs.


def _kinds(table: str) -> dict[str, ColumnKind]:
    columns = _TABLE[table].items()
    return {
        name: ColumnKind(**column | {"units": _UNITS[column.get("units", "")]}) for name, column in columns
    }


SHARED: Mapping[str, ColumnKind] = _kinds("shared")
"""Kinds of columns that occur both in tables of measurements and in tables of an application's calls."""
MEASURED: Mapping[str, ColumnKind] = {**SHARED, **_kinds("measured")}
"""Kinds of columns in tables of measurements."""
_IMPORTED: Mapping[str, ColumnKind] = _kinds("imported")
"""Kinds of the first columns of a table that `import` wrote; its other columns have the names of a record's
fields."""

_HISTORY = ("trial", "phase", "subject", "status", "reason")
"""Titles of the first columns of a table with a campaign's history, as `history` prints it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, as its title describes it."""

    title: str
    name: str = ""  # Name of the column's kind, a key of ``MEASURED``; empty if the column is a label.
    unit: float = 1.0
    """Factor that converts values to this project's unit; NaN if the title lacks a unit that it needs."""


def meaning(title: str) -> str:
    """Return the quantity in a column with this title, as a key of ``SHARED``; empty if it is no such key."""
    return column_of(title, SHARED).name


def announces(log: Log, kinds: Mapping[str, ColumnKind] = MEASURED) -> bool:
    """Return whether the log's header has a column of sizes and a column of a kind that is not in ``SHARED``.

    A barrier carries no data, so a table of its times needs a column of ranks instead of sizes.
    """
    columns = _header(log, kinds)[2]
    names = {column.name for column in columns}
    sizeless = kinds is MEASURED and {"comm_size", "latency_us"} <= names
    return _readable(columns) or (sizeless and ("collective" in names or _without_data(log)))


def without_failed_launches(log: Log) -> tuple[Log, list[str]]:
    """Return a campaign's history without the rows of failed launches, and any other log unchanged.

    The row of a failed launch may quote the launch's output, which must not be read as a measurement.

    Returns:
        The log with an empty line in place of each removed row, and a list of a sentence with the number of
        these rows; the list is empty if no row was removed.
    """
    start, delimiter, columns = _header(log, MEASURED)
    if tuple(c.title for c in columns[: len(_HISTORY)]) != _HISTORY:
        return log, []
    lines, status = list(log.lines), _HISTORY.index("status")
    for number, line in enumerate(lines[start:], start):
        cells = split(line, delimiter) if line else []
        if len(cells) == len(columns) and cells[status] != "ok":
            lines[number] = ""
    failed = sum(old != new for old, new in zip(log.lines, lines, strict=True))
    sentence = f"{failed} row{'s' * (failed != 1)} of {log.name} whose status is not ok"
    return replace(log, lines=tuple(lines)), [sentence] if failed else []


def read(log: Log) -> list[BenchmarkRow]:
    """Return a record for each row of the table.

    Raises:
        TableError: The table has no rows, a row of another length than the header, a value that is not a
            number or out of range, two columns of the same meaning, or a time without a unit.
    """
    titles = tuple(column.title for column in _header(log, MEASURED)[2])
    if titles[: len(_IMPORTED)] == tuple(_IMPORTED):
        return _imported_before(log)
    measurements = []
    for number, values, labels in rows(log, MEASURED):
        if isinstance(collective := values.get("collective"), str):
            values["collective"] = operation(collective)
        merged = {"collective": log.collective or named_in(log.name), **values}
        measurements.append(measurement(log, number, labels=labels, **merged))
    return measurements


def _imported_before(log: Log) -> list[BenchmarkRow]:
    """Return the records in a table that `import` wrote, each with the file and line of its origin."""
    exact = {name: replace(kind, names=name.lower(), unit_needed="") for name, kind in MEASURED.items()}
    measurements = []
    for number, values, cells in rows(log, {**_IMPORTED, **exact}):
        origin = {name: values.pop(name) for name in ("source", "line") if name in values}
        labels = tuple((title.removeprefix("label."), cell) for title, cell in cells if cell)
        record = measurement(log, number, labels=labels, **values)
        measurements.append(replace(record, **origin))  # type: ignore[arg-type]  # of `_IMPORTED`
    return measurements


def rows(
    log: Log, kinds: Mapping[str, ColumnKind]
) -> Iterator[tuple[int, dict[str, str | float], tuple[tuple[str, str], ...]]]:
    """Yield the rows of a table as (line number, values, labels).

    ``values`` maps the name of each quantity to its value in this project's unit; a quantity with an empty
    cell is missing.

    Raises:
        TableError: As in `read`.
    """
    start, delimiter, columns = _header(log, kinds)
    names = [c.name for c in columns if c.name]
    if repeated := [n for n in names if names.count(n) > 1]:
        titles = [c.title for c in columns if c.name == repeated[0]]
        log.fail(start, f"columns {' and '.join(map(repr, titles))} mean the same", "keep one of them")
    for column in columns:
        if math.isnan(column.unit):
            log.fail(start, f"{column.title!r} does not say its unit", f"write it like '{column.title} (us)'")
    no_rows, decimals = True, set[int]()
    for number, line in enumerate(log.lines[start:], start + 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        n_decimals = len(line.rpartition(".")[2]) if re.search(r"\.\d*$", line) else 0
        last = number == len(log.lines) and not log.terminated
        if last and len(decimals) == 1 and n_decimals < min(decimals):
            log.fail(number, f"the table is cut off in its last number: {line[-20:]!r}", "copy it again")
        decimals.add(n_decimals)
        cells = split(line, delimiter)
        if no_rows and cells and all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            continue  # this is the line of dashes below the header of a Markdown table
        log.check_width(number, len(cells), [c.title for c in columns], f" (line {start})")
        no_rows = False
        pairs = list(zip(columns, cells, strict=True))
        values = {
            c.name: _value(log, number, c, kinds[c.name], cell, delimiter)
            for c, cell in pairs
            if c.name and cell
        }
        if "message_bytes" not in values:
            if kinds is not MEASURED or not _without_data(log, str(values.get("collective", ""))):
                log.fail(number, "a row without a message size")
            values["message_bytes"] = 0
        yield number, values, tuple((c.title, cell) for c, cell in pairs if not c.name)
    if no_rows:
        log.fail(start, "a table without rows")


def _without_data(log: Log, collective: str = "") -> bool:
    """Return whether the operation carries no data, such as a barrier.

    A row, the user or the name of the file give the operation.
    """
    name = operation(collective) if collective else log.collective or named_in(log.name)
    return name in COLLECTIVES and COLLECTIVES[name].size is Size.NONE


def _decimal(cell: str, delimiter: str) -> str:
    """Return a cell with a point instead of a decimal comma.

    A comma before exactly three digits is not replaced, because it may separate thousands, unless columns are
    separated by semicolons.
    """
    comma = delimiter != "," and re.fullmatch(r"-?\d+,\d+", cell)
    return cell.replace(",", ".") if comma and (delimiter == ";" or not re.search(r",\d{3}$", cell)) else cell


def _value(log: Log, number: int, column: Column, kind: ColumnKind, cell: str, delimiter: str) -> str | float:
    if kind.text:
        return cell
    if not kind.whole:
        cell = _decimal(cell, delimiter)
    scale, text = column.unit, cell
    if kind.units is _BYTES and (size := _SIZE.fullmatch(cell)) and size[2].lower() in _BYTES:
        scale, text = _BYTES[size[2].lower()], size[1]
    try:
        value = float(text) * scale
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf or (kind.whole and value != int(value)):
        expected = "a whole number" if kind.whole else "a number"
        log.fail(number, f"{column.title} is {cell!r}", f"it must be {expected} of at least 0")
    if column.name == "latency_us" and column.unit == 1.0 and 0 < value < LEAST_US:
        message = f"{column.title} is {cell} µs, less than any call takes"
        log.fail(number, message, "say its unit in the header")
    return int(value) if kind.whole else value


def _header(log: Log, kinds: Mapping[str, ColumnKind]) -> tuple[int, str, tuple[Column, ...]]:
    """Return the header's line number (0 in an empty log), the delimiter of columns, and the columns."""
    for number, line in enumerate(log.lines, 1):
        text = line.lstrip("\ufeff").strip()
        bare = text.lstrip("# ")
        if not bare:
            continue
        delimiter = max(DELIMITERS, key=bare.count)
        titles = split(bare, delimiter)
        if len(titles) > MOST_COLUMNS:
            log.fail(number, f"{len(titles):,} columns", f"at most {MOST_COLUMNS:,} are read")
        columns = tuple(column_of(title, kinds) for title in titles)
        # The text after a comment sign may be a header; all other comments are skipped.
        if not text.startswith("#") or (_readable(columns) and len(columns) > 1):
            return number, delimiter, columns
    return 0, ",", ()


def _readable(columns: tuple[Column, ...]) -> bool:
    names = {c.name for c in columns}
    return "message_bytes" in names and bool(names - {"", *SHARED})


def split(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line without quotes.

    Vertical bars at both ends of a line are a frame, as in Markdown, and do not separate cells.
    """
    if delimiter == "|" and line.strip()[:1] == "|" == line.strip()[-1:]:
        line = line.strip()[1:-1]
    try:
        cells = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:  # the line has a field of more than 131,072 characters, so it is not a row of a table
        return []
    return [cell.strip().strip("'\"").strip() for cell in cells]


def column_of(title: str, kinds: Mapping[str, ColumnKind] = MEASURED) -> Column:
    """Return the column with this title; the words of the title may be separated in any way."""
    words = [w for w in re.split(r"[\s_()\[\]]+", title) if w]
    plain = _matching_column(title, words, kinds)
    # Units may contain capital letters, so they are not split like words in CamelCase.
    parts = ([word] if word.lower() in _BYTES or "/" in word else _CAMEL.split(word) for word in words)
    return plain if plain.name else _matching_column(title, [*chain(*parts)], kinds)


def _matching_column(title: str, words: Sequence[str], kinds: Mapping[str, ColumnKind]) -> Column:
    joined, stem = "".join(words).lower(), "".join(words[:-1]).lower()
    for name, kind in kinds.items():
        names, unit_needed = (text.replace("_", "").split() for text in (kind.names, kind.unit_needed))
        if joined in names:
            return Column(title, name)
        if joined in unit_needed:
            return Column(title, name, math.nan)
        if stem in (*names, *unit_needed):
            unit = kind.units.get(words[-1], kind.units.get(words[-1].lower()))
            if unit is not None:
                return Column(title, name, unit)
    return Column(title)
