"""Parse commands of launchers such as mpirun: their options, and how many ranks a command in a log starts.

A launcher's options end where its program begins: words from there on, such as `nice -n 10` or the
benchmark's own `-n`, are no options of the launcher. If the command does not contain the number of ranks, the
number is not known.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.resources import facts


@dataclass(frozen=True, slots=True)
class LauncherWords:
    """Holds the names of one launcher's options, without their dashes, by the values that follow them."""

    ranks: tuple[str, ...] = ()  # Options with the number of ranks.
    groups: tuple[str, ...] = ()  # Options with a number of nodes or resource sets.
    each: tuple[str, ...] = ()  # Options with the number of ranks in each node or resource set.
    takes: tuple[str, ...] = ()  # Other options with a value.
    flags: tuple[str, ...] = ()  # Options without a value, if all options that are not listed have a value.
    env: tuple[str, ...] = ()  # Options with NAME=VALUE, a variable for the ranks.
    pairs: tuple[str, ...] = ()  # Options with NAME VALUE or NAME=VALUE, a variable for the ranks.
    lists: tuple[str, ...] = ()  # Options with several NAME=VALUE, separated by commas.
    parameters: tuple[str, ...] = ()  # Options with the name and the value of an MCA parameter.
    nested: tuple[str, ...] = ()  # Options with options of ``mpirun`` in one word.

    def values(self, option: str) -> int:
        """Return how many of the words after an option are values of this option."""
        if option in (*self.pairs, *self.parameters):
            return 2
        if self.flags:
            return int(option not in self.flags)
        with_value = (self.ranks, self.groups, self.each, self.takes, self.env, self.lists, self.nested)
        return int(any(option in names for names in with_value))

    def options(self, words: Sequence[str]) -> Iterator[tuple[str, Mapping[int, str]]]:
        """Yield the launcher's options, each with its values by position in the words after the launcher."""
        for name, values, _ in self._read(words):
            yield name, values

    def program(self, words: Sequence[str]) -> Sequence[str]:
        """Return the program and its arguments from the words after the launcher."""
        ends = [end for *_, end in self._read(words)]
        return words[ends[-1] if ends else 0 :]

    def _read(self, words: Sequence[str]) -> Iterator[tuple[str, Mapping[int, str], int]]:
        """Yield each option, its values by position, and the position after it."""
        position = 0
        while position < len(words) and words[position].startswith("-") and words[position].strip("-"):
            name, equals, value = words[position].lstrip("-").partition("=")
            count, values = 0, {position: value}
            joined_value = re.fullmatch(r"-([A-Za-z])(\d+)", words[position])
            if joined_value and self.values(joined_value[1]):
                name, values = joined_value[1], {position: joined_value[2]}
            elif not equals:
                count = self.values(name)
                if name in self.pairs and "=" in "".join(words[position + 1 : position + 2]):
                    count = 1  # PALS writes `--env A=B`, Hydra `-env A B`
                values = {i: words[i] for i in range(position + 1, min(position + 1 + count, len(words)))}
            if len(values) >= count:
                yield name, values or {position: ""}, position + 1 + count
            position += 1 + count


_TABLE = facts("launchers")
RUNNERS = frozenset(_TABLE["runners"].split())  # Commands that run the rest of their line as a command.
WRAPPERS = frozenset(_TABLE["wrappers"].split())
"""Commands that run the rest of their line as a command, after options and values of their own."""

LAUNCHERS: Mapping[str, LauncherWords] = {
    name: LauncherWords(**{key: tuple(options.split()) for key, options in entry.items() if key != "names"})
    for entry in _TABLE["launchers"]
    for name in entry["names"].split()
}
"""Maps the name of a launcher to its options."""

_NAMES = "|".join(re.escape(name) for name in LAUNCHERS if name != "flux")
_MENTIONED = re.compile(rf"(?:^|[\s/;&|(\"'`])(?:{_NAMES}|flux +(?:mini +)?(?:run|submit|exec))(?=\s)")
_IBRUN_MESSAGE = re.compile(r"^TACC: +Starting parallel tasks")  # What `ibrun` prints when it launches ranks.


def is_command(line: str) -> bool:
    """Return whether a line contains a launcher's command, or `ibrun`'s message about a launch."""
    return _MENTIONED.search(line) is not None or _IBRUN_MESSAGE.match(line) is not None


def ranks(line: str) -> int | None:
    """Return the number of ranks that the last launcher of a line starts, for all of its programs together.

    The result is None if the line does not contain the number, or has several commands with different
    numbers.
    """
    commands = _launch_commands(line)
    if len(commands) > 1:  # it is not known which command printed which table of the log
        counts = {_command_ranks(words) for words in commands}
        return counts.pop() if len(counts) == 1 else None
    return _command_ranks(commands[0]) if commands else None


def _command_ranks(words: Sequence[str]) -> int | None:
    """Return the number of ranks that a command's last launcher starts; None if the number is not known."""
    if quoted := next((word for word in reversed(words) if " " in word and is_command(word)), ""):
        return ranks(quoted)  # a command in quotes, such as `sh -c "mpirun …"`
    position = next((i for i in reversed(range(len(words))) if is_launcher(words, i)), None)
    if position is None:
        return None
    launcher = LAUNCHERS[words[position].rpartition("/")[2]]
    counts = [_program_ranks(program, launcher) for program in programs(words[behind(words, position) :])]
    known_counts = [count for count in counts if count is not None]
    return sum(known_counts) if len(known_counts) == len(counts) else None


def _launch_commands(line: str) -> list[list[str]]:
    """Return the words of each command with a launcher in a line, without a comment at the end."""
    return [
        command
        for command in commands(line)
        if any(is_launcher(command, i) or is_command(command[i]) for i in range(len(command)))
    ]


def commands(line: str) -> list[list[str]]:
    """Return the words of each command of a line, without a comment after a launcher's command."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&()<>")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:  # a quote is not closed, so the line is probably prose
        words = line.split()
    split_commands: list[list[str]] = [[]]
    for position, word in enumerate(words):
        if word.startswith("#") and any(is_launcher(words, i) for i in range(position)):
            break
        if word and not word.strip(";|&()<>"):
            split_commands.append([])
        else:
            split_commands[-1].append(word)
    return split_commands


def is_launcher(words: Sequence[str], position: int) -> bool:
    """Return whether the word at a position of a command is a launcher."""
    name = words[position].rpartition("/")[2]
    if name == "flux":
        return len(words) > position + 1 and words[position + 1] in ("run", "submit", "exec", "mini")
    return name in LAUNCHERS


def behind(words: Sequence[str], position: int) -> int:
    """Return the position after the launcher at ``position``, where its options begin.

    The options of ``flux`` begin after a subcommand, such as ``run`` or ``mini run``.
    """
    if not words[position].endswith("flux"):
        return position + 1
    return position + 2 + (words[position + 1] == "mini")


def programs(words: Sequence[str]) -> list[Sequence[str]]:
    """Return the words of each program of a launch; the programs are separated by colons."""
    colons = [i for i, word in enumerate(words) if word == ":"]
    return [words[a + 1 : b] for a, b in zip([-1, *colons], [*colons, len(words)], strict=True)]


def _program_ranks(words: Sequence[str], launcher: LauncherWords) -> int | None:
    given_options = {name: next(iter(values.values()), "") for name, values in launcher.options(words)}

    def number(options: Sequence[str]) -> int | None:
        values = [given_options[name] for name in options if name in given_options]
        return int(values[-1]) if values and values[-1].isdecimal() else None

    total = number(launcher.ranks)
    if total is not None or any(name in given_options for name in launcher.ranks):
        return total
    groups, each = number(launcher.groups), number(launcher.each)
    return groups * each if groups is not None and each is not None else None
