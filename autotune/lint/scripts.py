"""Scripts for a shell: what they export, and each launch with what reaches it."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import PurePath

from autotune.lint.assignment import ENV_LIST, MCA, USES_UCX, Assignment, Reach, Read, of_environment
from autotune.lint.csh import is_csh, translated
from autotune.lint.finding import Notes
from autotune.lint.launch import LaunchLine, place_of
from autotune.lint.shell import DECLARES, Call, Followed, follow
from autotune.lint.traps import traps
from autotune.lint.ucx import COMMON
from autotune.lint.vendors import PREFIXES
from autotune.lint.words import Word
from autotune.lint.worlds import World

_OPTIONS = re.compile(r"(?:^|\s)-|mpirun|mpiexec|srun")
"""Recognises a variable that holds options of a launch."""
_SLIP = re.compile(r"(?!(?:OMPI|PRTE|PMIX)_MCA_)(?:[OMPI]{3,5}|PR?TR?E)_+MCA_*(\w+)")
"""Misspellings of ``OMPI_MCA_`` and ``PRTE_MCA_``."""
_USES_UCX = re.compile(r"(?:^|[/_$.{])(?:ucx|ucp|uct|ucc|n?v?shmem|oshmem)|gtest|[nr]ccl|_perf\b", re.I)
"""A word of a launch whose program uses UCX, whatever ``pml`` is."""
_OWN = re.compile(
    r"\w+_(?:FLAGS|OPTS?|OPTIONS|ARGS|CMD|PREFIX|PATH|HOME|ROOT|DIR|INSTALL|VERSION|SRC|BUILD|BIN|LIB|INC|EXE|"
    r"BRANCH|TAG|COMMIT|REPO|URL|NAME|MODULE|DEVICE|LIST)"
)
"""How scripts call words of their own: no variable of a library, but for those that are known."""
_LIST_BEGINS = re.compile(rf"{ENV_LIST}[= ]?[^\s=]+=\S*$")
_FOREIGN = re.compile(
    r"^\s*(?:export|setenv) +(?:I_MPI_|MPICH_|MV2_|MPIR_CVAR_)"
    r"|^\s*(?:module|ml)\b.*(?:impi|intel-?mpi|mpich|mvapich|oneapi)",
    re.MULTILINE | re.IGNORECASE,
)
"""Evidence of another MPI."""
_SPECTRUM = re.compile(r"spectrum-?mpi|^\s*jsrun\s|\bcoll_ibm_", re.MULTILINE)
_STACK = re.compile(
    r"(?<![a-z])(?:open-?mpi|ompi|hpc-?x)(?:[-_a-z]*)[-/@=:]+[\"']?v?(\d+)\.(\d+)", re.IGNORECASE
)
"""Open MPI with its version, as modules, folders and packages are called."""
_IMAGE = re.compile(
    r"nvcr\.io/nvidia/|^FROM \S*(?:ubuntu[:-]?(?:1\d|2[0-4])\.|debian:1[0-2]|buster|bullseye|bookworm)|"
    r"^\s*runs-on: ubuntu-(?:1\d|2[0-4]|latest)(?![\s\S]*^\s*container:)|"
    r"^\s*dist: (?:trusty|xenial|bionic|focal|jammy|noble)",
    re.M,
)
"""Images whose Open MPI is 4.1 or older: NVIDIA's have HPC-X, the others what their distribution has."""
_FUJITSU = re.compile(r"^#PJM |\bmpiF?CC(?:px)?\b|\bmpi(?:fcc|frt)(?:px)?\b|\bfugaku\b", re.M | re.I)
"""Fujitsu's MPI: made from Open MPI 4, with parameters of its own."""
_NAMED = re.compile(r"(?<![a-z])(?:openmpi|ompi)-?([1-6])(?![\w.])", re.IGNORECASE)
"""Open MPI with its main version alone, as environments and modules are called."""

_TESTED = re.compile(r"(?:ompi|openmpi)\w*\s*==\s*[\"'](\d)\.\d", re.IGNORECASE)
"""A version of Open MPI that a module asks for."""


def stated_version(text: str) -> tuple[int, int] | None:
    """The version of Open MPI that a script loads or calls; None: it does not say, or says several."""
    if _SPECTRUM.search(text) or _FUJITSU.search(text):
        return (4, 1)  # what both are made from
    said = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = {match[1] if "x" not in match[0].lower() else "4" for match in _STACK.finditer(said)}
    found = found or {max(_TESTED.findall(said), default="")} - {""} or set(_NAMED.findall(said))
    if len(found) != 1:
        return (4, 1) if not found and _IMAGE.search(said) else None
    return {4: (4, 1), 5: (5, 0), 6: (6, 0)}.get(int(found.pop()), (4, 1))


def shell_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """A script: what a stack could see of it, and each launch."""
    source = translated(text) if is_csh(path, text) else text
    script = follow(source, _matters(), lambda words: place_of(words) is not None)
    foreign = bool(_FOREIGN.search(text)) and stated_version(text) is None
    notes = Notes(path)
    assigned: dict[Assignment, None] = {}
    launches: dict[tuple[int, int], list[Reach]] = {}
    for call in script.calls:
        if call.exports or (call.sets and call.words and call.words[0].text not in DECLARES):
            assigned |= dict.fromkeys(
                a for name, value in call.sets for a in of_a_library(path, call.line, name, value)
            )
        if call.words and place_of(call.words) is not None:
            one = LaunchLine(path, call.line, version, ours=not foreign)
            one.read(call.words)
            own = [a for name, value in call.sets for a in of_a_library(path, call.line, name, value)]
            others = frozenset([USES_UCX] if any(_USES_UCX.search(word.text) for word in call.words) else ())
            reach = Reach((*_environment(path, call.world), *own, *one.assigned), others, one.closed)
            launches.setdefault(call.at, []).append(reach)
            notes.findings.extend(one.findings)
            assigned |= dict.fromkeys(a for a in reach.assigned if _isof_a_library(a))
    left = dict.fromkeys(Reach(tuple(_environment(path, world))) for world in script.ends)
    assigned |= dict.fromkeys(a for reach in left for a in reach.assigned)
    _slips(script, notes)
    _unseen(script, source, notes)
    reached = tuple(one for paths in launches.values() for one in _known_of_each_other(paths))
    return Read(tuple(assigned), tuple(dict.fromkeys(notes.findings)), reached, tuple(left))


def _prefixes() -> tuple[str, ...]:
    """How variables of the libraries begin."""
    return ("UCX_", *PREFIXES, *(prefix for one in traps().values() for prefix in one.prefixes))


def _isof_a_library(a: Assignment) -> bool:
    return not a.variable or a.name.startswith(("PRTE_MCA_", *_prefixes()))


def of_a_library(path: PurePath, line: int, name: str, value: Word) -> Iterator[Assignment]:
    """Assignments by a variable that a library reads."""
    for a in of_environment(path, line, name, value.text, value.literal):
        if _isof_a_library(a):
            yield a


def _environment(path: PurePath, world: World) -> Iterator[Assignment]:
    begins = (MCA, "PRTE_MCA_", "SINGULARITYENV_", "APPTAINERENV_", *_prefixes())
    for name, value in world.variables.items():
        if value.exported and len(value.words) == 1 and name.startswith(begins):
            yield from of_a_library(path, value.line, name, value.words[0])


def _matters() -> Callable[[str, str], bool]:
    """A test of (name, value): whether paths that differ in that variable must be kept apart."""
    begins = (MCA, "PRTE_MCA_", *_prefixes())
    return cache(lambda name, text: name.startswith(begins) or _OPTIONS.search(text) is not None)


def _known_of_each_other(paths: Sequence[Reach]) -> Iterator[Reach]:
    """The paths to one launch, each with the names that others set."""
    names = [frozenset(a.name for a in reach.assigned) for reach in paths]
    every = frozenset[str]().union(*names)
    for reach, own in zip(paths, names, strict=True):
        yield replace(reach, perhaps=reach.perhaps | every - own)


def _slips(script: Followed, notes: Notes) -> None:
    """Names that nothing reads, lists that the shell ends, quotes that are not closed."""
    before: Call | None = None
    for call in script.calls:
        for name, _ in call.sets:
            if slip := _SLIP.fullmatch(name):
                notes.note(call.line, f"nothing reads {name}", f"did you mean {MCA}{slip[1]}?")
            if before and before.line == call.line and before.at != call.at and _ends_in_list(before):
                effect = f"the shell ends the list at ';': {name} is not in it"
                notes.note(call.line, effect, "put the value in quotes")
        before = call
    for line, said in script.broken:
        opened = re.search(rf"(?:{'|'.join((MCA, *_prefixes()))})\w+=([\"'])", said)
        if opened and len(re.findall(rf"(?<!\\){opened[1]}", said)) % 2:
            notes.note(line, "a quote is not closed", "close it")


def _ends_in_list(call: Call) -> bool:
    pairs = [f"{name}={value.text}" for name, value in call.sets]
    words = [word.text for word in call.words]
    last = " ".join(words[-2:]) if words and not pairs else "".join(pairs[-1:])
    return bool(_LIST_BEGINS.search(last))


def _unseen(script: Followed, source: str, notes: Notes) -> None:
    """Variables of a library that a script sets for its launches and does not export."""
    if re.search(r"\bexport\s+(?:-\w\s+)?[\"']?\$", source):
        return  # a name that is put in there
    worlds = {id(call.world): call.world for call in script.calls}
    exported = {n for world in worlds.values() for n, v in world.variables.items() if v.exported}
    passed = set(re.findall(r"(?:-x|-e|--env|-genvlist|-envlist|export|-x)[ =,]([A-Z]\w+)", source))
    shown = "\n".join(line for line in source.splitlines() if not re.match(r"\s*(?:echo|printf)\b", line))
    used = set(re.findall(r"\$\{?(\w+)", shown))
    names: Iterable[tuple[str, int]] = dict.fromkeys(
        (name, value.line)
        for call in script.calls
        if call.words and place_of(call.words) is not None
        for name, value in call.world.variables.items()
        if not value.exported and name.startswith((MCA, "PRTE_MCA_", *_prefixes()))
    )
    for name, line in names:
        if name not in exported | passed | used and not _is_own(name):
            effect = f"{name} is set in the shell but not exported: no rank sees it"
            notes.note(line, effect, f"write export {name}=…")


def _is_own(name: str) -> bool:
    """Whether a name is a script's own word and none of a library's variables."""
    if name in COMMON or name.startswith(MCA) or any(name in one.known for one in traps().values()):
        return False
    return bool(_OWN.fullmatch(name)) or name.startswith(("MPICH_", "NCCL_"))
