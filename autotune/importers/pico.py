"""CSV of PICO: raw iterations of one cell, and the summary of a whole test.

A raw file has a column `highest` (the slowest rank) and, with the output level `all`, one for each rank, in
nanoseconds, a row for each iteration; its name says what was measured, `COUNT_ALGORITHM[_SEGMENT]_TYPE`.
Its record is the median of what follows the first fifth, which PICO's own summary takes for warm-up.

References:
    https://github.com/HLC-Lab/pico, `pico_core/pico_core_utils.c` and `plot/summarize_data.py`.
"""

import csv
import re
from pathlib import PurePath
from statistics import median

from autotune.collectives import called
from autotune.importers.benchmark_row import BenchmarkRow
from autotune.importers.runlog import Log, measurement
from autotune.importers.table import named_in

_NAME = re.compile(r"(?P<count>\d+)_(?P<algorithm>.+?)(?:_(?P<segment>\d+))?_(?P<type>[a-z]+\d*)")
_BYTES = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "int": 4, "float": 4, "double": 8, "char": 1}
_RAW = re.compile(r"highest(?:,rank\d+)*")
_SUMMARY = {"collective_type", "buffer_size", "algo_name", "median", "n_iter"}
_WARM_UP = 5  # One part in so many.


def announces(log: Log) -> bool:
    """Whether the first line is the header of a raw file or of a summary."""
    head = log.lines[0] if log.lines else ""
    return bool(_RAW.fullmatch(head)) or set(head.split(",")) >= _SUMMARY


def read(log: Log) -> list[BenchmarkRow]:
    """The record of a raw file, or those of a summary.

    Raises:
        TableError: a name that does not say what was measured, a row of another length, or no number.
    """
    return [_raw(log)] if _RAW.fullmatch(log.lines[0]) else _summary(log)


def _raw(log: Log) -> BenchmarkRow:
    name = _NAME.fullmatch(PurePath(log.name).stem)
    if not name or name["type"] not in _BYTES:
        known = f"a type is one of {', '.join(_BYTES)}"
        log.fail(
            1, "the name of PICO's file does not say what was measured", f"COUNT_ALGORITHM_TYPE.csv; {known}"
        )
    columns = log.lines[0].count(",")
    ns = []
    for number, line in enumerate(log.lines[1:], 2):
        cells = line.split(",")
        if len(cells) != columns + 1 or not all(cell.isdigit() for cell in cells):
            log.fail(number, f"no row of {columns + 1} times in ns: {line[:60]!r}", "was the run cut off?")
        ns.append(int(cells[0]))
    if not ns:
        log.fail(1, "a table without rows", "was the run cut off?")
    us = [value / 1e3 for value in ns[len(ns) // _WARM_UP :]]
    labels = {"algorithm": name["algorithm"], "segment": name["segment"] or "", "datatype": name["type"]}
    return measurement(
        log,
        1,
        benchmark="PICO",
        collective=named_in(name["algorithm"]) or named_in(log.name),
        comm_size=columns or None,
        message_bytes=int(name["count"]) * _BYTES[name["type"]],
        latency_us=median(us),
        min_us=min(us),
        max_us=max(us),
        iterations=len(us),
        labels=tuple((key, value) for key, value in labels.items() if value),
    )


def _summary(log: Log) -> list[BenchmarkRow]:
    records = []
    for number, row in enumerate(csv.DictReader(log.lines), 2):
        try:
            ranks = _ranks(row["nnodes"], row["tasks_per_node"])
            us = {key: float(row[key]) / 1e3 for key in ("median", "min", "max")}
            size, iterations = int(float(row["buffer_size"])), int(float(row["n_iter"]))
        except (KeyError, TypeError, ValueError):
            log.fail(number, "a row of PICO's summary that is not complete", "was the file cut off?")
        kept = ("datatype", "nnodes", "tasks_per_node", "system", "timestamp", "mpi_lib", "mpi_lib_version")
        collective = row["collective_type"].lower()
        records.append(
            measurement(
                log,
                number,
                benchmark="PICO",
                collective=called(collective) or collective,
                comm_size=ranks,
                message_bytes=size,
                latency_us=us["median"],
                min_us=us["min"],
                max_us=us["max"],
                iterations=iterations,
                labels=(("algorithm", row["algo_name"]), *((k, row[k]) for k in kept if row.get(k))),
            )
        )
    return records


def _ranks(nodes: str, per_node: str) -> int:
    ranks = int(per_node)
    for extent in nodes.split("x"):
        ranks *= int(extent)
    return ranks
