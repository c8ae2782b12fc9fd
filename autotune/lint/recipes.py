"""Files of other tools that set variables for a job: modules, YAML, Dockerfiles, lists of variables.

YAML is Spack's environments and configurations, manifests of Kubernetes, files of Compose: every pair of a
library's variable and a value in it is read as set.
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
"""An arm of a branch in Lua or Tcl, with its condition."""
_CASE = re.compile(r"^\s*[\"{]?([1-9][\w.*-]*|default)[\"}]?\s*\{")
"""An arm of Tcl's ``switch``."""
_OPENS = re.compile(r"^\s*(?:local\s+)?(?:(?:for|while)\b.*\bdo\b|(?:\w+\s*=\s*)?function\b)|\{\s*$")
_CLOSES = re.compile(r"^\s*end\b|^\s*\}")
_WHOLE = re.compile(r"\bend\s*$|\}\s*$")
"""The end of a construct that stands on one line."""
_INSTRUCTION = re.compile(r"^\s*([A-Za-z]+)\s+((?:.*\\\n)*.*)$", re.MULTILINE)
_EXPORTS_LAST = re.compile(r"(?:^|[;&]\s*|\\\n\s*)export\s+[^;&|]*$")
_LAUNCHED = re.compile(
    r"(?:[^;&\n]*(?:&&|;)\s*)*(?:\w+=\S+\s+|(?:time|exec|nohup|timeout \S+)\s+)*"
    r"(?:\S*/)?(?:mpirun|mpiexec|srun)\s+-"
)
"""The beginning of a launch, where a text stands on one line."""
_TARGETS, _TEXTS = ("dest", "path"), ("content", "line", "block")
"""Ansible's words for a file (``copy``, ``lineinfile``, ``blockinfile``), and for what is written to it."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = "tag:yaml.org,2002:null"
MOST_NODES = 50_000
"""Limit for one YAML file; the longest of 1,678 public files has 3,000."""


def module_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """A module in Lua or Tcl; settings inside a branch count as possible."""
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
            found = of_a_library(path, number, name, Word(value, not unknown))
            (perhaps if arms.inside else sure).extend(found)
            if arms.branch.says:
                branches[number] = arms.branch
    left = Reach(tuple(sure), frozenset(a.name for a in perhaps))
    return Read((*sure, *perhaps), (), (), (left,), branches)


class _Arms:
    """The constructs around a line of a module: each with the branch that is taken, and what is left."""

    def __init__(self) -> None:
        self._around: list[tuple[Branch, Branch, str]] = []  # Taken, left, and a switch's subject.

    @property
    def inside(self) -> bool:
        """Whether the line is inside of any construct."""
        return bool(self._around)

    @property
    def branch(self) -> Branch:
        """The branch that the line is in."""
        inside = NO_BRANCH
        for taken_here, _, _ in self._around:
            inside = inside.within(taken_here)
        return inside

    def follow(self, line: str) -> None:
        """Go on by one line."""
        arm = _ARM.match(line)
        word, condition = (arm[1], arm[2]) if arm else ("", "")
        if word in ("elseif", "else") and self._around:
            _, left, subject = self._around.pop()
            holds, fails = taken(condition) if word == "elseif" else (left, left)
            self._around.append((left.within(holds), left.within(fails), subject))
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
    """Variables beside their values in YAML, and launches in it."""
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
    """Names with values and their line; without a name what is a command, or a script.

    In the place of a name there may be the file that a text is written to.
    """
    if len(text) > MOST_YAML:
        return
    try:
        waiting = [node for node in yaml.compose_all(text, Loader=_LOADER) if node is not None]
    except (yaml.YAMLError, RecursionError):
        return
    seen: set[int] = set()
    while waiting and len(seen) < MOST_NODES:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
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
            waiting += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            items = [one for one in node.value if isinstance(one, yaml.ScalarNode)]
            if items and re.fullmatch(r"(?:\S*/)?(?:mpirun|mpiexec)", items[0].value):
                yield "", shlex.join(one.value for one in items), line
                items = []  # it says itself which of them are variables
            for one in items:
                name, equals, value = one.value.removeprefix("export ").partition("=")
                if equals and re.fullmatch(r"\w+", name):
                    yield name, value, one.start_mark.line + 1
            waiting += node.value
        elif isinstance(node, yaml.ScalarNode):
            block = node.style in ("|", ">") and re.search(r"\b(?:mpirun|mpiexec|srun)\s", node.value)
            if block or _LAUNCHED.match(node.value):
                yield "", node.value, line + bool(block)


def docker_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """``ENV`` of a Dockerfile, and what its commands launch."""
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
            launches += [around.beside(one) for one in read.launches]
    return Read((*assigned, *ran), tuple(findings), tuple(launches), (Reach(tuple(assigned)),))


def _command(said: str) -> str:
    """A command in the words of a shell, also where it stands as a list in JSON."""
    try:
        its = json.loads(said.replace("\\\n", " ")) if said.startswith("[") else None
    except ValueError:
        return said
    return shlex.join(map(str, its)) if isinstance(its, list) else said


def _env(said: str) -> Iterator[tuple[str, str]]:
    try:
        words = shlex.split(said)
    except ValueError:
        return
    if words and "=" not in words[0]:
        yield words[0], " ".join(words[1:])
        return
    for word in words:
        name, _, value = word.partition("=")
        yield name, value


def environment_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """A list of variables, as PAM (``/etc/environment``), containers (``--env-file``) and systemd take them.

    They differ in whether quotes are taken off, so a value in quotes is not judged.
    """
    assigned: list[Assignment] = []
    for number, line in enumerate(text.splitlines(), start=1):
        name, equals, value = line.strip().partition("=")
        if equals and re.fullmatch(r"\w+", name):
            literal = not re.search(r"[\"'$\\]", value)
            assigned += of_a_library(path, number, name, Word(value, literal))
    return Read(tuple(assigned), ())


def easybuild_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """Variables that a recipe of EasyBuild's sets in its module."""
    try:
        tree = ast.parse(text) if len(text) <= MOST_YAML else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Read((), ())
    assigned: list[Assignment] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                    said = str(value.value)
                    assigned += of_a_library(path, key.lineno, str(key.value), Word(said, "%" not in said))
    return Read(tuple(assigned), ())
