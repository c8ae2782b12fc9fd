"""Recognise messages that a run ended early, from schedulers, launchers, MPI libraries, kernel and shell.

The messages of all these programs are in one file for all formats of logs, ``endings.toml``. A table above
such a message is incomplete.
"""

import re
from collections.abc import Mapping

from autotune.resources import facts

_TABLE = facts("tables/importers/endings")
_SIGNAL = "|".join(_TABLE["signals"])
_STEMS = tuple(_TABLE["stems"])


def _outside(pattern: str) -> str:
    return re.sub(r"\(.*\)", "", pattern)


ENDINGS: Mapping[str, tuple[str, ...]] = {
    program: tuple(
        pattern.replace("@SIGNAL", _SIGNAL).replace("@ENDED", _TABLE["ended"]) for pattern in patterns
    )
    for program, patterns in _TABLE["endings"].items()
}
"""Maps each program to the patterns of the lines with which it reports that a run ended early."""

_PATTERNS = tuple(
    (program, re.compile(pattern, re.IGNORECASE), pattern.startswith("^") and "|" not in _outside(pattern))
    for program, patterns in ENDINGS.items()
    for pattern in patterns
)
"""For each pattern in ``ENDINGS``: the program, the compiled pattern, and whether the pattern only matches at
the beginning of a line, after the prefix that the program prints."""
_BEGIN, _WITHIN = (
    re.compile(
        "|".join(regex.pattern for _, regex, prefixed in _PATTERNS if prefixed is begins), re.IGNORECASE
    )
    for begins in (True, False)
)
"""Joint pattern of all patterns that match only at the beginning of a line, and joint pattern of all patterns
that match anywhere in a line."""
_GENERAL = re.compile(rf"\b(?:{'|'.join(_TABLE['general'].split())})\b", re.IGNORECASE)
_GENERAL_BEHIND = re.compile(_TABLE["general_behind"], re.IGNORECASE)
_NO_REPORT = re.compile(r"\s*(?:#|\+ |\$ |--?[A-Za-z][\w-]*[\s,=])")
"""Beginning of a line that does not report anything: a comment, a command that a shell echoes, or an option
in a help text."""
_LONGEST = 1000
"""Number of characters of a line that are examined: messages are at the beginning of a line, and some
patterns examine all characters before a match, which takes long in long lines."""


def ended_early(line: str) -> bool:
    """Return whether a line reports that a run failed, was stopped or was cut off.

    A sentence that only mentions limits or stopped jobs is not such a report: banners, prologs and messages
    of the day describe rules ("jobs above their limit are killed"), not what happened to this run.
    """
    text = line[:_LONGEST]
    low = text.lower()
    if text.isascii() and not any(stem in low for stem in _STEMS):
        return False
    return _BEGIN.match(text) is not None or (_WITHIN.search(text) is not None and bool(reporter(text)))


def reporter(line: str) -> str:
    """Return the program that reports an early end in a line, as a key of ``ENDINGS``; empty if none does."""
    text = line[:_LONGEST]
    may_report = _NO_REPORT.match(text) is None
    for program, pattern, prefixed in _PATTERNS:
        match = pattern.search(text) if prefixed or may_report else None
        if match and (prefixed or not _is_general(text, program, match)):
            return program
    return ""


def _is_general(text: str, program: str, match: re.Match[str]) -> bool:
    """Return whether the clause around a match describes what happens in general instead of in this run.

    Only the text around the matched message is examined, because messages of libraries and launchers
    themselves contain words that are typical of general statements ("will now be aborted").
    """
    begin = text.rfind(": ", 0, match.start()) + 1
    clause = text[begin : match.end() if program == "somebody" else match.start()]
    return bool(_GENERAL.search(clause) or _GENERAL_BEHIND.match(text, match.end()))
