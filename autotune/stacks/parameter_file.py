"""Read the assignments in an MCA parameter file as Open MPI does, which ignores some names in a file."""

import re
from collections.abc import Iterator
from typing import NamedTuple

MCA = "OMPI_MCA_"  # Prefix of environment variables that set MCA parameters.
ENV_LIST = "mca_base_env_list"
"""Name of the parameter whose value is a list of environment variables, separated by semicolons."""
MCA_PREFIX = re.compile(r"(?:OMPI|PRTE|PMIX)_MCA_")
"""Prefix of environment variables for parameters; in a file, Open MPI ignores a name with such a prefix."""
UCX_NAME = re.compile(r"UCX_\w+")  # Name of a variable of UCX; Open MPI ignores it in a parameter file.


class Line(NamedTuple):
    """A line that is neither empty nor a comment."""

    number: int  # Number of the line, counted from 1.
    text: str  # The line, stripped.
    name: str  # Name of the parameter; empty if the line is no assignment.
    value: str  # Value of the parameter.


def lines(text: str) -> Iterator[Line]:
    """Yield the lines of a file that are neither empty nor comments."""
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "//")):
            continue
        name, equals, value = (part.strip() for part in stripped.partition("="))
        is_assignment = bool(equals) and re.fullmatch(r"[\w.:-]+", name) is not None
        yield Line(number, stripped, *((name, value) if is_assignment else ("", "")))


def listed(value: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each environment variable in a value of ``mca_base_env_list``."""
    for item in re.split(r"\\?;", value.strip("'\"")):  # Tcl and csh need a backslash before ";"
        if item.strip():
            name, _, variable_value = item.strip().partition("=")
            yield name, variable_value


def environment(text: str) -> dict[str, str]:
    """Return the environment variables that have the same effect as the file."""
    env: dict[str, str] = {}
    for _, _, name, value in lines(text):
        if not name or MCA_PREFIX.match(name) or UCX_NAME.fullmatch(name):
            continue
        env[f"{MCA}{name}"] = value
        if name == ENV_LIST:
            env |= listed(value)
    return env
