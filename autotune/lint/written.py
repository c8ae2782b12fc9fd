"""Read files for a library or a shell that scripts write, by here-documents, ``echo`` and the like."""

import re
from collections.abc import Callable, Iterator
from pathlib import PurePath

from autotune.lint.assignment import Read
from autotune.lint.parameters import mca_file
from autotune.lint.runtime import prte_file
from autotune.lint.ucx import ucx_file

_TARGET = re.compile(
    r"(?:>>?|\btee\b(?:\s+-a)?)\s*[\"']?([^\s\"';&|]*?(?:(?:mca-params|ucx)\.conf|profile(?:\.d/[\w.-]+)?|"
    r"(?:bash|zsh|csh|tcsh)rc|/environment|\.env))(?=[\s\"';&|]|$)"
)
"""A redirection to a file that a library reads, or that sets variables in a shell."""
_HERE = re.compile(r"<<-?\s*\\?[\"']?(\w+)")
_ECHO = re.compile(
    r"\b(?:echo|printf)\s+(?:-\w+\s+)*(?:([\"'])(.*?)\1|([^\"'|>;&]+))\s*(?:\|\s*(?:sudo\s+)?)?$"
)
UNKNOWN = re.compile(r"[$`]|\{\{")
"""Character of a line in which a shell or a template replaces something."""


_FOR_TASKS = re.compile(r"^\s*echo\s+([\"']?)((?:export|setenv)\s[^|>]+?)\1\s*$")
"""A line that prints an assignment for another program to make, as a ``TaskProlog`` of Slurm or a script for
``eval`` does."""

Reader = Callable[[PurePath, str, tuple[int, int]], Read]


def files_in(path: PurePath, text: str, version: tuple[int, int], shell: Reader) -> Iterator[Read]:
    """Yield the settings in each file that a script writes for a library or a shell.

    Args:
        path: Path of the script.
        text: Content of the script.
        version: Open MPI's (major, minor).
        shell: Reads a text as a shell script.
    """
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.lstrip().startswith("#"):
            continue
        if printed := _FOR_TASKS.match(line):
            yield shell(path, "\n" * number + printed[2], version)
        end = 0
        for target in _TARGET.finditer(line):
            preceding, end = line[end : target.start()], target.end()
            if heredoc := _HERE.search(line):
                ends = (i for i in range(number + 1, len(lines)) if lines[i].strip() == heredoc[1])
                bodies = [(number + 1, "\n".join(lines[number + 1 : next(ends, len(lines))]))]
            elif echoed := _ECHO.search(preceding):
                bodies = [(number, body_line) for body_line in (echoed[2] or echoed[3] or "").split("\\n")]
            else:
                continue
            for first, body in bodies:
                yield read_as(target[1], path, first, body, version, shell)


def read_as(
    target: str, path: PurePath, first: int, text: str, version: tuple[int, int], shell: Reader
) -> Read:
    """Read a text in the format of the file to which a script writes it.

    Args:
        target: Path of the file that is written, which determines the format.
        path: Path of the file that contains the text.
        first: Number of lines in front of the text in the file at ``path``.
        text: The text.
        version: Open MPI's (major, minor).
        shell: Reads a text as a shell script.
    """
    padded = "\n" * first + "\n".join("" if UNKNOWN.search(line) else line for line in text.split("\n"))
    if "ucx.conf" in target:
        return ucx_file(path, padded, version)
    if "mca-params" in target:
        return (prte_file if "prte" in target else mca_file)(path, padded, version)
    if re.search(r"environment$|\.env$", target):
        padded = re.sub(r"^(\w+=)", r"export \1", padded, flags=re.MULTILINE)
    read = shell(path, padded, version)
    return Read(read.assigned, read.findings)


def is_read(target: str) -> bool:
    """Whether a library or a shell reads files with this path."""
    return bool(_TARGET.search(f"> {target}"))
