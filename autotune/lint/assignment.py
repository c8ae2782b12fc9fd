"""Define data types for a parameter or variable that a file sets, and for all settings of one launch."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import NamedTuple

from autotune.lint.finding import Finding
from autotune.stacks import parameter_file
from autotune.stacks.parameter_file import ENV_LIST, MCA


class Source(StrEnum):
    """Where the MPI library finds a setting; parts of the library read only some of these sources."""

    FILE = "a parameter file"
    ENVIRONMENT = "the environment"
    TUNE = "a file for --tune"
    COMMAND = "the command line"


@dataclass(frozen=True, slots=True)
class Assignment:
    """One parameter or environment variable that a file sets."""

    file: PurePath
    """Path of the file with the assignment."""
    line: int
    """Number of the line, counted from 1."""
    name: str
    """Name of the parameter or variable, without the prefix ``OMPI_MCA_``."""
    value: str
    """Value as the MPI library sees it."""
    variable: bool = False
    """Whether ``name`` is that of an environment variable rather than an MCA parameter."""
    source: Source = Source.FILE
    """Where the MPI library finds the setting."""
    literal: bool = True
    """Whether ``value`` is exact; False if it contains something that a shell replaces first."""

    def finding(self, code: str, effect: str, remedy: str, *, sure: bool = True) -> Finding:
        """Return a finding at the line of the assignment."""
        return Finding(self.file, self.line, code, effect, remedy, sure)


@dataclass(frozen=True, slots=True)
class Reach:
    """All settings that certainly apply to one launch of a script, or to scripts that source the file."""

    assigned: tuple[Assignment, ...] = ()
    """The assignments in order; later assignments override earlier ones of the same name."""
    perhaps: frozenset[str] = frozenset()
    """Names that are set on only some paths to the launch; also ``USES_UCX`` if the program uses UCX."""
    closed: bool = True
    """Whether all settings of the launch are known."""
    alone: bool = True
    """Whether no other script takes part, for example by setting variables first or making the launch."""

    def beside(self, reach: "Reach") -> "Reach":
        """Return these settings combined with those of another file that apply to the same launch."""
        names = self.perhaps | reach.perhaps
        closed, alone = self.closed and reach.closed, self.alone and reach.alone
        return Reach(self.assigned + reach.assigned, names, closed, alone)


class Read(NamedTuple):
    """Result of reading a file: its assignments, its mistakes and its launches."""

    assigned: Sequence[Assignment]
    """All assignments of the file, each once."""
    findings: Sequence[Finding]
    """Mistakes in how the file is written."""
    launches: Sequence[Reach] = ()
    """Settings of each launch."""
    prepared: Reach | None = None
    """Settings that apply to launches in other files; None means all assignments of this file."""


USES_UCX = "a program with UCX"
"""Mark in ``Reach.perhaps`` that the program uses UCX itself, as SHMEM and tests of UCX, UCC or NCCL do."""

_CONTAINED = re.compile(r"(?:SINGULARITYENV|APPTAINERENV)_")
"""Prefix that a container runtime takes off before programs in the container see the variable."""


def of_environment(
    path: PurePath,
    line: int,
    name: str,
    value: str,
    literal: bool = True,
    source: Source = Source.ENVIRONMENT,
) -> list[Assignment]:
    """Return the assignments that setting an environment variable makes.

    These are the variable itself or the MCA parameter that it sets, and the variables listed in the value of
    ``mca_base_env_list``.
    """
    plain = _CONTAINED.sub("", name)
    parameter = plain.removeprefix(MCA)
    first = Assignment(path, line, parameter, value, parameter == plain, source, literal)
    return [first, *listed(first)]


def listed(of: Assignment) -> list[Assignment]:
    """Return the assignments in the value of ``mca_base_env_list``; nothing for any other parameter."""
    if of.name != ENV_LIST or of.variable:
        return []
    return [
        Assignment(of.file, of.line, name, value, variable=True, source=of.source, literal=of.literal)
        for name, value in parameter_file.listed(of.value)
    ]
