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

ENDINGS: Mapping[str, tuple[str, ...]] = {
    who: tuple(pattern.replace("@SIGNAL", _SIGNAL).replace("@ENDED", _TABLE["ended"]) for pattern in patterns)
    for who, patterns in _TABLE["endings"].items()
}
"""Who reports → patterns of the lines in which they do."""

_ALL = [pattern for patterns in ENDINGS.values() for pattern in patterns]
_BEGIN = [
    pattern for pattern in _ALL if pattern.startswith("^") and "|" not in re.sub(r"\(.*\)", "", pattern)
]
_ANY = tuple(
    re.compile("|".join(patterns), re.IGNORECASE)
    for patterns in (_BEGIN, [pattern for pattern in _ALL if pattern not in _BEGIN])
)
"""Patterns of a line's beginning, tried once, and those that are looked for all along it."""
_LONGEST = 1000
"""Characters of a line that are looked at: messages come first, and patterns may look back over them all."""


def ended_early(line: str) -> bool:
    """Whether somebody says in this line that a run failed, was ended or was cut off."""
    said = line[:_LONGEST]
    low = said.lower()
    if said.isascii() and not any(stem in low for stem in _STEMS):
        return False
    begin, within = _ANY
    return begin.match(said) is not None or within.search(said) is not None


def reporter(line: str) -> str:
    """Who says it: the first of ``ENDINGS`` with a pattern of this line; empty where nobody does."""
    said = line[:_LONGEST]
    return next(
        (who for who, its in ENDINGS.items() if any(re.search(p, said, re.IGNORECASE) for p in its)), ""
    )
