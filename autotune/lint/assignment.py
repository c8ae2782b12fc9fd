"""One parameter or variable that a file sets, how the stack gets to see it, and what comes together."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import NamedTuple

from autotune.lint.branches import Branch
from autotune.lint.finding import Finding


class Source(StrEnum):
    """How an assignment reaches the stack: parts of it read only some."""

    FILE = "a parameter file"
    ENVIRONMENT = "the environment"
    TUNE = "a file for --tune"
    COMMAND = "the command line"


@dataclass(frozen=True, slots=True)
class Assignment:
    """One parameter or variable that a file sets."""

    file: PurePath
    """Where."""
    line: int
    """Counted from 1."""
    name: str
    """Without ``OMPI_MCA_``."""
    value: str
    """As the stack sees it."""
    variable: bool = False
    """Whether it is an environment variable rather than an MCA parameter."""
    source: Source = Source.FILE
    """How the stack gets to see it."""
    literal: bool = True
    """Whether ``value`` is what the stack sees; False where a shell puts something in its place first."""

    def finding(self, effect: str, remedy: str, *, sure: bool = True) -> Finding:
        """A finding at this line."""
        return Finding(self.file, self.line, effect, remedy, sure)


@dataclass(frozen=True, slots=True)
class Reach:
    """Everything set for one launch on one path through a script, or for whoever sources it."""

    assigned: tuple[Assignment, ...] = ()
    """In order: what comes later wins."""
    perhaps: frozenset[str] = frozenset()
    """Names that another path to the same launch sets, and ``USES_UCX``."""
    closed: bool = True
    """Whether all is known that it is given."""
    alone: bool = True
    """Whether no other script has set variables before, or launches what this one prepares."""

    def beside(self, other: "Reach") -> "Reach":
        """Both, where what is another file's comes with it."""
        names = self.perhaps | other.perhaps
        closed, alone = self.closed and other.closed, self.alone and other.alone
        return Reach(self.assigned + other.assigned, names, closed, alone)


class Read(NamedTuple):
    """The findings in a file and the launches it makes."""

    assigned: Sequence[Assignment]
    """All that it sets, each once."""
    findings: Sequence[Finding]
    """Mistakes in how it is written."""
    launches: Sequence[Reach] = ()
    """One for each launch on each path of a script."""
    left: Sequence[Reach] = ()
    """Variables left set for others, on each path; empty: all that it sets."""
    branches: Mapping[int, Branch] = {}
    """Line → the branch on a version of Open MPI that it is in."""


ENV_LIST = "mca_base_env_list"
"""The parameter that holds environment variables, separated by semicolons."""

USES_UCX = "a program with UCX"
"""Stands among the names of a launch whose program uses UCX itself: tests of UCX, UCC or NCCL, SHMEM."""

MCA = "OMPI_MCA_"
"""How the names of variables begin that set parameters."""

_CONTAINED = re.compile(r"(?:SINGULARITYENV|APPTAINERENV)_")
"""Before names of variables that a container gets to see without it."""


def of_environment(
    path: PurePath,
    line: int,
    name: str,
    value: str,
    literal: bool = True,
    source: Source = Source.ENVIRONMENT,
) -> list[Assignment]:
    """The assignments made by a variable: itself, or a parameter, and the variables in its value."""
    plain = _CONTAINED.sub("", name)
    parameter = plain.removeprefix(MCA)
    first = Assignment(path, line, parameter, value, parameter == plain, source, literal)
    return [first, *listed(first)]


def listed(of: Assignment) -> list[Assignment]:
    """The variables in a value of ``mca_base_env_list``; none in that of any other parameter."""
    if of.name != ENV_LIST or of.variable:
        return []
    items = re.split(r"\\?;", of.value.strip("'\""))  # Tcl and csh want a backslash there
    pairs = (item.strip().partition("=") for item in items if item.strip())
    return [
        Assignment(of.file, of.line, name, value, variable=True, source=of.source, literal=of.literal)
        for name, _, value in pairs
    ]
