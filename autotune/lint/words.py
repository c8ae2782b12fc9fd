"""Words of a shell's commands, as a command sees them once the shell has put in what is known."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node

_ESCAPED = re.compile(r"\\(?:\n|(.))", re.DOTALL)
_IN_QUOTES = re.compile(r'\\(?:\n|(["\\$`]))')
_BARE = re.compile(r"[^\\~*?{}\[\]]+")
_TESTS = frozenset({"test", "grep", "which", "command", "type", "hash", "module", "true", "false"})
MOST_DEPTH = 100
"""Nesting of shell constructs: Python itself goes 1,000 calls deep, and each construct takes several."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, without its quotes."""

    text: str
    """As the command sees it; what the shell would put in and is not known stands as it is written."""
    literal: bool = True
    """Whether ``text`` is all of what the command sees."""


@dataclass(frozen=True, slots=True)
class Value:
    """A variable's value."""

    words: tuple[Word, ...]
    """One, or the elements of an array."""
    line: int
    """Where it was set, counted from 1."""
    exported: bool = False
    """Whether programs see it."""


Variables = Mapping[str, Value]


def text_of(node: Node) -> str:
    """The source of a node."""
    return (node.text or b"").decode(errors="replace")


def words(node: Node, variables: Variables, depth: int = 0, *, quoted: bool = False) -> list[Word]:
    """Expand a node: mostly to one word, to none or several for an unquoted variable."""
    said = text_of(node)
    match node.type:
        case "simple_expansion" | "expansion":
            return _expanded(node, variables, quoted=quoted)
        case "string":
            return _string(node, variables, depth)
        case "raw_string":
            return [Word(said[1:-1])]
        case "concatenation" | "command_name" if depth < MOST_DEPTH:
            return joined([words(child, variables, depth + 1, quoted=quoted) for child in node.children])
        case "word" | "number" | "variable_name" | "extglob_pattern" | "regex":
            if _BARE.fullmatch(said):
                return [Word(said)]
            plain = _ESCAPED.sub(lambda match: match[1] or "", said)
            return [Word(plain, not said.startswith("~") and "=~" not in said)]
        case "brace_expression" | "{" | "}" | "$":
            return [Word(said, node.type != "brace_expression")]
    return [Word(said, literal=not node.children and node.type not in ("ansi_c_string", "heredoc_body"))]


def pair(node: Node, variables: Variables) -> tuple[str, list[Word]]:
    """The name and the value of an assignment: one word, or the elements of an array."""
    target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    name = text_of(target).partition("[")[0] if target is not None else ""
    if value is None:
        made = [Word("")]
    elif value.type == "array":
        made = [word for child in value.named_children for word in words(child, variables)]
    else:
        parts = words(value, variables, quoted=True)
        made = [Word(" ".join(w.text for w in parts), all(w.literal for w in parts))]
    before = variables.get(name)
    if any(child.type == "+=" for child in node.children):
        if value is not None and value.type == "array":
            made = [*(before.words if before else ()), *made]
        elif before is None:
            made = [Word(f"${name}{made[0].text}", literal=False)]
        elif len(before.words) == 1:
            made = [Word(before.words[0].text + made[0].text, before.words[0].literal and made[0].literal)]
    return name, made


def joined(pieces: Sequence[Sequence[Word]]) -> list[Word]:
    """Pieces that stand against each other as the words that they make."""
    made: list[Word] = []
    for piece in pieces:
        if made and piece:
            made[-1] = Word(made[-1].text + piece[0].text, made[-1].literal and piece[0].literal)
            made += piece[1:]
        else:
            made += piece
    return made


def _string(node: Node, variables: Variables, depth: int) -> list[Word]:
    """A text in double quotes is one word, but for an array in it."""
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
    said = text_of(node)
    if said in ("$@", "$*", "${@}", "${*}"):
        name, said = "@", "${@[@]}"
    value = variables.get(name)
    plain = re.fullmatch(rf"\${name}|\$\{{{name}(?::?[-=][^}}]*)?\}}", said)
    if value is not None and said in (f"${{{name}[@]}}", f"${{{name}[*]}}"):
        if quoted:
            return list(value.words)
        return [Word(part, word.literal) for word in value.words for part in word.text.split()]
    if value is None and (usual := re.fullmatch(rf"\$\{{{name}:?[-=]([^${{}}\"'`\\]+)\}}", said)):
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
    """The name of a simple command, without its folder; empty for any other construct."""
    if node.type != "command":
        return ""
    name = node.child_by_field_name("name")
    return text_of(name).rpartition("/")[2] if name is not None else ""


def is_test(node: Node) -> bool:
    """Whether a command is run for its answer."""
    if node.type == "negated_command":
        return True
    return node.type == "test_command" or command_name(node) in _TESTS


def arm_of(node: Node) -> tuple[list[Node], list[Node]]:
    """The condition and the body of an arm of an ``if``."""
    condition: list[Node] = []
    body: list[Node] = []
    into = body if node.type == "else_clause" else condition
    for child in node.children:
        if child.type == "then":
            into = body
        elif child.is_named and child.type not in ("elif_clause", "else_clause", "comment"):
            into.append(child)
    return condition, body
