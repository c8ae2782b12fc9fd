"""One parameter or variable that a file sets, and how the stack gets to see it."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath

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
    arm: tuple[tuple[int, int], ...] = ()
    """The branches of a script that it stands in: which ``if`` or ``case``, and which of its arms."""

    def may_meet(self, other: "Assignment") -> bool:
        """Whether one run of a script can come to both."""
        arms = dict(self.arm)
        return self.file != other.file or all(arms.get(which, arm) == arm for which, arm in other.arm)

    def finding(self, effect: str, remedy: str) -> Finding:
        """A finding at this line."""
        return Finding(self.file, self.line, effect, remedy)


Read = tuple[list[Assignment], list[Finding]]
"""What a file assigns, and what is wrong with how it is written."""

ENV_LIST = "mca_base_env_list"
"""The parameter that holds environment variables, separated by semicolons."""


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
