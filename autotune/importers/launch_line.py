"""Launchers' commands: their options, and how many ranks a command starts that was echoed into a log.

A launcher's options end where its program begins: what follows, `nice -n 10` as much as the benchmark's own
`-n`, is not the launcher's. Where the command does not say, the ranks are not known.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.resources import facts


@dataclass(frozen=True, slots=True)
class LauncherWords:
    """Options of one launcher, without their dashes, as ``launchers.toml`` explains them."""

    ranks: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    each: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()

    def values(self, option: str) -> int:
        """How many words behind an option are its own."""
        if option in (*self.pairs, *self.parameters):
            return 2
        if self.flags:
            return int(option not in self.flags)
        known = (*self.ranks, *self.groups, *self.each, *self.takes, *self.env, *self.lists, *self.nested)
        return int(option in known)

    def options(self, words: Sequence[str]) -> Iterator[tuple[str, Mapping[int, str]]]:
        """Options in the words behind the launcher, up to the program: each with its values by place."""
        for name, values, _ in self._read(words):
            yield name, values

    def program(self, words: Sequence[str]) -> Sequence[str]:
        """The program and its arguments, of the words behind the launcher."""
        ends = [end for *_, end in self._read(words)]
        return words[ends[-1] if ends else 0 :]

    def _read(self, words: Sequence[str]) -> Iterator[tuple[str, Mapping[int, str], int]]:
        """Each option, its values by place, and where what follows it begins."""
        at = 0
        while at < len(words) and words[at].startswith("-") and words[at].strip("-"):
            name, equals, value = words[at].lstrip("-").partition("=")
            count, values = 0, {at: value}
            glued = re.fullmatch(r"-([A-Za-z])(\d+)", words[at])
            if glued and self.values(glued[1]):
                name, values = glued[1], {at: glued[2]}
            elif not equals:
                count = self.values(name)
                if name in self.pairs and "=" in "".join(words[at + 1 : at + 2]):
                    count = 1  # PALS' `--env A=B`, where Hydra's has two words
                values = {i: words[i] for i in range(at + 1, min(at + 1 + count, len(words)))}
            if len(values) >= count:
                yield name, values or {at: ""}, at + 1 + count
            at += 1 + count


_TABLE = facts("importers/launchers")
RUNNERS = frozenset(_TABLE["runners"].split())  # Commands that run the rest of their line.
WRAPPERS = frozenset(_TABLE["wrappers"].split())  # Commands that do so behind options and values of their own

LAUNCHERS: Mapping[str, LauncherWords] = {
    name: LauncherWords(**{key: tuple(options.split()) for key, options in its.items() if key != "names"})
    for its in _TABLE["launchers"]
    for name in its["names"].split()
}
"""Name of a program → its options."""

_NAMES = "|".join(re.escape(name) for name in LAUNCHERS if name != "flux")
_MENTIONED = re.compile(rf"(?:^|[\s/;&|(\"'`])(?:{_NAMES}|flux +(?:mini +)?(?:run|submit|exec))(?=\s)")
_UNSAID = re.compile(r"^TACC: +Starting parallel tasks")  # `ibrun`'s message for a launch of its own.


def is_command(line: str) -> bool:
    """Whether a line has a launcher's command."""
    return _MENTIONED.search(line) is not None or _UNSAID.match(line) is not None


def ranks(line: str) -> int | None:
    """Ranks that the last launcher of a line starts, all of its programs together; None: it does not say."""
    commands = _commands(line)
    if len(commands) > 1:  # which table is whose is not said
        each = {_ranks_of(words) for words in commands}
        return each.pop() if len(each) == 1 else None
    return _ranks_of(commands[0]) if commands else None


def _ranks_of(words: Sequence[str]) -> int | None:
    """Ranks of a command, whose last launcher starts them."""
    if quoted := next((word for word in reversed(words) if " " in word and is_command(word)), ""):
        return ranks(quoted)  # `sh -c "mpirun …"`
    at = next((i for i in reversed(range(len(words))) if is_launcher(words, i)), None)
    if at is None:
        return None
    launcher = LAUNCHERS[words[at].rpartition("/")[2]]
    started = [_ranks(program, launcher) for program in programs(words[behind(words, at) :])]
    known = [its for its in started if its is not None]
    return sum(known) if len(known) == len(started) else None


def _commands(line: str) -> list[list[str]]:
    """The words of each command of a line in which a launcher stands, without the comment behind it."""
    return [
        its
        for its in commands(line)
        if any(is_launcher(its, i) or is_command(its[i]) for i in range(len(its)))
    ]


def commands(line: str) -> list[list[str]]:
    """The words of each command of a line, without the comment behind a launcher's."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&()<>")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:  # a quote that is not closed: prose
        words = line.split()
    found: list[list[str]] = [[]]
    for at, word in enumerate(words):
        if word.startswith("#") and any(is_launcher(words, i) for i in range(at)):
            break
        if word and not word.strip(";|&()<>"):
            found.append([])
        else:
            found[-1].append(word)
    return found


def is_launcher(words: Sequence[str], at: int) -> bool:
    """Whether a word of a command is a launcher that is run there."""
    name = words[at].rpartition("/")[2]
    if name == "flux":
        return len(words) > at + 1 and words[at + 1] in ("run", "submit", "exec", "mini")
    return name in LAUNCHERS


def behind(words: Sequence[str], at: int) -> int:
    """Where the options of the launcher at a place begin: ``flux`` has words of its own before them."""
    if not words[at].endswith("flux"):
        return at + 1
    return at + 2 + (words[at + 1] == "mini")


def programs(words: Sequence[str]) -> list[Sequence[str]]:
    """The programs of a launch, which colons separate."""
    colons = [i for i, word in enumerate(words) if word == ":"]
    return [words[a + 1 : b] for a, b in zip([-1, *colons], [*colons, len(words)], strict=True)]


def _ranks(words: Sequence[str], launcher: LauncherWords) -> int | None:
    said = {name: next(iter(values.values()), "") for name, values in launcher.options(words)}

    def number(options: Sequence[str]) -> int | None:
        values = [said[name] for name in options if name in said]
        return int(values[-1]) if values and values[-1].isdecimal() else None

    total = number(launcher.ranks)
    if total is not None or any(name in said for name in launcher.ranks):
        return total
    groups, each = number(launcher.groups), number(launcher.each)
    return groups * each if groups is not None and each is not None else None
