"""``import FILE…``: other people's measurements as one table."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from autotune.commands.history import print_or_write
from autotune.errors import TableError, UserError
from autotune.importers import BenchmarkRow, NamePattern, read, read_complete, read_noted, told_apart
from autotune.importers.table import as_delimited
from autotune.resources import MOST_BYTES, decoded, user_text
from autotune.stacks.asked import collective_named


def import_files(
    paths: Sequence[Path],
    out: Path | None,
    comm_size: int | None = None,
    collective: str | None = None,
    from_name: str = "",
    complete: bool = False,
) -> int:
    """Write the measurements in all files as one table; their number.

    All files are read before anything is written, so one bad file leaves nothing half-done.

    ``-`` is standard input, a directory all files below it; ``*.parquet`` is written as Parquet, everything
    else as CSV, to standard output where no file is named. Ranks and operation are for rows that do not say.
    ``from_name`` is the template of the files' names, which those of a directory have to fit; ``complete``
    takes the whole tables of a file in which others are not, and says what was left out.

    Raises:
        TableError: a file that cannot be read, or that is not a complete log or table.
        UserError: a template that says nothing, no such operation, or the table cannot be written.
    """
    pattern = NamePattern.of(from_name) if from_name else None
    files, others = _files(paths, pattern)
    named = collective_named(collective) if collective else ""
    records, left_out = [], [f"{n} files of {d} that do not fit {from_name}" for d, n in others.items() if n]
    for path in files:
        text, name = _text(path)
        found, without = (read_complete if complete else read_noted)(text, name, named)
        left_out += without
        records += pattern.completed(found) if pattern else found
    records = _pooled(_whole(records, comm_size, named))
    from autotune.views.frames import measurement_frame

    print_or_write(measurement_frame(records), out)
    if out is not None:
        what = "file" if len(files) == 1 else "files"
        sys.stderr.write(f"{len(records)} rows of {len(files)} {what} in {out}\n")
    sys.stderr.writelines(f"left out: {what}\n" for what in left_out)
    return len(records)


def _files(paths: Sequence[Path], pattern: NamePattern | None) -> tuple[list[Path], dict[Path, int]]:
    """The files that are meant, and of each directory how many do not fit the template."""
    files: list[Path] = []
    others: dict[Path, int] = {}
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        below = list(_below(path))
        fitting = [its for its in below if pattern is None or pattern.fields(str(its)) is not None]
        if not fitting:
            what = f"no file in {path} fits --from-name {pattern.text}" if pattern else f"no file in {path}"
            raise UserError(what, f"there are {', '.join(its.name for its in below[:3])}" if below else "")
        files += fitting
        others[path] = len(below) - len(fitting)
    return files, others


def _below(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(directory).parts):
            yield path


def measurements(
    paths: Sequence[Path], comm_size: int | None = None, collective: str | None = None
) -> list[BenchmarkRow]:
    """Rows of all files, with ranks and operation for rows that lack them.

    Raises:
        TableError: a file that cannot be read, or that is not a complete log or table.
        UserError: no such operation.
    """
    named = collective_named(collective) if collective else ""
    return _pooled(_whole((row for path in paths for row in read(*_text(path), named)), comm_size, named))


def _pooled(rows: list[BenchmarkRow]) -> list[BenchmarkRow]:
    """Rows with labels for what differs between tables; standard error names those where nothing does."""
    labelled, words = told_apart(rows)
    sys.stderr.writelines(f"{text}\n" for text in words)
    return labelled


def _text(path: Path) -> tuple[str, str]:
    """Text and name; what is no UTF-8 is replaced, for logs contain anything."""
    if str(path) == "-":
        try:
            return decoded(sys.stdin.buffer.read(MOST_BYTES), lenient=True), "standard input"
        except ValueError as exc:
            raise TableError(f"standard input cannot be read: {exc}") from exc
    return as_delimited(path) if path.suffix == ".parquet" else user_text(path, lenient=True), str(path)


def _whole(rows: Iterable[BenchmarkRow], comm_size: int | None, collective: str) -> list[BenchmarkRow]:
    return [
        replace(r, comm_size=r.comm_size or comm_size, collective=r.collective or collective) for r in rows
    ]
