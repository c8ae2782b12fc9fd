"""A shell script as commands of words, as far as a reader needs it that runs nothing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PART = re.compile(
    r"""(?P<blank>[ \t]+)
    |(?P<comment>\#.*)
    |(?P<end>;;|;|&&|&|\|\||\||[()])
    |'(?P<single>[^']*)'
    |"(?P<double>(?:[^"\\]|\\.)*)"
    |\\(?P<escaped>.)
    |(?P<plain>[^\s;&|()'"\\]+)
    |(?P<open>['"\\])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, without its quotes."""

    text: str
    """As the command sees it, but for what the shell would put in."""
    literal: bool = True
    """Whether the shell puts nothing in: no ``$``, no backquote, no ``~`` at the beginning."""


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command."""

    line: int
    """Where it begins, counted from 1."""
    words: tuple[Word, ...]
    """At least one."""
    end: str
    """What ends it: ``;``, ``&&``, ``|``, …, or nothing at the end of the line."""
    closed: bool = True
    """Whether every quote is closed."""


def commands(text: str) -> Iterator[Command]:
    """The commands of a script in order; lines that go on after a backslash are one.

    A quote is looked for within its line: a text over several lines is not an assignment that a stack reads.
    """
    number = 0
    for joined in re.split(r"(?<!\\)\n", text):
        yield from _line(joined.replace("\\\n", " "), number + 1)
        number += 1 + joined.count("\n")


def _line(line: str, number: int) -> Iterator[Command]:
    words: list[Word] = []
    pieces: list[str] = []
    literal = closed = True
    at = 0
    while match := _PART.match(line, at):
        kind, said = match.lastgroup or "", match[match.lastgroup or 0]
        if kind == "comment" and pieces:  # a # inside a word is a character
            kind, said = "plain", "#"
            at += 1
        else:
            at = match.end()
        if kind in ("blank", "comment", "end"):
            words += [Word("".join(pieces), literal)] if pieces else []
            pieces, literal = [], True
            if kind == "end" and words:
                yield Command(number, tuple(words), said, closed)
                words = []
            continue
        if kind == "open":
            closed = False
        if kind == "double":
            said = re.sub(r'\\(["\\$`])', r"\1", said)
        if kind in ("plain", "double"):
            literal &= not re.search(r"(?<!\\)[$`]", match[0]) and not re.search(r"^~|=~", match[0])
        pieces.append(said)
    words += [Word("".join(pieces), literal)] if pieces else []
    if words:
        yield Command(number, tuple(words), "", closed)
