"""Read other people's measurements from benchmark logs and tables, and return them as records.

`read` detects the format of a text; each format is read by its own module. No function in this package opens
a file. A text without a table raises an error, as does the output of a failed or interrupted run. The error
names the line; the result is never empty or shortened.
"""

import re
from itertools import islice

from autotune.errors import TableError
from autotune.history.benchmark_row import BenchmarkRow
from autotune.tables.importers import delimited, imb, json_reports, nccl_tests, osu, reframe, reprompi
from autotune.tables.importers.context import told_apart, with_contexts
from autotune.tables.importers.file_names import NamePattern
from autotune.tables.importers.runlog import Log

__all__ = ["FORMATS", "BenchmarkRow", "NamePattern", "read", "read_noted", "told_apart"]

FORMATS = {
    "OSU Micro-Benchmarks": osu,
    "Intel MPI Benchmarks": imb,
    "ReproMPI": reprompi,
    "nccl-tests": nccl_tests,
    "JSON of ReFrame, or rows": json_reports,
    "ReFrame's performance logs": reframe,
    "delimited table": delimited,
}
"""Maps the name of each format to its module, which has the functions `announces(log)` and `read(log)`."""
_BENCHMARKS = (osu, imb, reprompi, nccl_tests)  # Formats of logs that contain the output of a benchmark.


def read(text: str, name: str, collective: str = "") -> list[BenchmarkRow]:
    """Return all measurements in a text, in the order of its lines.

    A log may contain several runs of several benchmarks, with any other text between them and inside of them.

    Args:
        text: Contents of the file.
        name: Name of the file, for messages and for the field ``source`` of the records.
        collective: Operation of rows that do not name an operation.

    Raises:
        TableError: The text has no table of a known format, contains a failed or truncated run, or has an
            invalid value.
    """
    return read_noted(text, name, collective)[0]


def read_noted(text: str, name: str, collective: str = "") -> tuple[list[BenchmarkRow], list[str]]:
    """Return the result of `read`, and sentences about rows that were left out.

    Rows of a campaign's history are left out if their status says that the launch failed. The list of
    sentences is empty if no row was left out.

    Raises:
        TableError: As in `read`.
    """
    log, failed = delimited.without_failed_launches(Log.of(text, name, collective))
    benchmarks = [form for form in _BENCHMARKS if form.announces(log)]
    # A table of a general format is searched for only if there is no output of a benchmark, which may look
    # like such a table.
    general = (form for form in (json_reports, reframe, delimited) if form.announces(log))
    formats = benchmarks or [*islice(general, 1)]
    if not {json_reports, reframe} & {*formats}:  # a test report may quote the output of a failed test
        log.refuse_failed_run()
    rows = [row for form in formats for row in form.read(log)]
    if not rows:
        raise TableError(
            f"{log.name}: no table of measurements in {len(log.lines)} lines",
            f"known: {', '.join(FORMATS)}; a delimited table names a size and a latency in its first line, "
            "that of a barrier (--collective barrier) ranks and a latency",
        )
    if benchmarks:  # tables of other formats have the settings in columns
        rows = with_contexts(log, rows, osu.COMMENTS if benchmarks == [osu] else re.compile("#"))
    return sorted(rows, key=lambda row: row.line if row.source == log.name else 0), failed
