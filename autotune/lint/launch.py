"""Commands that launch: what they set, and words that the launcher does not know."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePath

from autotune.errors import allowed
from autotune.importers.launch_line import (
    LAUNCHERS,
    RUNNERS,
    WRAPPERS,
    LauncherWords,
    behind,
    is_launcher,
    programs,
)
from autotune.lint.assignment import ENV_LIST, Assignment, Source, listed, of_environment
from autotune.lint.finding import Finding
from autotune.lint.selection import FRAMEWORKS
from autotune.lint.words import Word
from autotune.stacks.known import KNOWN

_OPENMPI = re.compile(r"(?:mpirun|mpiexec)(?:\.openmpi)?|orterun|prterun")
"""Names that Open MPI gives its launcher; others give theirs some of them too."""
_RSH = frozenset({"mpirun_rsh", "mpiexec.hydra"})
_NAMED_SO = re.compile(r"\$\{?\w*(?:mpi_?(?:run|exec)|orterun)\w*\}?", re.IGNORECASE)
"""A variable that can only hold a launcher."""
_HYDRA = frozenset(KNOWN["hydra"]["options"].split())
"""Options that Hydra's launcher has and Open MPI's has not."""
_HYDRA_PLACES = frozenset(KNOWN["hydra"]["places"].split())
_CONTAINERS = frozenset({"singularity", "apptainer", "docker", "podman", "shifter"})
_UNKNOWN = re.compile(r"\$(?!\{?[@*])")
"""A variable that may hold options; what a script was called with is a program."""
_PAIR = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_FOR_RANKS = re.compile(r"(?:UCX_|(?:OMPI|PRTE|PMIX)_MCA_)\w+(?:=.*)?", re.DOTALL)
"""A variable behind ``-x`` that no program means by an option of its own."""

PLACES: Mapping[str, Mapping[int, frozenset[str]]] = {
    option: {int(version): frozenset(words.split()) for version, words in its.items()}
    for option, its in KNOWN["places"].items()
}
"""Option → main version → words that it knows."""

_MAPS = frozenset({"N", "npernode", "pernode", "npersocket"})
"""Options that 5.0 translates to ``--map-by``, which it takes once."""

_ABOVE = ("cache", "numa", "package", "socket")
"""Ends of the names of objects that hold several cores."""

_NO_PMIX = frozenset({"pmi2", "pmi1", "openmpi"})
"""Plugins of Slurm by which a rank of Open MPI 5, which knows PMIx alone, does not find the others."""
_ITEMS = re.compile(r"(?:[^,'\"]|'[^']*'|\"[^\"]*\")+")
"""Items of ``--export``, which commas separate."""
_OF_A_LIBRARY = re.compile(r"(?:OMPI|PRTE|PMIX)_MCA_|UCX_|UCC_|NCCL_|FI_|I_MPI_|MPIR_CVAR_|MPICH_|MV[2P]_")
_NAME_OF_A_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*|\$.*")
"""Names of variables, and ``ALL``; components and transports are written in small letters."""

_IN_SLURM: Mapping[str, str] = KNOWN["in_slurm"]
"""Option of ``mpirun`` that ``srun`` does not have → what to use there."""


def place_of(words: Sequence[Word]) -> int | None:
    """Index of the launcher in a command, after wrappers that only run it; None: there is none."""
    texts = [word.text for word in words]
    wrapped = False
    for at, word in enumerate(words):
        name = word.text.rpartition("/")[2]
        if is_launcher(texts, at) or _NAMED_SO.fullmatch(word.text):
            return at
        wrapped |= name in WRAPPERS
        if not (wrapped or _PAIR.fullmatch(word.text) or name in RUNNERS):
            break
    return None


@dataclass
class LaunchLine:
    """One launch on one path, as it is read."""

    path: PurePath
    """The script."""
    line: int
    """Where it begins."""
    version: tuple[int, int]
    """The version of Open MPI that is checked against."""
    ours: bool = True
    """Whether the launcher can be Open MPI's."""
    assigned: list[Assignment] = field(default_factory=list)
    """Settings for its ranks."""
    findings: list[Finding] = field(default_factory=list)
    """Words that the launcher does not know."""
    closed: bool = True
    """Whether all of its options are known."""
    mpi_type: str = ""
    """Slurm's plugin that the environment names."""

    def read(self, words: Sequence[Word]) -> None:
        """Read a command, and the one that it runs in turn."""
        at = place_of(words)
        for word in words[: at or 0 if at is not None else len(words)]:
            self._pair(word)
        self._container(words if at is None else words[:at])
        if at is None:
            return
        name = words[at].text.rpartition("/")[2]
        texts = [word.text for word in words]
        rest = words[behind(texts, at) :]
        known = LAUNCHERS.get(name, LAUNCHERS["mpirun"])
        said = [options for options, _ in _options(rest, known)]
        built_with_ours = self.ours
        self.ours &= bool(_OPENMPI.fullmatch(name) or name not in LAUNCHERS) and not _HYDRA & set(said)
        if name == "srun":
            self.findings += _srun(self.path, self.line, rest, known)
            said_type = [
                w.text.removeprefix("--mpi=") for w in rest if w.text.startswith("--mpi=") and w.literal
            ]
            ranks = {
                next(iter(values.values())) for name, values in _options(rest, known) if name in known.ranks
            }
            if built_with_ours and ranks != {"1"}:
                contained = any(word.text in _CONTAINERS for word in rest)
                self._started_by("".join(said_type[-1:]) or self.mpi_type, contained=contained)
        first = 0
        for program in programs([word.text for word in rest]):
            self._program(rest[first : first + len(program)], known)
            first += len(program) + 1

    def _started_by(self, plugin: str, *, contained: bool) -> None:
        """Judge how ``srun`` connects the ranks; what runs in a container may have another MPI."""
        if self.version >= (5, 0) and plugin in (*_NO_PMIX, "none"):
            effect = f"Open MPI 5 knows PMIx alone: under {plugin} each rank is rank 0 of 1"
            sure = plugin in _NO_PMIX and not contained
            self.findings.append(Finding(self.path, self.line, effect, "srun --mpi=pmix", sure))

    def _program(self, words: Sequence[Word], known: LauncherWords) -> None:
        """One of the programs of a launch: its options, and what they run."""
        before = len(self.assigned)
        names: list[str] = []
        end = 0
        for option, values in _options(words, known):
            names.append(option)
            end = max(values) + 1
            self._option(option, [Word(text, words[i].literal) for i, text in values.items()], known)
        while end < len(words) and words[end].text.startswith("-"):
            end += 1
        if self.ours and self.version >= (5, 0):
            self.findings += _misplaced(self.path, self.line, words[:end], names)
        if self.ours:
            self.findings += _together(self.path, self.line, self.assigned[before:], names, self.version)
        if end < len(words) and not words[end].literal and _UNKNOWN.match(words[end].text):
            if known.parameters:
                self._open(words[end:])
            return
        while end < len(words) and _PAIR.fullmatch(words[end].text):  # mpirun_rsh A=B program
            self._pair(words[end])
            end += 1
        if place_of(words[end:]) is not None:
            self.read(words[end:])
            return
        if end < len(words) and words[end].text == "env":
            for word in words[end + 1 :]:
                self._pair(word)
        # Behind an option the first word may be its value, where no path shows that it is a program.
        sure = end < len(words) and (not words[end - 1].text.startswith("-") or "/" in words[end].text)
        if self.ours and known.parameters and sure and words[end].literal:
            self._behind(words[end:])

    def _behind(self, words: Sequence[Word]) -> None:
        """Look for options of the launcher among the words of a program, whose arguments they are there."""
        if any(is_launcher([word.text], 0) for word in words):
            return  # of the one that it starts
        for word, after in pairwise(words):
            named = word.text in ("-mca", "--mca") and after.text.partition("_")[0] in FRAMEWORKS
            if named or (word.text == "-x" and _FOR_RANKS.fullmatch(after.text)):
                effect = f"{word.text} {after.text} comes after the program: it is an argument of that"
                remedy = f"put it in front of {words[0].text}"
                self.findings.append(Finding(self.path, self.line, effect, remedy))

    def _open(self, words: Sequence[Word]) -> None:
        """Read the words after an unknown one: options, or a program."""
        self.closed = False
        for word, after, last in zip(words, words[1:], [*words[2:], Word("")], strict=False):
            if word.text in ("-mca", "--mca"):
                self._option("mca", [after, last], LAUNCHERS["mpirun"])
            elif word.text == "-x" and _PAIR.fullmatch(after.text):
                self._option("x", [after], LAUNCHERS["mpirun"])

    def _option(self, name: str, values: Sequence[Word], known: LauncherWords) -> None:
        literal = all(value.literal for value in values)
        if name in ("prtemca", "pmixmca") and len(values) == 2:
            self._set(f"{name[:-3].upper()}_MCA_{values[0].text}", values[1].text, literal=literal)
        elif name in known.parameters and len(values) == 2 and "=" in values[0].text and self.ours:
            effect = f"--{name} takes a name and a value: {values[1].text!r} is that of {values[0].text!r}"
            remedy = f"--{name} {values[0].text.replace('=', ' ', 1)}"
            self.findings.append(Finding(self.path, self.line, effect, remedy))
        elif name in known.parameters and len(values) == 2:
            sets = Assignment(
                self.path, self.line, values[0].text, values[1].text, False, Source.COMMAND, literal
            )
            self.assigned += [sets, *listed(sets)]
        elif name in known.pairs and len(values) == 2:
            self._set(values[0].text, values[1].text, literal=literal)
        elif name in (*known.env, *known.pairs):
            self._pair(values[0])
        elif name in known.lists:
            self.findings += cut_at_commas(self.path, self.line, values[0].text)
            for part in exported(values[0].text):
                self._pair(Word(part, literal))
        elif name in known.nested:
            self._program([Word(part, literal) for part in values[0].text.split()], LAUNCHERS["mpirun"])
        elif name in PLACES and literal and self.ours:
            self.findings += _place(self.path, self.line, name, values[0].text, self.version)

    def _pair(self, word: Word) -> None:
        if match := _PAIR.fullmatch(word.text):
            self._set(match[1], match[2], literal=word.literal)

    def _set(self, name: str, value: str, *, literal: bool) -> None:
        self.assigned += of_environment(self.path, self.line, name, value, literal, Source.COMMAND)

    def _container(self, words: Sequence[Word]) -> None:
        """Variables that a container is given: ``-e A=B``, ``--env A=B,C=D``."""
        if not any(word.text in _CONTAINERS for word in words):
            return
        for word, after in pairwise(words):
            option, _, value = word.text.partition("=")
            if option in ("-e", "--env"):
                given = Word(value, word.literal) if value else after
                for part in given.text.split(","):
                    self._pair(Word(part, given.literal))


def exported(said: str) -> list[str]:
    """The items of Slurm's ``--export``, which are separated by commas outside of quotes."""
    return [item.replace("'", "").replace('"', "") for item in _ITEMS.findall(said)]


def cut_at_commas(path: PurePath, line: int, said: str) -> Iterator[Finding]:
    """Values of a library's variable that end at their first comma: what follows names no variable."""
    for item, after in pairwise(exported(said)):
        name, equals, _ = item.partition("=")
        if (
            equals
            and "=" not in after
            and _OF_A_LIBRARY.match(name)
            and not _NAME_OF_A_VARIABLE.fullmatch(after)
        ):
            effect = (
                f"the value ends at its comma: Slurm sets {item}, and takes {after} for a variable's name"
            )
            yield Finding(path, line, effect, f"export {name} before it, and --export=ALL")


def _options(words: Sequence[Word], known: LauncherWords) -> Iterator[tuple[str, Mapping[int, str]]]:
    yield from known.options([word.text for word in words])


def _place(path: PurePath, line: int, option: str, said: str, version: tuple[int, int]) -> Iterator[Finding]:
    parts = said.lower().split(":")
    word = parts[2] if parts[0] == "ppr" and len(parts) > 2 else parts[0]
    known = PLACES[option][min(version[0], 5)]
    stem = word.partition("=")[0]
    # As mpirun compares; that of 5.0 takes ``cores`` for ``core``, but for places of ``ppr``.
    longer = version >= (5, 0) and parts[0] != "ppr"
    if word not in _HYDRA_PLACES and not any(
        k.startswith(stem) or (longer and stem.startswith(k)) for k in known
    ):
        effect = f"mpirun aborts: --{option} knows no {word!r} in Open MPI {version[0]}.{version[1]}"
        yield Finding(path, line, effect, "socket" if word == "package" else allowed(word, sorted(known)))


def _together(
    path: PurePath, line: int, assigned: list[Assignment], options: list[str], version: tuple[int, int]
) -> Iterator[Finding]:
    seen: dict[str, Assignment] = {}
    for a in (a for a in assigned if not a.variable):
        before = seen.get(a.name)
        if before and a.literal and before.literal and (version < (5, 0) or before.value != a.value):
            effect = f"mpirun aborts: {a.name} is set twice, to {before.value!r} and {a.value!r}"
            yield Finding(path, line, effect, "keep one of them")
        seen[a.name] = a
    if ENV_LIST in seen and "x" in options and version < (5, 0):
        effect = f"mpirun aborts: 4.1 takes no -x beside {ENV_LIST}"
        yield Finding(path, line, effect, "use -x for all of them")


def _misplaced(path: PurePath, line: int, words: Sequence[Word], options: list[str]) -> Iterator[Finding]:
    """Options that 5.0 refuses: old ones, two of the same, a binding above the mapping."""
    for name in (name for name in options if name in KNOWN["refused"]):
        effect = f"mpirun of Open MPI 5 aborts: it has no option {'-' if len(name) == 2 else '--'}{name}"
        yield Finding(path, line, effect, KNOWN["refused"][name])
    mapped = [name for name in options if name in _MAPS]
    if mapped and (len(mapped) > 1 or "map-by" in options):
        place = "package" if "socket" in mapped[0] else "node"
        means = f"-{mapped[0]} means --map-by ppr:N:{place}, so --map-by is given twice"
        effect = f"mpirun of Open MPI 5 aborts: {means}"
        yield Finding(path, line, effect, f"--map-by ppr:N:{place} alone")
    for word in words:
        if match := re.match(r"--?((?:map|rank)-by|bind-to)=(.+)", word.text):
            yield Finding(
                path, line, f"mpirun of Open MPI 5 aborts at {word.text}", f"--{match[1]} {match[2]}"
            )
    said = {a.text.lstrip("-"): b.text.lower().partition(":")[0] for a, b in pairwise(words)}
    if said.get("map-by") in ("core", "hwthread") and said.get("bind-to", "").endswith(_ABOVE):
        effect = (
            f"mpirun of Open MPI 5 aborts: --bind-to {said['bind-to']} lies above --map-by {said['map-by']}"
        )
        yield Finding(path, line, effect, "bind to what ranks are mapped by, or to a part of it")


def _srun(path: PurePath, line: int, words: Sequence[Word], known: LauncherWords) -> Iterator[Finding]:
    for name, values in _options(words, known):
        at, value = next(iter(values.items()))
        if name == "x" and "=" in value:
            effect = f"-x of srun excludes nodes: {value} is taken for the name of one"
            yield Finding(path, line, effect, f"export {value} before srun")
        elif name in _IN_SLURM:
            said = next(w.text.partition("=")[0] for w in reversed(words[: at + 1]) if w.text.startswith("-"))
            effect = f"{said} is not an option of srun: it refuses to start"
            yield Finding(path, line, effect, _IN_SLURM[name])
