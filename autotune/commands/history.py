"""``history DIR``: all measurements of a campaign as a table."""

import sys
from pathlib import Path

from autotune.campaign.directory import read_campaign
from autotune.errors import TableError, allowed
from autotune.exporters.writing import write_files


def history(directory: Path, table_format: str, out: Path | None) -> None:
    """Print or write all measurements.

    Raises:
        TableError: an unknown format, or Parquet without a file.
    """
    from autotune.views.frames import FORMATS, history_frame, table_bytes

    if table_format not in FORMATS:
        raise TableError(f"--format {table_format}", allowed(table_format, FORMATS))
    if table_format == "parquet" and out is None:
        raise TableError(
            "Parquet is binary and does not go to the terminal", "name a file: --out history.parquet"
        )
    print_or_write(table_bytes(history_frame(read_campaign(directory).history), table_format), out)


def print_or_write(table: bytes, out: Path | None) -> None:
    """Write a table into a file, or where none is named to standard output.

    Raises:
        UserError: the file cannot be written.
        StorageError: the disk is full or read-only.
    """
    if out is None:
        sys.stdout.write(table.decode())
    else:
        write_files({out: table})
