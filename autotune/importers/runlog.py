"""A benchmark's log as lines: what all readers of logs share.

Launchers put marks in front of lines, a file may hold several runs, and runs fail half-way. The readers
of the formats get clean numbered lines and common checks.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NoReturn, Self

from autotune.errors import TableError
from autotune.importers.benchmark_row import BenchmarkRow
from autotune.importers.endings import ended_early, reporter
from autotune.importers.launch_line import is_command, ranks

# Marks of `mpirun --tag-output`, `--timestamp-output` and `--output tag-detailed` of Open MPI 4 and 5, of
# `srun --label` and `mpiexec -prepend-rank`; what a page puts in front of a listing: the sign of a quotation,
# blanks before a comment.
_STAMP = r"\[?[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\]?"
_WHO = r"\[[^\],]*\d,\d+\]|\[[^\]\s]+:\d+\]|\[\d+\]"
_MARK = re.compile(
    rf"^(?:(?:(?:{_STAMP})?(?:{_WHO}){{0,2}}<std\w+>: ?)+|\[\d+\] |\s*\d+: |\s*> ?)?(?:\s+(?=#))?"
)
_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
"""Orders to a terminal, as `script` and coloured output hold them."""
_ESCAPED = re.compile(r"^\\#")  # Markdown that shall not take a comment for a heading.
_COMMA = re.compile(r"(?<=\d),(?=\d\d(?:\s|$))")  # A decimal comma: what the suites print has two decimals.

_TOLD = 4_000
"""So much of a line is looked at: these expressions take up to the square of it. Commands are shorter."""


@dataclass(frozen=True, slots=True)
class Log:
    """Lines of a file, without what the launcher put in front of them."""

    name: str  # The file's name in messages.
    lines: tuple[str, ...]  # The lines; `lines[i]` is line i + 1.
    terminated: bool = True  # Whether the last line is complete, that is, ended by a line feed.
    collective: str = ""  # Operation of rows that do not say theirs, as the user says; empty: not said.
    commands: tuple[int, ...] = field(init=False, compare=False)
    """The lines with a launcher's command: looking for them at each table takes the square of lines."""

    def __post_init__(self) -> None:
        found = tuple(number for number, line in enumerate(self.lines, 1) if is_command(line))
        object.__setattr__(self, "commands", found)

    @classmethod
    def of(cls, text: str, name: str, collective: str = "") -> Self:
        """The log in a text."""
        plain = _COLOURS.sub("", text.removeprefix("\ufeff"))
        lines = tuple(_ESCAPED.sub("#", _MARK.sub("", line)).rstrip() for line in plain.splitlines())
        return cls(name, lines, terminated=text.endswith("\n"), collective=collective)

    def fail(self, line: int, what: str, hint: str = "") -> NoReturn:
        """Refuse the file.

        Raises:
            TableError: Always; the message starts with file and line.
        """
        raise TableError(f"{self.name}:{line}: {what}", hint)

    def refuse_failed_run(self) -> None:
        """Look for a line in which somebody reports a failed run.

        Raises:
            TableError: One was found.
        """
        for number, line in enumerate(self.lines, 1):
            if ended_early(line[:_TOLD]):
                self.fail(
                    number,
                    f"the run failed: {line.strip()[:120]}",
                    f"{reporter(line)} says so; import the logs of complete runs only, or the whole tables "
                    "of this one (--complete)",
                )

    def processes_before(self, line: int) -> int | None:
        """Ranks in the last launcher command echoed before a line; None where it does not say."""
        before = bisect_left(self.commands, line)
        return ranks(self.lines[self.commands[before - 1] - 1][:_TOLD]) if before else None


@dataclass(slots=True)
class LogTable:
    """A table while its rows come in."""

    log: Log  # Where it stands.
    line: int  # Number of its header's line.
    columns: tuple[str, ...]  # Names of its columns.
    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)  # Line and values by column.
    width: int = field(init=False)
    """Length of the last row's line, or the header's: columns are right-aligned."""
    blank: bool = False  # Whether an empty line follows the last row.
    words: str = ""  # The last line of words behind it.
    box: int | None = None
    """Lines so far of a message that Open MPI puts between two rules of dashes; None outside of one."""
    over: bool = False  # Whether what follows belongs to somebody else's table.

    def __post_init__(self) -> None:
        self.width = len(self.log.lines[self.line - 1])

    def take(self, number: int, text: str) -> bool:
        """Add a line if it is a row, and say whether it was; other lines are somebody's chatter.

        Raises:
            TableError: It begins as a row and is not complete, or has a value that is none.
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
        """Refuse a line that begins as the next row and has something else than numbers in it.

        Raises:
            TableError: It does.
        """
        begins = _SPOILT.match(text)
        if self.over or self.box is not None or not begins or self.columns[0] not in ("Size", "#bytes"):
            return
        if not self.rows or int(begins[1]) == 2 * int(self.rows[-1][1][self.columns[0]]):
            what = f"a row that holds something else than numbers: {text.strip()[:60]!r}"
            self.log.fail(number, what, "was it cut off, or written into?")

    def _chatter(self, text: str) -> None:
        """Remember what could be the header of another table."""
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
        """Whether a row stands below the header of another table than this one.

        No benchmark prints an empty line inside of a table. Chatter of several lines may hold one, so that
        it alone does not say whose a row is.

        Raises:
            TableError: It could be either's.
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
        """Look for rows that are not there.

        ``doubling``: each size should be twice the one before; else they only have to grow.

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


_UNSAID = {"benchmark": "", "version": "", "collective": "", "comm_size": None, "latency_us": None}


def measurement(log: Log, number: int, **fields: object) -> BenchmarkRow:
    """A record of one line; what is not given the line does not say.

    Raises:
        TableError: Its values make no sense.
    """
    try:
        return BenchmarkRow(log.name, number, **(_UNSAID | fields))  # type: ignore[arg-type]  # checked by BenchmarkRow itself
    except ValueError as exc:
        log.fail(number, str(exc))


# The words of a row; a line with any other word is chatter.
_ROW = re.compile(r"\s*(?:(?:[-+]?(?:\d[\d.,]*|nan|inf)|Pass|Fail|N/A|-)(?:\s+|$))+", re.IGNORECASE)
_HEADING = re.compile(r".*:$|#.*\b(?:tests?|benchmarks?|bandwidth|latency|sizes?|times?)\b", re.IGNORECASE)
"""Lines above another table, hardly ever those of a warning; comments of libraries stand within."""
_SPOILT = re.compile(r"\s*(\d+)\s\s+\S")
"""A size and the blanks that align the word after it."""
_TITLES = re.compile(r"[^\s|,;]+(?: [(\[][^\s)\]]+[)\]])?")
"""Names of columns: a unit in brackets may stand apart."""
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
"""Columns that hold something else than a number with (at least) two decimals, as both suites print."""
