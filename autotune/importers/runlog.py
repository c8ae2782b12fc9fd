"""A benchmark's log as lines: what all readers of logs share.

Launchers put marks in front of lines, several runs stand in one file, and runs fail half-way. The readers
of the formats get clean numbered lines and common checks.
"""

import re
from dataclasses import dataclass, field
from typing import NoReturn, Self

from autotune.errors import TableError
from autotune.importers.measurement import Measurement

# `mpirun --tag-output` of Open MPI 4 and 5, `srun --label`, `mpiexec -prepend-rank`.
_MARK = re.compile(r"^(?:\[[^\]]*\d+,\d+\]<std\w+>: ?|\[\d+\] |\s*\d+: )")

_FAILURE = re.compile(
    r"""MPI_ABORT\ was\ invoked | application\ called\ MPI_Abort | \bAbort\(-?\d+\)\ on\ node
    | Primary\ job\s+terminated\ normally,\ but | BAD\ TERMINATION\ OF\ ONE | \*\*\*\ An\ error\ occurred\ in
    | \b(?:mpirun|mpiexec|orterun|prterun|srun)\S*\ (?:noticed|detected|was\ unable|has\ exited|failed)
    | ^srun:\ error:\ .*\b(?:tasks?|step)\b | ^slurmstepd:\ error:\ (?:\*\*\*|Exceeded|Detected)
    | ^(?:mpirun|mpiexec|prterun):\ (?:error|fatal)
    | \b(?:ORTE|PRTE|PMIX)\b.*\blost\ (?:communication|connection) | There\ are\ not\ enough\ slots
    | Segmentation\ fault | Caught\ signal\ \d+ | Fatal\ error\ in\ (?:P?MPI|internal)_ | DUE\ TO\ TIME\ LIMIT
    | \bCANCELLED\ AT\b | oom[-_]kill | Out\ Of\ Memory | It\ looks\ like\ MPI_INIT\ failed""",
    re.VERBOSE | re.IGNORECASE,
)

_COMMAND = re.compile(
    r"(?:^|[\s/;])(?:mpirun|mpiexec|mpiexec\.hydra|orterun|prterun|aprun|jsrun|(?P<steps>srun|flux run))"
    r"\s+(?P<options>.*)"
)
_RANKS = re.compile(r"(?:^|\s)(?:-np|--np|-n|--n|--ntasks)[ =]?(\d+)\b")
_NODES = re.compile(r"(?:^|\s)(?:-N|--nodes)[ =]?(\d+)\b")
_PER_NODE = re.compile(r"(?:^|\s)--(?:n?tasks-per-node)[ =](\d+)\b")


@dataclass(frozen=True, slots=True)
class Log:
    """Lines of a file, without what the launcher put in front of them."""

    name: str
    """What to call the file."""
    lines: tuple[str, ...]
    """The lines; `lines[i]` is line i + 1."""
    terminated: bool = True
    """Whether the last line is complete, that is, ended by a line feed."""

    @classmethod
    def of(cls, text: str, name: str) -> Self:
        """The log in a text."""
        lines = tuple(_MARK.sub("", line).rstrip() for line in text.splitlines())
        return cls(name, lines, terminated=text.endswith("\n"))

    def fail(self, line: int, what: str, hint: str = "") -> NoReturn:
        """Refuse the file.

        Raises:
            TableError: Always; the message starts with file and line.
        """
        raise TableError(f"{self.name}:{line}: {what}", hint)

    def refuse_failed_run(self) -> None:
        """Look for the words in which launchers, MPI libraries and schedulers report a failed run.

        Raises:
            TableError: One was found.
        """
        for number, line in enumerate(self.lines, 1):
            if _FAILURE.search(line):
                self.fail(
                    number,
                    f"the run failed: {line.strip()[:120]}",
                    "import the logs of complete runs only; cut this run out to keep the others of the file",
                )

    def processes_before(self, line: int) -> int | None:
        """Ranks in the last launcher command echoed before a line; None where it does not say."""
        for text in reversed(self.lines[: line - 1]):
            if command := _COMMAND.search(text):
                options = command["options"]
                if ranks := _RANKS.search(options):
                    return int(ranks[1])
                nodes, per_node = _NODES.search(options), _PER_NODE.search(options)
                return int(nodes[1]) * int(per_node[1]) if command["steps"] and nodes and per_node else None
        return None


def is_command(line: str) -> bool:
    """Whether a launcher's command was echoed there."""
    return _COMMAND.search(line) is not None


@dataclass(slots=True)
class Table:
    """A table while its rows come in."""

    log: Log
    """Where it stands."""
    line: int
    """Of its header."""
    columns: tuple[str, ...]
    """Names of its columns."""
    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Line and values by column."""
    width: int = field(init=False)
    """Length of the last row's line, or the header's: columns are right-aligned."""

    def __post_init__(self) -> None:
        """Begin with the header's width."""
        self.width = len(self.log.lines[self.line - 1])

    def take(self, number: int, text: str) -> bool:
        """Add a line if it is a row.

        Returns:
            Whether it was one; other lines are somebody's chatter.

        Raises:
            TableError: It begins as a row and is not complete, or has a value that is none.
        """
        if not _ROW.fullmatch(text):
            return False
        tokens = text.split()
        if len(tokens) != len(self.columns):
            self.log.fail(
                number,
                f"a row of {len(tokens)} values in a table of {len(self.columns)} columns",
                f"the columns are {', '.join(self.columns)} (line {self.line}); was the run cut off?",
            )
        row = dict(zip(self.columns, tokens, strict=True))
        if row.get("Validation") == "Fail":
            self.log.fail(number, "the benchmark's own validation failed", "its times are worth nothing")
        for column, token in row.items():
            if not _VALUES.get(column, _TWO_DECIMALS).fullmatch(token):
                self.log.fail(number, f"{column} is {token!r}", "was the run cut off?")
        if not self.log.terminated and number == len(self.log.lines) and len(text) < self.width:
            self.log.fail(number, "a row shorter than the lines above it", "was the run cut off?")
        self.rows.append((number, row))
        self.width = len(text)
        return True

    def check_sizes(self, column: str, *, doubling: bool = True) -> None:
        """Look for rows that are not there.

        Args:
            column: Where the message sizes stand.
            doubling: Each size should be twice the one before; else they only have to grow.

        Raises:
            TableError: No rows, sizes that go back, or a gap.
        """
        if not self.rows:
            self.log.fail(self.line, "a table without rows", "was the run cut off?")
        if column not in self.columns:
            if len(self.rows) > 1:
                self.log.fail(self.rows[1][0], "a second row in a table without message sizes")
            return
        previous = -1
        for number, row in self.rows:
            size = int(row[column])
            if size <= previous:
                self.log.fail(
                    number, f"size {size} after {previous}", "rows of two tables without a header between?"
                )
            if doubling and 0 < 2 * previous < size:
                self.log.fail(
                    number, f"rows between {previous} and {size} bytes are missing", "import complete logs"
                )
            previous = size


def first(row: dict[str, str], columns: tuple[str, ...]) -> float | None:
    """The number in the first of these columns that a row has; None without any."""
    return next((float(row[c]) for c in columns if c in row), None)


def measurement(log: Log, number: int, **fields: object) -> Measurement:
    """A record of one line.

    Raises:
        TableError: Its values make no sense.
    """
    try:
        return Measurement(source=log.name, line=number, **fields)  # type: ignore[arg-type]  # checked by Measurement itself
    except ValueError as exc:
        log.fail(number, str(exc))


# What can stand in a row: whatever else a line holds, it is chatter.
_ROW = re.compile(r"\s*(?:(?:[-+]?(?:\d[\d.]*|nan|inf)|Pass|Fail|-)(?:\s+|$))+", re.IGNORECASE)
_TWO_DECIMALS = re.compile(r"\d+\.\d{2,}")
_VALUES = dict.fromkeys(
    ("Size", "Iterations", "Transmit Size", "#bytes", "#repetitions", "Group", "Msg/sec"), re.compile(r"\d+")
) | {"Validation": re.compile("Pass|-")}
"""Columns that hold something else than a number with (at least) two decimals, as both suites print."""
