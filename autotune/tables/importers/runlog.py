"""A benchmark's log as lines, which all readers of logs share.

Launchers put marks in front of lines, a file may hold several runs, and runs fail half-way. The readers of
the formats get clean numbered lines and common checks.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NoReturn, Self

from autotune.errors import TableError
from autotune.history.benchmark_row import BenchmarkRow
from autotune.launch_command import is_command, ranks
from autotune.tables.importers.endings import ended_early, reporter

# Marks of `mpirun --tag-output`, `--timestamp-output` and `--output tag-detailed` of Open MPI 4 and 5, of
# `srun --label` and `mpiexec -prepend-rank`, and those that a page puts in front of a listing: the sign of a
# quotation, blanks before a comment.
_STAMP = r"\[?[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\]?"
_WHO = r"\[[^\],]*\d,\d+\]|\[[^\]\s]+:\d+\]|\[\d+\]"
_MARK = re.compile(
    rf"^(?:(?:(?:{_STAMP})?(?:{_WHO}){{0,2}}<std\w+>: ?)+|\[\d+\] |\s*\d+: |\s*> ?)?(?:\s+(?=#))?"
)
_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
"""Control sequences of a terminal, as `script` and coloured output contain them."""
_ESCAPED = re.compile(r"^\\#")  # Markdown escape by which a comment is not read as a heading.
_COMMA = re.compile(r"(?<=\d),(?=\d\d(?:\s|$))")  # A decimal comma: the suites print two decimals.

_LONGEST = 4_000
"""Characters of a line that are searched: these expressions take up to the square of it. Commands are
shorter."""


@dataclass(frozen=True, slots=True)
class Log:
    """Lines of a file, without the marks that the launcher put in front of them."""

    name: str  # Name of the file, for messages.
    lines: tuple[str, ...]  # The lines; `lines[i]` is line i + 1.
    terminated: bool = True  # Whether the last line is complete, that is, ended by a line feed.
    collective: str = ""
    """Operation of rows that do not name theirs, as the user gives it; empty where it is not given."""
    commands: tuple[int, ...] = field(init=False, compare=False)
    """Numbers of the lines with a launcher's command; searching them at each table would take the square of
    the lines."""

    def __post_init__(self) -> None:
        numbers = tuple(number for number, line in enumerate(self.lines, 1) if is_command(line))
        object.__setattr__(self, "commands", numbers)

    @classmethod
    def of(cls, text: str, name: str, collective: str = "") -> Self:
        """Return the log in a text."""
        plain = _COLOURS.sub("", text.removeprefix("\ufeff"))
        lines = tuple(_ESCAPED.sub("#", _MARK.sub("", line)).rstrip() for line in plain.splitlines())
        return cls(name, lines, terminated=text.endswith("\n"), collective=collective)

    def fail(self, line: int, message: str, hint: str = "") -> NoReturn:
        """Refuse the file.

        Raises:
            TableError: Always; the message starts with file and line.
        """
        raise TableError(f"{self.name}:{line}: {message}", hint)

    def refuse_failed_run(self) -> None:
        """Look for a line that reports a failed run.

        Raises:
            TableError: There is one.
        """
        for number, line in enumerate(self.lines, 1):
            if ended_early(line[:_LONGEST]):
                self.fail(
                    number,
                    f"the run failed: {line.strip()[:120]}",
                    f"{reporter(line)} says so; import the logs of complete runs only",
                )

    def processes_before(self, line: int) -> int | None:
        """Return the ranks in the last launch command before a line; None where it does not give them."""
        n_commands = bisect_left(self.commands, line)
        return ranks(self.lines[self.commands[n_commands - 1] - 1][:_LONGEST]) if n_commands else None


@dataclass(slots=True)
class LogTable:
    """A table while its rows are read."""

    log: Log  # The log that it is in.
    line: int  # Number of its header's line.
    columns: tuple[str, ...]  # Names of its columns.
    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)  # Line number and values by column.
    width: int = field(init=False)
    """Length of the last row's line, or the header's: columns are right-aligned."""
    blank: bool = False  # Whether an empty line follows the last row.
    words: str = ""  # The last line of text after the rows.
    box: int | None = None
    """Lines so far of a message that Open MPI prints between two rules of dashes; None outside of one."""
    over: bool = False  # Whether the following lines belong to another table.

    def __post_init__(self) -> None:
        self.width = len(self.log.lines[self.line - 1])

    def take(self, number: int, text: str) -> bool:
        """Add a line if it is a row, and return whether it was; other lines are output of other programs.

        Raises:
            TableError: The line begins as a row and is incomplete, or has an invalid value.
        """
        if not _ROW.fullmatch(text):
            self._refuse_spoilt(number, text)
            self._chatter(text.strip())
            return False
        tokens = _COMMA.sub(".", text).split()
        if self.over or self._is_foreign(number, len(tokens)):
            self.over = True
            return False
        self.blank, self.words = False, ""
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

    def _refuse_spoilt(self, number: int, text: str) -> None:
        """Refuse a line that begins as the next row and holds something else than numbers.

        Raises:
            TableError: The line is such a row.
        """
        beginning = _SPOILT.match(text)
        if self.over or self.box is not None or not beginning or self.columns[0] not in ("Size", "#bytes"):
            return
        if not self.rows or int(beginning[1]) == 2 * int(self.rows[-1][1][self.columns[0]]):
            message = f"a row that holds something else than numbers: {text.strip()[:60]!r}"
            self.log.fail(number, message, "was it cut off, or written into?")

    def _chatter(self, text: str) -> None:
        """Remember a line that could be the header of another table."""
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
        """Return whether a row is below the header of another table than this one.

        No benchmark prints an empty line inside of a table. Other output of several lines may contain one, so
        an empty line alone does not decide it.

        Raises:
            TableError: The row could belong to either table.
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
        """Look for missing rows.

        Args:
            column: Name of the column of sizes.
            doubling: Whether each size should be twice the previous one; otherwise sizes only have to grow.

        Raises:
            TableError: The table has no rows, sizes that decrease, or a gap.
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
    """Return the number in the first of these columns that a row has; None without any."""
    return next((float(row[c]) for c in columns if c in row), None)


_ABSENT = {"benchmark": "", "version": "", "collective": "", "comm_size": None, "latency_us": None}


def measurement(log: Log, number: int, **fields: object) -> BenchmarkRow:
    """Return the record of one line; fields that are not given are absent from it.

    Raises:
        TableError: A value is invalid.
    """
    try:
        return BenchmarkRow(log.name, number, **(_ABSENT | fields))  # type: ignore[arg-type]  # checked by BenchmarkRow itself
    except ValueError as exc:
        log.fail(number, str(exc))


# The words of a row; a line with any other word is output of another program.
_ROW = re.compile(r"\s*(?:(?:[-+]?(?:\d[\d.,]*|nan|inf)|Pass|Fail|N/A|-)(?:\s+|$))+", re.IGNORECASE)
_HEADING = re.compile(r".*:$|#.*\b(?:tests?|benchmarks?|bandwidth|latency|sizes?|times?)\b", re.IGNORECASE)
"""Lines above another table, which warnings hardly ever resemble; comments of libraries may be within a
table."""
_SPOILT = re.compile(r"\s*(\d+)\s\s+\S")
"""A size, and the blanks that align the next word."""
_TITLES = re.compile(r"[^\s|,;]+(?: [(\[][^\s)\]]+[)\]])?")
"""Names of columns; a unit in brackets may be separated by a blank."""
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
"""Columns whose values are not numbers with at least two decimals, as both suites print all others."""
