"""A shell script as commands of words, as far as a reader needs it that runs nothing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

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
class ShellCommand:
    """One simple command."""

    line: int
    """Where it begins, counted from 1."""
    words: tuple[Word, ...]
    """At least one, but before ``;;``."""
    end: str
    """What ends it: ``;``, ``&&``, ``|``, …, or nothing at the end of the line."""
    closed: bool = True
    """Whether every quote is closed."""
    arm: tuple[tuple[int, int], ...] = ()
    """The branches that it stands in: which ``if`` or ``case``, and which of its arms."""


_KEYWORDS = frozenset({"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time"})
"""What may stand before a command that is run."""
_HEREDOC = re.compile(r"(?<!<)<<(?!<)-?\s*(?:\\?(\w+)|'([^']+)'|\"([^\"]+)\")")
_SCRIPT = re.compile(r"\.(?:sh|bash|slurm|sbatch|job|pbs|lsf)\b")
_SHELLS = frozenset(
    {"bash", "sh", "ksh", "zsh", "csh", "tcsh", "ssh", "sbatch", "qsub", "bsub", "flux", "srun"}
)
"""Commands that run the text that is given to them."""


def commands(text: str) -> Iterator[ShellCommand]:
    """The commands of a script in order, without the words of the shell's own syntax before them.

    The text that a here-document hands to something else than a shell is none of the script's.
    """
    branches: list[tuple[int, int]] = []
    begun = 0
    for command in _commands(_without_texts(text)):
        words = list(command.words)
        while words and words[0].literal and words[0].text in (*_KEYWORDS, "case", "fi", "endif", "esac"):
            match words[0].text:
                case "if" | "case":
                    begun += 1
                    branches.append((begun, 0))
                case "elif" | "else" if branches:
                    branches[-1] = (branches[-1][0], branches[-1][1] + 1)
                case "fi" | "endif" | "esac" if branches:
                    branches.pop()
            if words[0].text == "case":
                break
            words.pop(0)
        if words:
            yield replace(command, words=tuple(words), arm=tuple(branches))
        if command.end == ";;" and branches:
            branches[-1] = (branches[-1][0], branches[-1][1] + 1)


def _without_texts(text: str) -> str:
    """The script with empty lines in the place of here-documents, but of those that a shell runs."""
    lines, ends = text.split("\n"), ""
    for number, line in enumerate(lines):
        if ends:
            lines[number], ends = "", "" if line.strip() == ends else ends
        elif (found := _HEREDOC.search(line)) and not line.lstrip().startswith("#"):
            before = line[: found.start()]
            end = next(filter(None, found.groups()))
            closed = any(later.strip() == end for later in lines[number + 1 :])
            if closed and not (_SHELLS & set(re.split(r"[\s/]+", before)) or _SCRIPT.search(before)):
                ends = end
    return "\n".join(lines)


def _commands(text: str) -> Iterator[ShellCommand]:
    """All commands; lines that go on after a backslash are one.

    A quote is looked for within its line: a text over several lines is not an assignment that a stack reads.
    """
    number = 0
    for joined in re.split(r"(?<!\\)\n", text):
        yield from _line(joined.replace("\\\n", " "), number + 1)
        number += 1 + joined.count("\n")


def _line(line: str, number: int) -> Iterator[ShellCommand]:
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
            if kind == "end" and (words or said == ";;"):
                yield ShellCommand(number, tuple(words), said, closed)
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
        yield ShellCommand(number, tuple(words), "", closed)
