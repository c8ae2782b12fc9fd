"""One parameter or variable that a file sets, how it reaches the stack, and what reaches one launch."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import NamedTuple

from autotune.lint.branches import Branch
from autotune.lint.finding import Finding
from autotune.stacks import parameter_file
from autotune.stacks.parameter_file import ENV_LIST, MCA


class Source(StrEnum):
    """Says how an assignment reaches the stack, since parts of the stack read only some of these sources."""

    FILE = "a parameter file"
    ENVIRONMENT = "the environment"
    TUNE = "a file for --tune"
    COMMAND = "the command line"


@dataclass(frozen=True, slots=True)
class Assignment:
    """Describes one parameter or variable that a file sets."""

    file: PurePath
    """The file that sets it."""
    line: int
    """Number of the line, counted from 1."""
    name: str
    """Its name, without ``OMPI_MCA_``."""
    value: str
    """Its value as the stack sees it."""
    variable: bool = False
    """Whether it is an environment variable rather than an MCA parameter."""
    source: Source = Source.FILE
    """How it reaches the stack."""
    literal: bool = True
    """Whether ``value`` is what the stack sees; False where a shell replaces a part of it first."""

    def finding(self, effect: str, remedy: str, *, sure: bool = True) -> Finding:
        """Return a finding at this line."""
        return Finding(self.file, self.line, effect, remedy, sure)


@dataclass(frozen=True, slots=True)
class Reach:
    """Holds everything that is set for one launch on one path through a script, or for whoever sources it."""

    assigned: tuple[Assignment, ...] = ()
    """The assignments in order: later ones win."""
    perhaps: frozenset[str] = frozenset()
    """Names that another path to the same launch sets, and ``USES_UCX`` where that is so."""
    closed: bool = True
    """Whether all settings of the launch are known."""
    alone: bool = True
    """Whether no other script can have set variables before, or can launch what this one prepares."""

    def beside(self, reach: "Reach") -> "Reach":
        """Return both combined, for settings of another file that apply to the same launch."""
        names = self.perhaps | reach.perhaps
        closed, alone = self.closed and reach.closed, self.alone and reach.alone
        return Reach(self.assigned + reach.assigned, names, closed, alone)


class Read(NamedTuple):
    """Holds what was read in a file: its assignments, its mistakes and its launches."""

    assigned: Sequence[Assignment]
    """All assignments of the file, each once."""
    findings: Sequence[Finding]
    """Mistakes in how the file is written."""
    launches: Sequence[Reach] = ()
    """Settings that reach each launch, on each path of a script."""
    prepared: Sequence[Reach] = ()
    """Settings that each path leaves for launches of other files; empty: everything that the file sets."""
    branches: Mapping[int, Branch] = {}
    """Line → the branch on a version of Open MPI that the line is in."""


USES_UCX = "a program with UCX"
"""Word in ``Reach.perhaps`` if the program uses UCX by itself: tests of UCX, UCC or NCCL, SHMEM."""

_CONTAINED = re.compile(r"(?:SINGULARITYENV|APPTAINERENV)_")
"""Prefix of variables that programs in a container see without it."""


def of_environment(
    path: PurePath,
    line: int,
    name: str,
    value: str,
    literal: bool = True,
    source: Source = Source.ENVIRONMENT,
) -> list[Assignment]:
    """Return the assignments that an environment variable makes.

    These are the variable itself or the MCA parameter that it sets, and any variables listed in its value.
    """
    plain = _CONTAINED.sub("", name)
    parameter = plain.removeprefix(MCA)
    first = Assignment(path, line, parameter, value, parameter == plain, source, literal)
    return [first, *listed(first)]


def listed(of: Assignment) -> list[Assignment]:
    """Return the variables in a value of ``mca_base_env_list``; none in that of any other parameter."""
    if of.name != ENV_LIST or of.variable:
        return []
    return [
        Assignment(of.file, of.line, name, value, variable=True, source=of.source, literal=of.literal)
        for name, value in parameter_file.listed(of.value)
    ]
