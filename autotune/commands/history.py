"""``history DIR``: print all measurements of a campaign as a table."""

import sys
from pathlib import Path

from autotune.campaign.directory import read_campaign
from autotune.errors import TableError, allowed, printable
from autotune.exporters.writing import write_files
from autotune.text_table import parquet_is_here
from autotune.views.frames import FORMATS, Table, history_table


def history(directory: Path, table_format: str, out: Path | None, everything: bool = False) -> None:
    """Print all measurements of a campaign as a table, or write the table to the file ``out``.

    ``format_of`` chooses the format. With ``everything`` the table also has columns for the parameters that
    every launch left at the stack's default.

    Raises:
        TableError: for the same reasons as in ``format_of``.
        UserError: for the same reasons as in ``format_of`` and ``print_or_write``, or there is no campaign.
    """
    resolved_format, campaign = format_of(out, table_format), read_campaign(directory)
    unset = None if everything else campaign.about.whole.unset
    print_or_write(history_table(campaign.history, unset), out, resolved_format)


def format_of(out: Path | None, table_format: str = "") -> str:
    """Return the requested format of a table; if none was requested, the format that the file's name implies.

    Raises:
        TableError: the format is unknown, or it is Parquet and no file is named.
        UserError: the format is Parquet, and its library is not installed.
    """
    resolved_format = table_format or ("parquet" if out and out.suffix == ".parquet" else "csv")
    if resolved_format not in FORMATS:
        raise TableError(f"--format {resolved_format}", allowed(resolved_format, FORMATS))
    if resolved_format == "parquet" and out is None:
        raise TableError(
            "Parquet is binary and does not go to the terminal", "name a file: --out history.parquet"
        )
    if resolved_format == "parquet":
        parquet_is_here()
    return resolved_format


def print_or_write(table: Table, out: Path | None, table_format: str = "") -> None:
    """Write a table to a file, or to standard output if ``out`` is None.

    Raises:
        TableError: for the same reasons as in ``format_of``.
        UserError: the file cannot be written, or for the same reasons as in ``format_of``.
    """
    resolved_format = format_of(out, table_format)
    content = table.written(resolved_format)
    content = printable(content.decode()).encode() if resolved_format == "csv" else content
    if out is None:
        sys.stdout.write(content.decode())
    else:
        write_files({out: content})
