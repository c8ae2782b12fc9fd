"""Format a report of ``lint`` for people, for programs, and for the places where people see findings.

SARIF is that of version 2.1.0 (OASIS); the commands for GitHub's annotations are those of its manual,
"Workflow commands for GitHub Actions", escaped as its toolkit escapes them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath
from typing import Any, NamedTuple

from autotune import __version__
from autotune.lint.codes import CODES, Code
from autotune.lint.finding import Finding
from autotune.text_table import html_table
from autotune.views.documents import answer_text, fields_of, json_text

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = PurePath("/")


class Unjudged(NamedTuple):
    """A file, or a line of a file, of which nothing is said."""

    file: PurePath
    line: int  # Number of the line, counted from 1; 0 means the file as a whole.
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.why}" if self.line else f"{self.file} {self.why}"


@dataclass(frozen=True, slots=True)
class Report:
    """Findings of one run of ``lint``, and what it did not judge."""

    mpi: str
    """Name of the MPI that files are checked for if they name none."""
    n_files: int
    """Number of files that were judged."""
    findings: tuple[Finding, ...]
    """The findings to show."""
    n_hidden: int = 0
    """Number of notes that are not shown."""
    unjudged: tuple[Unjudged, ...] = ()
    """Files and lines that were not judged."""
    folder: PurePath = _ROOT
    """Folder that paths are shown relative to, for programs that want them so."""
    docs: str = ""
    """Address of ``docs/lint.md`` for links to the codes; empty if it is not known."""

    @property
    def n_sure(self) -> int:
        """Return the number of findings that are no notes."""
        return sum(finding.sure for finding in self.findings)

    @property
    def count(self) -> str:
        """Return the line that ends a report for people."""
        plural = "s" * (self.n_sure != 1)
        return f"{self.n_sure} finding{plural} in {self.n_files} file(s) for {self.mpi}\n"

    def _repr_html_(self) -> str:
        """Return the findings as a table, which a notebook shows."""
        rows = [
            (f"{f.file}:{f.line}", f.code, f"{'' if f.sure else 'note: '}{f.effect}", f.remedy)
            for f in self.findings
        ]
        return html_table(self.count.rstrip(), ("place", "code", "effect", "remedy"), rows)


def _text(report: Report) -> str:
    lines = [f"{finding}\n" for finding in report.findings] + [report.count]
    if n := report.n_hidden:
        lines.append(f"{n} note{'s' * (n != 1)} not shown: --all, or --mpi for one version\n")
    return "".join(lines)


def _json(report: Report) -> str:
    document = {
        "mpi": report.mpi,
        "files": report.n_files,
        "findings": [
            {"file": str(finding.file), "title": CODES[finding.code].title}
            | fields_of(finding, "line", "code", "effect", "remedy", "sure")
            for finding in report.findings
        ],
        "notes_not_shown": report.n_hidden,
        "not_judged": [{"file": str(one.file)} | fields_of(one, "line", "why") for one in report.unjudged],
    }
    return answer_text("lint", document)


def _github(report: Report) -> str:
    commands = [
        _command(
            "error" if finding.sure else "notice",
            f"{finding.code}: {CODES[finding.code].title}",
            _relative(finding.file, report.folder),
            finding.line,
            f"{finding.effect}\n{finding.remedy}",
        )
        for finding in report.findings
    ]
    for path, line, why in report.unjudged:
        commands.append(_command("warning", "not judged", _relative(path, report.folder), line, why))
    return "".join([*commands, report.count])


def _command(kind: str, title: str, path: PurePath, line: int, message: str) -> str:
    """Return a workflow command; ``line`` 0 means the file as a whole."""
    properties = {"file": str(path), **({"line": str(line)} if line else {}), "title": title}
    pairs = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::{kind} {pairs}::{_escaped(message)}\n"


def _escaped(text: str, others: str = "") -> str:
    """Replace the characters that end a workflow command; ``others`` are those that end a property."""
    for character in f"%\r\n{others}":  # the percent sign comes first, because it begins all replacements
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _sarif(report: Report) -> str:
    codes = sorted({finding.code for finding in report.findings})
    results = [
        {
            "ruleId": finding.code,
            "ruleIndex": codes.index(finding.code),
            "level": "error" if finding.sure else "note",
            "message": {"text": f"{finding.effect}\n{finding.remedy}"},
            "locations": [_location(finding.file, finding.line, report.folder)],
        }
        for finding in report.findings
    ]
    unjudged = [
        {
            "level": "warning",
            "message": {"text": f"not judged: {why}"},
            "locations": [_location(path, line, report.folder)],
        }
        for path, line, why in report.unjudged
    ]
    rules = [dict(_rule(CODES[code], report.docs)) for code in codes]
    run = {
        "tool": {"driver": {"name": "autotune lint", "version": __version__, "rules": rules}},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": unjudged}],
        "results": results,
    }
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(code: Code, docs: str) -> Iterator[tuple[str, Any]]:
    yield "id", code.name
    yield "shortDescription", {"text": f"{code.title}."}
    yield "fullDescription", {"text": code.problem}
    texts = (code.problem, f"Right: {code.right}", f"Why: {code.why}", code.exceptions)
    yield "help", {"text": "\n".join(filter(None, texts)), "markdown": code.markdown}
    if docs:
        yield "helpUri", f"{docs}#{code.anchor}"


def _location(path: PurePath, line: int, folder: PurePath) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(_relative(path, folder))}}
    if line:
        physical["region"] = {"startLine": line}
    return {"physicalLocation": physical}


def _relative(path: PurePath, folder: PurePath) -> PurePath:
    """Return a path relative to a folder if the folder contains it, else the whole path."""
    whole = folder / path
    below = whole.is_relative_to(folder) and ".." not in whole.parts
    return whole.relative_to(folder) if below else whole


def _uri(path: PurePath) -> str:
    """Return a path as a URI, which is relative if the path is."""
    uri = PurePosixPath("/", path).as_uri()
    return uri if path.is_absolute() else uri.removeprefix("file:///")


FORMATS: Mapping[str, Callable[[Report], str]] = {
    "text": _text,
    "json": _json,
    "sarif": _sarif,
    "github": _github,
}
"""Maps the name of each format to the function that returns a report in it."""
