"""The whole tables of a log in which others are damaged: `import --complete`.

Every reader refuses a log as a whole. Here a log is cut where tables begin, each piece is read by itself,
with the launchers' commands above it and its line numbers kept, and a piece that is refused is left out and
named. What nobody announced is not missed: a table that a job never came to leaves no trace.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

from autotune.errors import TableError
from autotune.importers import delimited, imb
from autotune.importers.benchmark_row import BenchmarkRow
from autotune.importers.endings import ended_early
from autotune.importers.launch_line import is_command
from autotune.importers.runlog import Log

_STARTS = {
    "osu": re.compile(r"^# (?:OSU|OMB[- ]Py(?:thon)?) .*\btest\b", re.IGNORECASE),
    "imb": re.compile(r"^# Benchmarking \S"),
    "reprompi": re.compile(r"^#@\w+="),
    "nccl_tests": re.compile(r"^\s*#?\s*(?:Collective test starting|nThread \d)"),
    "ucc_perftest": re.compile(r"^\s*Collective: "),
}
"""Module of a format → the line that a table begins with."""
_BLOCKS = ("reprompi", "nccl_tests")  # Those of which a block of such lines is one beginning.


_MOST_WORK = 100_000_000
"""Lines times tables: each piece is read with empty lines in place of all others, some µs each."""


def salvage(log: Log, formats: Sequence[ModuleType]) -> tuple[list[BenchmarkRow], list[str]]:
    """The records of all whole tables, and why each of the others was left out."""
    found: list[BenchmarkRow] = []
    left_out: list[str] = []
    for form in formats:
        pieces = [_rows_before_trouble(log)] if form is delimited else _pieces(log, form)
        for piece in pieces:
            try:
                piece.refuse_failed_run()
                found += form.read(piece)
            except TableError as error:
                left_out.append(error.message)
    if delimited in formats and (trouble := _trouble(log)):
        left_out.append(f"{log.name}:{trouble}: this line and what follows")
    return found, left_out


def _pieces(log: Log, form: ModuleType) -> list[Log]:
    """A log for each table, in which all lines of others are empty but commands of launchers."""
    name = form.__name__.rpartition(".")[2]
    begins = [i for i, line in enumerate(log.lines) if _STARTS[name].match(line)]
    begins = [i for i in begins if name not in _BLOCKS or not i or not _STARTS[name].match(log.lines[i - 1])]
    if len(begins) * len(log.lines) > _MOST_WORK:
        log.fail(begins[0] + 1, f"{len(begins)} tables in {len(log.lines)} lines", "cut it into several logs")
    heads = [i for i, line in enumerate(log.lines) if name == "imb" and imb.begins_run(line)]
    pieces = []
    for begin in begins:
        end = min((i for i in (*begins, *heads) if i > begin), default=len(log.lines))
        # What stands above is needed for ranks (commands) and, with Intel's suites, for the version.
        head = max((i for i in heads if i <= begin), default=0)
        above = [
            line if is_command(line) or (name == "imb" and i >= head and imb.in_head(line)) else ""
            for i, line in enumerate(log.lines[:begin])
        ]
        below = [""] * (len(log.lines) - end)
        if name == "imb" and end in begins:
            below[0] = imb.END  # the run went on to another table, so this one is whole
        terminated = log.terminated or bool(below)
        pieces.append(replace(log, lines=(*above, *log.lines[begin:end], *below), terminated=terminated))
    return pieces


def _trouble(log: Log) -> int:
    """The first line of a plain table that reports a failed run or is cut off; 0 without one."""
    if number := next((n for n, line in enumerate(log.lines, 1) if ended_early(line)), 0):
        return number
    if log.terminated or not log.lines:
        return 0
    try:
        delimited.read(log)
    except TableError:
        return len(log.lines)
    return 0


def _rows_before_trouble(log: Log) -> Log:
    trouble = _trouble(log)
    return replace(log, lines=log.lines[: trouble - 1], terminated=True) if trouble else log
