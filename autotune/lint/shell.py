"""Find the simple commands of a shell script, with the variables that are certain to reach each of them.

Nothing is run, and no variable is replaced by its value. Commands are read in the order of the text. A
variable is certain to reach later commands if it is exported at the top level of the script. A variable that
is set inside a branch, a loop, a function or a subshell may or may not reach them. Scripts are parsed with
tree-sitter's grammar of bash, which allows the parser to continue after syntax errors.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

MOST_DEPTH = 100
"""Maximum depth of nested constructs that are read; Python allows 1,000 nested calls."""

DECLARES = frozenset({"export", "declare", "typeset", "local", "readonly"})
"""Commands that declare variables."""
_ESCAPED = re.compile(r"\\(?:\n|(.))", re.DOTALL)
_IN_QUOTES = re.compile(r'\\(?:\n|(["\\$`]))')
_ONLY_PERHAPS = frozenset(
    f"{construct}_{kind}"
    for kind, constructs in {
        "statement": ("if", "case", "for", "c_style_for", "while"),
        "substitution": ("command", "process"),
        "definition": ("function",),
    }.items()
    for construct in constructs
) | {"subshell", "pipeline"}
"""Constructs of the grammar whose commands may be skipped, or cannot change variables outside of them."""
_SIMPLE = frozenset({"command", "declaration_command", "variable_assignment", "variable_assignments"})
_NO_COMMANDS = frozenset({"comment", "file_redirect", "heredoc_start", "heredoc_body", "heredoc_end"})


class Word(NamedTuple):
    """One word of a command, without its quotes."""

    text: str  # The word; expansions are kept as they are written (``$NAME``).
    literal: bool = True  # Whether ``text`` is exact, without expansions.


class Value(NamedTuple):
    """The value of a shell variable."""

    word: Word
    line: int  # Number of the line where the variable was set, counted from 1.


@dataclass(frozen=True, slots=True)
class Call:
    """A simple command of a script."""

    line: int
    """Number of the line where the command begins, counted from 1."""
    words: tuple[Word, ...]
    """The command and its arguments; empty for mere assignments."""
    sets: tuple[tuple[str, Word], ...]
    """Assignments in front of the command, or those of a declaration, as (name, value)."""
    environment: Mapping[str, Value]
    """The variables that are certain to be exported before this command."""
    exports: bool = False
    """Whether the command exports what it sets, so that later programs see it."""


@dataclass(slots=True)
class Script:
    """The commands of a script."""

    calls: list[Call] = field(default_factory=list)
    """The commands, in order."""
    environment: Mapping[str, Value] = field(default_factory=dict)
    """The variables that are certain to be exported at the end of the script."""
    perhaps: set[str] = field(default_factory=set)
    """Names of variables that may be set or not, depending on the path that is taken."""
    exported: set[str] = field(default_factory=set)
    """Names of all variables that are exported anywhere."""
    broken: list[tuple[int, str]] = field(default_factory=list)
    """(line, text) of the places that are no valid shell syntax."""


@lru_cache(maxsize=1)
def read(text: str) -> Script:
    """Return the commands of a script; the last result is cached, because a script may be checked twice."""
    reading = _Reading()
    reading.node(_parser().parse(text.encode()).root_node)
    return reading.script


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


class _Reading:
    """One pass over the syntax tree of a script."""

    def __init__(self) -> None:
        self.script = Script()
        self._variables: dict[str, Value] = {}
        self._exports_all = False

    def node(self, node: Node, sure: bool = True, part: bool = False, depth: int = 0) -> None:
        """Read the commands below a node.

        Args:
            node: The node.
            sure: Whether the commands of the node run on every path through the script.
            part: Whether the node is part of a command or an assignment that is already read.
            depth: Number of nodes around this one.
        """
        if depth > MOST_DEPTH or node.type in _NO_COMMANDS:
            return
        if node.type == "ERROR":
            self.script.broken.append((_line(node), _text(node)))
        elif node.type == "command":
            self._command(node, sure)
        elif node.type in ("variable_assignment", "variable_assignments") and not part:
            pairs = [node] if node.type == "variable_assignment" else node.named_children
            self._set(node, (), _pairs(pairs), sure)
        elif node.type == "declaration_command":
            self._declaration(node, sure)
        elif node.type == "unset_command":
            self._forget(map(_text, node.named_children), sure)
        inside = sure and node.type not in _ONLY_PERHAPS
        part = node.type in _SIMPLE or (part and not node.type.endswith("_substitution"))
        for number, child in enumerate(node.named_children):
            self.node(child, inside and not (node.type == "list" and number), part, depth + 1)

    def _command(self, node: Node, sure: bool) -> None:
        words = tuple(
            _word(child)
            for child in node.named_children
            if child.type != "variable_assignment" and not child.type.endswith("_redirect")
        )
        sets = tuple(_pairs(node.named_children))
        self.script.calls.append(Call(_line(node), words, sets, self.script.environment))
        match [word.text for word in words]:
            case ["set", "-a"] | ["set", "-o", "allexport"]:
                self._exports_all = True
            case ["set", "+a"] | ["set", "+o", "allexport"]:
                self._exports_all = False

    def _declaration(self, node: Node, sure: bool) -> None:
        how, *others = (
            child for child in node.children if child.type not in ("variable_assignment", "comment")
        )
        flags = "".join(text for text in map(_text, others) if text.startswith("-"))
        exports = (_text(how) == "export" and "n" not in flags) or "x" in flags
        quoted = (re.fullmatch(r"(\w+)=(.*)", word.text, re.DOTALL) for word in map(_word, others))
        pairs = [*_pairs(node.named_children), *((m[1], Word(m[2], "$" not in m[2])) for m in quoted if m)]
        names = [_text(child) for child in others if child.type == "variable_name"]
        if exports:
            self.script.exported.update(names)
        elif _text(how) == "export":
            self._forget(names, sure)
        self._set(node, (Word(_text(how)),), pairs, sure, exports)

    def _set(
        self,
        node: Node,
        words: tuple[Word, ...],
        pairs: Iterable[tuple[str, Word]],
        sure: bool,
        exports: bool = False,
    ) -> None:
        sets, line = tuple(pairs), _line(node)
        exports = exports or self._exports_all
        if exports:
            self.script.exported.update(name for name, _ in sets)
        if sure:
            self._variables |= {name: Value(word, line) for name, word in sets}
        else:
            self.script.perhaps.update(name for name, _ in sets)
        self._take_stock()
        self.script.calls.append(Call(line, words, sets, self.script.environment, exports))

    def _forget(self, names: Iterable[str], sure: bool) -> None:
        for name in names:
            if sure:
                self._variables.pop(name, None)
            else:
                self.script.perhaps.add(name)
        self._take_stock()

    def _take_stock(self) -> None:
        exported = self.script.exported
        self.script.environment = {name: value for name, value in self._variables.items() if name in exported}


def _line(node: Node) -> int:
    return node.start_point.row + 1


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _pairs(nodes: Iterable[Node]) -> Iterator[tuple[str, Word]]:
    """Yield (name, value) of the assignments among nodes; arrays and values set by ``+=`` are not literal."""
    for node in nodes:
        target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if node.type == "variable_assignment" and target is not None:
            word = _word(value) if value is not None else Word("")
            grows = any(child.type == "+=" for child in node.children)
            yield _text(target).partition("[")[0], Word(word.text, word.literal and not grows)


def _word(node: Node, depth: int = 0) -> Word:
    """Return the word that a node represents, without quotes and escapes."""
    source = _text(node)
    match node.type:
        case "raw_string":
            return Word(source[1:-1])
        case "string":
            return Word(
                _IN_QUOTES.sub(lambda match: match[1] or "", source[1:-1]),
                all(child.type == "string_content" for child in node.named_children),
            )
        case "concatenation" | "command_name" if depth < MOST_DEPTH:
            parts = [_word(child, depth + 1) for child in node.children]
            return Word("".join(part.text for part in parts), all(part.literal for part in parts))
        case "word" | "number" | "variable_name" | "extglob_pattern" | "regex":
            plain = _ESCAPED.sub(lambda match: match[1] or "", source)
            return Word(plain, not source.startswith("~") and "=~" not in source)
    return Word(source, not node.children and node.type not in ("ansi_c_string", "heredoc_body"))
