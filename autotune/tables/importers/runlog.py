"""A benchmark's log as lines, and its tables: classes that the readers of all formats use.

Launchers print marks in front of lines, a file may contain several runs, and runs may fail half-way. This
module removes the marks, numbers the lines, and checks that runs and tables are complete.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Self

from autotune.collectives import called
from autotune.errors import TableError
from autotune.history.benchmark_row import BenchmarkRow
from autotune.launch_command import is_command, ranks
from autotune.space.parameter import worded
from autotune.tables.importers.endings import ended_early, reporter
from autotune.text_table import named_in

# `_MARK` matches the text in front of a benchmark's line. Launchers print it: Open MPI 4 and 5 with `mpirun
# --tag-output`, `--timestamp-output` and `--output tag-detailed`, others with `srun --label` and `mpiexec
# -prepend-rank`. A page that quotes a log also adds text: the sign of a quotation, and blanks before a
# comment.
_STAMP = r"\[?[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\]?"
_WHO = r"\[[^\],]*\d,\d+\]|\[[^\]\s]+:\d+\]|\[\d+\]"
_MARK = re.compile(
    rf"^(?:(?:(?:{_STAMP})?(?:{_WHO}){{0,2}}<std\w+>: ?)+|\[\d+\] |\s*\d+: |\s*> ?)?(?:\s+(?=#))?"
)
_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
"""Control sequences of a terminal, such as those for colours, which the command `script` writes into a
log."""
_ESCAPED = re.compile(r"^\\#")
"""Escaped number sign in Markdown, where a plain number sign would begin a heading."""
_COMMA = re.compile(r"(?<=\d),(?=\d\d(?:\s|$))")  # Decimal comma: benchmarks print two decimals.

_LONGEST = 4_000
"""Number of characters of a line that are searched: the time of some searches grows with the square of this
number. Commands are shorter."""


@dataclass(frozen=True, slots=True)
class Log:
    """The lines of a file, without the marks that a launcher printed in front of them."""

    name: str  # Name of the file, for messages.
    lines: tuple[str, ...]  # Lines of the file; `lines[i]` is line i + 1.
    terminated: bool = True  # Whether the last line is complete, which means that it ends in a line feed.
    collective: str = ""
    """Operation, given by the user, of rows that do not name an operation; empty if the user gives none."""
    commands: tuple[int, ...] = field(init=False, compare=False)
    """Numbers of the lines with a launcher's command. They are found only once, because the total time of a
    search for each table would grow with the square of the number of lines."""

    def __post_init__(self) -> None:
        numbers = tuple(number for number, line in enumerate(self.lines, 1) if is_command(line))
        object.__setattr__(self, "commands", numbers)

    @classmethod
    def of(cls, text: str, name: str, collective: str = "") -> Self:
        """Return the log in the text of a file, without marks and control sequences."""
        plain = _COLOURS.sub("", text.removeprefix("\ufeff"))
        lines = tuple(_ESCAPED.sub("#", _MARK.sub("", line)).rstrip() for line in plain.splitlines())
        return cls(name, lines, terminated=text.endswith("\n"), collective=collective)

    def fail(self, line: int, message: str, hint: str = "") -> NoReturn:
        """Raise an error about one line of the file.

        Raises:
            TableError: Always; the message begins with the name of the file and the number of the line.
        """
        raise TableError(f"{self.name}:{line}: {message}", hint)

    def check_width(self, line: int, n_values: int, columns: Sequence[str], where: str = "") -> None:
        """Raise an error if the number of values in a row differs from the number of its table's columns.

        ``where`` is a text that follows the names of the columns in the error's hint.

        Raises:
            TableError: The numbers differ.
        """
        if n_values != len(columns):
            self.fail(
                line,
                f"a row of {n_values} values in a table of {len(columns)} columns",
                f"the columns are {', '.join(columns)}{where}",
            )

    def refuse_failed_run(self) -> None:
        """Raise an error if a line reports that the run failed.

        Raises:
            TableError: There is such a line.
        """
        for number, line in enumerate(self.lines, 1):
            if ended_early(line[:_LONGEST]):
                hint = f"{reporter(line)} says so; import the logs of complete runs only"
                self.fail(number, f"the run failed: {line.strip()[:120]}", hint)

    def processes_before(self, line: int) -> int | None:
        """Return the number of ranks in the last launch command before a line.

        The result is None if there is no such command, or if the command does not contain the number.
        """
        n_commands = bisect_left(self.commands, line)
        return ranks(self.lines[self.commands[n_commands - 1] - 1][:_LONGEST]) if n_commands else None


@dataclass(slots=True)
class LogTable:
    """A table in a log, to which rows are added one by one as the lines are read."""

    log: Log
    line: int  # Number of the line with the table's header.
    columns: tuple[str, ...]
    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Rows that were read so far: number of the line, and values by column."""
    width: int = field(init=False)
    """Length of the line of the last row, or of the header if there is no row yet. Columns are right-aligned,
    so a shorter last line of the file is cut off."""
    blank: bool = False  # Whether an empty line follows the last row.
    words: str = ""  # Last line of other text that follows the last row.
    box: int | None = None
    """Number of lines read so far of a message that Open MPI prints between two lines of dashes; None outside
    of such a message."""
    over: bool = False  # Whether the table has ended, so that the following rows belong to another table.

    def __post_init__(self) -> None:
        self.width = len(self.log.lines[self.line - 1])

    def take(self, number: int, text: str) -> None:
        """Add a line to the table if it is a row; other lines are output of other programs.

        Raises:
            TableError: The line begins like a row but is incomplete, or it contains an invalid value.
        """
        if not _ROW.fullmatch(text):
            self._refuse_spoilt(number, text)
            self._chatter(text.strip())
            return
        tokens = _COMMA.sub(".", text).split()
        if self.over or self._is_foreign(number, len(tokens)):
            self.over = True
            return
        self.blank, self.words = False, ""
        where = f" (line {self.line}); was the run cut off?"
        self.log.check_width(number, len(tokens), self.columns, where)
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

    def _refuse_spoilt(self, number: int, text: str) -> None:
        """Raise an error if a line begins like the next row but contains something other than numbers."""
        beginning = _SPOILT.match(text)
        if self.over or self.box is not None or not beginning or self.columns[0] not in ("Size", "#bytes"):
            return
        if not self.rows or int(beginning[1]) == 2 * int(self.rows[-1][1][self.columns[0]]):
            message = f"a row that holds something else than numbers: {text.strip()[:60]!r}"
            self.log.fail(number, message, "was it cut off, or written into?")

    def _chatter(self, text: str) -> None:
        if _RULE.fullmatch(text):
            if self.box is not None and self.box > 1:
                self.blank, self.words = False, ""
                self.box = None
                return
            self.box = 0
        elif self.box is not None and text:
            self.box += 1
        self.blank |= not text
        self.words = text or self.words

    def _is_foreign(self, number: int, width: int) -> bool:
        """Return whether a row belongs to another table, whose header was printed after this table.

        Output of other programs between rows may contain an empty line, so an empty line alone does not show
        that the table has ended. A row that may belong to either table raises an error.
        """
        titles = _TITLES.findall(self.words)
        header = len(titles) == width and not any(title[0].isdigit() for title in titles)
        if self.blank and self.words and header:
            return True
        if _HEADING.match(self.words) or (self.blank and self.words) or (header and _UNIT.search(self.words)):
            self.log.fail(
                number,
                f"a row behind {self.words[:60]!r}: of this table or of another one?",
                f"the table began in line {self.line}; cut out what is not the benchmark's",
            )
        return False

    def check_sizes(self, column: str, *, doubling: bool = True) -> None:
        """Raise an error if the table lacks rows.

        Args:
            column: Name of the column of sizes.
            doubling: Whether each size should be twice the size before it; otherwise sizes only have to grow.

        Raises:
            TableError: The table has no rows, sizes that do not grow, or a gap between sizes.
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
                hint = "rows of two tables without a header between?"
                self.log.fail(number, f"size {size} after {previous}", hint)
            if doubling and 0 < 2 * previous < size:
                message = f"rows between {previous} and {size} bytes are missing"
                self.log.fail(number, message, "import complete logs")
            previous = size


def first(row: dict[str, str], columns: tuple[str, ...]) -> float | None:
    """Return the number in the first of these columns that a row has; None if the row has none of them."""
    return next((float(row[c]) for c in columns if c in row), None)


_ABSENT = {"benchmark": "", "version": "", "collective": "", "comm_size": None, "latency_us": None}


def measurement(log: Log, number: int, **fields: object) -> BenchmarkRow:
    """Return the record of one line of a log; fields that are not given are None or empty.

    Raises:
        TableError: A value is invalid.
    """
    try:
        return BenchmarkRow(log.name, number, **(_ABSENT | fields))  # type: ignore[arg-type]  # checked by BenchmarkRow itself
    except ValueError as exc:
        log.fail(number, str(exc))


def words(labels: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return labels as text, without those that are empty or whose value is no text, number or boolean."""
    texts = {name: worded(value) for name, value in labels.items() if isinstance(value, str | int | float)}
    return tuple((name, text) for name, text in texts.items() if text)


def amount(log: Log, title: str, value: object, unit: float) -> float:
    """Return a value as a number, multiplied by ``unit``; ``title`` is the name of the value in messages.

    Raises:
        TableError: The value is not a number.
    """
    try:
        return float(value) * unit  # type: ignore[arg-type]  # a value that is no number raises
    except (TypeError, ValueError):
        raise TableError(f"{log.name}: {title} is {value!r}", "it must be a number") from None


def collective_in(*texts: str) -> str:
    """Return the collective that is the first to be named in these texts; empty if none is named."""
    return next((name for text in texts if (name := called(text) or named_in(text))), "")


# A row consists of such words; a line with any other word is output of another program.
_ROW = re.compile(r"\s*(?:(?:[-+]?(?:\d[\d.,]*|nan|inf)|Pass|Fail|N/A|-)(?:\s+|$))+", re.IGNORECASE)
_HEADING = re.compile(r".*:$|#.*\b(?:tests?|benchmarks?|bandwidth|latency|sizes?|times?)\b", re.IGNORECASE)
"""Heading above a table. Warnings are hardly ever of this form. Other comments do not count as headings,
because libraries may print comments within a table."""
_SPOILT = re.compile(r"\s*(\d+)\s\s+\S")
"""Line that begins like a row: a size, and the blanks that align the next word."""
_TITLES = re.compile(r"[^\s|,;]+(?: [(\[][^\s)\]]+[)\]])?")
"""Name of a column; a blank may separate a unit in brackets from the rest of the name."""
_RULE = re.compile(r"-{60,}")
_UNIT = re.compile(r"[(\[](?:[a-zµμ]{1,5}|[A-Za-z]+/s|%)[)\]]")
_TWO_DECIMALS = re.compile(r"\d+\.\d{2,}")
_VALUES = dict.fromkeys(
    ("Size", "Iterations", "Transmit Size", "#repetitions", "Group", "Msg/sec"), re.compile(r"\d+")
) | {
    "Validation": re.compile("Pass|-"),
    **dict.fromkeys(("#bytes", "Count"), re.compile(r"\d+|N/A")),
    **dict.fromkeys(("bandwidth", "fastest", "slowest"), re.compile(r"\d+\.\d{2,}|N/A")),
}
"""Maps the name of a column to the pattern of its values. In all other columns both suites of benchmarks
print numbers with at least two decimals."""
