"""Lines of scripts that launch: options of ``mpirun`` and ``srun``."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from autotune.errors import allowed
from autotune.importers.launch_line import LAUNCHERS
from autotune.lint.assignment import ENV_LIST, Assignment, Read, Source, listed
from autotune.lint.finding import Finding
from autotune.lint.words import Word
from autotune.stacks.known import KNOWN

MPIRUN = frozenset({"mpirun", "mpiexec", "orterun", "prterun"})
"""Names that Open MPI gives its launcher."""

_SETS = frozenset({"mca", "gmca", "omca", "prtemca", "pmixmca"})
"""Options that set a parameter to a value."""

PLACES: Mapping[str, Mapping[int, frozenset[str]]] = {
    option: {int(version): frozenset(words.split()) for version, words in its.items()}
    for option, its in KNOWN["places"].items()
}
"""Option → main version → words that it knows."""

_IN_SLURM: Mapping[str, str] = KNOWN["in_slurm"]
"""Option of ``mpirun`` that ``srun`` does not have → what to use there."""


def launched(path: PurePath, line: int, words: Sequence[Word], version: tuple[int, int]) -> Read:
    """What a line that begins with a launcher assigns, and what the launcher does not know."""
    launcher = PurePath(words[0].text).name
    if launcher == "srun":
        return [], list(_srun(path, line, words))
    assigned: list[Assignment] = []
    findings: list[Finding] = []
    for name, values in _options(words[1:]):
        if name in _SETS and len(values) == 2:
            key, value = values
            literal = key.literal and value.literal
            sets = Assignment(path, line, key.text, value.text, False, Source.COMMAND, literal)
            assigned += [sets, *listed(sets)]
        elif name == "x":
            variable, equals, text = values[0].text.partition("=")
            if equals:
                assigned.append(
                    Assignment(path, line, variable, text, True, Source.COMMAND, values[0].literal)
                )
        elif name in PLACES and values[0].literal:
            findings += _place(path, line, name, values[0].text, version)
    findings += _together(path, line, assigned, [name for name, _ in _options(words[1:])], version)
    return assigned, findings


def _options(words: Sequence[Word]) -> Iterator[tuple[str, Sequence[Word]]]:
    """Options of ``mpirun`` with their values, up to the program."""
    for name, values in LAUNCHERS["mpirun"].options([word.text for word in words]):
        yield name, [Word(value, words[at].literal) for at, value in values.items()]


def _place(path: PurePath, line: int, option: str, said: str, version: tuple[int, int]) -> Iterator[Finding]:
    parts = said.lower().split(":")
    word = parts[2] if parts[0] == "ppr" and len(parts) > 2 else parts[0]
    known = PLACES[option][min(version[0], 5)]
    stem = word.partition("=")[0]
    # As mpirun compares.
    if not any(k.startswith(stem) or (k == "socket" and stem == "sockets") for k in known):
        effect = f"mpirun aborts: --{option} knows no {word!r} in Open MPI {version[0]}.{version[1]}"
        yield Finding(path, line, effect, "socket" if word == "package" else allowed(word, sorted(known)))


def _together(
    path: PurePath, line: int, assigned: list[Assignment], options: list[str], version: tuple[int, int]
) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for a in assigned:
        again = not a.variable and a.name in seen
        if again and (version < (5, 0) or seen[a.name] != a.value):
            effect = f"mpirun aborts: {a.name} is set twice, to {seen[a.name]!r} and {a.value!r}"
            yield Finding(path, line, effect, "keep one of them")
        if not a.variable:
            seen[a.name] = a.value
    if ENV_LIST in seen and "x" in options and version < (5, 0):
        effect = f"mpirun aborts: 4.1 takes no -x beside {ENV_LIST}"
        yield Finding(path, line, effect, "use -x for all of them")


def _srun(path: PurePath, line: int, words: Sequence[Word]) -> Iterator[Finding]:
    for word, after in zip(words[1:], [*words[2:], Word("")], strict=True):
        name = word.text.lstrip("-").partition("=")[0]
        if not word.text.startswith("-") and "/" in word.text:
            return  # the program; options of its own follow
        if word.text == "-x" and "=" in after.text:
            effect = f"-x of srun excludes nodes: {after.text} is taken for the name of one"
            yield Finding(path, line, effect, f"export {after.text} before srun")
        elif name in _IN_SLURM and word.text.startswith("-"):
            effect = f"{word.text.partition('=')[0]} is not an option of srun: it refuses to start"
            yield Finding(path, line, effect, _IN_SLURM[name])
