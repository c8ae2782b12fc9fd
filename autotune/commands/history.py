"""``history DIR``: all measurements of a campaign as a table."""

import sys
from pathlib import Path

from autotune.campaign.directory import read_campaign
from autotune.errors import TableError, allowed, printable
from autotune.exporters.writing import write_files
from autotune.importers.table import parquet_is_here
from autotune.views.frames import FORMATS, Frame, history_frame, table_bytes


def history(directory: Path, table_format: str, out: Path | None, everything: bool = False) -> None:
    """Print or write all measurements; raises as ``format_of`` and ``print_or_write``.

    ``everything``: also the parameters that every launch left at the stack's own value.
    """
    wanted, campaign = format_of(out, table_format), read_campaign(directory)
    unset = None if everything else campaign.about.whole.unset
    print_or_write(history_frame(campaign.history, unset), out, wanted)


def format_of(out: Path | None, table_format: str = "") -> str:
    """The format of a table: where none is asked for, that of the file's name.

    Raises:
        TableError: an unknown format, or Parquet without a file.
        UserError: Parquet, and its library is not installed.
    """
    wanted = table_format or ("parquet" if out and out.suffix == ".parquet" else "csv")
    if wanted not in FORMATS:
        raise TableError(f"--format {wanted}", allowed(wanted, FORMATS))
    if wanted == "parquet" and out is None:
        raise TableError(
            "Parquet is binary and does not go to the terminal", "name a file: --out history.parquet"
        )
    if wanted == "parquet":
        parquet_is_here()
    return wanted


def print_or_write(frame: Frame, out: Path | None, table_format: str = "") -> None:
    """Write a table into a file, or where none is named to standard output; raises as ``format_of`` too.

    Raises:
        UserError: the file cannot be written.
    """
    wanted = format_of(out, table_format)
    table = table_bytes(frame, wanted)
    table = printable(table.decode()).encode() if wanted == "csv" else table
    if out is None:
        sys.stdout.write(table.decode())
    else:
        write_files({out: table})
