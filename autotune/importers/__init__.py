"""Other people's measurements → records: benchmark logs and tables, beside the flow of a campaign.

`read` takes the text of a file and finds out by itself what is in it; one module per format does the
reading. Nothing here opens a file. A text that holds no table, or one that a failed or cut-off run left
behind, is an error that names the line, never an empty or shortened success.
"""

import re
from types import ModuleType

from autotune.errors import TableError
from autotune.importers import (
    delimited,
    imb,
    json_reports,
    nccl_tests,
    osu,
    pico,
    reframe,
    reprompi,
    ucc_perftest,
)
from autotune.importers.benchmark_row import BenchmarkRow
from autotune.importers.context import told_apart, with_contexts
from autotune.importers.file_names import NamePattern
from autotune.importers.runlog import Log
from autotune.importers.salvage import salvage

__all__ = ["FORMATS", "BenchmarkRow", "NamePattern", "read", "read_complete", "read_noted", "told_apart"]

FORMATS = {
    "OSU Micro-Benchmarks": osu,
    "Intel MPI Benchmarks": imb,
    "ReproMPI": reprompi,
    "nccl-tests": nccl_tests,
    "ucc_perftest": ucc_perftest,
    "PICO": pico,
    "JSON of ReFrame, Kernel Tuner or rows": json_reports,
    "ReFrame's performance logs": reframe,
    "delimited table": delimited,
}
"""Name of a format → its module, which has `announces(log)` and `read(log)`."""
_BENCHMARKS = (osu, imb, reprompi, nccl_tests, ucc_perftest)  # Those whose log holds what was printed.


def read(text: str, name: str, collective: str = "") -> list[BenchmarkRow]:
    """All measurements in a text, in the order of its lines.

    A log may hold several runs of several benchmarks, with anything printed between and inside of them.
    ``collective`` is the operation of rows that do not say theirs.

    Raises:
        TableError: No table of a known format, a failed or truncated run, or a value that is none.
    """
    return read_noted(text, name, collective)[0]


def read_noted(text: str, name: str, collective: str = "") -> tuple[list[BenchmarkRow], list[str]]:
    """As `read`, and what was left out because it says itself that it failed: rows of a campaign's history.

    Raises:
        TableError: As `read` says.
    """
    log, failed = delimited.without_failed_launches(Log.of(text, name, collective))
    formats = _formats(log)
    if not {json_reports, reframe} & {*formats}:  # a report of tests may quote what a failed one printed
        log.refuse_failed_run()
    rows = [measurement for form in formats for measurement in form.read(log)]
    return _some(log, _placed(log, formats, rows)), failed


def read_complete(text: str, name: str, collective: str = "") -> tuple[list[BenchmarkRow], list[str]]:
    """The measurements of all whole tables in a text, and why each of the others was left out.

    Raises:
        TableError: No table of a known format, or none that is whole.
    """
    log, failed = delimited.without_failed_launches(Log.of(text, name, collective))
    formats = _formats(log)
    report = next((form for form in (json_reports, reframe) if form in formats), None)
    found, left_out = report.salvage(log) if report else salvage(log, formats)
    if not found and left_out:
        raise TableError(f"{name}: no table is whole; {left_out[0]}", "there is nothing to take")
    return _some(log, _placed(log, formats, found)), failed + left_out


def _placed(log: Log, formats: list[ModuleType], rows: list[BenchmarkRow]) -> list[BenchmarkRow]:
    """Rows of benchmarks' logs with what stands between their tables; other formats have columns for it."""
    if not set(formats) & {*_BENCHMARKS}:
        return rows
    return with_contexts(log, rows, osu.COMMENTS if formats == [osu] else re.compile("#"))


def _formats(log: Log) -> list[ModuleType]:
    """Formats in a log, the ambiguous ones last: a log of benchmarks can look like one of theirs."""
    found = [form for form in _BENCHMARKS if form.announces(log)]
    return found or [form for form in (json_reports, pico, reframe, delimited) if form.announces(log)][:1]


def _some(log: Log, measurements: list[BenchmarkRow]) -> list[BenchmarkRow]:
    if not measurements:
        raise TableError(
            f"{log.name}: no table of measurements in {len(log.lines)} lines",
            f"known: {', '.join(FORMATS)}; a delimited table names a size and a latency in its first line, "
            "that of a barrier (--collective barrier) ranks and a latency",
        )
    return sorted(measurements, key=lambda its: its.line if its.source == log.name else 0)
