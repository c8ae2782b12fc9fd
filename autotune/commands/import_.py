"""``import FILE…``: other people's measurements as one table."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autotune.commands.history import print_or_write
from autotune.errors import TableError
from autotune.importers import Measurement, read


def import_files(
    paths: Sequence[Path], out: Path | None, comm_size: int | None = None, collective: str | None = None
) -> int:
    """Write the measurements in all files as one table; their number.

    All files are read before anything is written, so one bad file leaves nothing half-done.

    ``-`` is standard input; ``*.parquet`` is written as Parquet, everything else as CSV, to standard output
    where no file is named. Ranks and operation are for rows that do not say.

    Raises:
        TableError: a file that cannot be read, or that is not a complete log or table.
        UserError: the table cannot be written.
        StorageError: the disk is full or read-only.
    """
    records = [
        _completed(measurement, comm_size, collective) for path in paths for measurement in read(*_text(path))
    ]
    from autotune.views.frames import measurement_frame

    print_or_write(measurement_frame(records), out)
    if out is not None:
        sys.stderr.write(
            f"{len(records)} rows of {len(paths)} {'file' if len(paths) == 1 else 'files'} in {out}\n"
        )
    return len(records)


def _text(path: Path) -> tuple[str, str]:
    """Text and name; what is no UTF-8 is replaced, for logs contain anything."""
    if str(path) == "-":
        return sys.stdin.read(), "standard input"
    try:
        return path.read_text(encoding="utf-8", errors="replace"), str(path)
    except OSError as exc:
        raise TableError(f"cannot read {path}: {exc.strerror or exc}") from exc


def _completed(measurement: Measurement, comm_size: int | None, collective: str | None) -> Measurement:
    return replace(
        measurement,
        comm_size=measurement.comm_size or comm_size,
        collective=measurement.collective or collective or "",
    )
