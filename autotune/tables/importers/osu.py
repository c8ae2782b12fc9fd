"""Read tables of the OSU Micro-Benchmarks, versions 5 to 7, in C and in Python (OMB-Py).

A run prints a title, sometimes the window, the synchronisation and the data type, a header, and a row for
each message size (a barrier's table has no sizes). The columns depend on options: without options there is
only the average time; with `-f` there are also minimum, maximum and iterations; for non-blocking collectives
there are the overall, the computation and the pure communication time, and the overlap. With several data
types the header is printed again without a title. The number of ranks is not printed: it is read from the
launcher's command if the log contains the command. Tests between pairs of ranks print the number of pairs if
there is more than one.
"""

import re
from dataclasses import dataclass, field, replace

from autotune.collectives import MEASURED, called, later
from autotune.history.benchmark_row import BenchmarkRow
from autotune.tables.importers.messages import message_us, one_sided, ranks, with_overlap
from autotune.tables.importers.runlog import Log, LogTable, first, measurement

TITLE = re.compile(r"^# ((?:OSU|OMB[- ]Py(?:thon)?) .*\btest)(?: v(\S+))?\s*$", re.IGNORECASE)
"""Title of a benchmark, which is above its table."""
COMMENTS = re.compile(
    r"# ?(?:OSU|OMB|Size|Datatype|Window|Synchron|\[|Send Buffer|Overall|(?:Avg )?Latency|Bandwidth|MB/s"
    r"|Using )"
)
"""Beginnings of the comment lines that these benchmarks print themselves."""
_WITHOUT_TABLE = re.compile(r"\b(?:Hello World|Init) Test", re.IGNORECASE)
_COLUMN = re.compile(
    r"Size(?: \(B\))?|(?:(?:Avg|Min|Max) )?Latency ?\(us\)|Iterations|Overall\(us\)|Compute\(us\)"
    r"|Coll\. Init\(us\)|MPI_Test\(us\)|MPI_Wait\(us\)|(?:Pure|Min|Max) Comm\.\(us\)|Overlap\(%\)|Validation"
    r"|P[\d.]+ Tail (?:BW\(MB/s\)|Lat\(us\))|Transmit Size|Bandwidth ?\(MB/s\)|MB/s|Messages/s"
)
_HEADER = re.compile(
    r"^# *(?:Size(?: \(B\))?|(?:Avg )?Latency ?\(us\)|Overall\(us\)|Bandwidth ?\(MB/s\)|MB/s)(?:\s|$)"
)
_BARE = re.compile(rf"^\s*(?:(?:{_COLUMN.pattern})(?:\s+|$))+$")
"""Header without a comment sign, as version 5.8 prints it for a non-blocking barrier."""
_SETTING = re.compile(r"^# (Datatype|Window creation|Synchronization): (.*?)\.?\s*$")
_PAIRS = re.compile(r"^# \[ pairs: (\d+) \] \[ window size: (\w+) \]")
_WINDOW = "64"  # Default number of messages in a window, in all versions and in this project's probe.
_LATENCY = ("Pure Comm.(us)", "Avg Latency(us)", "Latency(us)")
_MIN, _MAX = ("Min Latency(us)", "Min Comm.(us)"), ("Max Latency(us)", "Max Comm.(us)")
_BANDWIDTH = ("Bandwidth(MB/s)", "MB/s")
_USED = {"Size", "Iterations", "Validation", "Messages/s", *_LATENCY, *_MIN, *_MAX, *_BANDWIDTH}

# Words in titles that say how a call was made, but not which operation it was.
_NOISE = re.compile(
    r"\b(?:osu|omb[- ]py(?:thon)?|(?:mpi|\w*ccl)(?:-\w+)?(?: managed)?|latency|test|one sided|personalized"
    r"|exchange|persistent|non-blocking)(?![\w-])",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Section:
    line: int = 0
    title: str = ""
    version: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    pairs: int | None = None
    announced: bool = False  # Whether the table of the last title or data type was not printed yet.


def announces(log: Log) -> bool:
    """Return whether the log has a title of the OSU Micro-Benchmarks."""
    return any(TITLE.match(line) for line in log.lines)


def read(log: Log) -> list[BenchmarkRow]:
    """Return all rows of all tables.

    Raises:
        TableError: The log has a title without a table, a table without rows, an incomplete or missing row,
            an unknown column, or a failed validation.
    """
    measurements: list[BenchmarkRow] = []
    section, table = _Section(), None
    for number, line in enumerate(log.lines, 1):
        if title := TITLE.match(line):
            measurements += _rows(section, table)
            _refuse_without_table(log, section)
            section, table = _Section(number, title[1], title[2] or "", announced=True), None
            section.labels |= _variant(title[1])
        elif _HEADER.match(line) or (section.announced and _BARE.match(line)):
            if not section.announced:
                log.fail(number, "a table without a title", "was something cut out of the log?")
            section.announced = False
            table = LogTable(log, number, _columns(log, number, line))
        elif section.announced and (pairs := _PAIRS.match(line)):
            section.pairs = int(pairs[1])
            section.labels |= {} if pairs[2] == _WINDOW else {"window": pairs[2]}
        elif setting := _SETTING.match(line):
            # Version 7.2 also prints settings between the header and the first row.
            if table is None or table.rows:
                measurements += _rows(section, table)
                table, section.announced = None, True
            section.labels[setting[1].lower().replace(" ", "_")] = setting[2]
        elif line.startswith("# Benchmarking"):  # the output of another benchmark begins
            measurements += _rows(section, table)
            table = None
        elif table is not None:
            table.take(number, line)
    measurements += _rows(section, table)
    _refuse_without_table(log, section)
    return measurements


def _refuse_without_table(log: Log, section: _Section) -> None:
    if section.announced and not _WITHOUT_TABLE.search(section.title):
        log.fail(section.line, f"{section.title!r} has no table", "was the run cut off?")


def _columns(log: Log, number: int, line: str) -> tuple[str, ...]:
    """Return the names of the columns, without the blank that some versions print before a unit."""
    text = line.lstrip("# ")
    unknown = _COLUMN.sub("", text).strip()
    if unknown:
        hint = "known are those of versions 5.x to 7.x"
        log.fail(number, f"unknown column {unknown!r} of an OSU table", hint)
    return tuple(name.replace(" (", "(").removesuffix("(B)") for name in _COLUMN.findall(text))


def _rows(section: _Section, table: LogTable | None) -> list[BenchmarkRow]:
    if table is None:
        return []
    table.check_sizes("Size")
    labels = dict(section.labels)
    name = one_sided(operation(section.title), labels)
    comm_size = table.log.processes_before(section.line) or ranks(name, section.pairs)
    if name.removeprefix("i") in MEASURED or name.removesuffix("_init") in MEASURED:
        labels.pop("variant", "")
    records: list[BenchmarkRow] = []
    for number, row in table.rows:
        record = measurement(
            table.log,
            number,
            benchmark=section.title,
            version=section.version,
            collective=name,
            comm_size=comm_size,
            message_bytes=int(row.get("Size", 0)),
            latency_us=first(row, _LATENCY),
            min_us=first(row, _MIN),
            max_us=first(row, _MAX),
            iterations=int(row["Iterations"]) if "Iterations" in row else None,
            bandwidth_MBps=first(row, _BANDWIDTH),
            labels=(*labels.items(), *((k, v) for k, v in row.items() if k not in _USED)),
        )
        if record.latency_us is None:
            record = replace(record, latency_us=message_us(record, first(row, ("Messages/s",))))
        records += with_overlap(record, row)
    return records


def operation(title: str) -> str:
    """Return the name of the operation in a title.

    The name of an unknown operation consists of the title's words, joined by underscores.
    """
    words = " ".join(_NOISE.sub(" ", title).split()).lower() or "latency"
    name = called(words) or called(words.replace(" / ", " ")) or re.sub(r"\W+", "_", words)
    return later(name, _variant(title).get("variant", ""))


def _variant(title: str) -> dict[str, str]:
    """Return labels that say how the call was made if the title names a variant of the blocking call."""
    matches = {
        "variant": re.search(r"\b(persistent|non-blocking)\b", title, re.IGNORECASE),
        "mode": re.search(r"MPI_(?:Put|Get)\b.* (Bandwidth)\b", title),
        "memory": re.search(r"\b(?:MPI|\w*CCL)-(\w+(?: managed)?)", title, re.IGNORECASE),
        "library": re.search(r"\b(\w*CCL)\b", title, re.IGNORECASE),
    }
    labels = {name: match[1].lower() for name, match in matches.items() if match}
    return labels | ({"mode": "aggregate"} if "mode" in labels else {})  # Intel's benchmarks print this name
