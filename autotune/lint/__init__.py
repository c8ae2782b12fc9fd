"""Find in anybody's parameter files whatever an MPI stack would silently ignore or misread.

A function for each kind of file takes text and returns findings; ``lint`` recognises the kinds and looks at
the files together, for a rules file means nothing without the parameters that point to it.

=================  =========================================
module             kind of file
=================  =========================================
``rules``          rules of ``coll_tuned``; ``json_rules``: those in JSON
``parameters``     MCA parameter files, ``--tune`` files
``scripts``        scripts: what reaches each launch, whose options ``launch`` reads
``shell``          the commands that a shell runs, path by path (``words``, ``worlds``); ``csh``: those of csh
``recipes``        modules, YAML, Dockerfiles, EasyBuild's recipes, lists of variables
``kinds``          which kind a file is; ``branches``: versions for which a branch is taken
``settings``       what such parameters mean together; those of the launcher: ``runtime``
``selection``      lists of components; ``values``: what a library refuses, cuts or takes for another
``ucx``            ``ucx.conf``; ``written``: files that scripts and recipes write;
                   ``unread``: settings in these that are not followed
``vendors``        variables of MPICH's family and libfabric
``traps``          plugins: files and variables of further libraries
=================  =========================================
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from pathlib import Path, PurePath

from autotune.lint.assignment import MCA, Reach, Read
from autotune.lint.branches import Branch
from autotune.lint.finding import DEFAULT, STACKS, Finding, version_of
from autotune.lint.kinds import kind_of
from autotune.lint.parameters import mca_file, tune_file
from autotune.lint.recipes import docker_file, easybuild_file, environment_file, module_file, yaml_file
from autotune.lint.rules import rules_file
from autotune.lint.runtime import prte_file
from autotune.lint.scripts import is_own, set_in, shell_file, stated_releases, stated_versions
from autotune.lint.selection import FRAMEWORKS
from autotune.lint.settings import released, settings, together
from autotune.lint.traps import traps, unusable
from autotune.lint.ucx import ucx_file, variables
from autotune.lint.unread import KINDS as WRITING
from autotune.lint.unread import unread
from autotune.lint.vendors import beside, vendors
from autotune.lint.worlds import MOST_PATHS
from autotune.stacks.knobs import Knob
from autotune.stacks.knobs.recorded import recorded

__all__ = ["DEFAULT", "STACKS", "Finding", "environment_of", "kind_of", "lint", "unjudged", "unusable"]

_READERS: Mapping[str, Callable[[PurePath, str, tuple[int, int]], Read]] = {
    "mca": mca_file,
    "prte": prte_file,
    "tune": tune_file,
    "shell": shell_file,
    "ucx": ucx_file,
    "module": module_file,
    "yaml": yaml_file,
    "docker": docker_file,
    "easybuild": easybuild_file,
    "environment": environment_file,
    "other": lambda path, text, version: Read((), ()),
}
"""Kind of file that assigns → what reads it; ``other`` is nothing that a stack reads."""

_SAYING = ("shell", "module", "docker", "yaml", "easybuild")
"""Kinds of file that may say for which Open MPI they are."""

_OF_ANY = (*_SAYING, "mca", "tune")
"""Those that are for any, if they do not; ``mca-params`` is for the one that is judged for."""

_OLDER = (4, 1)
"""The oldest version whose reading is known; a file that names none, or an older one, may be for any."""

_OUTCOME = re.compile(r"ignore|abort|refuse")
_LACKED = re.compile(rf"no (?:{'|'.join(FRAMEWORKS)}) '?[^\s:']+")

_CARRIED = {
    **dict.fromkeys(
        ("mca", "tune"), "becomes part of each value: the job aborts where that names a component"
    ),
    "shell": "becomes part of each value",
}
"""Kind of file → what a carriage return does there; rules files and ``ucx.conf`` skip it."""


def lint(
    files: Mapping[PurePath, str],
    mpi: str = "",
    known: Collection[str] | None = None,
    exists: Callable[[str], bool] | None = None,
    nodes: int | None = None,
    knobs: Mapping[str, Knob] | None = None,
    components: Mapping[str, Collection[str]] | None = None,
) -> tuple[Finding, ...]:
    """Everything in these files that the stack would ignore, misread or refuse, in order of file and line.

    Args:
        files: Path → text.
        mpi: One of ``STACKS``; empty: what a script loads, else ``openmpi5``.
        known: Names of all MCA parameters of the stack; None: only those that this project knows are judged.
        exists: Whether a file that a parameter names is there; None: not asked.
        nodes: Of the jobs that use the files; None: several.
        knobs: MCA parameters and UCX's variables by name, as the libraries that are installed here say.
        components: Framework of Open MPI → its components here, where this version is installed.

    Raises:
        UserError: a stack that is not known.
    """
    asked = version_of(mpi) if mpi else None
    usual = version_of(mpi or DEFAULT)
    ucx = [name for name in knobs or () if name.startswith("UCX_")]
    # What libfabric lists as texts, the record has words of.
    words = {name: knob for name, knob in recorded().items() if name.startswith("FI_") and knob.allowed}
    knobs = {**recorded(), **(knobs or {}), **words}
    findings: list[Finding] = []
    launches: list[tuple[Reach, tuple[tuple[int, int], ...], bool]] = []
    around = [Reach()]
    own: dict[str, list[str]] = {}
    meant: list[tuple[tuple[tuple[int, int], ...], bool]] = []
    branches: dict[tuple[PurePath, int], tuple[tuple[int, int], ...]] = {}
    for path, said in files.items():
        kind = kind_of(path, said)
        text = said.replace("\r\n", "\n")
        says = (text, str(path)) if kind in _SAYING else (str(path),)
        told = (asked,) if asked else next(filter(None, map(stated_versions, says)), ())
        named = min(told) >= _OLDER if told else kind not in _OF_ANY or "mca-params" in path.name
        every = () if named else (usual, _OLDER)
        versions = tuple(dict.fromkeys((*(max(one, _OLDER) for one in told), *every))) or (usual,)
        meant.append((versions, named))
        version = versions[0]
        findings += _carried(path, said, kind)
        if kind == "rules":
            here_is = _release(knobs) if version == usual else ()
            findings += rules_file(path, text, version, here_is)
            continue
        if kind in traps():
            findings += traps()[kind].file(path, text)
            own.setdefault(kind, []).append(said)
            continue
        reads = cache(partial(_READERS[kind], path, text))
        read = reads(version)
        branches |= {(path, line): _versions_of(one, asked) for line, one in read.branches.items()}

        def judged(version: tuple[int, int], reads: Callable[..., Read] = reads) -> list[Finding]:
            here = (known, exists, knobs, components)
            others = (None, exists, _but_openmpi(knobs))
            its = reads(version)
            return [*its.findings, *settings(its.assigned, version, *(here if version == usual else others))]

        findings += [*_by_branch(versions, judged, named, branches), *vendors(read.assigned, text)]
        findings += variables(read.assigned, ucx, text)
        of_any = [a for a in read.assigned if a.line not in read.branches]
        findings += released(of_any, next(filter(None, map(stated_releases, says)), ()))
        launches += [(reach, versions, named) for reach in read.launches]
        if not read.launches:
            left = read.left or (Reach(tuple(read.assigned)),)
            around = [one.beside(other) for one in around for other in left][:MOST_PATHS]
    if not launches:
        launches = [(Reach(), *max(meant, key=lambda its: its[1], default=((usual,), True)))]
    for one, (reach, versions, named) in product(around, launches):
        both = one.beside(reach)
        findings += _by_branch(versions, partial(together, both, one_node=nodes == 1), named, branches)
        findings += beside(both.assigned, files.values(), own)
    order = list(files)
    return tuple(sorted(dict.fromkeys(findings), key=lambda f: (order.index(f.file), f.line)))


def _versions_of(branch: Branch, asked: tuple[int, int] | None) -> tuple[tuple[int, int], ...]:
    """The versions that a branch is judged for; none where it is not for the one that is asked for."""
    versions = sorted({max(one, _OLDER) for one in branch.versions}, reverse=True)
    if asked:
        return (asked,) if asked in versions else ()
    return tuple(versions[:1] if branch.named else versions)


def _by_branch(
    versions: Sequence[tuple[int, int]],
    judged: Callable[[tuple[int, int]], Sequence[Finding]],
    named: bool,
    branches: Mapping[tuple[PurePath, int], tuple[tuple[int, int], ...]],
) -> list[Finding]:
    """Findings for the versions that a file may be for; in a branch on the version those for its own."""
    found = [one for one in _in_all(versions, judged, named) if (one.file, one.line) not in branches]
    for own in filter(None, dict.fromkeys(branches.values())):
        found += [one for one in _in_all(own, judged, True) if branches.get((one.file, one.line)) == own]
    return found


def _in_all(
    versions: Sequence[tuple[int, int]],
    judged: Callable[[tuple[int, int]], Sequence[Finding]],
    named: bool,
) -> list[Finding]:
    """Findings for the first of the versions that a file may be for, which hold for all of them.

    Where the file does not name these, the others are kept as what is not sure.
    """
    first, *others = map(judged, versions)
    same = [{_said(finding) for finding in its} for its in others]
    holds = [all(_said(finding) in its for its in same) for finding in first]
    return [
        finding if so else replace(finding, sure=False)
        for finding, so in zip(first, holds, strict=True)
        if so or not named
    ]


def _said(finding: Finding) -> tuple[int, str, str]:
    """The outcome of a line, in whatever words a version has it, and the component that this one lacks."""
    outcome, lacked = _OUTCOME.search(finding.effect), _LACKED.search(finding.effect)
    what = outcome[0] if outcome else re.sub(r"\d+", "", finding.effect)
    return finding.line, what, lacked[0] if lacked else ""


def _but_openmpi(knobs: Mapping[str, Knob]) -> Mapping[str, Knob]:
    """The installed libraries but Open MPI, for files of another version of it."""
    return {name: knob for name, knob in knobs.items() if knob.layer != "openmpi"}


def _release(knobs: Mapping[str, Knob]) -> tuple[int, ...]:
    """Which Open MPI is installed here, as far as its listing says."""
    said = next((knob.version for knob in knobs.values() if knob.layer == "openmpi"), "")
    return tuple(map(int, re.findall(r"\d+", said)))[:3]


def _carried(path: PurePath, said: str, kind: str) -> Iterator[Finding]:
    if "\r\n" in said and kind in _CARRIED:
        line = 1 + said[: said.index("\r\n")].count("\n")
        effect = f"lines end in a carriage return, which {_CARRIED[kind]}"
        if first := re.match(r"#!.*?(\s-\S+)?\r\n", said):
            effect += f", and the {'option' if first[1] else 'interpreter'} in the first line is not found"
        yield Finding(path, line, effect, "write Unix line ends (dos2unix)")


def unjudged(files: Mapping[PurePath, str]) -> Iterator[tuple[PurePath, int, str]]:
    """Lines that write a library's variable where nobody follows, so that nothing is said of it; its name."""
    for path, text in files.items():
        if (kind := kind_of(path, text)) in WRITING:
            read = _READERS[kind](path, text, version_of(DEFAULT)).assigned
            known = {name for a in read for name in (a.name, f"{MCA}{a.name}")}
            known |= set_in(path, text) if kind == "shell" else set()
            yield from ((path, line, name) for line, name in unread(text, kind, known) if not is_own(name))


def environment_of(path: PurePath, text: str) -> dict[str, str]:
    """The environment variables that set the same as the file."""
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
