"""Plain tables: `Processes,Size,Latency` and its relatives.

The first line that is neither empty nor a comment names the columns; case, blanks, quotes and underscores
do not matter (`MessageSize`), and units may be part of a name, in brackets or as its last word: `Latency
(us)`, `time_ms`, `Message Size [KiB]`. Without one a latency is in µs and a size in bytes; KB is 1024
bytes, as in all MPI benchmarks. Commas, semicolons, tabs and bars delimit; where commas do not, they may be
decimal. Columns of other names become labels.
"""

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autotune.collectives import COLLECTIVES, Size
from autotune.importers.benchmark_row import BenchmarkRow
from autotune.importers.runlog import Log, measurement
from autotune.importers.table import LEAST_US, named_in, operation
from autotune.resources import MOST_COLUMNS, facts

_KILO = {f"{k}{b}": float(1 << 10 * (i + 1)) for i, k in enumerate("kmg") for b in ("", "b", "ib")}
_BYTES = {"b": 1.0, "byte": 1.0, "bytes": 1.0} | _KILO
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
DELIMITERS = (",", ";", "\t", "|")  # Column separators.


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """A quantity that a column can hold, and its usual titles."""

    names: str  # Lower case, words joined by underscores, separated by blanks.
    units: Mapping[str, float] = field(default_factory=dict)  # Unit → factor to this project's.
    whole: bool = False  # Whole numbers only.
    text: bool = False  # No number at all.
    unit_needed: str = ""  # Those of the names that mean nothing without a unit.


_TABLE = facts("importers/columns")
_UNITS: Mapping[str, Mapping[str, float]] = _TABLE["units"] | {"bytes": _BYTES, "": {}}
TIME_US = _UNITS["time_us"]  # Unit of time → µs.


def _kinds(table: str) -> dict[str, ColumnKind]:
    columns = _TABLE[table].items()
    return {name: ColumnKind(**its | {"units": _UNITS[its.get("units", "")]}) for name, its in columns}


SHARED: Mapping[str, ColumnKind] = _kinds("shared")
"""Columns that tables of measurements and of calls have in common."""
MEASURED: Mapping[str, ColumnKind] = {**SHARED, **_kinds("measured")}  # Columns of a table of measurements.
_OURS: Mapping[str, ColumnKind] = _kinds("imported")
"""Columns that a table which was imported before begins with; its further ones have the names of fields."""

_HISTORY = ("trial", "phase", "subject", "status", "reason")
"""Columns that the table of a campaign's history begins with."""


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    name: str = ""  # Name of its kind; empty for a label.
    unit: float = 1.0  # Factor to this project's unit; not a number where the title should say one.


def meaning(title: str) -> str:
    """The quantity in a column of that title: a name of ``SHARED``, else empty."""
    return _column(title, SHARED).name


def column_of(title: str) -> tuple[str, float]:
    """The quantity in a column (a name of ``MEASURED``, empty for a label), and its factor to our unit.

    The factor is not a number where the title should say a unit and does not.
    """
    column = _column(title, MEASURED)
    return column.name, column.unit


def announces(log: Log, kinds: Mapping[str, ColumnKind] = MEASURED) -> bool:
    """Whether the first line of the table names a size and one more of the kinds that are not shared.

    A table of measurements of a call without data, a barrier, names ranks in place of sizes.
    """
    columns = _header(log, kinds)[2]
    names = {column.name for column in columns}
    sizeless = kinds is MEASURED and {"comm_size", "latency_us"} <= names
    return _readable(columns) or (sizeless and ("collective" in names or _without_data(log)))


def without_failed_launches(log: Log) -> tuple[Log, list[str]]:
    """A campaign's history without the rows of what did not end well; any other log as it is.

    Such a row says that it is no measurement, and its reason may quote what a failed launch printed. These
    lines are empty in the log that is returned; the words say how many they are.
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
    said = f"{failed} row{'s' * (failed != 1)} of {log.name} whose status is not ok"
    return replace(log, lines=tuple(lines)), [said] if failed else []


def read(log: Log) -> list[BenchmarkRow]:
    """A record per row.

    Raises:
        TableError: No rows, a row of another length, a value that is not a number or out of range, two
            columns of the same meaning, or a time without a unit.
    """
    titles = tuple(column.title for column in _header(log, MEASURED)[2])
    if titles[: len(_OURS)] == tuple(_OURS):
        return _imported_before(log)
    measurements = []
    for number, values, labels in rows(log, MEASURED):
        if isinstance(collective := values.get("collective"), str):
            values["collective"] = operation(collective)
        merged = {"collective": log.collective or named_in(log.name), **values}
        measurements.append(measurement(log, number, labels=labels, **merged))
    return measurements


def _imported_before(log: Log) -> list[BenchmarkRow]:
    """The records of a table that was written from records: the same again, of the same files and lines."""
    exact = {name: replace(kind, names=name.lower(), unit_needed="") for name, kind in MEASURED.items()}
    measurements = []
    for number, values, cells in rows(log, {**_OURS, **exact}):
        its = {name: values.pop(name) for name in ("source", "line") if name in values}
        labels = tuple((title.removeprefix("label."), cell) for title, cell in cells if cell)
        here = measurement(log, number, labels=labels, **values)
        measurements.append(replace(here, **its))  # type: ignore[arg-type]  # of `_OURS`
    return measurements


def rows(
    log: Log, kinds: Mapping[str, ColumnKind]
) -> Iterator[tuple[int, dict[str, str | float], tuple[tuple[str, str], ...]]]:
    """The rows of a table: line, values by name (in this project's units, absent where empty), labels.

    Raises:
        TableError: As `read` says.
    """
    start, delimiter, columns = _header(log, kinds)
    names = [c.name for c in columns if c.name]
    if twice := [n for n in names if names.count(n) > 1]:
        titles = [c.title for c in columns if c.name == twice[0]]
        log.fail(start, f"columns {' and '.join(map(repr, titles))} mean the same", "keep one of them")
    for column in columns:
        if math.isnan(column.unit):
            log.fail(start, f"{column.title!r} does not say its unit", f"write it like '{column.title} (us)'")
    empty, decimals = True, set[int]()
    for number, line in enumerate(log.lines[start:], start + 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        last = len(line.rpartition(".")[2]) if re.search(r"\.\d*$", line) else 0
        if number == len(log.lines) and not log.terminated and len(decimals) == 1 and last < min(decimals):
            log.fail(number, f"the table is cut off in its last number: {line[-20:]!r}", "copy it again")
        decimals.add(last)
        cells = split(line, delimiter)
        if empty and cells and all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            continue  # the rule below the header of Markdown
        if len(cells) != len(columns):
            log.fail(
                number,
                f"a row of {len(cells)} values in a table of {len(columns)} columns",
                f"the columns are {', '.join(c.title for c in columns)} (line {start})",
            )
        empty = False
        numbers = [c.name and not (kinds[c.name].whole or kinds[c.name].text) for c in columns]
        cells = [_decimal(cell, delimiter) if its else cell for its, cell in zip(numbers, cells, strict=True)]
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
    if empty:
        log.fail(start, "a table without rows")


def _without_data(log: Log, collective: str = "") -> bool:
    """Whether an operation carries no data: that of a row, the user's, or that of the file's name."""
    its = COLLECTIVES.get(operation(collective) if collective else log.collective or named_in(log.name))
    return its is not None and its.size is Size.NONE


def _decimal(cell: str, delimiter: str) -> str:
    """A cell with a point for its decimal comma; three digits behind one may be thousands, but for ``;``."""
    comma = delimiter != "," and re.fullmatch(r"-?\d+,\d+", cell)
    return cell.replace(",", ".") if comma and (delimiter == ";" or not re.search(r",\d{3}$", cell)) else cell


def _value(
    log: Log, number: int, column: _Column, kind: ColumnKind, cell: str, delimiter: str
) -> str | float:
    """A cell in this project's unit."""
    if kind.text:
        return cell
    scale, text = column.unit, cell
    if kind.units is _BYTES and (size := _SIZE.fullmatch(cell)) and size[2].lower() in _BYTES:
        scale, text = _BYTES[size[2].lower()], size[1]
    try:
        value = float(text) * scale
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf or (kind.whole and value != int(value)):
        what = "a whole number" if kind.whole else "a number"
        log.fail(number, f"{column.title} is {cell!r}", f"it must be {what} of at least 0")
    if column.name == "latency_us" and column.unit == 1.0 and 0 < value < LEAST_US:
        log.fail(
            number, f"{column.title} is {cell} µs, less than any call takes", "say its unit in the header"
        )
    return int(value) if kind.whole else value


def _header(log: Log, kinds: Mapping[str, ColumnKind]) -> tuple[int, str, tuple[_Column, ...]]:
    """Line of the header, delimiter, columns; line 0 for an empty log."""
    for number, line in enumerate(log.lines, 1):
        text = line.lstrip("\ufeff").strip()
        bare = text.lstrip("# ")
        if not bare:
            continue
        delimiter = max(DELIMITERS, key=bare.count)
        titles = split(bare, delimiter)
        if len(titles) > MOST_COLUMNS:
            log.fail(number, f"{len(titles):,} columns", f"at most {MOST_COLUMNS:,} are read")
        columns = tuple(_column(title, kinds) for title in titles)
        # A header may hide behind a comment sign, a comment is not one.
        if not text.startswith("#") or (_readable(columns) and len(columns) > 1):
            return number, delimiter, columns
    return 0, ",", ()


def _readable(columns: tuple[_Column, ...]) -> bool:
    names = {c.name for c in columns}
    return "message_bytes" in names and bool(names - {"", *SHARED})


def split(line: str, delimiter: str) -> list[str]:
    """The cells of a line, without quotes; a bar at both ends of it is a frame, as Markdown has one."""
    if delimiter == "|" and line.strip()[:1] == "|" == line.strip()[-1:]:
        line = line.strip()[1:-1]
    try:
        cells = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:  # a field of more than 131,072 characters: what has one is no row
        return []
    return [cell.strip().strip("'\"").strip() for cell in cells]


def _column(title: str, kinds: Mapping[str, ColumnKind]) -> _Column:
    words = [w for w in re.split(r"[\s_()\[\]]+", title) if w]
    plain = _meant(title, words, kinds)
    return plain if plain.name else _meant(title, [part for w in words for part in _parts(w)], kinds)


def _meant(title: str, words: Sequence[str], kinds: Mapping[str, ColumnKind]) -> _Column:
    """Meaning of a title of these words; how they are joined does not matter."""
    whole, stem = "".join(words).lower(), "".join(words[:-1]).lower()
    for name, kind in kinds.items():
        names, unit_needed = (text.replace("_", "").split() for text in (kind.names, kind.unit_needed))
        if whole in names:
            return _Column(title, name)
        if whole in unit_needed:
            return _Column(title, name, math.nan)
        if stem in (*names, *unit_needed):
            unit = kind.units.get(words[-1], kind.units.get(words[-1].lower()))
            if unit is not None:
                return _Column(title, name, unit)
    return _Column(title)


def _parts(word: str) -> list[str]:
    """The words in one of CamelCase; units, which have capitals of their own, stay whole."""
    return [word] if word.lower() in _BYTES or "/" in word else _CAMEL.split(word)
