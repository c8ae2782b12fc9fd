"""A shell script as the commands that it would run, each with the variables that reach it, path by path.

Nothing is run. Where a script branches every arm is followed with what it sets, so that two arms of an ``if``
never meet, and arms of a later ``if`` on the same condition go together. A loop's body is followed once, a
function where it is called, and at the end of the script where nobody calls it. With ``words`` this is the
one place that parses: tree-sitter's grammar of bash, which goes on after what it does not understand.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from autotune.lint.words import MOST_DEPTH, Word, arm_of, command_name, is_test, pair, text_of, words
from autotune.lint.worlds import World, assumed, joined

MOST_CALLS = 5_000
"""Commands that are looked at in one script, those of each path counted: a bound on time."""
MOST_COPIED = 1_000_000
"""Variables that are copied on the way, a path's at each assignment: another one, a second or less."""

_SHELLS = frozenset({"bash", "sh", "ksh", "zsh", "sbatch", "qsub", "bsub", "batch", "su", "script"})
"""Commands that run the text that is given to them."""
_SCRIPT = re.compile(r"\.(?:sh|bash|slurm|sbatch|job|pbs|lsf|sub)[\"']?$")
DECLARES = frozenset({"export", "declare", "typeset", "local", "readonly"})
"""Commands that declare variables."""
_ASSIGNING = frozenset({"variable_assignment", "comment"})
_OF_HEREDOC = frozenset({"heredoc_start", "heredoc_end", "file_redirect"})


@dataclass(frozen=True, slots=True)
class Call:
    """A simple command on one path."""

    line: int
    """Where it begins, counted from 1."""
    at: tuple[int, int]
    """The place of the command: the same on all paths."""
    words: tuple[Word, ...]
    """The command and its arguments; none where it only assigns."""
    sets: tuple[tuple[str, Word], ...]
    """Assignments before the command, or those of a declaration."""
    world: World
    """Variables that reach it."""
    exports: bool = False
    """Whether what it sets is seen by programs from then on."""


@dataclass(slots=True)
class Followed:
    """Result of following a script."""

    calls: list[Call] = field(default_factory=list)
    """In order, those of each path."""
    ends: list[World] = field(default_factory=list)
    """Variables of each path at the end or exit of the script."""
    broken: list[tuple[int, str]] = field(default_factory=list)
    """Lines that a shell cannot parse, with their text."""


def follow(
    text: str, matters: Callable[[str, str], bool], launches: Callable[[Sequence[Word]], bool]
) -> Followed:
    """All of a script.

    Args:
        text: Source of the script.
        matters: Whether paths that differ in a variable (name, value) are kept apart.
        launches: Whether the words of a command matter on every path.
    """
    walk = _Walk(matters, launches)
    walk.whole(text)
    return walk.script


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


class _Walk:
    """One pass over a script; ``worlds`` are the paths that have come to a node."""

    def __init__(
        self, matters: Callable[[str, str], bool], launches: Callable[[Sequence[Word]], bool]
    ) -> None:
        self.script = Followed()
        self._matters = matters
        self._launches = launches
        self._functions: dict[str, tuple[Node, int]] = {}
        self._inside: frozenset[str] = frozenset()
        self._called: set[str] = set()
        self._first = self._depth = self._copied = 0
        self._special: Mapping[str, Callable[[Call, list[World]], list[World]]] = {
            "exit": self._exit,
            "exec": lambda call, worlds: self._exit(call, worlds) if len(call.words) > 1 else worlds,
            "set": self._set,
            "setenv": self._setenv,
            "shift": self._shift,
            "eval": lambda call, worlds: self._run(call.words[1:], call.line, worlds),
            "ssh": lambda call, worlds: self._aside(call.words[2:], call.line, worlds),
            **dict.fromkeys(_SHELLS, self._shell),
        }

    def whole(self, text: str) -> None:
        """Follow a script from its beginning, and in the end what nobody called."""
        worlds = self._text(text, [World()], 0)
        self.script.ends += worlds
        for name, (body, line) in list(self._functions.items()):
            if name not in self._called:
                self._first = line
                self._node(body, worlds or [World()])

    def _text(self, text: str, worlds: list[World], first: int) -> list[World]:
        """Follow a text whose first line is the line ``first`` of the file, counted from 0."""
        if self._depth > MOST_DEPTH:
            return worlds
        before, self._first = self._first, first
        root = _parser().parse(text.encode()).root_node
        worlds = self._all(root.named_children, worlds)
        self._first = before
        return worlds

    def _all(self, nodes: Iterable[Node], worlds: list[World]) -> list[World]:
        for node in nodes:
            worlds = self._node(node, worlds)
        return worlds

    def _node(self, node: Node, worlds: list[World]) -> list[World]:
        if not worlds or self._depth > MOST_DEPTH or self._tired():
            return worlds
        self._depth += 1
        try:
            follow_it = getattr(self, f"_{node.type}", None)
            return follow_it(node, worlds) if follow_it else self._all(node.named_children, worlds)
        finally:
            self._depth -= 1

    def _tired(self) -> bool:
        return len(self.script.calls) > MOST_CALLS or self._copied > MOST_COPIED

    # Constructs, by their names in the grammar.

    def _comment(self, node: Node, worlds: list[World]) -> list[World]:
        return worlds

    _file_redirect = _heredoc_body = _string_content = _comment

    def _apart(self, node: Node, worlds: list[World]) -> list[World]:
        """Follow a subshell or pipeline, whose changes stay inside it."""
        for child in node.named_children if node.type == "pipeline" else [node]:
            own = [child] if child is not node else node.named_children
            self._all(own, worlds)
        return worlds

    _pipeline = _subshell = _command_substitution = _process_substitution = _apart

    def _ERROR(self, node: Node, worlds: list[World]) -> list[World]:  # noqa: N802 - the grammar's name
        self.script.broken.append((self._line(node), text_of(node)))
        return self._all(node.named_children, worlds)

    def _function_definition(self, node: Node, worlds: list[World]) -> list[World]:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self._functions[text_of(name)] = (body, self._first)
        return worlds

    def _if_statement(self, node: Node, worlds: list[World]) -> list[World]:
        done: list[World] = []
        for arm in [node, *(n for n in node.children if n.type in ("elif_clause", "else_clause"))]:
            condition, body = arm_of(arm)
            worlds = self._all(condition, worlds)
            said = "; ".join(map(text_of, condition))
            taken = worlds if arm.type == "else_clause" else assumed(worlds, said, holds=True)
            worlds = [] if arm.type == "else_clause" else assumed(worlds, said, holds=False)
            done += self._all(body, taken)
        return self._joined(done + worlds)

    def _case_statement(self, node: Node, worlds: list[World]) -> list[World]:
        subject = text_of(node.named_children[0]).strip('"')
        done: list[World] = []
        for item in (n for n in node.named_children if n.type == "case_item"):
            ends = next((i for i, n in enumerate(item.children) if n.type == ")"), 0)
            pattern = "".join(map(text_of, item.children[:ends])).strip("(")
            every = pattern == "*"
            plain = re.fullmatch(r"[\w.-]+", pattern)
            said = f'[ "{subject}" = {pattern} ]' if plain else f"{subject} in {pattern}"
            body = [n for n in item.children[ends + 1 :] if n.is_named]
            done += self._all(body, worlds if every else assumed(worlds, said, holds=True))
            worlds = [] if every else assumed(worlds, said, holds=False)
        return self._joined(done + worlds)

    def _list(self, node: Node, worlds: list[World]) -> list[World]:
        left, right = node.named_children[0], node.named_children[-1]
        either = any(n.type == "||" for n in node.children)
        if either and left.type == "list" and any(n.type == "&&" for n in left.children):
            test, then = left.named_children[0], left.named_children[-1]
        else:
            test, then = left, None
        worlds = self._node(test, worlds)
        if not is_test(test):  # taken to succeed: it is there to be run
            if either:
                self._node(right, worlds)
                return self._node(then, worlds) if then is not None else worlds
            return self._node(right, worlds)
        yes, no = (assumed(worlds, text_of(test), holds=holds) for holds in (True, False))
        if not either:
            yes = self._node(right, yes)
        else:
            yes = self._node(then, yes) if then is not None else yes
            no = self._node(right, no)
        return self._joined(yes + no)

    def _for_statement(self, node: Node, worlds: list[World]) -> list[World]:
        name = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        if name is not None:
            value = [Word(f"${text_of(name)}", literal=False)]
            worlds = [world.with_value(text_of(name), value, self._line(node)) for world in worlds]
        return self._node(body, worlds) if body is not None else worlds

    def _redirected_statement(self, node: Node, worlds: list[World]) -> list[World]:
        body = node.child_by_field_name("body")
        runs = body is not None and command_name(body) in (*_SHELLS, "ssh", "srun")
        for child in (n for n in node.named_children if n.type == "file_redirect"):
            runs |= bool(_SCRIPT.search(text_of(child)))
        if body is not None:
            worlds = self._node(body, worlds)
        for child in (n for n in node.named_children if n.type == "heredoc_redirect"):
            for part in child.named_children:
                runs |= any(command_name(end) in _SHELLS for end in (part, *part.named_children))
                if part.type != "heredoc_body":
                    worlds = self._node(part, worlds) if part.type not in _OF_HEREDOC else worlds
                elif runs:
                    text = text_of(part).replace("\\$", "$")
                    self._text(text, worlds, self._first + part.start_point.row)
        return worlds

    def _variable_assignments(self, node: Node, worlds: list[World]) -> list[World]:
        return self._assign(node, node.named_children, worlds)

    def _variable_assignment(self, node: Node, worlds: list[World]) -> list[World]:
        return self._assign(node, [node], worlds)

    def _declaration_command(self, node: Node, worlds: list[World]) -> list[World]:
        how, *options = (text_of(n) for n in node.children if n.type not in _ASSIGNING)
        flags = "".join(o for o in options if o.startswith("-"))
        exports = (how == "export" and "n" not in flags) or "x" in flags
        pairs = [n for n in node.named_children if n.type == "variable_assignment"]
        worlds = self._assign(node, pairs, worlds, exports=exports, how=how)
        for one in (n for n in node.named_children if n.type in ("string", "raw_string", "concatenation")):
            said = words(one, worlds[0].variables, quoted=True)
            if exports and len(said) == 1 and (match := re.fullmatch(r"(\w+)=(.*)", said[0].text, re.DOTALL)):
                set_ = match[1], Word(match[2], said[0].literal)
                self.script.calls.append(
                    Call(self._line(node), self._at(node), (Word(how),), (set_,), worlds[0], exports)
                )
                worlds = [w.with_value(set_[0], [set_[1]], self._line(node), exported=True) for w in worlds]
        for name in (o for o in options if re.fullmatch(r"\w+", o) and (exports or how == "export")):
            worlds = [world.exporting(name, on=exports) for world in worlds]
        return worlds

    def _unset_command(self, node: Node, worlds: list[World]) -> list[World]:
        gone = {text_of(child) for child in node.named_children}
        return [world.without(gone) for world in worlds]

    def _command(self, node: Node, worlds: list[World]) -> list[World]:
        self._substitutions(node, worlds)
        call = self._call(node, worlds[0])
        if not call.words:
            return worlds
        name = call.words[0].text.rpartition("/")[2]
        if name in self._functions and name not in self._inside:
            return self._function(call, name, worlds)
        differs = (
            name in self._special or not call.words[0].literal or self._launches(call.words) or call.sets
        )
        calls = [call, *(self._call(node, world) for world in worlds[1:])] if differs else [call]
        self.script.calls += calls
        if (special := self._special.get(name)) is None:
            return worlds
        return [after for one, world in zip(calls, worlds, strict=True) for after in special(one, [world])]

    # Commands that change what comes after them, or run a text.

    def _function(self, call: Call, name: str, worlds: list[World]) -> list[World]:
        body, first = self._functions[name]
        before, outer = (self._first, self._inside), worlds[0].variables.get("@")
        self._first, self._inside = first, self._inside | {name}
        worlds = [world.with_value("@", call.words[1:], call.line) for world in worlds]
        worlds = self._node(body, worlds)
        self._first, self._inside = before
        self._called.add(name)
        given = [] if outer is None else [(outer.words, outer.line)]
        worlds = [world.without({"@"}) for world in worlds]
        return [world.with_value("@", *given[0]) if given else world for world in worlds]

    def _shift(self, call: Call, worlds: list[World]) -> list[World]:
        gone = next((int(word.text) for word in call.words[1:] if word.text.isdecimal()), 1)
        old = [world.variables.get("@") for world in worlds]
        return [
            world.with_value("@", value.words[gone:], value.line) if value else world
            for world, value in zip(worlds, old, strict=True)
        ]

    def _exit(self, call: Call, worlds: list[World]) -> list[World]:
        self.script.ends += worlds
        return []

    def _set(self, call: Call, worlds: list[World]) -> list[World]:
        said = [word.text for word in call.words[1:]]
        on, off = {"-a", "-o allexport"}, {"+a", "+o allexport"}
        both = {*said, " ".join(said[:2])}
        if both & (on | off):
            worlds = [replace(world, exports_all=bool(both & on)) for world in worlds]
        return worlds

    def _setenv(self, call: Call, worlds: list[World]) -> list[World]:
        """``setenv`` and the like of csh and Tcl."""
        if len(call.words) < 2:
            return worlds
        name, value = call.words[1].text, call.words[2] if len(call.words) > 2 else Word("")
        self.script.calls.append(Call(call.line, call.at, (), ((name, value),), worlds[0], exports=True))
        return [world.with_value(name, [value], call.line, exported=True) for world in worlds]

    def _shell(self, call: Call, worlds: list[World]) -> list[World]:
        said = [word.text for word in call.words]
        at = next((i for i, word in enumerate(said) if re.fullmatch(r"-\w*c|--wrap", word)), len(said))
        wrapped = [replace(w, text=w.text[7:]) for w in call.words if w.text.startswith("--wrap=")]
        return self._aside(call.words[at + 1 : at + 2] or wrapped, call.line, worlds)

    def _aside(self, given: Sequence[Word], line: int, worlds: list[World]) -> list[World]:
        self._run(given, line, worlds)
        return worlds

    def _run(self, given: Sequence[Word], line: int, worlds: list[World]) -> list[World]:
        text = " ".join(word.text for word in given)
        return self._text(text, worlds, line - 1) if text.strip() else worlds

    # Pieces of the above.

    def _line(self, node: Node) -> int:
        return self._first + node.start_point.row + 1

    def _joined(self, worlds: list[World]) -> list[World]:
        self._copied += sum(len(world.variables) for world in worlds)
        return joined(worlds, self._matters)

    def _substitutions(self, node: Node, worlds: list[World]) -> None:
        """Commands in the place of a word are commands too."""
        if b"$(" in (said := node.text or b"") or b"`" in said:
            for child in node.named_children:
                if child.type in ("command_substitution", "process_substitution"):
                    self._node(child, worlds)
                elif child.type not in ("variable_assignment",) or node.type != "command":
                    self._substitutions(child, worlds)

    def _assign(
        self, node: Node, pairs: Sequence[Node], worlds: list[World], *, exports: bool = False, how: str = ""
    ) -> list[World]:
        self._substitutions(node, worlds)
        after = []
        self._copied += sum(len(world.variables) * len(pairs) for world in worlds)
        for world in worlds:
            sets: list[tuple[str, Word]] = []
            for one in pairs:
                if one.type != "variable_assignment":
                    continue
                name, value = pair(one, world.variables)
                sets.append((name, value[0] if len(value) == 1 else Word("", literal=False)))
                world = world.with_value(name, value, self._line(one), exported=exports)
            said = (Word(how),) if how else ()
            call = Call(self._line(node), self._at(node), said, tuple(sets), world, exports)
            self.script.calls.append(call)
            after.append(world)
        return after

    def _at(self, node: Node) -> tuple[int, int]:
        return self._first, node.start_byte

    def _call(self, node: Node, world: World) -> Call:
        said: list[Word] = []
        sets = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = pair(child, world.variables)
                sets.append((name, value[0] if len(value) == 1 else Word("", literal=False)))
            elif not child.type.endswith("_redirect"):
                said += words(child, world.variables)
        return Call(self._line(node), self._at(node), tuple(said), tuple(sets), world)
