"""Read files of other tools that set variables for jobs: module files, YAML, Dockerfiles, lists of variables.

YAML files are, for example, Spack's environments and configurations, manifests of Kubernetes and files of
Compose. Every pair of a library's variable and a value in such a file counts as set.
"""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import PurePath

import yaml

from autotune.lint.assignment import Assignment, Reach, Read
from autotune.lint.branches import NO_BRANCH, Branch, taken
from autotune.lint.finding import Finding
from autotune.lint.scripts import of_a_library, shell_file
from autotune.lint.words import Word
from autotune.lint.written import is_read, read_as
from autotune.resources import MOST_YAML

_LUA = re.compile(
    r"""^\s*(?:pushenv|setenv)\s*\(?\s*["'](\w+)["']\s*,\s*(?:"([^"]*)"|'([^']*)'|(-?[\d.]+)|(.*?))\s*\)?\s*(?:--.*)?$"""
)
_TCL = re.compile(
    r"""^\s*(?:pushenv|setenv)\s+[{"]?(\w+)[}"]?\s+(?:"([^"]*)"|\{([^}]*)\}|([^\s;]+))\s*(?:;.*)?$"""
)
_ARM = re.compile(r"^\s*(?:\}\s*)?(if|elseif|else|switch)\b(.*?)(?:\bthen\b.*|\{\s*)?$")
"""Beginning of a branch in Lua or Tcl (``if``, ``else``, …), with its condition."""
_CASE = re.compile(r"^\s*[\"{]?([1-9][\w.*-]*|default)[\"}]?\s*\{")
"""Beginning of one case of Tcl's ``switch``."""
_OPENS = re.compile(r"^\s*(?:local\s+)?(?:(?:for|while)\b.*\bdo\b|(?:\w+\s*=\s*)?function\b)|\{\s*$")
_CLOSES = re.compile(r"^\s*end\b|^\s*\}")
_WHOLE = re.compile(r"\bend\s*$|\}\s*$")
"""End of a line that contains a whole construct, from beginning to end."""
_INSTRUCTION = re.compile(r"^\s*([A-Za-z]+)\s+((?:.*\\\n)*.*)$", re.MULTILINE)
_EXPORTS_LAST = re.compile(r"(?:^|[;&]\s*|\\\n\s*)export\s+[^;&|]*$")
_LAUNCHED = re.compile(
    r"(?:[^;&\n]*(?:&&|;)\s*)*(?:\w+=\S+\s+|(?:time|exec|nohup|timeout \S+)\s+)*"
    r"(?:\S*/)?(?:mpirun|mpiexec|srun)\s+-"
)
"""Beginning of a text that is one line with a command that launches ranks."""
_TARGETS, _TEXTS = ("dest", "path"), ("content", "line", "block")
"""Ansible's keys (``copy``, ``lineinfile``, ``blockinfile``) for the path of a file, and for the text to
write."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = "tag:yaml.org,2002:null"
MOST_NODES = 50_000
"""Maximum number of nodes that are read from one YAML file; the longest of 1,678 public files has 3,000."""


def module_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """Read a module file in Lua or Tcl; settings inside a branch count as possible only."""
    sure: list[Assignment] = []
    perhaps: list[Assignment] = []
    branches: dict[int, Branch] = {}
    arms = _Arms()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.lstrip().startswith(("#", "--")):
            arms.follow(line)
        if match := _LUA.match(line) if "(" in line else _TCL.match(line):
            name, *values = match.groups()
            value = next((v for v in values if v is not None), "")
            unknown = ("(" in line and values[-1]) or re.search(r"[$\[]", value if "(" not in line else "")
            assignments = of_a_library(path, number, name, Word(value, not unknown))
            (perhaps if arms.inside else sure).extend(assignments)
            if arms.branch.says:
                branches[number] = arms.branch
    prepared = Reach(tuple(sure), frozenset(a.name for a in perhaps))
    return Read((*sure, *perhaps), (), (), (prepared,), branches)


class _Arms:
    """Tracks which constructs surround a line of a module file, and which branches on a version these are."""

    def __init__(self) -> None:
        self._around: list[tuple[Branch, Branch, str]] = []
        """For each surrounding construct: the present branch, the branches that may still follow, and the
        subject if the construct is a switch."""

    @property
    def inside(self) -> bool:
        """Whether the present line is inside any construct."""
        return bool(self._around)

    @property
    def branch(self) -> Branch:
        """The branch on a version that the present line is in."""
        inside = NO_BRANCH
        for taken_here, _, _ in self._around:
            inside = inside.within(taken_here)
        return inside

    def follow(self, line: str) -> None:
        """Advance by one line of the module file."""
        arm = _ARM.match(line)
        word, condition = (arm[1], arm[2]) if arm else ("", "")
        if word in ("elseif", "else") and self._around:
            _, remaining, subject = self._around.pop()
            holds, fails = taken(condition) if word == "elseif" else (remaining, remaining)
            self._around.append((remaining.within(holds), remaining.within(fails), subject))
        elif _WHOLE.search(line) and not _CLOSES.match(line):
            return
        elif word == "if":
            self._around.append((*taken(condition), ""))
        elif word == "switch":
            self._around.append((NO_BRANCH, NO_BRANCH, condition))
        elif self._around and self._around[-1][2] and (case := _CASE.match(line)):
            subject = (re.findall(r"\$\{?\w+\}?", self._around[-1][2]) or [""])[-1]
            arm_of_switch, _ = taken(f"{subject} == {case[1]}")
            self._around.append((arm_of_switch, NO_BRANCH, ""))
        elif _CLOSES.match(line):
            self._around = self._around[:-1]
        elif _OPENS.search(line):
            self._around.append((NO_BRANCH, NO_BRANCH, ""))


def yaml_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """Read the variables with their values, and the launches, in a YAML file."""
    assigned: list[Assignment] = []
    findings: list[Finding] = []
    launches: list[Reach] = []
    for name, value, line in _yaml(text):
        if is_read(name):
            read = read_as(name, path, line - 1, value, version, shell_file)
            findings += read.findings
            assigned += read.assigned
        elif name:
            literal = not re.search(r"[$]|\{\{|\{\w+\}", value)
            assigned += of_a_library(path, line, name, Word(value, literal))
        else:
            read = shell_file(path, "\n" * (line - 1) + value, version)
            findings += read.findings
            launches += read.launches
            assigned += read.assigned
    return Read(tuple(dict.fromkeys(assigned)), tuple(findings), tuple(launches), (Reach(),))


def _yaml(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield (name, value, line) of each scalar with a key, and of each command or script, with an empty name.

    If the value is a text to be written to a file, the path of that file takes the place of the name.
    """
    if len(text) > MOST_YAML:
        return
    try:
        pending = [node for node in yaml.compose_all(text, Loader=_LOADER) if node is not None]
    except (yaml.YAMLError, RecursionError):
        return
    visited: set[int] = set()
    while pending and len(visited) < MOST_NODES:
        node = pending.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        line = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}
            scalars = {k: v for k, v in pairs.items() if isinstance(v, yaml.ScalarNode) and v.tag != _NULL}
            for name, value in scalars.items():
                yield name, value.value, value.start_mark.line + 1
            if {"name", "value"} <= scalars.keys():
                yield scalars["name"].value, scalars["value"].value, scalars["value"].start_mark.line + 1
            target = next((scalars[key].value for key in _TARGETS if key in scalars), "")
            for text_node in (scalars[key] for key in _TEXTS if key in scalars and target):
                yield target, text_node.value, text_node.start_mark.line + 1 + (text_node.style in ("|", ">"))
            pending += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            items = [item for item in node.value if isinstance(item, yaml.ScalarNode)]
            if items and re.fullmatch(r"(?:\S*/)?(?:mpirun|mpiexec)", items[0].value):
                yield "", shlex.join(item.value for item in items), line
                items = []  # these are not variables, unless an option of the launcher sets them
            for item in items:
                name, equals, value = item.value.removeprefix("export ").partition("=")
                if equals and re.fullmatch(r"\w+", name):
                    yield name, value, item.start_mark.line + 1
            pending += node.value
        elif isinstance(node, yaml.ScalarNode):
            block = node.style in ("|", ">") and re.search(r"\b(?:mpirun|mpiexec|srun)\s", node.value)
            if block or _LAUNCHED.match(node.value):
                yield "", node.value, line + bool(block)


def docker_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """Read the ``ENV`` lines of a Dockerfile, and the launches in its commands."""
    assigned: list[Assignment] = []
    findings: list[Finding] = []
    launches: list[Reach] = []
    ran: list[Assignment] = []
    for match in _INSTRUCTION.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        if match[1].upper() == "ENV":
            for name, value in _env(match[2].replace("\\\n", " ")):
                assigned += of_a_library(path, line, name, Word(value, "$" not in value))
        elif match[1].upper() in ("RUN", "CMD", "ENTRYPOINT"):
            read = shell_file(path, "\n" * (line - 1) + _command(match[2]), version)
            findings += read.findings
            if match[1].upper() == "RUN" and _EXPORTS_LAST.search(match[2]) and read.assigned:
                name = read.assigned[-1].name
                effect = f"what RUN exports ends with it: {name} is set for nothing that follows"
                findings.append(Finding(path, line, effect, "write ENV in its place"))
            ran += read.assigned
            around = Reach(tuple(assigned))
            launches += [around.beside(reach) for reach in read.launches]
    return Read((*assigned, *ran), tuple(findings), tuple(launches), (Reach(tuple(assigned)),))


def _command(text: str) -> str:
    """Return a command of a Dockerfile in shell syntax, even if the file has it as a JSON list."""
    try:
        arguments = json.loads(text.replace("\\\n", " ")) if text.startswith("[") else None
    except ValueError:
        return text
    return shlex.join(map(str, arguments)) if isinstance(arguments, list) else text


def _env(text: str) -> Iterator[tuple[str, str]]:
    try:
        words = shlex.split(text)
    except ValueError:
        return
    if words and "=" not in words[0]:
        yield words[0], " ".join(words[1:])
        return
    for word in words:
        name, _, value = word.partition("=")
        yield name, value


def environment_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """Read a list of variables for PAM (``/etc/environment``), containers (``--env-file``) or systemd.

    These programs differ in whether they remove quotes, so a value in quotes is not checked.
    """
    assigned: list[Assignment] = []
    for number, line in enumerate(text.splitlines(), start=1):
        name, equals, value = line.strip().partition("=")
        if equals and re.fullmatch(r"\w+", name):
            literal = not re.search(r"[\"'$\\]", value)
            assigned += of_a_library(path, number, name, Word(value, literal))
    return Read(tuple(assigned), ())


def easybuild_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """Read the variables that an EasyBuild recipe sets in the module file that it creates."""
    try:
        tree = ast.parse(text) if len(text) <= MOST_YAML else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Read((), ())
    assigned: list[Assignment] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                    text_value = str(value.value)
                    assigned += of_a_library(
                        path, key.lineno, str(key.value), Word(text_value, "%" not in text_value)
                    )
    return Read(tuple(assigned), ())
