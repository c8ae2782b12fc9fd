"""``import FILE…``: write the measurements in other people's logs and tables as one table."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from autotune.commands.history import print_or_write
from autotune.errors import TableError, UserError
from autotune.resources import MOST_BYTES, decoded, user_text
from autotune.stacks.asked import collective_named
from autotune.tables.importers import BenchmarkRow, NamePattern, read, read_noted, told_apart
from autotune.text_table import as_delimited
from autotune.views.frames import measurement_table


def import_files(
    paths: Sequence[Path],
    out: Path | None,
    comm_size: int | None = None,
    collective: str | None = None,
    from_name: str = "",
) -> None:
    """Write the measurements in all files as one table.

    All files are read before anything is written, so that a file that cannot be read does not leave a partial
    table.

    Args:
        paths: Files to read; ``-`` means standard input, and a directory means all files below it.
        out: File for the table: Parquet if its name ends in ``.parquet``, otherwise CSV. If it is None, the
            table is printed as CSV.
        comm_size: Communicator size of rows that do not contain one.
        collective: Operation of rows that do not name one.
        from_name: Template of file names; files of a directory whose names do not fit the template are left
            out.

    Raises:
        TableError: a file cannot be read, or is not a complete log or table.
        UserError: the template has no field, the operation is unknown, or the table cannot be written.
    """
    pattern = NamePattern.of(from_name) if from_name else None
    files, unfitting = _files(paths, pattern)
    operation = collective_named(collective) if collective else ""
    records: list[BenchmarkRow] = []
    left_out = [f"{n} files of {folder} that do not fit {from_name}" for folder, n in unfitting.items() if n]
    for path in files:
        rows, omissions = read_noted(*_text(path), operation)
        left_out += omissions
        records += map(pattern.completed, rows) if pattern else rows
    records = _completed(records, comm_size, operation)
    print_or_write(measurement_table(records), out)
    if out is not None:
        noun = "file" if len(files) == 1 else "files"
        sys.stderr.write(f"{len(records)} rows of {len(files)} {noun} in {out}\n")
    sys.stderr.writelines(f"left out: {omission}\n" for omission in left_out)


def _files(paths: Sequence[Path], pattern: NamePattern | None) -> tuple[list[Path], dict[Path, int]]:
    """Return the files that ``paths`` stand for, and for each directory the number of files left out.

    Files of a directory are left out if their names do not fit the template.
    """
    files: list[Path] = []
    unfitting: dict[Path, int] = {}
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        below = [
            file
            for file in sorted(path.rglob("*"))
            if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts)
        ]
        fitting = [file for file in below if pattern is None or pattern.fields(str(file)) is not None]
        if not fitting:
            complaint = f"no file in {path}{f' fits --from-name {pattern.text}' if pattern else ''}"
            hint = f"there are {', '.join(file.name for file in below[:3])}" if below else ""
            raise UserError(complaint, hint)
        files += fitting
        unfitting[path] = len(below) - len(fitting)
    return files, unfitting


def measurements(
    paths: Sequence[Path], comm_size: int | None = None, collective: str | None = None
) -> list[BenchmarkRow]:
    """Return the rows in all files.

    ``comm_size`` and ``collective`` are entered in rows that lack a communicator size or an operation.

    Raises:
        TableError: a file cannot be read, or is not a complete log or table.
        UserError: the operation is unknown.
    """
    operation = collective_named(collective) if collective else ""
    rows = (row for path in paths for row in read(*_text(path), operation))
    return _completed(rows, comm_size, operation)


def _completed(rows: Iterable[BenchmarkRow], comm_size: int | None, collective: str) -> list[BenchmarkRow]:
    """Return the rows with missing ranks and operations filled in, and labels for settings that differ."""
    labelled, words = told_apart(
        [replace(r, comm_size=r.comm_size or comm_size, collective=r.collective or collective) for r in rows]
    )
    sys.stderr.writelines(f"{text}\n" for text in words)
    return labelled


def _text(path: Path) -> tuple[str, str]:
    """Return the text of a file (of standard input for ``-``), and the name of the file for messages."""
    if str(path) == "-":
        try:
            return decoded(sys.stdin.buffer.read(MOST_BYTES), lenient=True), "standard input"
        except ValueError as exc:
            raise TableError(f"standard input cannot be read: {exc}") from exc
    return as_delimited(path) if path.suffix == ".parquet" else user_text(path, lenient=True), str(path)
