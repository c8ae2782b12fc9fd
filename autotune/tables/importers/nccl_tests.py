"""Read tables of nccl-tests and of rccl-tests, which have the same form.

A run prints its devices, one for each rank, then a header and a row for each message size. A row has two
times: of the call out of place and of the call in place. They become two records. The last line contains the
mean bandwidth; if it is missing, the run was cut off. For collectives that divide their data, nccl-tests
counts the data of all ranks (``src/common.cu`` reports the larger of both buffers), whereas a record counts
the block of one rank.

References:
    https://github.com/NVIDIA/nccl-tests, `src/common.cu` and `doc/PERFORMANCE.md`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from autotune.collectives import COLLECTIVES, Size, called
from autotune.history.benchmark_row import BenchmarkRow
from autotune.tables.importers.runlog import Log, measurement

_HEADER = re.compile(r"^\s*#?\s*size\s+count.*\stype\s.*\btime\s+algbw\s+busbw\b")
_RANK = re.compile(r"^\s*#?\s+Rank\s+(\d+) .*\bdevice\b")
_NAME = re.compile(r"\b(\w+?)_perf(?:_mpi)?\b")
_ROW = re.compile(r"^\s*\d+\s+\d+\s+[a-z]\w+\s")
_END = re.compile(r"^\s*#?\s*Avg bus bandwidth")
_WRONG = re.compile(r"^\s*#?\s*Out of bounds values : [1-9]\d* ")
_TOTAL = (Size.BLOCK, Size.PEER)


@dataclass(slots=True)
class _Run:
    name: str = ""
    ranks: int = 0
    header: int = 0
    columns: tuple[str, ...] = ()
    sizes: list[int] = field(default_factory=list)


def announces(log: Log) -> bool:
    """Return whether the log has a header of a table of nccl-tests."""
    return any(_HEADER.match(line) for line in log.lines)


def read(log: Log) -> list[BenchmarkRow]:
    """Return two records for each row: out of place and in place; one record if the row has only one time.

    Raises:
        TableError: The log has a run without its last line, wrong results, a row that is incomplete or out of
            order, or sizes that count the data of all ranks although the number of ranks is unknown.
    """
    measurements: list[BenchmarkRow] = []
    run = _Run()
    for number, line in enumerate(log.lines, 1):
        if rank := _RANK.match(line):
            run.ranks = max(run.ranks, int(rank[1]) + 1)
        elif _HEADER.match(line):
            if run.columns and not run.sizes:
                continue  # every process prints a header if the tests were built without MPI
            run.columns, run.header, run.sizes = tuple(line.lstrip("# ").split()), number, []
        elif _WRONG.match(line):
            log.fail(number, f"{line.strip(' #')}: the results were wrong", "its times are worth nothing")
        elif _END.match(line):
            if run.columns and not run.sizes:
                log.fail(run.header, "a table without rows", "was the run cut off?")
            run = _Run()
        elif run.columns and _ROW.match(line):
            measurements += _records(log, number, line.split(), run)
        elif name := _NAME.search(line):
            run.name = name[1]
    if run.columns:
        log.fail(run.header, "the run that begins here was cut off", "it never came to 'Avg bus bandwidth'")
    return measurements


def _records(log: Log, number: int, tokens: list[str], run: _Run) -> Iterator[BenchmarkRow]:
    log.check_width(number, len(tokens), run.columns, f" (line {run.header}); was the run cut off?")
    size = int(tokens[0])
    if run.sizes and size <= run.sizes[-1]:
        hint = "rows of two tables: were the tests built without MPI=1 and launched with mpirun?"
        log.fail(number, f"size {size} after {run.sizes[-1]}", hint)
    run.sizes.append(size)
    time_columns = [i for i, column in enumerate(run.columns) if column == "time"]
    labels = dict(zip(run.columns[2 : time_columns[0]], tokens[2 : time_columns[0]], strict=True))
    comm_size = run.ranks or log.processes_before(number)
    collective = called(run.name.replace("_", "")) or called(run.name) or run.name
    for begin, buffers in zip(time_columns, ("out of place", "in place"), strict=False):
        time_us, algbw, _, *wrong = tokens[begin : begin + 4]
        if wrong and run.columns[begin + 3] == "#wrong" and wrong[0] not in ("0", "N/A"):
            log.fail(number, f"{wrong[0]} wrong values {buffers}", "its times are worth nothing")
        yield measurement(
            log,
            number,
            benchmark=f"nccl-tests {run.name}".strip(),
            collective=collective,
            comm_size=comm_size,
            message_bytes=_block(log, number, collective, size, comm_size),
            latency_us=_number(log, number, time_us),
            bandwidth_MBps=1e3 * _number(log, number, algbw),
            labels=(*labels.items(), ("buffers", buffers)),
        )


def _block(log: Log, number: int, collective: str, size: int, comm_size: int | None) -> int:
    """Return the message size in bytes; if the data are divided, it is the size of one rank's block."""
    facts = COLLECTIVES.get(collective)
    if facts is None or facts.size not in _TOTAL:
        return size
    if not comm_size:
        message = f"sizes of {collective} are those of all ranks, and nothing says how many these are"
        log.fail(number, message, "keep the lines '# Rank' of the log")
    return size // comm_size


def _number(log: Log, number: int, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        log.fail(number, f"a time or bandwidth is {text!r}", "was the run cut off?")
