"""Files that assign parameters line by line: MCA parameter files, files for ``mpirun --tune``."""

import re
from pathlib import PurePath

from autotune.lint.assignment import ENV_LIST, Assignment, Read, Source, listed
from autotune.lint.finding import Finding


def mca_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """An MCA parameter file: ``key = value`` lines."""
    assigned: list[Assignment] = []
    findings: list[Finding] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        said = line.strip()
        if not said or said.startswith(("#", "//")):
            continue
        name, equals, value = (part.strip() for part in said.partition("="))
        if not equals or not re.fullmatch(r"[\w.:-]+", name):
            findings.append(
                Finding(path, number, f"{said!r} is not key = value: it is skipped", "one assignment a line")
            )
            continue
        if name in seen:
            findings.append(
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
            findings.append(
                Finding(path, number, effect, f"write {name.removeprefix('OMPI_MCA_')} = {value}")
            )
            continue
        if re.fullmatch(r"UCX_\w+", name):
            effect = f"{name} is an environment variable: here it is ignored"
            findings.append(
                Finding(path, number, effect, f"write {name}={value} into ucx.conf, or export it")
            )
            continue
        findings += _value_findings(path, number, name, value)
        assigned.append(Assignment(path, number, name, value))
        if name == ENV_LIST:
            assigned += listed(assigned[-1])
    return assigned, findings


def tune_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """A file for ``mpirun --tune``: options as on a command line."""
    assigned: list[Assignment] = []
    findings: list[Finding] = []
    seen: dict[str, int] = {}
    five = version >= (5, 0)
    if text and not text.endswith("\n"):
        last = text.count("\n") + 1
        findings.append(
            Finding(
                path, last, "without a newline at the end the last character is lost", "end with a newline"
            )
        )
    for number, line in enumerate(text.splitlines(), start=1):
        said = line.strip()
        if not said or said.startswith("#"):
            continue
        if line[0].isspace() and five:
            findings.append(
                Finding(path, number, "an indented line is silently dropped", "begin in column one")
            )
            continue
        one = re.match(r"(--?)(mca|x)\s+(.*)", said)
        if one is None:
            effect = (
                "mpirun aborts: only --mca and -x are known here" if five else "the line is not understood"
            )
            findings.append(Finding(path, number, effect, "write --mca KEY VALUE or -x NAME=VALUE"))
            continue
        dashes, option, rest = one.groups()
        if option == "mca" and dashes == "-" and five:
            findings.append(Finding(path, number, "mpirun aborts at -mca", "write --mca"))
        name, _, value = rest.partition("=" if option == "x" else " ")
        name, value = name.strip(), value.strip()
        if "#" in value:
            effect = f"a comment behind a value: {value!r} as a whole is taken for more options"
            findings.append(Finding(path, number, effect, "put comments on lines of their own"))
            value = value.partition("#")[0].strip()
        if re.search(r"\s", value) or (value[:1] in "'\"" and value):
            effect = f"the value {value!r} is cut at its first space, or keeps its quotes"
            findings.append(Finding(path, number, effect, "use the parameter file for such values"))
        if name in seen:
            effect = f"{name} was already set in line {seen[name]}: " + (
                "mpirun aborts" if five else "one is lost"
            )
            findings.append(Finding(path, number, effect, "keep one of them"))
        seen[name] = number
        assigned.append(Assignment(path, number, name, value, variable=option == "x", source=Source.TUNE))
        if name == ENV_LIST and option == "mca":
            assigned += listed(assigned[-1])
    return assigned, findings


def _value_findings(path: PurePath, number: int, name: str, value: str) -> list[Finding]:
    findings = []
    if re.search(r"(^|\s)(#|//)", value):
        effect = f"a comment behind a value becomes part of it: {name} is {value!r}"
        findings.append(Finding(path, number, effect, "put comments on lines of their own"))
    if value[:1] in ("'", '"') and value:
        effect = f"quotes become part of the value: {name} is {value!r}"
        findings.append(Finding(path, number, effect, "write the value without quotes"))
    return findings
