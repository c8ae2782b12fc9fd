"""Scripts: what they export, and the lines that launch."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from autotune.importers.launch_line import RUNNERS, WRAPPERS
from autotune.lint.assignment import ENV_LIST, Assignment, Read, Source, listed
from autotune.lint.finding import Notes
from autotune.lint.launch import MPIRUN, launched
from autotune.lint.traps import traps
from autotune.lint.ucx import COMMON
from autotune.lint.vendors import PREFIXES
from autotune.lint.words import ShellCommand, Word, commands

_MCA = "OMPI_MCA_"
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_LUA = re.compile(r"""\s*(?:pushenv|setenv)\(\s*["'](\w+)["']\s*,\s*["'](.*)["']\s*\)\s*(?:--.*)?""")
_OWN = re.compile(
    r"\w+_(?:FLAGS|OPTS?|OPTIONS|ARGS|CMD|PREFIX|PATH|HOME|ROOT|DIR|INSTALL|VERSION|SRC|BUILD|BIN|LIB|INC|EXE)"
)
"""How scripts call words of their own: no variable of a library, but for those that are known."""

_PREFIX = re.compile(r"(?!(?:OMPI|PRTE|PMIX)_MCA_)(?:[OMPI]{3,5}|PR?TR?E)_+MCA_*(\w+)")
"""What was meant for ``OMPI_MCA_`` or ``PRTE_MCA_``."""


def shell_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """A script for a shell, Tcl or Lua: assignments that a stack could see, and launches."""
    assigned: list[Assignment] = []
    notes = Notes(path)
    for number, line in enumerate(text.splitlines(), start=1):
        if lua := _LUA.fullmatch(line):
            assigned += _assignments(path, number, lua[1], Word(lua[2]))
    known = list(commands("\n".join("" if _LUA.fullmatch(line) else line for line in text.splitlines())))
    exported = {w.text for c in known if c.words[0].text == "export" for w in c.words[1:]}
    all_of_them = any([w.text for w in c.words[:2]] == ["set", "-a"] for c in known)
    unseen = {n for pairs, effective in map(_pairs, known) if not effective for n, _ in pairs} - exported
    own = {name for name in unseen if _is_own(name, text)}
    before = None
    for command in known:
        pairs, effective = _pairs(command)
        ours = [(n, v) for n, v in pairs if n.startswith((_MCA, "PRTE_MCA_", *_prefixes())) and n not in own]
        if not command.closed and ours:
            notes.note(command.line, "a quote is not closed", "close it")
            continue
        if before is not None and before.line == command.line and pairs:
            effect = f"the shell ends the list at ';': {pairs[0][0]} is not in it"
            notes.note(command.line, effect, "put the value in quotes")
            effective = True
        before = command if _ends_in_list(command) else None
        for name, _ in pairs:
            if slip := _PREFIX.fullmatch(name):
                notes.note(command.line, f"nothing reads {name}", f"did you mean {_MCA}{slip[1]}?")
        for name, value in ours:
            if not (effective or all_of_them or name in exported):
                effect = f"{name} is set in the shell but not exported: no rank sees it"
                notes.note(command.line, effect, f"write export {name}=…")
            assigned += [replace(a, arm=command.arm) for a in _assignments(path, command.line, name, value)]
        if run := _launch(command):
            set_there, wrong = launched(path, command.line, run, version)
            assigned += [replace(a, arm=command.arm) for a in set_there]
            notes.findings.extend(wrong)
    return assigned, notes.findings


def _is_own(name: str, text: str) -> bool:
    """Whether a name is the script's own word, put into its lines, and none of a library's variables."""
    if name in COMMON or name.startswith(_MCA) or any(name in one.known for one in traps().values()):
        return False
    return bool(_OWN.fullmatch(name) or re.search(rf"\$(?:{name}\b|\{{{name}[}}:#%/])", text))


def _prefixes() -> tuple[str, ...]:
    """How variables of the libraries begin."""
    return ("UCX_", *PREFIXES, *(prefix for one in traps().values() for prefix in one.prefixes))


def _assignments(path: PurePath, line: int, name: str, value: Word) -> list[Assignment]:
    if not name.startswith((_MCA, *_prefixes())):
        return []
    plain = name.removeprefix(_MCA)
    first = Assignment(path, line, plain, value.text, plain == name, Source.ENVIRONMENT, value.literal)
    return [first, *(listed(first) if plain == ENV_LIST else ())]


def _pairs(command: ShellCommand) -> tuple[list[tuple[str, Word]], bool]:
    """What a command assigns, and whether programs that run later or on its line see it."""
    first, *rest = command.words
    if first.text in ("setenv", "pushenv"):
        value = rest[1] if len(rest) > 1 else Word("")
        return ([(rest[0].text, value)] if rest else []), True
    exports = first.text in RUNNERS | {"export"}
    pairs = []
    for word in rest if exports else command.words:
        if match := _ASSIGNMENT.fullmatch(word.text):
            pairs.append((match[1], Word(match[2], word.literal)))
        elif not word.text.startswith("-"):
            return pairs, True  # a program, which sees them, or a name to export
    return pairs, exports


def _ends_in_list(command: ShellCommand) -> bool:
    return command.end == ";" and bool(
        re.search(rf"{ENV_LIST}[= ]\S[^\s=]*=\S*$", " ".join(word.text for word in command.words))
    )


def _launch(command: ShellCommand) -> Sequence[Word]:
    """The words from the launcher on; none where there is no launch."""
    wrapped = False
    for at, word in enumerate(command.words):
        name = PurePath(word.text).name
        if name in MPIRUN or name == "srun":
            return command.words[at:]
        wrapped |= name in WRAPPERS
        if not (wrapped or _ASSIGNMENT.fullmatch(word.text) or word.text in RUNNERS):
            break
    return ()
