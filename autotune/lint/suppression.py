"""Read the comments by which a file suppresses findings: ``# autotune: ignore=MPI101``."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from autotune.lint.codes import CODES, UNKNOWN, UNUSED
from autotune.lint.finding import Finding

_COMMENT = re.compile(
    r"(?P<before>.*?)#\s*autotune:\s*ignore\b(?:\s*=\s*(?P<codes>\w+(?:\s*,\s*\w+)*))?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Comment:
    """A comment with the codes that it suppresses."""

    line: int
    """Number of its line, counted from 1."""
    codes: tuple[str, ...]
    """The codes as they are written."""
    covers: tuple[int, ...]
    """Numbers of the lines whose findings it suppresses."""


def suppressed(path: PurePath, text: str, findings: Sequence[Finding], sure: bool) -> list[Finding]:
    """Return the findings that no comment of the file suppresses, and those in such comments themselves.

    A comment suppresses findings in its own line. If the line is a comment alone, it also suppresses findings
    in the next line that has no such comment.

    Args:
        path: Path of the file.
        text: Content of the file.
        findings: The findings in the file.
        sure: Whether a suppression without a finding is certain to be needless, since the file was checked
            for all versions that it is for.
    """
    comments = list(_comments(text))
    used: set[tuple[int, str]] = set()
    left: list[Finding] = []
    for finding in findings:
        by = [c for c in comments if finding.line in c.covers and finding.code in c.codes]
        used |= {(c.line, finding.code) for c in by}
        if not by:
            left.append(finding)
    return left + [f for comment in comments for f in _mistakes(path, comment, used, sure)]


def _comments(text: str) -> Iterator[_Comment]:
    matches = {n: match for n, line in enumerate(text.splitlines(), 1) if (match := _COMMENT.match(line))}
    for number, match in matches.items():
        covers = [number]
        if not match["before"].strip():
            covers.append(next(n for n in range(number + 1, number + len(matches) + 1) if n not in matches))
        codes = tuple(code.strip() for code in (match["codes"] or "").split(","))
        yield _Comment(number, codes, tuple(covers))


def _mistakes(path: PurePath, comment: _Comment, used: set[tuple[int, str]], sure: bool) -> Iterator[Finding]:
    for code in comment.codes:
        if code not in CODES:
            effect = f"ignore={code} suppresses nothing: there is no such code"
            yield Finding(
                path, comment.line, UNKNOWN, effect, "whole codes, such as MPI101: docs/lint.md lists them"
            )
        elif (comment.line, code) not in used:
            effect = f"ignore={code} suppresses nothing: there is no such finding here"
            yield Finding(
                path, comment.line, UNUSED, effect, "leave it out", sure=sure and not CODES[code].beyond
            )
