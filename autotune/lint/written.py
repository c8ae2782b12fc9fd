"""Parameter files that a script writes line by line: with a here-document, or with ``echo`` and the like."""

import re
from collections.abc import Iterator
from pathlib import PurePath

from autotune.lint.assignment import Read
from autotune.lint.parameters import mca_file
from autotune.lint.runtime import prte_file
from autotune.lint.ucx import ucx_file

_TARGET = re.compile(r"(?:>>?|\btee\b(?:\s+-a)?)\s*[\"']?(\S*?(?:mca-params|ucx)\.conf)\b")
_HERE = re.compile(r"<<-?\s*\\?[\"']?(\w+)")
_ECHO = re.compile(
    r"\b(?:echo|printf)\s+(?:-\w+\s+)*(?:([\"'])(.*?)\1|([^\"'|>;&]+))\s*(?:\|\s*(?:sudo\s+)?)?$"
)
UNKNOWN = re.compile(r"[$`]")
"""Recognises a line in which the shell puts something in."""


def files_in(path: PurePath, text: str, version: tuple[int, int]) -> Iterator[Read]:
    """Each file of Open MPI, PRRTE or UCX that a script writes, as what reads it reads it."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        target = _TARGET.search(line)
        if target is None or line.lstrip().startswith("#"):
            continue
        reader = ucx_file if "ucx.conf" in target[1] else prte_file if "prte" in target[1] else mca_file
        if here := _HERE.search(line):
            ends = (i for i in range(number + 1, len(lines)) if lines[i].strip() == here[1])
            bodies = [(number + 1, lines[number + 1 : next(ends, len(lines))])]
        elif said := _ECHO.search(line[: target.start()]):
            bodies = [(number, [one]) for one in (said[2] or said[3] or "").split("\\n")]
        else:
            continue
        for first, body in bodies:
            known = ("" if UNKNOWN.search(one) else one for one in body)
            yield reader(path, "\n" * first + "\n".join(known), version)
