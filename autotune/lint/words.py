"""Expand the words of shell commands: what a command sees after the shell has replaced known variables."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node

_ESCAPED = re.compile(r"\\(?:\n|(.))", re.DOTALL)
_IN_QUOTES = re.compile(r'\\(?:\n|(["\\$`]))')
_BARE = re.compile(r"[^\\~*?{}\[\]]+")
_TESTS = frozenset({"test", "grep", "which", "command", "type", "hash", "module", "true", "false"})
MOST_DEPTH = 100
"""Maximum depth of nested shell constructs that are followed: Python allows 1,000 nested calls, and each
construct takes several."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, without its quotes."""

    text: str
    """The word as the command sees it; an expansion with an unknown value stays as it is written
    (``$NAME``)."""
    literal: bool = True
    """Whether ``text`` is exact, without expansions of unknown value."""


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a shell variable."""

    words: tuple[Word, ...]
    """One word, or the elements of an array."""
    line: int
    """Number of the line where the variable was set, counted from 1."""
    exported: bool = False
    """Whether the variable is exported, so that programs see it."""


Variables = Mapping[str, Value]


def text_of(node: Node) -> str:
    """Return the source text of a node of the syntax tree."""
    return (node.text or b"").decode(errors="replace")


def words(node: Node, variables: Variables, depth: int = 0, *, quoted: bool = False) -> list[Word]:
    """Return the words that a node expands to: usually one; for an unquoted variable, also none or several.

    Args:
        node: The node of the syntax tree.
        variables: The shell variables by name.
        depth: Number of nodes around this one that are being expanded.
        quoted: Whether the shell does not split values into words where the node is, as inside quotes.
    """
    source = text_of(node)
    match node.type:
        case "simple_expansion" | "expansion":
            return _expanded(node, variables, quoted=quoted)
        case "string":
            return _string(node, variables, depth)
        case "raw_string":
            return [Word(source[1:-1])]
        case "concatenation" | "command_name" if depth < MOST_DEPTH:
            return joined([words(child, variables, depth + 1, quoted=quoted) for child in node.children])
        case "word" | "number" | "variable_name" | "extglob_pattern" | "regex":
            if _BARE.fullmatch(source):
                return [Word(source)]
            plain = _ESCAPED.sub(lambda match: match[1] or "", source)
            return [Word(plain, not source.startswith("~") and "=~" not in source)]
        case "brace_expression" | "{" | "}" | "$":
            return [Word(source, node.type != "brace_expression")]
    return [Word(source, literal=not node.children and node.type not in ("ansi_c_string", "heredoc_body"))]


def pair(node: Node, variables: Variables) -> tuple[str, list[Word]]:
    """Return the name and the value in an assignment; the value is one word, or the elements of an array."""
    target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    name = text_of(target).partition("[")[0] if target is not None else ""
    if value is None:
        value_words = [Word("")]
    elif value.type == "array":
        value_words = [word for child in value.named_children for word in words(child, variables)]
    else:
        parts = words(value, variables, quoted=True)
        value_words = [Word(" ".join(w.text for w in parts), all(w.literal for w in parts))]
    earlier = variables.get(name)
    if any(child.type == "+=" for child in node.children):
        if value is not None and value.type == "array":
            value_words = [*(earlier.words if earlier else ()), *value_words]
        elif earlier is None:
            value_words = [Word(f"${name}{value_words[0].text}", literal=False)]
        elif len(earlier.words) == 1:
            value_words = [
                Word(
                    earlier.words[0].text + value_words[0].text,
                    earlier.words[0].literal and value_words[0].literal,
                )
            ]
    return name, value_words


def joined(pieces: Sequence[Sequence[Word]]) -> list[Word]:
    """Return the words of adjacent pieces; the last word of a piece is joined with the first of the next."""
    joined_words: list[Word] = []
    for piece in pieces:
        if joined_words and piece:
            joined_words[-1] = Word(
                joined_words[-1].text + piece[0].text, joined_words[-1].literal and piece[0].literal
            )
            joined_words += piece[1:]
        else:
            joined_words += piece
    return joined_words


def _string(node: Node, variables: Variables, depth: int) -> list[Word]:
    """Return the words of a text in double quotes: one word, unless the text contains an array."""
    pieces: list[Sequence[Word]] = [[Word("")]]
    end = node.start_byte + 1
    source, begin = node.text or b"", node.start_byte
    for child in node.named_children:
        pieces.append([Word(source[end - begin : child.start_byte - begin].decode(errors="replace"))])
        if child.type == "string_content":
            text = _IN_QUOTES.sub(lambda match: match[1] or "", text_of(child))
            pieces.append([Word(text)])
        elif child.type in ("simple_expansion", "expansion"):
            pieces.append(_expanded(child, variables, quoted=True))
        else:
            pieces.append([Word(text_of(child), literal=False)])
        end = child.end_byte
    pieces.append([Word(source[end - begin : -1].decode(errors="replace"))])
    return joined([piece for piece in pieces if piece])


def _expanded(node: Node, variables: Variables, *, quoted: bool) -> list[Word]:
    name = next((text_of(n) for n in _within(node) if n.type == "variable_name"), "")
    source = text_of(node)
    if source in ("$@", "$*", "${@}", "${*}"):
        name, source = "@", "${@[@]}"
    value = variables.get(name)
    plain = re.fullmatch(rf"\${name}|\$\{{{name}(?::?[-=][^}}]*)?\}}", source)
    if value is not None and source in (f"${{{name}[@]}}", f"${{{name}[*]}}"):
        if quoted:
            return list(value.words)
        return [Word(part, word.literal) for word in value.words for part in word.text.split()]
    if value is None and (usual := re.fullmatch(rf"\$\{{{name}:?[-=]([^${{}}\"'`\\]+)\}}", source)):
        parts = [usual[1]] if quoted else usual[1].split()
        return [Word(part, literal=False) for part in parts]
    if value is None or not plain or len(value.words) != 1:
        return [Word(text_of(node), literal=False)]
    only = value.words[0]
    if quoted:
        return [only]
    return [Word(part, only.literal) for part in only.text.split()]


def _within(node: Node) -> Iterator[Node]:
    for child in node.children:
        yield child
        yield from child.children


def command_name(node: Node) -> str:
    """Return the name of a simple command, without its folder; empty if a node is another construct."""
    if node.type != "command":
        return ""
    name = node.child_by_field_name("name")
    return text_of(name).rpartition("/")[2] if name is not None else ""


def is_test(node: Node) -> bool:
    """Whether a command is a test, run only for its exit status."""
    if node.type == "negated_command":
        return True
    return node.type == "test_command" or command_name(node) in _TESTS


def arm_of(node: Node) -> tuple[list[Node], list[Node]]:
    """Return the nodes of the condition and of the body of an ``if``, ``elif`` or ``else``."""
    condition: list[Node] = []
    body: list[Node] = []
    into = body if node.type == "else_clause" else condition
    for child in node.children:
        if child.type == "then":
            into = body
        elif child.is_named and child.type not in ("elif_clause", "else_clause", "comment"):
            into.append(child)
    return condition, body
