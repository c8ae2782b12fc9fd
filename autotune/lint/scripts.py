"""Read shell scripts: the variables that they export, and each launch with the settings that apply to it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath

from autotune.lint.assignment import USES_UCX, Assignment, Reach, Read, of_environment
from autotune.lint.finding import Notes
from autotune.lint.launch import LaunchLine, cut_at_commas, place_of
from autotune.lint.selection import component_of
from autotune.lint.shell import DECLARES, Call, Script, Value, Word, read
from autotune.lint.traps import traps
from autotune.lint.ucx import COMMON
from autotune.lint.vendors import PREFIXES
from autotune.stacks.knobs.recorded import recorded
from autotune.stacks.parameter_file import ENV_LIST, MCA

_SLIP = re.compile(r"(?!(?:OMPI|PRTE|PMIX)_MCA_)(?:[OMPI]{3,5}|PR?TR?E)_+MCA_*(\w+)")
"""Misspellings of ``OMPI_MCA_`` and ``PRTE_MCA_``."""
_BARE = re.compile(r"(?:btl|coll|mtl|osc|pml)_\w+")
"""Variable named like an MCA parameter; the names of these frameworks have no other meaning in scripts."""
_USES_UCX = re.compile(r"(?:^|[/_$.{])(?:ucx|ucp|uct|ucc|n?v?shmem|oshmem)|gtest|[nr]ccl|_perf\b", re.I)
"""Word in the command of a launch that shows that the program uses UCX, whatever ``pml`` is set to."""
_OWN = re.compile(
    r"\w+_(?:FLAGS|OPTS?|OPTIONS|ARGS|CMD|PREFIX|PATH|HOME|ROOT|DIR|INSTALL|VERSION|SRC|BUILD|BIN|LIB|INC|EXE|"
    r"BRANCH|TAG|COMMIT|REPO|URL|NAME|MODULE|DEVICE|LIST)"
)
"""Usual names of a script's own variables. A variable with such a name is assumed to belong to a library only
if the library is known to have that variable."""
_LIST_BEGINS = re.compile(rf"{ENV_LIST}[= ]?[^\s=]+=\S*$")
_FOREIGN = re.compile(
    r"^\s*(?:export|setenv) +(?:I_MPI_|MPICH_|MV2_|MPIR_CVAR_)"
    r"|^\s*(?:module|ml|source|\.|spack)\b.*(?:impi|intel-?mpi|mpich|mvapich|oneapi|mpivars|setvars|"
    r"mpi-?(?:hpe|sgi)|(?:hpe|sgi|platform|nec)-?mpi)|^\s*(?:module|ml)\b.*\bmpt\b|"
    r"\binstall\b.*\bmpich|\bBUILD_MPICH=",
    re.MULTILINE | re.IGNORECASE,
)
"""Evidence that a script is for another MPI than Open MPI."""
_SPECTRUM = re.compile(r"spectrum-?mpi|^\s*jsrun\s|\bcoll_ibm_", re.MULTILINE)
"""Signs of IBM Spectrum MPI, which is derived from Open MPI and has parameters of its own."""
_SOURCES = re.compile(r"^\s*(?:source|\.)\s", re.MULTILINE)
"""Line that sources another script, which may set variables."""
_SPREAD = 4
"""Findings on a launch are sure only if the name of the launcher is at most this number of lines after the
first line of the command."""
_TYPESET = re.compile(r"[\u2010-\u2015](?=[A-Za-z-])|[\u201c-\u201f\u2018-\u201b\u00a0]")
"""Typographic dashes, quotes and blanks, which have no special meaning in a shell."""
_ASSIGNS = re.compile(r"\s*export\s+(\w+)(?:\s+=|=\s+(?!\w+=)[^\s#;&|\\-])")
"""Assignment with a blank next to ``=``, which no Bourne shell accepts."""
_DIRECTIVE = re.compile(r"#(?:PBS|SBATCH|BSUB|\$)\s.*?(?:-v\s*|--export[= ]|-env\s+).*")
"""Directive in a comment of a job script that passes variables to a batch system."""
_EXPORT = re.compile(r"#SBATCH\s.*?--export[= ](?:\"(?=[^\"]*\"\s*$))?([^\s\"]+)")
"""Directive in a comment of a job script that passes a list of variables to Slurm."""
_SUBMITS = ("sbatch", "salloc")
"""Slurm's commands other than ``srun`` that have the option ``--export``."""
_UNKNOWN = re.compile(r"[$`]|\{\{")
"""Characters by which a shell or a template replaces a part of the line."""
_PAIRS = re.compile(r"[\s,=\"'](\w+)=([^\s,;\"']*)")
_STACK = re.compile(
    r"(?<![a-wyz])(?:open-?mpi|ompi|hpc-?x)(?:[-_a-z]*)"
    r"(?:/(?:gcc|intel|icc|oneapi|nvhpc|pgi|aocc|clang|llvm)[-\d.]*(?:/64)?)?[-/@=:_]+[\"']?v?([1-6])\.[\dx]",
    re.IGNORECASE,
)
"""Name of Open MPI with its version, as in names of modules, folders and packages."""
_IMAGE = re.compile(r"nvcr\.io/nvidia/")
"""Beginning of the names of NVIDIA's container images, which contain HPC-X with Open MPI 4.1."""
_FUJITSU = re.compile(r"^#PJM |\bmpif(?:cc|rt)(?:px)?\b|\bfugaku\b", re.M | re.I)
"""Signs of Fujitsu's MPI, which is derived from Open MPI 4 and has parameters of its own."""
_NAMED = re.compile(r"(?<![a-z])(?:openmpi|ompi)[-/@=]*([1-6])(?![\w.])", re.IGNORECASE)
"""Name of Open MPI with only its major version, as in names of environments and modules."""
_BROUGHT = re.compile(
    r"(?<![a-z])(?:foss|gompi|gompic|gomkl)[-/]20(?:1\d|2[0-3])[ab]|/amazon/openmpi(?![\w])|"
    r"\bnvhpc[-_/](?:\w+[-_/])?2[0-5]\.|\b(?:nvmpi|hpcx-ompi)\b|\bmpi/openmpi-x86_64\b",
    re.IGNORECASE,
)
"""Signs of an Open MPI 4.1 or older: EasyBuild's toolchains before 2024, EFA, NVIDIA's compilers."""

_TESTED = re.compile(r"(?:ompi|openmpi)\w*\s*==\s*[\"'](\d)\.\d", re.IGNORECASE)
"""Version of Open MPI that a condition in a script tests for."""
_ANY = re.compile(r"(\d)")
_TOLD = re.compile(r"\bopen[- ]?mpi[ -]+v?([1-6])\b(?!\.\d+\.\d+\.)", re.IGNORECASE)
"""Version of Open MPI as people write it in comments."""
_OF_OLD = re.compile(rf"{MCA}(?:orte_|plm_rsh_|rmaps_base_|hwloc_base_)")
"""Variable of the launcher of Open MPI 4.x. A file that sets both such a variable and a variable of PRRTE,
the launcher of 5.0, is for both versions."""


def stated_versions(text: str) -> tuple[tuple[int, int], ...]:
    """Return the versions of Open MPI that a file is for, newest first; empty if the file states no version.

    Comments are used only if no command states a version.
    """
    if _SPECTRUM.search(text) or _FUJITSU.search(text):
        return ((3, 1),)  # Spectrum MPI and Fujitsu's MPI have parameters of their own
    lines = text.splitlines()
    commands = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    versions = _versions(commands, _STACK, _NAMED) or _versions(
        max(_TESTED.findall(commands), default=""), _ANY
    )
    if not versions and (_IMAGE.search(commands) or _BROUGHT.search(commands)):
        versions = {(4, 1)}
    versions = versions or _versions("\n".join(lines), _STACK, _TOLD)
    if (_OF_OLD.search(commands) and "PRTE_MCA_" in commands) or (not versions and _FOREIGN.search(commands)):
        versions |= {(4, 1), (5, 0)}  # for another MPI, only what every Open MPI refuses is reported
    return tuple(sorted(versions, reverse=True))


def stated_releases(text: str) -> tuple[tuple[int, ...], ...]:
    """Return the full releases of Open MPI, such as 5.0.3, that a text names, even in comments."""
    releases = (re.match(r"\d+\.\d+\.\d+", text[match.start(1) :]) for match in _STACK.finditer(text))
    return tuple({tuple(map(int, release[0].split("."))): None for release in releases if release})


def _versions(text: str, *forms: re.Pattern[str]) -> set[tuple[int, int]]:
    """Return the versions of Open MPI that patterns find in a text; each HPC-X counts as Open MPI 4."""
    matches = [match for form in forms for match in form.finditer(text)]
    majors = {4 if "hpc" in match[0].lower() else int(match[1]) for match in matches}
    return {{4: (4, 1), 5: (5, 0), 6: (6, 0)}.get(major, (3, 1)) for major in majors}


def shell_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """Read a script: the settings that an MPI could see, and which of them apply to each launch."""
    script, notes = read(text), Notes(path)
    foreign = bool(_FOREIGN.search(text)) and len(stated_versions(text)) != 1
    lines, alone = text.splitlines(), not _SOURCES.search(text)
    perhaps = frozenset(name.removeprefix(MCA) for name in script.perhaps)

    def certain(environment: Mapping[str, Value]) -> tuple[Assignment, ...]:
        return tuple(a for a in _environment(path, environment) if a.name not in perhaps)

    prepared = Reach(certain(script.environment), perhaps, alone=False)
    assigned: dict[Assignment, None] = dict.fromkeys(prepared.assigned)
    launches: list[Reach] = []
    for call in script.calls:
        sets = tuple(a for name, value in call.sets for a in of_a_library(path, call.line, name, value))
        if call.exports or (call.sets and call.words and call.words[0].text not in DECLARES):
            assigned |= dict.fromkeys(sets)
        if call.words and call.words[0].text.rpartition("/")[2] in _SUBMITS:
            lists = [w.text.removeprefix("--export=") for w in call.words if w.text.startswith("--export=")]
            notes.findings.extend(f for items in lists for f in cut_at_commas(path, call.line, items))
        if (at := place_of(call.words)) is None:
            continue
        launch = LaunchLine(path, call.line, version, is_openmpi=not foreign, mpi_type=_mpi_type(call))
        launch.read(call.words)
        marks = {USES_UCX} if any(_USES_UCX.search(word.text) for word in call.words) else set()
        reaching = (*certain(call.environment), *sets, *launch.assigned)
        launches.append(Reach(reaching, perhaps | marks, launch.closed, alone))
        names = {name: value.line for name, value in call.environment.items()}
        names |= {name: call.line for name, _ in call.sets}
        _bare(names | {a.name: a.line for a in launch.assigned if a.variable}, text, notes)
        written = call.words[at].text in "\n".join(lines[call.line - 1 : call.line + _SPREAD])
        notes.findings.extend(replace(found, sure=found.sure and written) for found in launch.findings)
        assigned |= dict.fromkeys(filter(_isof_a_library, reaching))
    for number, line in enumerate(lines, start=1):
        if export := _EXPORT.match(line):
            notes.findings.extend(cut_at_commas(path, number, export[1]))
        for name, value in _PAIRS.findall(line) if _DIRECTIVE.match(line) else ():
            assigned |= dict.fromkeys(
                of_a_library(path, number, name, Word(value, not _UNKNOWN.search(line)))
            )
    _slips(script, notes)
    _typed(script, notes)
    _parted(text, notes)
    _unseen(script, text, notes)
    return Read(tuple(assigned), tuple(dict.fromkeys(notes.findings)), launches, prepared)


def environment_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """Read a list of variables for PAM (``/etc/environment``), containers (``--env-file``) or systemd.

    Not all of these programs remove quotes from values, so a value in quotes is not checked.
    """
    pairs = ((n, *line.strip().partition("=")) for n, line in enumerate(text.splitlines(), start=1))
    return Read(
        [
            a
            for number, name, equals, value in pairs
            if equals and re.fullmatch(r"\w+", name)
            for a in of_a_library(path, number, name, Word(value, not re.search(r"[\"'$\\]", value)))
        ],
        (),
    )


def set_in(text: str) -> frozenset[str]:
    """Return the names of all variables that a script's own commands set, exported or not."""
    return frozenset(name for call in read(text).calls for name, _ in call.sets)


def _mpi_type(call: Call) -> str:
    """Return Slurm's plugin for starting MPI that the variables of a launch name; empty if unknown."""
    word = dict(call.sets).get("SLURM_MPI_TYPE") or call.environment.get("SLURM_MPI_TYPE", (Word(""), 0))[0]
    return word.text if word.literal else ""


def _prefixes() -> tuple[str, ...]:
    """Return the prefixes of variables of libraries, including NCCL's, which may show that NCCL uses UCX."""
    return ("UCX_", "NCCL_", *PREFIXES, *(prefix for trap in traps().values() for prefix in trap.prefixes))


def _isof_a_library(a: Assignment) -> bool:
    return not a.variable or a.name.startswith(("PRTE_MCA_", *_prefixes()))


def of_a_library(path: PurePath, line: int, name: str, value: Word) -> Iterator[Assignment]:
    """Yield the assignments that an environment variable makes, if a library reads the variable."""
    for a in of_environment(path, line, name, value.text, value.literal):
        if _isof_a_library(a):
            yield a


def _environment(path: PurePath, environment: Mapping[str, Value]) -> Iterator[Assignment]:
    begins = (MCA, "PRTE_MCA_", "SINGULARITYENV_", "APPTAINERENV_", *_prefixes())
    for name, value in environment.items():
        if name.startswith(begins):
            yield from of_a_library(path, value.line, name, value.word)


def _bare(lines: Mapping[str, int], source: str, notes: Notes) -> None:
    """Note variables of a launch that have the name of an MCA parameter but lack the prefix ``OMPI_MCA_``."""
    for name, line in lines.items():
        component = component_of(name) if _BARE.fullmatch(name) else None
        if (
            component
            and name.startswith(f"{component[0]}_{component[1]}_")
            and not re.search(rf"\$\{{?{name}\b", source)
        ):
            notes.note("MPI503", line, f"nothing reads {name}", f"did you mean {MCA}{name}?")


def _slips(script: Script, notes: Notes) -> None:
    """Note misspelt prefixes, lists that the shell cuts off at a semicolon, and quotes without an end."""
    previous: Call | None = None
    for call in script.calls:
        for name, _ in call.sets:
            if slip := _SLIP.fullmatch(name):
                notes.note("MPI502", call.line, f"nothing reads {name}", f"did you mean {MCA}{slip[1]}?")
            if previous and previous is not call and previous.line == call.line and _ends_in_list(previous):
                effect = f"the shell ends the list at ';': {name} is not in it"
                notes.note("MPI504", call.line, effect, "put the value in quotes")
        previous = call
    for line, source in script.broken:
        if re.search(rf"(?:{'|'.join((MCA, *_prefixes()))})\w+=([\"'])(?!.*\1)", source, re.DOTALL):
            notes.note("MPI505", line, "a quote is not closed", "close it")


def _typed(script: Script, notes: Notes) -> None:
    """Note typographic dashes and quotes, and options on a line after a launch has ended."""
    previous: Call | None = None
    for call in script.calls:
        launch = place_of(call.words) is not None
        for name, word in call.sets:
            if name.startswith((MCA, *_prefixes())) and _TYPESET.search(word.text):
                notes.note(
                    "MPI506", call.line, f"{name} = {word.text}: such quotes are part of it", "write ' or \""
                )
        for word in call.words if launch else ():
            if _TYPESET.match(word.text) or "\u00a0" in word.text:
                effect = f"{word.text!r} is no option: its dash or blank is that of a typesetter"
                notes.note("MPI506", call.line, effect, "write - and a plain blank")
        if previous and call.words and re.fullmatch(r"--?[a-z][\w-]*", call.words[0].text):
            effect = f"{call.words[0].text} is no part of the launch in line {previous.line}, which has ended"
            notes.note(
                "MPI411",
                call.line,
                effect,
                "end each line but the last in a backslash, and nothing behind it",
            )
        previous = call if launch else None


def _parted(text: str, notes: Notes) -> None:
    """Note assignments of libraries' variables in a syntax that the shell refuses."""
    for number, line in enumerate(text.splitlines(), start=1):
        if (match := _ASSIGNS.match(line)) and match[1].startswith((MCA, "PRTE_MCA_", *_prefixes())):
            notes.note("MPI507", number, f"the shell refuses this: {match[1]} is not set", "write export A=b")


def _ends_in_list(call: Call) -> bool:
    pairs = [f"{name}={value.text}" for name, value in call.sets]
    words = [word.text for word in call.words]
    last = " ".join(words[-2:]) if words and not pairs else "".join(pairs[-1:])
    return bool(_LIST_BEGINS.search(last))


def _unseen(script: Script, source: str, notes: Notes) -> None:
    """Note variables of a library that a script sets before a launch but does not export."""
    if re.search(r"\bexport\s+(?:-\w\s+)?[\"']?\$", source):
        return  # the script exports a variable whose name is computed
    passed = set(re.findall(r"(?:-e|--env|-genvlist|-envlist|export)[ =,]([A-Z]\w+)", source))
    passed |= set(re.findall(r"-x[ =,]([A-Z]\w+)=", source))
    without_prints = "\n".join(
        line for line in source.splitlines() if not re.match(r"\s*(?:echo|printf)\b", line)
    )
    used = set(re.findall(r"\$\{?(\w+)", without_prints))
    last = 0
    names: dict[str, int] = {}
    for call in script.calls:
        if not call.exports and (not call.words or call.words[0].text in DECLARES):
            sets = (name for name, _ in call.sets if name.startswith((MCA, "PRTE_MCA_", *_prefixes())))
            names |= dict.fromkeys(sets, call.line)
        if place_of(call.words) is not None:
            last = len(names)
    for name, line in list(names.items())[:last]:
        if name not in script.exported | passed | used and not is_own(name):
            effect = f"{name} is set in the shell but not exported: no rank sees it"
            notes.note("MPI501", line, effect, f"write export {name}=…")


def is_own(name: str) -> bool:
    """Whether a name is that of a script's own variable rather than a library's."""
    if name in COMMON or name.startswith(MCA) or any(name in trap.known for trap in traps().values()):
        return False
    if name.startswith("FI_"):
        return name not in recorded()
    return bool(_OWN.fullmatch(name)) or name.startswith(("MPICH_", "NCCL_"))
