"""The table of NCCL's and RCCL's example tuner plugin."""

import re
from collections.abc import Iterator
from pathlib import PurePath

from autotune.lint.finding import Finding
from autotune.stacks import nccl

_WORDS = (
    (0, "collective", tuple(nccl.COLLECTIVES.values()), "allreduce"),
    (3, "algorithm", nccl.ALGORITHMS, "ring"),
    (4, "protocol", nccl.PROTOCOLS, "simple"),
)
"""Field, what it holds, what is known, and for what any other word is taken."""

_ROW = re.compile(rf"({'|'.join(nccl.COLLECTIVES.values())}) *, *\d+ *, *\d+ *, *\w+ *, *\w+ *, *-?\d+ *,")


def is_table(path: PurePath, first: str) -> bool:
    """Whether it is such a table, by its name or the first line that is no comment."""
    return path.name == "nccl_tuner.conf" or bool(_ROW.match(first))


def nccl_file(path: PurePath, text: str) -> list[Finding]:
    """Findings in a table."""
    findings = [
        Finding(path, n, f"only {nccl.LONGEST_LINE} bytes of a line are read: the rest is a line", "shorter")
        for n, line in enumerate(text.splitlines(), start=1)
        if len(line.encode()) > nccl.LONGEST_LINE - 1
    ]
    sound: list[nccl.NcclRow] = []
    for row in nccl.rows(text):
        if row.fields[0] == "collective_type":
            continue
        if not 8 <= len(row.fields) <= 10:
            effect = f"{len(row.fields)} fields: the row is skipped in silence"
            findings.append(Finding(path, row.line, effect, "8 to 10 fields"))
            continue
        for at, what, known, taken in _WORDS:
            if row.fields[at] not in known:
                effect = f"{what} {row.fields[at]!r} is not known: it is taken for {taken}"
                findings.append(Finding(path, row.line, effect, ", ".join(known)))
        sound.append(row)
    for where in dict.fromkeys(row.where for row in sound):
        findings += _gaps(path, where, [row for row in sound if row.takes(where)])
    for number, row in enumerate(sound):
        before = next((r for r in sound[:number] if r.takes(row.where) and _holds(r, row)), None)
        if before:
            effect = f"the row of line {before.line} is for all of its calls too, and first: never used"
            findings.append(Finding(path, row.line, effect, "order them, without overlaps"))
    return findings


def _gaps(path: PurePath, where: tuple[str, ...], rows: list[nccl.NcclRow]) -> Iterator[Finding]:
    """Sizes that no row is for, of those that take all calls of one kind."""
    kind = f"{where[0]} on {where[2]} ranks of {where[1]} nodes".replace("-1", "any")
    otherwise = "the plugin leaves NCCL one channel (its documentation: ring and simple)"
    first = next(row for row in rows if row.where == where)
    covered = 0
    for row in sorted(rows, key=lambda r: r.bounds):
        low, high = row.bounds
        if low > covered:
            effect = f"no row for {kind} from {covered} to {low - 1} bytes: {otherwise}"
            yield Finding(path, first.line, effect, "cover every size")
        covered = max(covered, high + 1)
    if covered <= nccl.LARGEST:
        effect = f"no row for {kind} from {covered} bytes on: {otherwise}"
        yield Finding(path, first.line, effect, f"end the last one at {nccl.LARGEST}")


def _holds(outer: nccl.NcclRow, inner: nccl.NcclRow) -> bool:
    return outer.bounds[0] <= inner.bounds[0] and inner.bounds[1] <= outer.bounds[1]
