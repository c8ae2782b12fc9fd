"""Implement ``lint``: recognise the kind of each file, and check each file alone and all files together.

Files are checked together because, for example, a rules file has no effect unless a parameter names it.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path, PurePath

from autotune.lint.assignment import Reach, Read
from autotune.lint.finding import DEFAULT, Finding, version_of
from autotune.lint.kinds import UNREAD, kind_of
from autotune.lint.parameters import mca_file, tune_file
from autotune.lint.rules import rules_file
from autotune.lint.runtime import prte_file
from autotune.lint.scripts import (
    environment_file,
    is_own,
    set_in,
    shell_file,
    stated_releases,
    stated_versions,
)
from autotune.lint.selection import FRAMEWORKS
from autotune.lint.settings import released, settings, together
from autotune.lint.suppression import suppressed
from autotune.lint.traps import traps, unusable
from autotune.lint.ucx import ucx_file, variables
from autotune.lint.unread import unread
from autotune.lint.vendors import beside, vendors
from autotune.stacks.knobs import Knob
from autotune.stacks.knobs.recorded import recorded
from autotune.stacks.parameter_file import MCA

__all__ = ["environment_of", "kind_of", "lint", "unjudged", "unusable"]

_READERS: Mapping[str, Callable[[PurePath, str, tuple[int, int]], Read]] = {
    "mca": mca_file,
    "prte": prte_file,
    "tune": tune_file,
    "shell": shell_file,
    "ucx": ucx_file,
    "environment": environment_file,
    **dict.fromkeys(UNREAD, lambda path, text, version: Read((), ())),
}
"""Maps each kind of file with assignments to the function that reads it."""

_OF_ANY = ("shell", "mca", "tune")
"""Kinds of file that may be for any Open MPI unless they state a version. An exception is a file whose name
contains ``mca-params``: it is assumed to be for the version that the user names, or for the default."""

_OLDER = (4, 1)
"""The oldest version of Open MPI that files can be checked for. A file that states no version, or an older
version, may be for any version."""

_OUTCOME = re.compile(r"ignore|abort|refuse")  # Word in a finding that names the outcome.
_LACKED = re.compile(rf"no (?:{'|'.join(FRAMEWORKS)}) '?[^\s:']+")  # Missing component in a finding.

_CARRIED = {
    **dict.fromkeys(
        ("mca", "tune"), "becomes part of each value: the job aborts where that names a component"
    ),
    "shell": "becomes part of each value",
}
"""Maps kinds of file to a text that says what a carriage return does there. Other kinds are missing because
their readers skip carriage returns, such as those of rules files and ``ucx.conf``."""


def lint(
    files: Mapping[PurePath, str],
    mpi: str = "",
    parameter_names: Collection[str] | None = None,
    exists: Callable[[str], bool] | None = None,
    nodes: int | None = None,
    knobs: Mapping[str, Knob] | None = None,
    components: Mapping[str, Collection[str]] | None = None,
) -> tuple[Finding, ...]:
    """Return everything in files that the MPI would ignore, misread or refuse, in order of file and line.

    Findings that a comment of the file suppresses are left out; comments that suppress nothing are findings.

    Args:
        files: Maps the path of each file to its text.
        mpi: One of ``STACKS``; empty means the version that a file states, otherwise ``openmpi5``.
        parameter_names: Names of all MCA parameters of the MPI; None means that only parameters known to this
            project are checked.
        exists: Returns whether a file that a parameter names exists; None means that this is not checked.
        nodes: Number of nodes of the jobs that use the files; None means several.
        knobs: Maps the name of each MCA parameter and UCX variable to its declaration by the libraries that
            are installed here.
        components: Maps each framework of Open MPI to the components that are installed here, if the
            installed version is the one that is checked for.

    Raises:
        UserError: ``mpi`` is unknown.
    """
    forced_version = version_of(mpi) if mpi else None
    usual = version_of(mpi or DEFAULT)
    ucx = [name for name in knobs or () if name.startswith("UCX_")]
    # libfabric declares these variables as plain texts; the recorded listing also has their allowed words.
    words = {name: knob for name, knob in recorded().items() if name.startswith("FI_") and knob.allowed}
    knobs = {**recorded(), **(knobs or {}), **words}
    findings: list[Finding] = []
    launches: list[tuple[Reach, tuple[tuple[int, int], ...], bool]] = []
    around = Reach()
    plugin_texts: dict[str, list[str]] = {}
    readings: list[tuple[tuple[tuple[int, int], ...], bool]] = []
    for path, content in files.items():
        kind = kind_of(path, content)
        text = content.replace("\r\n", "\n")
        says = (text, str(path)) if kind == "shell" else (str(path),)
        stated = (forced_version,) if forced_version else next(filter(None, map(stated_versions, says)), ())
        is_stated = min(stated) >= _OLDER if stated else kind not in _OF_ANY or "mca-params" in path.name
        every = () if is_stated else (usual, _OLDER)
        versions = tuple(
            dict.fromkeys((*(max(stated_version, _OLDER) for stated_version in stated), *every))
        ) or (usual,)
        readings.append((versions, is_stated))
        version = versions[0]
        findings += _carried(path, content, kind)
        if kind == "rules":
            here_is = _release(knobs) if version == usual else ()
            findings += rules_file(path, text, version, here_is)
            continue
        if kind in traps():
            findings += traps()[kind].file(path, text)
            plugin_texts.setdefault(kind, []).append(content)
            continue
        reads = cache(partial(_READERS[kind], path, text))
        read = reads(version)

        def judge(version: tuple[int, int], reads: Callable[..., Read] = reads) -> list[Finding]:
            checks = (parameter_names, exists, knobs, components)
            reduced = (None, exists, _but_openmpi(knobs))
            file_read = reads(version)
            return [
                *file_read.findings,
                *settings(file_read.assigned, version, *(checks if version == usual else reduced)),
            ]

        findings += [*_in_all(versions, judge, is_stated), *vendors(read.assigned, text)]
        findings += variables(read.assigned, ucx, text)
        findings += released(read.assigned, next(filter(None, map(stated_releases, says)), ()))
        launches += [(reach, versions, is_stated) for reach in read.launches]
        if not read.launches:
            around = around.beside(read.prepared or Reach(tuple(read.assigned)))
    if not launches:
        launches = [(Reach(), *max(readings, key=lambda reading: reading[1], default=((usual,), True)))]
    for reach, versions, is_stated in launches:
        combined = around.beside(reach)
        findings += _in_all(versions, partial(together, combined, one_node=nodes == 1), is_stated)
        findings += beside(combined.assigned, files.values(), plugin_texts)
    by_file: dict[PurePath, dict[Finding, None]] = {path: {} for path in files}
    for finding in findings:
        by_file[finding.file][finding] = None
    every_version = not mpi and nodes is None
    return tuple(
        finding
        for path, text in files.items()
        for finding in _but_suppressed(path, text, list(by_file[path]), every_version)
    )


def _but_suppressed(path: PurePath, text: str, findings: list[Finding], sure: bool) -> list[Finding]:
    """Return the findings in one file in order of their lines, without those that its comments suppress."""
    left = suppressed(path, text, findings, sure) if kind_of(path, text) not in UNREAD else findings
    return sorted(left, key=lambda finding: finding.line)


def _in_all(
    versions: Sequence[tuple[int, int]],
    judge: Callable[[tuple[int, int]], Sequence[Finding]],
    is_stated: bool,
) -> list[Finding]:
    """Return the findings that are true for all of several versions, with the texts for the first version.

    If the file does not state its version, findings that are true only for the first version are returned
    too, marked as not sure.
    """
    first, *further = map(judge, versions)
    outcomes_by_version = [{_outcome(finding) for finding in outcomes} for outcomes in further]
    holds = [all(_outcome(finding) in outcomes for outcomes in outcomes_by_version) for finding in first]
    return [
        finding if so else replace(finding, sure=False)
        for finding, so in zip(first, holds, strict=True)
        if so or not is_stated
    ]


def _outcome(finding: Finding) -> tuple[int, str, str]:
    """Return (line, outcome, missing component) of a finding, to compare findings for different versions.

    The outcome is the word that names the effect, because the full text differs between versions.
    """
    outcome, lacked = _OUTCOME.search(finding.effect), _LACKED.search(finding.effect)
    wording = outcome[0] if outcome else re.sub(r"\d+", "", finding.effect)
    return finding.line, wording, lacked[0] if lacked else ""


def _but_openmpi(knobs: Mapping[str, Knob]) -> Mapping[str, Knob]:
    """Return the variables of all libraries except Open MPI, to check files for another Open MPI version."""
    return {name: knob for name, knob in knobs.items() if knob.layer != "openmpi"}


def _release(knobs: Mapping[str, Knob]) -> tuple[int, ...]:
    """Return the release of the Open MPI that is installed here; empty if that is unknown."""
    version = next((knob.version for knob in knobs.values() if knob.layer == "openmpi"), "")
    return tuple(map(int, re.findall(r"\d+", version)))[:3]


def _carried(path: PurePath, content: str, kind: str) -> Iterator[Finding]:
    if "\r\n" in content and kind in _CARRIED:
        line = 1 + content[: content.index("\r\n")].count("\n")
        effect = f"lines end in a carriage return, which {_CARRIED[kind]}"
        if first := re.match(r"#!.*?(\s-\S+)?\r\n", content):
            effect += f", and the {'option' if first[1] else 'interpreter'} in the first line is not found"
        yield Finding(path, line, "MPI206", effect, "write Unix line ends (dos2unix)")


def unjudged(files: Mapping[PurePath, str]) -> Iterator[tuple[PurePath, int, str]]:
    """Yield (path, line, variable) where a library's variable is set in a way that no reader understands.

    Such a variable is not checked, so the user is shown its line instead.
    """
    for path, text in files.items():
        if kind_of(path, text) == "shell":
            read = shell_file(path, text, version_of(DEFAULT)).assigned
            names = {name for a in read for name in (a.name, f"{MCA}{a.name}")} | set_in(text)
            yield from ((path, line, name) for line, name in unread(text, names) if not is_own(name))


def environment_of(path: PurePath, text: str) -> dict[str, str]:
    """Return the values, by name, of environment variables that have the same effect as a file."""
    kind = kind_of(path, text)
    if kind == "rules":
        return {
            "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
            "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(Path(path).absolute()),
        }
    if kind in traps():
        return dict(traps()[kind].environment(text))
    assignments = _READERS[kind](path, text, version_of(DEFAULT)).assigned
    return {a.name if a.variable else f"OMPI_MCA_{a.name}": a.value for a in assignments}
