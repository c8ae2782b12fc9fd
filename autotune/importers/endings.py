"""How those around a benchmark say that it ended early: schedulers, launchers, MPI libraries, kernel, shell.

One table for all formats of logs, ``endings.toml``: whoever reports an end of its own kind gets a line
there, and tables before such a report are half tables.
"""

import re
from collections.abc import Mapping

from autotune.resources import facts

_TABLE = facts("importers/endings")
_SIGNAL = "|".join(_TABLE["signals"])
_STEMS = tuple(_TABLE["stems"])


def _outside(pattern: str) -> str:
    """A pattern without what is in brackets."""
    return re.sub(r"\(.*\)", "", pattern)


ENDINGS: Mapping[str, tuple[str, ...]] = {
    who: tuple(pattern.replace("@SIGNAL", _SIGNAL).replace("@ENDED", _TABLE["ended"]) for pattern in patterns)
    for who, patterns in _TABLE["endings"].items()
}
"""Who reports → patterns of the lines in which they do."""

_PATTERNS = tuple(
    (who, re.compile(pattern, re.IGNORECASE), pattern.startswith("^") and "|" not in _outside(pattern))
    for who, patterns in ENDINGS.items()
    for pattern in patterns
)
"""Who reports, pattern, and whether it has the speaker's own prefix."""
_BEGIN, _WITHIN = (
    re.compile("|".join(its.pattern for _, its, prefixed in _PATTERNS if prefixed is begins), re.IGNORECASE)
    for begins in (True, False)
)
"""Patterns of a line's beginning, tried once, and those that are looked for all along it."""
_GENERAL = re.compile(rf"\b(?:{'|'.join(_TABLE['general'].split())})\b", re.IGNORECASE)
_GENERAL_BEHIND = re.compile(_TABLE["general_behind"], re.IGNORECASE)
_NO_REPORT = re.compile(r"\s*(?:#|\+ |\$ |--?[A-Za-z][\w-]*[\s,=])")
"""The beginning of a comment, of a command that a shell echoes, of an option in a help text."""
_LONGEST = 1000
"""Characters of a line that are looked at: messages come first, and patterns may look back over them all."""


def ended_early(line: str) -> bool:
    """Whether somebody says in this line that a run failed, was ended or was cut off.

    A sentence that only mentions limits or kills is no such report: those of banners, prologs and messages of
    the day say what happens in general, not what happened.
    """
    text = line[:_LONGEST]
    low = text.lower()
    if text.isascii() and not any(stem in low for stem in _STEMS):
        return False
    return _BEGIN.match(text) is not None or (_WITHIN.search(text) is not None and bool(reporter(text)))


def reporter(line: str) -> str:
    """Who says it: the first of ``ENDINGS`` with a pattern of this line; empty where nobody does."""
    text = line[:_LONGEST]
    report = _NO_REPORT.match(text) is None
    for who, pattern, prefixed in _PATTERNS:
        match = pattern.search(text) if prefixed or report else None
        if match and (prefixed or not _is_general(text, who, match)):
            return who
    return ""


def _is_general(text: str, who: str, match: re.Match[str]) -> bool:
    """Whether the clause in which the words of a report stand says what happens in general.

    Libraries and launchers have words of such sentences in their own messages ("will now be aborted"), so
    that of theirs only what stands around is looked at.
    """
    begin = text.rfind(": ", 0, match.start()) + 1
    clause = text[begin : match.end() if who == "somebody" else match.start()]
    return bool(_GENERAL.search(clause) or _GENERAL_BEHIND.match(text, match.end()))
