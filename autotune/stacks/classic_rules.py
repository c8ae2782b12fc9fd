"""Read the classic rules file of ``coll_tuned``, and look calls up in it, both as Open MPI does.

Open MPI reads the file as a sequence of numbers in C's notation, whatever lines they are on, and skips
everything else; if it does not understand a number, it ignores the whole file. To look up a call, Open MPI
goes through the entries from the front, until the communicator size of an entry is larger than the call's,
and takes the entry before. So the first entry also applies to all smaller communicators, and the last entry
to all larger communicators. In the entry, a row is found in the same way by its bytes.

References:
    Open MPI 5.0, ompi/mca/coll/tuned: coll_tuned_dynamic_file.c, coll_tuned_dynamic_rules.c.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from autotune.collectives import COLLECTIVES, Lookup
from autotune.stacks import coll_tuned
from autotune.stacks.asked import Answer, Asked

NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")  # A number in C's notation.
HEADER = "rule-file-version-"  # Beginning of a first line that states the version of the format.
NAMES = {number: name for name, number in coll_tuned.COLLECTIVE_IDS.items()}  # Id → collective.
IGNORED = "the whole file is silently ignored"  # Consequence of a mistake in the file, in words.
COLUMNS = ("the message size", "the algorithm", "the fan-out", "the segment size")
SECOND = {(4, 1): (4, 1, 8), (5, 0): (5, 0, 7)}
"""Maps (major, minor) of Open MPI to the first release that knows the header, by the tags of the sources.
Earlier releases read the number in the header as a count."""


class Token(NamedTuple):
    """A number in the file."""

    value: int
    line: int  # Number of the line that contains the number.


class RulesRow(NamedTuple):
    """One row of a rules file, with its line."""

    line: int  # Number of the line where the row begins.
    row: coll_tuned.TunedRow


@dataclass(slots=True)
class RulesEntry:
    """Holds the rows for one communicator size that were read before the reading ended."""

    line: int  # Number of the line with the communicator size.
    comm_size: int
    count_line: int = 0  # Number of the line that says how many rows follow.
    rows: list[RulesRow] = field(default_factory=list)


@dataclass(slots=True)
class RulesOf:
    """Holds the entries of one collective that were read before the reading ended."""

    line: int  # Number of the line with the id of the collective.
    name: str
    entries: list[RulesEntry] = field(default_factory=list)


@dataclass(slots=True)
class RulesFile:
    """Holds everything that was read from a file, and where the reading ended."""

    collectives: list[RulesOf] = field(default_factory=list)
    cut: tuple[int, str, str] | None = None
    """Where the reading ended early, as (line, consequence, remedy); None: the file was read to its end."""
    unread_line: int = 0  # First line with a number after the last row that a count announced; 0: none.


class _Cut(Exception):  # noqa: N818 - ends the reading as the stack ends it
    """Raised where Open MPI stops reading: the file ends too early, or a number cannot be right."""


def heading(lines: Sequence[str]) -> int:
    """Return the version of the format that the first line of a file states; 0 if it states none."""
    match = re.match(rf"{HEADER}(\d+)", lines[0]) if lines else None
    return int(match[1]) if match else 0


def read(text: str) -> RulesFile:
    """Return the rules in a classic file, up to where Open MPI gives up or a count contradicts the lines."""
    reader = _Reader(text)
    try:
        reader.file()
    except _Cut:
        pass
    else:
        token = next(reader.tokens, None)
        reader.rules.unread_line = token.line if token else 0
    return reader.rules


class _Reader:
    """Reads the numbers of a classic file in the order in which Open MPI reads them."""

    def __init__(self, text: str) -> None:
        lines = text.splitlines()
        version = heading(lines)
        self.rules = RulesFile()
        self.tokens = _tokens(lines, bool(version))
        self.five = version > 1
        contents = (line.partition("#")[0] for line in lines)
        self.widths = {n: len(NUMBER.findall(line)) for n, line in enumerate(contents, 1)}
        if (
            sum(map(bool, self.widths.values())) - bool(version) == 1
        ):  # all numbers are on one line, so lines do not correspond to rows
            self.widths = dict.fromkeys(self.widths, 0)
        self.tabular = max(self.widths.values(), default=0) >= len(COLUMNS)
        self.line = 1

    def cut(self, line: int, effect: str, remedy: str) -> NoReturn:
        self.rules.cut = (line, effect, remedy)
        raise _Cut

    def next(self, number_name: str) -> Token:
        token = next(self.tokens, None)
        if token is None:
            self.cut(
                self.line, f"the file ends where {number_name} should be: {IGNORED}", "check the counts above"
            )
        self.line = token.line
        if token.value < 0:
            self.cut(token.line, f"{token.value} as {number_name}: {IGNORED}", "no negative numbers")
        return token

    def file(self) -> None:
        for k in range(self.next("the number of collectives").value):
            token = self.next("the id of a collective")
            self.no_row(token, k)
            name = NAMES.get(token.value)
            if name is None:
                self.cut(
                    token.line, f"there is no collective {token.value}: {IGNORED}", "ids go from 0 to 16"
                )
            collective = RulesOf(token.line, name)
            self.rules.collectives.append(collective)
            for n in range(self.next(f"the number of communicator sizes of {name}").value):
                size = self.next(f"a communicator size of {name}")
                self.no_row(size, n)
                collective.entries.append(RulesEntry(size.line, size.value))
                self.rows(collective.entries[-1], name)

    def no_row(self, token: Token, rows_before: int) -> None:
        if rows_before and self.widths.get(token.line, 1) >= len(COLUMNS):
            effect = "wrong count: one row more than announced, or one communicator size"
            self.cut(token.line, f"{effect}; everything after is misread", "correct the counts above")

    def rows(self, entry: RulesEntry, name: str) -> None:
        n_rows = self.next(f"the number of rows of {name}")
        entry.count_line = n_rows.line
        for k in range(n_rows.value):
            row = [self.next(f"{column} of a row of {name}") for column in COLUMNS]
            line = row[0].line
            width = self.widths[line]
            if self.tabular and width < len(COLUMNS):
                self.cut(
                    n_rows.line,
                    f"wrong count: {n_rows.value} rows of {name} are announced, and line {line} is no row "
                    f"({k} come before it): the stack reads on across lines, and everything after is misread",
                    f"write {k}, or correct the counts above",
                )
            same_line = all(token.line == line for token in row)
            if width > 5 or (width == 5 and not self.five and same_line):
                self.cut(
                    line,
                    f"{width} columns without the version header: the fifth is taken for the next size",
                    "make rule-file-version-2 the first line, or leave the fifth column out",
                )
            if self.five and width == 5 and same_line:
                self.next(f"the number of requests of a row of {name}")
            if k == 0 and row[0].value != 0:
                effect = f"the first row is for {row[0].value} bytes: {IGNORED}"
                self.cut(line, effect, "begin with a row for 0")
            entry.rows.append(RulesRow(line, coll_tuned.TunedRow(*(token.value for token in row))))


def _tokens(lines: Sequence[str], headed: bool) -> Iterator[Token]:
    for number, line in enumerate(lines, 1):
        for text in NUMBER.findall("" if headed and number == 1 else line.partition("#")[0]):
            octal = re.fullmatch(r"[+-]?0[0-7]+", text)
            yield Token(int(text, 8 if octal else 0), number)


def entries(text: str) -> Mapping[str, Sequence[RulesEntry]]:
    """Return collective → entries, in the order of the file; the last block of a collective counts."""
    return {its.name: its.entries for its in read(text).collectives}


def looked_up(name: str, text: str, call: Asked, version: tuple[int, int]) -> Answer:
    """Return the algorithm that a file selects for a call; the reasons are the entry and the row that apply.

    ``name`` is the file's name in the reasons. Open MPI's ``version`` (major, minor) decides which algorithms
    exist.
    """
    answer = Answer(call.collective)
    size_entries = entries(text).get(call.collective)
    if not size_entries:
        answer.why.append(f"{name} has no rules for {call.collective}")
        return answer
    entry = size_entries[_last_up_to([candidate.comm_size for candidate in size_entries], call.ranks)]
    if call.ranks < entry.comm_size:
        which = f"the first one, which serves all smaller communicators too: {call.ranks} ranks reach it"
    elif entry is size_entries[-1] and call.ranks > entry.comm_size:
        which = f"the last one, which serves all larger communicators: {call.ranks} ranks reach it"
    else:
        which = f"the last one up to {call.ranks} ranks"
    answer.why.append(f"{name}:{entry.line}: the entry for {entry.comm_size} ranks is {which}")
    if not entry.rows:
        return answer
    threshold = coll_tuned.threshold_bytes(call.collective, call.nbytes, call.ranks)
    answer.why.append(_compared(call, threshold))
    row = entry.rows[_last_up_to([candidate.row.threshold_bytes for candidate in entry.rows], threshold)]
    last = f"the row from {row.row.threshold_bytes} bytes on is the last up to that"
    answer.why.append(f"{name}:{row.line}: {last}")
    answer.line = row.line
    names = coll_tuned.algorithms(call.collective, version)
    number = row.row.algorithm
    if number >= len(names):
        answer.algorithm = (
            f"none: there is no {call.collective} algorithm {number}, the call ends with MPI_ERR_ARG"
        )
    elif number:
        details = [
            f"{title} {value}"
            for title, value in (("fan-out", row.row.fanout), ("segments of", row.row.segment_bytes))
            if value
        ]
        answer.algorithm = ", ".join([f"{names[number]} ({number})", *details])
    else:
        answer.why.append("algorithm 0 leaves it to coll_tuned's own fixed rules")
    return answer


def _compared(call: Asked, threshold: int) -> str:
    """Return a sentence on the quantity that Open MPI compares with the rows, and its value for a call."""
    lookup = (openmpi := COLLECTIVES[call.collective].openmpi) and openmpi.lookup
    if lookup in (Lookup.TOTAL, Lookup.ROOT):
        beginning = f"rows of {call.collective} are compared with the {lookup.value}: "
        return f"{beginning}{call.nbytes} × {call.ranks} = {threshold}"
    if lookup is Lookup.SIZE:
        return f"rows of {call.collective} are compared with the {lookup.value}: {threshold}"
    return f"rows of {call.collective} do not differ by its message size"


def _last_up_to(bounds: Sequence[int], value: int) -> int:
    """Return the index of the bound before the first bound that is above a value, at least 0.

    The bounds are compared in the order of the file; they need not be sorted.
    """
    return max(0, next((i for i, bound in enumerate(bounds) if bound > value), len(bounds)) - 1)
