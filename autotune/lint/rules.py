"""Rules files of ``coll_tuned``, read as Open MPI reads them.

Its reader takes the next number wherever it stands, in C's notation, and skips every other character;
anything that it cannot make sense of makes it forget the whole file without a word.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import NoReturn

from autotune.lint import json_rules
from autotune.lint.finding import IGNORED, Finding, Notes
from autotune.stacks import coll_tuned
from autotune.stacks.classic_rules import HEADER, NAMES, heading

_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_COLUMNS = ("the message size", "the algorithm", "the fan-out", "the segment size")


@dataclass(frozen=True, slots=True)
class _Token:
    value: int
    line: int
    text: str


class _Cut(Exception):  # noqa: N818 - ends the reading as the stack ends it
    """The file ends, or stops making sense, where a number should be."""


@dataclass
class _Reader:
    note: Callable[[int, str, str], None]
    version: tuple[int, int]
    tokens: Iterator[_Token]
    line: int = 1
    five: bool = False

    def cut(self, line: int, effect: str, remedy: str) -> NoReturn:
        self.note(line, effect, remedy)
        raise _Cut

    def next(self, what: str) -> _Token:
        token = next(self.tokens, None)
        if token is None:
            self.cut(self.line, f"the file ends where {what} should be: {IGNORED}", "check the counts above")
        self.line = token.line
        if token.value < 0:
            self.cut(token.line, f"{token.value} as {what}: {IGNORED}", "no negative numbers")
        return token


def rules_file(path: PurePath, text: str, version: tuple[int, int]) -> list[Finding]:
    """Findings in a rules file, classic or JSON."""
    if text.lstrip().startswith("{"):
        return json_rules.rules_file(path, text, version)
    lines = text.splitlines()
    headed, five = heading(lines)
    notes = Notes(path)
    tokens = _tokens(lines[1:] if headed else lines, 2 if headed else 1)
    reader = _Reader(notes.note, version, tokens, five=five)
    _notation(reader, lines, headed)
    try:
        widths = (len(_NUMBER.findall(line.partition("#")[0])) for line in lines)
        _file(reader, dict(enumerate(widths, start=1)))
    except _Cut:
        pass
    else:
        rest = next(reader.tokens, None)
        if rest is not None:
            reader.note(
                rest.line,
                "what follows the last row that was counted is ignored",
                "the counts above do not fit the rows",
            )
    if version >= (6, 0) and not notes.findings:
        reader.note(
            1,
            "Open MPI 6 reads classic files with communicator sizes shifted by one entry",
            "write JSON: export --format coll_tuned_json",
        )
    return notes.findings


def _notation(reader: _Reader, lines: list[str], headed: bool) -> None:
    for number, line in enumerate(lines, start=1):
        if headed and number == 1:
            continue
        said = line.partition("#")[0]
        if HEADER in said:
            reader.note(
                number,
                f"only in the first line is this a header; here its number is read as a count: {IGNORED}",
                "move it to the first line, before all comments",
            )
        elif words := re.findall(r"[A-Za-z_]\w*", re.sub(_NUMBER, " ", said)):
            reader.note(
                number,
                f"letters are skipped, so {' '.join(words)!r} says nothing and what follows is misread",
                "write ids (bcast is 7) and bytes without units; names belong into comments",
            )
        for octal in re.findall(r"(?<![\w.])0[0-9]+\b", said):
            reader.note(
                number, f"{octal} is read as C reads it, in base 8", f"write {octal.lstrip('0') or '0'}"
            )


def _file(reader: _Reader, widths: dict[int, int]) -> None:
    n_coll = reader.next("the number of collectives")
    seen: set[int] = set()
    for _ in range(n_coll.value):
        token = reader.next("the id of a collective")
        if seen:
            _no_row(reader, token, widths)
        name = NAMES.get(token.value)
        if name is None:
            reader.cut(token.line, f"there is no collective {token.value}: {IGNORED}", "ids go from 0 to 16")
        if name not in coll_tuned.ALGORITHMS:
            reader.note(
                token.line, f"coll_tuned has no algorithms for {name}: its rules are ignored", "leave it out"
            )
        if token.value in seen:
            reader.note(
                token.line, f"{name} comes twice: its later rules replace the earlier ones", "join them"
            )
        seen.add(token.value)
        _collective(reader, name, widths)


def _collective(reader: _Reader, name: str, widths: dict[int, int]) -> None:
    n_sizes = reader.next(f"the number of communicator sizes of {name}")
    sizes: list[_Token] = []
    pairs: list[tuple[int, int]] = []
    for _ in range(n_sizes.value):
        size = reader.next(f"a communicator size of {name}")
        if sizes:
            _no_row(reader, size, widths)
        if sizes and size.value <= sizes[-1].value:
            reader.note(
                size.line,
                f"communicator size {size.value} after {sizes[-1].value}: the search ends at the first "
                "larger one, so some of these are never used",
                "sort them in ascending order",
            )
        sizes.append(size)
        line = _rows(reader, name, widths)
        if line:
            pairs.append((size.value, line))
    if sizes and sizes[0].value > 2:
        reader.note(
            sizes[0].line,
            f"the first entry, for {sizes[0].value} ranks, is also used by 2 to {sizes[0].value - 1} ranks, "
            "and the last one by all larger communicators",
            "write an entry for 0 with algorithm 0 first, where the library shall decide",
        )
    for value, line in pairs:
        after = min((s.value for s in sizes if s.value > value), default=None)
        if value != 2 or after != 3:
            reader.note(
                line,
                f"two_proc is also used by communicators of {value + (value == 2)} and more ranks, where it "
                "fails with MPI_ERR_UNSUPPORTED_OPERATION",
                "put it under communicator size 2 and follow it by an entry for 3",
            )


def _no_row(reader: _Reader, token: _Token, widths: dict[int, int]) -> None:
    """Stop reading at a row in the place of an id or a size."""
    if widths.get(token.line, 1) >= len(_COLUMNS):
        reader.cut(
            token.line,
            "wrong count: one row more than announced, or one communicator size; everything after is misread",
            "correct the counts above",
        )


def _rows(reader: _Reader, name: str, widths: dict[int, int]) -> int:
    """Read the rows of one communicator size; the line of a row with an algorithm for pairs, else 0."""
    n_rows = reader.next(f"the number of rows of {name}")
    tabular = max(widths.values(), default=0) >= len(_COLUMNS)
    last: _Token | None = None
    chosen: set[int] = set()
    pairs = 0
    for k in range(n_rows.value):
        row = [reader.next(f"{what} of a row of {name}") for what in _COLUMNS]
        bound, algorithm, fanout, segment = row
        line = bound.line
        width = widths.get(line, 4)
        if tabular and width < len(_COLUMNS):
            reader.cut(
                n_rows.line,
                f"wrong count: {n_rows.value} rows of {name} are announced, and line {line} is not a row "
                f"({k} come before it): the stack reads on across the lines, and everything after is misread",
                f"write {k}, or correct the counts above",
            )
        same_line = all(token.line == line for token in row)
        if width > 5 or (width == 5 and not reader.five and same_line):
            reader.cut(
                line,
                f"{width} columns without the version header: the fifth is taken for the next message size",
                "make rule-file-version-2 the first line, or leave the fifth column out",
            )
        if reader.five and width == 5 and same_line:
            reader.next(f"the number of requests of a row of {name}")
        if k == 0 and bound.value != 0:
            reader.cut(line, f"the first row is for {bound.value} bytes: {IGNORED}", "begin with a row for 0")
        if last is not None and bound.value <= last.value:
            reader.note(
                line,
                f"{bound.value} bytes after {last.value}: the search ends at the first larger row, so some "
                "of these are never used",
                "sort the rows in ascending order",
            )
        last = bound
        pairs = _algorithm(reader, name, algorithm, fanout) or pairs
        if segment.value and not coll_tuned.segments(name, algorithm.value):
            reader.note(
                line,
                f"algorithm {algorithm.value} of {name} has no segments: {segment.value} is ignored",
                "write 0 as the segment size",
            )
        chosen.add(algorithm.value)
    if len(chosen) > 1 and name in coll_tuned.ONE_ROW:
        reader.note(n_rows.line, coll_tuned.one_row(name), "write a single row for 0 bytes")
    return pairs


def _algorithm(reader: _Reader, name: str, token: _Token, fanout: _Token) -> int:
    """Judge an id; the line where it is an algorithm for pairs, else 0."""
    if name not in coll_tuned.ALGORITHMS or token.value == 0:
        return 0
    known = coll_tuned.algorithms(name, reader.version)
    if token.value >= len(known):
        reader.note(
            token.line,
            f"{name} has no algorithm {token.value}: the first call that gets here ends with MPI_ERR_ARG",
            "known: " + ", ".join(f"{i} {n}" for i, n in enumerate(known)),
        )
        return 0
    if known[token.value] == "chain" and fanout.value == 0:
        reader.note(
            token.line,
            "a chain with fan-out 0 is a pipeline, not what forcing the algorithm runs (fan-out 4)",
            f"write {coll_tuned.CHAIN_FANOUT} as the fan-out",
        )
    return token.line if known[token.value] == coll_tuned.PAIRS_ONLY else 0


def _tokens(lines: list[str], first: int) -> Iterator[_Token]:
    for number, line in enumerate(lines, start=first):
        for match in _NUMBER.finditer(line.partition("#")[0]):
            text = match[0]
            digits = text.lstrip("+-")
            base = 16 if digits[:2].lower() == "0x" else 8 if digits[0] == "0" and len(digits) > 1 else 10
            yield _Token(int(text, base) if base != 8 else int(text.replace("0", "0o", 1), 8), number, text)
