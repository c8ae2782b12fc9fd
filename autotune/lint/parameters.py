"""Files that assign parameters: MCA parameter files, files for ``mpirun --tune``, scripts."""

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePath

from autotune.lint.finding import Finding

Read = tuple[list["Assignment"], list[Finding]]
"""What a file assigns, and what is wrong with how it is written."""


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


def mca_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """An MCA parameter file: ``key = value`` lines."""
    assigned: list[Assignment] = []
    found: list[Finding] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        said = line.strip()
        if not said or said.startswith(("#", "//")):
            continue
        name, equals, value = (part.strip() for part in said.partition("="))
        if not equals or not re.fullmatch(r"[\w.:-]+", name):
            found.append(
                Finding(path, number, f"{said!r} is no key = value: it is skipped", "one assignment a line")
            )
            continue
        if name in seen:
            found.append(
                Finding(
                    path,
                    number,
                    f"{name} was already set in line {seen[name]}: one of them is ignored",
                    "keep one",
                )
            )
        seen[name] = number
        if name.startswith("OMPI_MCA_"):
            effect = f"{name} names no parameter here: it is ignored"
            found.append(Finding(path, number, effect, f"write {name.removeprefix('OMPI_MCA_')} = {value}"))
            continue
        if re.fullmatch(r"UCX_\w+", name):
            effect = f"{name} is an environment variable: here it is ignored"
            found.append(Finding(path, number, effect, f"write mca_base_env_list = {name}={value}"))
            continue
        found += _value_findings(path, number, name, value)
        assigned.append(Assignment(path, number, name, value))
        if name == "mca_base_env_list":
            assigned += _listed(path, number, value)
    return assigned, found


def tune_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """A file for ``mpirun --tune``: options as on a command line."""
    assigned: list[Assignment] = []
    found: list[Finding] = []
    seen: dict[str, int] = {}
    five = version >= (5, 0)
    if text and not text.endswith("\n"):
        last = text.count("\n") + 1
        found.append(
            Finding(
                path, last, "without a newline at the end the last character is lost", "end with a newline"
            )
        )
    for number, line in enumerate(text.splitlines(), start=1):
        said = line.strip()
        if not said or said.startswith("#"):
            continue
        if line[0].isspace() and five:
            found.append(Finding(path, number, "an indented line is silently dropped", "begin in column one"))
            continue
        one = re.match(r"(--?)(mca|x)\s+(.*)", said)
        if one is None:
            effect = (
                "mpirun aborts: only --mca and -x are known here" if five else "the line is not understood"
            )
            found.append(Finding(path, number, effect, "write --mca KEY VALUE or -x NAME=VALUE"))
            continue
        dashes, option, rest = one.groups()
        if option == "mca" and dashes == "-" and five:
            found.append(Finding(path, number, "mpirun aborts at -mca", "write --mca"))
        name, _, value = rest.partition("=" if option == "x" else " ")
        name, value = name.strip(), value.strip()
        if "#" in value:
            effect = f"a comment behind a value: {value!r} as a whole is taken for more options"
            found.append(Finding(path, number, effect, "put comments on lines of their own"))
            value = value.partition("#")[0].strip()
        if re.search(r"\s", value) or (value[:1] in "'\"" and value):
            effect = f"the value {value!r} is cut at its first space, or keeps its quotes"
            found.append(Finding(path, number, effect, "use the parameter file for such values"))
        if name in seen:
            effect = f"{name} was already set in line {seen[name]}: " + (
                "mpirun aborts" if five else "one is lost"
            )
            found.append(Finding(path, number, effect, "keep one of them"))
        seen[name] = number
        assigned.append(Assignment(path, number, name, value, variable=option == "x"))
    return assigned, found


def shell_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """A script that exports variables; only assignments are looked at."""
    assigned: list[Assignment] = []
    found: list[Finding] = []
    pattern = re.compile(r"\s*(?:export\s+|setenv\s+|setenv\()?\"?(\w+)\"?(?:=|\s*,\s*|\s+)(.*?)\)?\s*$")
    for number, line in enumerate(text.splitlines(), start=1):
        match = pattern.fullmatch(line)
        if match is None or not match[1].startswith(("OMPI_MCA_", "UCX_")):
            continue
        try:
            value = "".join(shlex.split(match[2], comments=True)[:1])
        except ValueError:
            found.append(Finding(path, number, "a quote is not closed", "close it"))
            continue
        if not re.match(r"\s*(export|setenv)", line):
            effect = f"{match[1]} is set in the shell but not exported: no rank sees it"
            found.append(Finding(path, number, effect, f"write export {match[1]}=…"))
        mca = match[1].startswith("OMPI_MCA_")
        assigned.append(Assignment(path, number, match[1].removeprefix("OMPI_MCA_"), value, not mca))
    return assigned, found


def _value_findings(path: PurePath, number: int, name: str, value: str) -> list[Finding]:
    found = []
    if re.search(r"(^|\s)(#|//)", value):
        effect = f"a comment behind a value becomes part of it: {name} is {value!r}"
        found.append(Finding(path, number, effect, "put comments on lines of their own"))
    if value[:1] in ("'", '"') and value:
        effect = f"quotes become part of the value: {name} is {value!r}"
        found.append(Finding(path, number, effect, "write the value without quotes"))
    return found


def _listed(path: PurePath, number: int, value: str) -> list[Assignment]:
    pairs = (item.strip().partition("=") for item in value.strip("'\"").split(";") if item.strip())
    return [Assignment(path, number, name, given, variable=True) for name, _, given in pairs]
