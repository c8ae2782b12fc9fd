"""Read commands that launch ranks: the settings in their options, and options that the launcher refuses."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePath

from autotune.errors import allowed
from autotune.launch_command import LAUNCHERS, RUNNERS, WRAPPERS, LauncherWords, behind, is_launcher, programs
from autotune.lint.assignment import Assignment, Source, listed, of_environment
from autotune.lint.finding import Finding
from autotune.lint.selection import FRAMEWORKS
from autotune.lint.shell import Word
from autotune.stacks.known import KNOWN
from autotune.stacks.parameter_file import ENV_LIST

_OPENMPI = re.compile(r"(?:mpirun|mpiexec)(?:\.openmpi)?|orterun|prterun")
"""Names of Open MPI's launcher; other MPI implementations use some of these names too."""
_RSH = frozenset({"mpirun_rsh", "mpiexec.hydra"})
_NAMED_SO = re.compile(r"\$\{?\w*(?:mpi_?(?:run|exec)|orterun)\w*(?::?-[^}]*)?\}?", re.IGNORECASE)
"""Shell variable whose name shows that it contains a launcher."""
_HYDRA = frozenset(KNOWN["hydra"]["options"].split())
"""Options of Hydra's launcher that Open MPI's launcher does not have."""
_HYDRA_PLACES = frozenset(KNOWN["hydra"]["places"].split())
_CONTAINERS = frozenset({"singularity", "apptainer", "docker", "podman", "shifter"})
_UNKNOWN = re.compile(r"\$(?!\{?[@*])")
"""Shell variable that may contain options; ``$@`` and ``$*``, the script's arguments, contain a program."""
_PAIR = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_FOR_RANKS = re.compile(r"(?:UCX_|(?:OMPI|PRTE|PMIX)_MCA_)\w+(?:=.*)?", re.DOTALL)
"""Argument of ``-x`` that is a variable of a library, so that ``-x`` must be meant for the launcher."""

PLACES: Mapping[str, Mapping[int, frozenset[str]]] = {
    option: {int(version): frozenset(words.split()) for version, words in by_version.items()}
    for option, by_version in KNOWN["places"].items()
}
"""Maps each option, and each major version of Open MPI, to the words that the option accepts."""

_MAPS = frozenset({"N", "npernode", "pernode", "npersocket"})
"""Options that Open MPI 5.0 translates to ``--map-by``; that option may be given only once."""

_ABOVE = ("cache", "numa", "package", "socket")
"""Ends of the names of hardware objects that contain several cores."""

_NO_PMIX = frozenset({"pmi2", "pmi1", "openmpi"})
"""Plugins of Slurm other than PMIx; with these, ranks of Open MPI 5 do not find each other."""
_ITEMS = re.compile(r"(?:[^,'\"]|'[^']*'|\"[^\"]*\")+")
"""Item in the value of Slurm's ``--export``; commas outside of quotes separate the items."""
_OF_A_LIBRARY = re.compile(r"(?:OMPI|PRTE|PMIX)_MCA_|UCX_|UCC_|NCCL_|FI_|I_MPI_|MPIR_CVAR_|MPICH_|MV[2P]_")
_NAME_OF_A_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*|\$.*")
"""Name of a variable, or ``ALL``; names of components and transports are in small letters."""

_IN_SLURM: Mapping[str, str] = KNOWN["in_slurm"]
"""Maps each option of ``mpirun`` that ``srun`` does not have to a text that says what to use instead."""


def place_of(words: Sequence[Word]) -> int | None:
    """Return the index of the launcher among the words of a command; None if there is no launcher.

    Wrappers (programs that run another command, such as ``numactl``) may precede the launcher.
    """
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
    """Collects the settings in the command of one launch, and the mistakes in that command."""

    path: PurePath
    """Path of the script."""
    line: int
    """Number of the line where the command begins."""
    version: tuple[int, int]
    """The version of Open MPI that the command is checked for."""
    is_openmpi: bool = True
    """Whether the launcher can be Open MPI's."""
    assigned: list[Assignment] = field(default_factory=list)
    """Settings for the ranks, in order."""
    findings: list[Finding] = field(default_factory=list)
    """Mistakes in the options of the launcher."""
    closed: bool = True
    """Whether all options are known; False if a shell variable may contain further ones."""
    mpi_type: str = ""
    """Slurm's plugin for starting MPI that an environment variable names; empty if none does."""

    def read(self, words: Sequence[Word]) -> None:
        """Read the words of a command, and the words of a further launch inside that command."""
        at = place_of(words)
        for word in words[: at or 0 if at is not None else len(words)]:
            self._pair(word)
        self._container(words if at is None else words[:at])
        if at is None:
            return
        name = words[at].text.rpartition("/")[2]
        texts = [word.text for word in words]
        arguments = words[behind(texts, at) :]
        launcher = LAUNCHERS.get(name, LAUNCHERS["mpirun"])
        option_names = [options for options, _ in _options(arguments, launcher)]
        built_with_ours = self.is_openmpi
        self.is_openmpi &= bool(_OPENMPI.fullmatch(name) or name not in LAUNCHERS) and not _HYDRA & set(
            option_names
        )
        if name == "srun":
            self.findings += _srun(self.path, self.line, arguments, launcher)
            said_type = [
                w.text.removeprefix("--mpi=") for w in arguments if w.text.startswith("--mpi=") and w.literal
            ]
            ranks = {
                next(iter(values.values()))
                for name, values in _options(arguments, launcher)
                if name in launcher.ranks
            }
            if built_with_ours and ranks != {"1"}:
                contained = any(word.text in _CONTAINERS for word in arguments)
                self._started_by("".join(said_type[-1:]) or self.mpi_type, contained=contained)
        first = 0
        for program in programs([word.text for word in arguments]):
            self._program(arguments[first : first + len(program)], launcher)
            first += len(program) + 1

    def _started_by(self, plugin: str, *, contained: bool) -> None:
        """Add a finding if Open MPI does not support the plugin by which ``srun`` connects the ranks.

        The finding is not sure if the ranks run in a container, because that may contain another MPI.
        """
        if self.version >= (5, 0) and plugin in (*_NO_PMIX, "none"):
            effect = f"Open MPI 5 knows PMIx alone: under {plugin} each rank is rank 0 of 1"
            sure = plugin in _NO_PMIX and not contained
            self.findings.append(Finding(self.path, self.line, "MPI409", effect, "srun --mpi=pmix", sure))

    def _program(self, words: Sequence[Word], launcher: LauncherWords) -> None:
        """Read one program of a launch: the launcher's options for that program, and its own arguments."""
        n_before = len(self.assigned)
        names: list[str] = []
        end = 0
        for option, values in _options(words, launcher):
            names.append(option)
            end = max(values) + 1
            self._option(option, [Word(text, words[i].literal) for i, text in values.items()], launcher)
        while end < len(words) and words[end].text.startswith("-"):
            end += 1
        if self.is_openmpi and self.version >= (5, 0):
            self.findings += _misplaced(self.path, self.line, words[:end], names)
        if self.is_openmpi:
            self.findings += _together(self.path, self.line, self.assigned[n_before:], names, self.version)
        if end < len(words) and not words[end].literal and _UNKNOWN.match(words[end].text):
            if launcher.parameters:
                self._open(words[end:])
            return
        while end < len(words) and _PAIR.fullmatch(
            words[end].text
        ):  # mpirun_rsh takes variables in front of the program
            self._pair(words[end])
            end += 1
        if place_of(words[end:]) is not None:
            self.read(words[end:])
            return
        if end < len(words) and words[end].text == "env":
            for word in words[end + 1 :]:
                self._pair(word)
        # The first word behind an unknown option may be a value of that option, unless it is a path.
        sure = end < len(words) and (not words[end - 1].text.startswith("-") or "/" in words[end].text)
        if self.is_openmpi and launcher.parameters and sure and words[end].literal:
            self._behind(words[end:])

    def _behind(self, words: Sequence[Word]) -> None:
        """Find options of the launcher behind the program, where they become arguments of the program."""
        if any(is_launcher([word.text], 0) for word in words):
            return  # the program starts another launcher, which the options may be meant for
        for word, next_word in pairwise(words):
            is_parameter = word.text in ("-mca", "--mca") and next_word.text.partition("_")[0] in FRAMEWORKS
            if is_parameter or (word.text == "-x" and _FOR_RANKS.fullmatch(next_word.text)):
                effect = f"{word.text} {next_word.text} comes after the program: it is an argument of that"
                remedy = f"put it in front of {words[0].text}"
                self.findings.append(Finding(self.path, self.line, "MPI404", effect, remedy))

    def _open(self, words: Sequence[Word]) -> None:
        """Read the words after a shell variable that may contain further options or a program."""
        self.closed = False
        for word, next_word, last in zip(words, words[1:], [*words[2:], Word("")], strict=False):
            if word.text in ("-mca", "--mca"):
                self._option("mca", [next_word, last], LAUNCHERS["mpirun"])
            elif word.text == "-x" and _PAIR.fullmatch(next_word.text):
                self._option("x", [next_word], LAUNCHERS["mpirun"])

    def _option(self, name: str, values: Sequence[Word], launcher: LauncherWords) -> None:
        literal = all(value.literal for value in values)
        if name in ("prtemca", "pmixmca") and len(values) == 2:
            self._set(f"{name[:-3].upper()}_MCA_{values[0].text}", values[1].text, literal=literal)
        elif name in launcher.parameters and len(values) == 2 and "=" in values[0].text and self.is_openmpi:
            effect = f"--{name} takes a name and a value: {values[1].text!r} is that of {values[0].text!r}"
            remedy = f"--{name} {values[0].text.replace('=', ' ', 1)}"
            self.findings.append(Finding(self.path, self.line, "MPI405", effect, remedy))
        elif name in launcher.parameters and len(values) == 2:
            sets = Assignment(
                self.path, self.line, values[0].text, values[1].text, False, Source.COMMAND, literal
            )
            self.assigned += [sets, *listed(sets)]
        elif name in launcher.pairs and len(values) == 2:
            self._set(values[0].text, values[1].text, literal=literal)
        elif name in (*launcher.env, *launcher.pairs):
            self._pair(values[0])
        elif name in launcher.lists:
            self.findings += cut_at_commas(self.path, self.line, values[0].text)
            for part in exported(values[0].text):
                self._pair(Word(part, literal))
        elif name in launcher.nested:
            self._program([Word(part, literal) for part in values[0].text.split()], LAUNCHERS["mpirun"])
        elif name in PLACES and literal and self.is_openmpi:
            self.findings += _place(self.path, self.line, name, values[0].text, self.version)

    def _pair(self, word: Word) -> None:
        if match := _PAIR.fullmatch(word.text):
            self._set(match[1], match[2], literal=word.literal)

    def _set(self, name: str, value: str, *, literal: bool) -> None:
        self.assigned += of_environment(self.path, self.line, name, value, literal, Source.COMMAND)

    def _container(self, words: Sequence[Word]) -> None:
        """Read the variables that options set in a container: ``-e A=B``, ``--env A=B,C=D``."""
        if not any(word.text in _CONTAINERS for word in words):
            return
        for word, next_word in pairwise(words):
            option, _, value = word.text.partition("=")
            if option in ("-e", "--env"):
                assignments = Word(value, word.literal) if value else next_word
                for part in assignments.text.split(","):
                    self._pair(Word(part, assignments.literal))


def exported(text: str) -> list[str]:
    """Return the items in a value of Slurm's ``--export``, which commas outside of quotes separate."""
    return [item.replace("'", "").replace('"', "") for item in _ITEMS.findall(text)]


def cut_at_commas(path: PurePath, line: int, text: str) -> Iterator[Finding]:
    """Yield findings on variables of libraries in ``--export`` whose values Slurm cuts off at a comma."""
    for item, next_item in pairwise(exported(text)):
        name, equals, _ = item.partition("=")
        if (
            equals
            and "=" not in next_item
            and _OF_A_LIBRARY.match(name)
            and not _NAME_OF_A_VARIABLE.fullmatch(next_item)
        ):
            effect = (
                f"the value ends at its comma: Slurm sets {item}, and takes {next_item} for a variable's name"
            )
            yield Finding(path, line, "MPI410", effect, f"export {name} before it, and --export=ALL")


def _options(words: Sequence[Word], launcher: LauncherWords) -> Iterator[tuple[str, Mapping[int, str]]]:
    yield from launcher.options([word.text for word in words])


def _place(path: PurePath, line: int, option: str, value: str, version: tuple[int, int]) -> Iterator[Finding]:
    parts = value.lower().split(":")
    word = parts[2] if parts[0] == "ppr" and len(parts) > 2 else parts[0]
    words = PLACES[option][min(version[0], 5)]
    stem = word.partition("=")[0]
    # mpirun accepts abbreviated words; 5.0 also accepts ``cores`` for ``core``, except after ``ppr``.
    longer = version >= (5, 0) and parts[0] != "ppr"
    if word not in _HYDRA_PLACES and not any(
        k.startswith(stem) or (longer and stem.startswith(k)) for k in words
    ):
        effect = f"mpirun aborts: --{option} knows no {word!r} in Open MPI {version[0]}.{version[1]}"
        yield Finding(
            path, line, "MPI403", effect, "socket" if word == "package" else allowed(word, sorted(words))
        )


def _together(
    path: PurePath, line: int, assigned: list[Assignment], options: list[str], version: tuple[int, int]
) -> Iterator[Finding]:
    by_name: dict[str, Assignment] = {}
    for a in (a for a in assigned if not a.variable):
        earlier = by_name.get(a.name)
        if earlier and a.literal and earlier.literal and (version < (5, 0) or earlier.value != a.value):
            effect = f"mpirun aborts: {a.name} is set twice, to {earlier.value!r} and {a.value!r}"
            yield Finding(path, line, "MPI406", effect, "keep one of them")
        by_name[a.name] = a
    if ENV_LIST in by_name and "x" in options and version < (5, 0):
        effect = f"mpirun aborts: 4.1 takes no -x beside {ENV_LIST}"
        yield Finding(path, line, "MPI407", effect, "use -x for all of them")


def _misplaced(path: PurePath, line: int, words: Sequence[Word], options: list[str]) -> Iterator[Finding]:
    """Yield findings on options that Open MPI 5.0 refuses.

    These are options that were removed, two options with the same meaning, and ``--bind-to`` with a larger
    object than that of ``--map-by``.
    """
    for name in (name for name in options if name in KNOWN["refused"]):
        effect = f"mpirun of Open MPI 5 aborts: it has no option {'-' if len(name) == 2 else '--'}{name}"
        yield Finding(path, line, "MPI401", effect, KNOWN["refused"][name])
    mapped = [name for name in options if name in _MAPS]
    if mapped and (len(mapped) > 1 or "map-by" in options):
        place = "package" if "socket" in mapped[0] else "node"
        means = f"-{mapped[0]} means --map-by ppr:N:{place}, so --map-by is given twice"
        effect = f"mpirun of Open MPI 5 aborts: {means}"
        yield Finding(path, line, "MPI402", effect, f"--map-by ppr:N:{place} alone")
    for word in words:
        if match := re.match(r"--?((?:map|rank)-by|bind-to)=(.+)", word.text):
            yield Finding(
                path,
                line,
                "MPI401",
                f"mpirun of Open MPI 5 aborts at {word.text}",
                f"--{match[1]} {match[2]}",
            )
    args = {a.text.lstrip("-"): b.text.lower().partition(":")[0] for a, b in pairwise(words)}
    if args.get("map-by") in ("core", "hwthread") and args.get("bind-to", "").endswith(_ABOVE):
        effect = (
            f"mpirun of Open MPI 5 aborts: --bind-to {args['bind-to']} lies above --map-by {args['map-by']}"
        )
        yield Finding(path, line, "MPI402", effect, "bind to what ranks are mapped by, or to a part of it")


def _srun(path: PurePath, line: int, words: Sequence[Word], launcher: LauncherWords) -> Iterator[Finding]:
    for name, values in _options(words, launcher):
        at, value = next(iter(values.items()))
        if name == "x" and "=" in value:
            effect = f"-x of srun excludes nodes: {value} is taken for the name of one"
            yield Finding(path, line, "MPI408", effect, f"export {value} before srun")
        elif name in _IN_SLURM:
            option_word = next(
                w.text.partition("=")[0] for w in reversed(words[: at + 1]) if w.text.startswith("-")
            )
            effect = f"{option_word} is not an option of srun: it refuses to start"
            yield Finding(path, line, "MPI401", effect, _IN_SLURM[name])
