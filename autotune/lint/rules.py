"""Check rules files of ``coll_tuned`` for mistakes, by reading them as Open MPI does."""

import re
from collections.abc import Sequence
from pathlib import PurePath

from autotune.lint import json_rules
from autotune.lint.finding import Finding, Notes
from autotune.stacks import coll_tuned
from autotune.stacks.classic_rules import (
    HEADER,
    IGNORED,
    NUMBER,
    SECOND,
    RulesEntry,
    RulesOf,
    RulesRow,
    heading,
    read,
)


def rules_file(
    path: PurePath, text: str, version: tuple[int, int], release: tuple[int, ...] = ()
) -> list[Finding]:
    """Return the findings in a rules file, classic or JSON.

    Args:
        path: Path of the file.
        text: Content of the file.
        version: Open MPI's (major, minor).
        release: Full release of the Open MPI that the file is for; empty if unknown.
    """
    if text.lstrip().startswith("{"):
        return json_rules.rules_file(path, text, version)
    lines = text.splitlines()
    notes = Notes(path)
    _header(notes, lines, version, release)
    _notation(notes, lines)
    file = read(text)
    names_so_far: set[str] = set()
    for collective in file.collectives:
        if collective.name not in coll_tuned.ALGORITHMS:
            notes.note(
                "MPI104",
                collective.line,
                f"coll_tuned has no algorithms for {collective.name}: its rules are ignored",
                "leave it out",
            )
        if collective.name in names_so_far:
            effect = f"{collective.name} comes twice: its later rules replace the earlier ones"
            notes.note("MPI105", collective.line, effect, "join them")
        names_so_far.add(collective.name)
        _collective(notes, collective, version)
    if file.cut:
        notes.note("MPI109", *file.cut)
    elif file.unread_line:
        effect = "what follows the last row that was counted is ignored"
        notes.note("MPI109", file.unread_line, effect, "the counts above do not fit the rows")
    if version >= (6, 0) and not notes.findings:
        effect = "Open MPI 6 reads classic files with communicator sizes shifted by one entry"
        notes.note("MPI110", 1, effect, "write JSON: export --format coll_tuned_json")
    return notes.findings


def _header(notes: Notes, lines: Sequence[str], version: tuple[int, int], release: tuple[int, ...]) -> None:
    """Note a header of the second format, unless every possible release of Open MPI knows that format."""
    first = SECOND.get(version, ())
    if heading(lines) and (release or (version if version < (5, 0) else first)) < first:
        since = ".".join(map(str, first))
        effect = f"Open MPI before {since} takes the number of {HEADER}N for a count: {IGNORED}"
        notes.note("MPI101", 1, effect, f"{since} or newer, or no header and four columns")


def _notation(notes: Notes, lines: Sequence[str]) -> None:
    headed = bool(heading(lines))
    for number, line in enumerate(lines[headed:], start=1 + headed):
        content = line.partition("#")[0]
        if HEADER in content:
            effect = f"only in the first line is this a header; here its number is read as a count: {IGNORED}"
            notes.note("MPI101", number, effect, "move it to the first line, before all comments")
        elif words := re.findall(r"[A-Za-z_]\w*", re.sub(NUMBER, " ", content)):
            effect = f"letters are skipped, so {' '.join(words)!r} says nothing and what follows is misread"
            remedy = "write ids (bcast is 7) and bytes without units; names belong into comments"
            notes.note("MPI102", number, effect, remedy)
        for octal in re.findall(r"(?<![\w.])0[0-9]+\b", content):
            effect = f"{octal} is read as C reads it, in base 8"
            notes.note("MPI103", number, effect, f"write {octal.lstrip('0') or '0'}")


def _collective(notes: Notes, collective: RulesOf, version: tuple[int, int]) -> None:
    prior: RulesEntry | None = None
    sizes = [entry.comm_size for entry in collective.entries]
    for entry in collective.entries:
        if prior and entry.comm_size <= prior.comm_size:
            notes.note(
                "MPI106",
                entry.line,
                f"communicator size {entry.comm_size} after {prior.comm_size}: the search ends at the first "
                "larger one, so some of these are never used",
                "sort them in ascending order",
            )
        prior = entry
        value, above = (
            entry.comm_size,
            min((size for size in sizes if size > entry.comm_size), default=None),
        )
        if (line := _rows(notes, collective.name, entry, version)) and (value != 2 or above != 3):
            notes.note(
                "MPI107",
                line,
                f"two_proc is also used by communicators of {value + (value == 2)} and more ranks, where it "
                "fails with MPI_ERR_UNSUPPORTED_OPERATION",
                "put it under communicator size 2 and follow it by an entry for 3",
            )
    if sizes and sizes[0] > 2:
        notes.note(
            "MPI108",
            collective.entries[0].line,
            f"the first entry, for {sizes[0]} ranks, is also used by 2 to {sizes[0] - 1} ranks, "
            "and the last one by all larger communicators",
            "write an entry for 0 with algorithm 0 first, where the library shall decide",
        )


def _rows(notes: Notes, name: str, entry: RulesEntry, version: tuple[int, int]) -> int:
    """Note mistakes in the rows of one communicator size.

    Returns:
        The number of the line of a row whose algorithm works only with two ranks; 0 if there is no such row.
    """
    pairs, bound = 0, -1
    for line, row in entry.rows:
        if row.threshold_bytes <= bound:
            notes.note(
                "MPI106",
                line,
                f"{row.threshold_bytes} bytes after {bound}: the search ends at the first larger row, so "
                "some of these are never used",
                "sort the rows in ascending order",
            )
        bound = row.threshold_bytes
        pairs = _algorithm(notes, name, RulesRow(line, row), version) or pairs
        if row.segment_bytes and not coll_tuned.segments(name, row.algorithm):
            effect = f"algorithm {row.algorithm} of {name} has no segments: {row.segment_bytes} is ignored"
            notes.note("MPI111", line, effect, "write 0 as the segment size")
    if len({row.algorithm for _, row in entry.rows}) > 1 and name in coll_tuned.ONE_ROW:
        notes.note("MPI112", entry.count_line, coll_tuned.one_row(name), "write a single row for 0 bytes")
    return pairs


def _algorithm(notes: Notes, name: str, rules_row: RulesRow, version: tuple[int, int]) -> int:
    """Note a wrong algorithm in a row; return its line if the algorithm works only with two ranks, else 0."""
    number = rules_row.row.algorithm
    if name not in coll_tuned.ALGORITHMS or number == 0:
        return 0
    names = coll_tuned.algorithms(name, version)
    if number >= len(names):
        effect = f"{name} has no algorithm {number}: the first call that gets here ends with MPI_ERR_ARG"
        notes.note(
            "MPI113", rules_row.line, effect, "known: " + ", ".join(f"{i} {n}" for i, n in enumerate(names))
        )
        return 0
    if names[number] == "chain" and rules_row.row.fanout == 0:
        effect = "a chain with fan-out 0 is a pipeline, not what forcing the algorithm runs (fan-out 4)"
        notes.note("MPI114", rules_row.line, effect, f"write {coll_tuned.CHAIN_FANOUT} as the fan-out")
    return rules_row.line if names[number] == coll_tuned.PAIRS_ONLY else 0
