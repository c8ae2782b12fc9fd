"""Find the commands that a shell script would run, with their variables, on every path through the script.

Nothing is run. Where a script branches, every branch is followed with the variables that it sets. Two
branches of one ``if`` are never on the same path, and a later ``if`` on the same condition takes the same
branch. The body of a loop is followed once; a function is followed where it is called, or at the end of the
script if it is never called. Only this module and ``words`` parse scripts: with tree-sitter's grammar of
bash, which continues after syntax errors.
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
"""Maximum number of commands that are followed in one script, counted on each path: a bound on time."""
MOST_COPIED = 1_000_000
"""Maximum number of variables that are copied (each assignment copies all variables of a path): a second
bound on time, of 1 s."""

_SHELLS = frozenset({"bash", "sh", "ksh", "zsh", "sbatch", "qsub", "bsub", "batch", "su", "script"})
"""Commands that run a text or script given as an argument or on standard input."""
_SCRIPT = re.compile(r"\.(?:sh|bash|slurm|sbatch|job|pbs|lsf|sub)[\"']?$")
DECLARES = frozenset({"export", "declare", "typeset", "local", "readonly"})
"""Commands that declare variables."""
_ASSIGNING = frozenset({"variable_assignment", "comment"})
_OF_HEREDOC = frozenset({"heredoc_start", "heredoc_end", "file_redirect"})


@dataclass(frozen=True, slots=True)
class Call:
    """A simple command on one path through a script."""

    line: int
    """Number of the line where the command begins, counted from 1."""
    at: tuple[int, int]
    """Position of the command in the script, which is the same on all paths."""
    words: tuple[Word, ...]
    """The command and its arguments; empty for mere assignments."""
    sets: tuple[tuple[str, Word], ...]
    """Assignments in front of the command, or those of a declaration, as (name, value)."""
    world: World
    """State of the shell when the command runs: the variables, and what the path assumes."""
    exports: bool = False
    """Whether the command exports what it sets, so that later programs see it."""


@dataclass(slots=True)
class Followed:
    """Result of following a script on all its paths."""

    calls: list[Call] = field(default_factory=list)
    """The commands in order, once for each path."""
    ends: list[World] = field(default_factory=list)
    """State of the shell at the end or exit of the script, for each path."""
    broken: list[tuple[int, str]] = field(default_factory=list)
    """(line, text) of the places that are no valid shell syntax."""


def follow(
    text: str, matters: Callable[[str, str], bool], launches: Callable[[Sequence[Word]], bool]
) -> Followed:
    """Follow a script on all its paths, and return its commands.

    Args:
        text: Source of the script.
        matters: Returns for a variable (name, value) whether paths that differ in it must not be merged.
        launches: Returns for the words of a command whether the command must be recorded on every path.
    """
    walk = _Walk(matters, launches)
    walk.whole(text)
    return walk.script


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


class _Walk:
    """Makes one pass over a script; ``worlds`` are the states of all paths that reach a syntax node.

    A method that is named after an underscore and a type of node in the grammar follows nodes of that type.
    """

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
        """Follow a whole script, and then the functions that it never calls."""
        worlds = self._text(text, [World()], 0)
        self.script.ends += worlds
        for name, (body, line) in list(self._functions.items()):
            if name not in self._called:
                self._first = line
                self._node(body, worlds or [World()])

    def _text(self, text: str, worlds: list[World], first: int) -> list[World]:
        """Follow a text that begins at the line ``first`` of the file, counted from 0."""
        if self._depth > MOST_DEPTH:
            return worlds
        outer_first, self._first = self._first, first
        root = _parser().parse(text.encode()).root_node
        worlds = self._all(root.named_children, worlds)
        self._first = outer_first
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

    # Methods for the constructs of the language, named as in the grammar.

    def _comment(self, node: Node, worlds: list[World]) -> list[World]:
        return worlds

    _file_redirect = _heredoc_body = _string_content = _comment

    def _isolated(self, node: Node, worlds: list[World]) -> list[World]:
        """Follow a subshell or pipeline, which does not change the variables outside."""
        for child in node.named_children if node.type == "pipeline" else [node]:
            nodes = [child] if child is not node else node.named_children
            self._all(nodes, worlds)
        return worlds

    _pipeline = _subshell = _command_substitution = _process_substitution = _isolated

    def _ERROR(self, node: Node, worlds: list[World]) -> list[World]:  # noqa: N802 - the grammar's name
        self.script.broken.append((self._line(node), text_of(node)))
        return self._all(node.named_children, worlds)

    def _function_definition(self, node: Node, worlds: list[World]) -> list[World]:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self._functions[text_of(name)] = (body, self._first)
        return worlds

    def _if_statement(self, node: Node, worlds: list[World]) -> list[World]:
        after_arms: list[World] = []
        for arm in [node, *(n for n in node.children if n.type in ("elif_clause", "else_clause"))]:
            condition, body = arm_of(arm)
            worlds = self._all(condition, worlds)
            condition_text = "; ".join(map(text_of, condition))
            inside = worlds if arm.type == "else_clause" else assumed(worlds, condition_text, holds=True)
            worlds = [] if arm.type == "else_clause" else assumed(worlds, condition_text, holds=False)
            after_arms += self._all(body, inside)
        return self._joined(after_arms + worlds)

    def _case_statement(self, node: Node, worlds: list[World]) -> list[World]:
        subject = text_of(node.named_children[0]).strip('"')
        after_arms: list[World] = []
        for item in (n for n in node.named_children if n.type == "case_item"):
            ends = next((i for i, n in enumerate(item.children) if n.type == ")"), 0)
            pattern = "".join(map(text_of, item.children[:ends])).strip("(")
            every = pattern == "*"
            plain = re.fullmatch(r"[\w.-]+", pattern)
            condition_text = f'[ "{subject}" = {pattern} ]' if plain else f"{subject} in {pattern}"
            body = [n for n in item.children[ends + 1 :] if n.is_named]
            after_arms += self._all(body, worlds if every else assumed(worlds, condition_text, holds=True))
            worlds = [] if every else assumed(worlds, condition_text, holds=False)
        return self._joined(after_arms + worlds)

    def _list(self, node: Node, worlds: list[World]) -> list[World]:
        left_operand, right_operand = node.named_children[0], node.named_children[-1]
        either = any(n.type == "||" for n in node.children)
        if either and left_operand.type == "list" and any(n.type == "&&" for n in left_operand.children):
            test, on_success = left_operand.named_children[0], left_operand.named_children[-1]
        else:
            test, on_success = left_operand, None
        worlds = self._node(test, worlds)
        if not is_test(test):  # a command other than a test is assumed to succeed
            if either:
                self._node(right_operand, worlds)
                return self._node(on_success, worlds) if on_success is not None else worlds
            return self._node(right_operand, worlds)
        yes, no = (assumed(worlds, text_of(test), holds=holds) for holds in (True, False))
        if not either:
            yes = self._node(right_operand, yes)
        else:
            yes = self._node(on_success, yes) if on_success is not None else yes
            no = self._node(right_operand, no)
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
        for text_node in (
            n for n in node.named_children if n.type in ("string", "raw_string", "concatenation")
        ):
            expanded = words(text_node, worlds[0].variables, quoted=True)
            if (
                exports
                and len(expanded) == 1
                and (match := re.fullmatch(r"(\w+)=(.*)", expanded[0].text, re.DOTALL))
            ):
                set_ = match[1], Word(match[2], expanded[0].literal)
                self.script.calls.append(
                    Call(self._line(node), self._at(node), (Word(how),), (set_,), worlds[0], exports)
                )
                worlds = [w.with_value(set_[0], [set_[1]], self._line(node), exported=True) for w in worlds]
        for name in (o for o in options if re.fullmatch(r"\w+", o) and (exports or how == "export")):
            worlds = [world.exporting(name, on=exports) for world in worlds]
        return worlds

    def _unset_command(self, node: Node, worlds: list[World]) -> list[World]:
        names = {text_of(child) for child in node.named_children}
        return [world.without(names) for world in worlds]

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
        return [
            following
            for each_call, world in zip(calls, worlds, strict=True)
            for following in special(each_call, [world])
        ]

    # Methods for commands that change the state of the shell, or that run a text.

    def _function(self, call: Call, name: str, worlds: list[World]) -> list[World]:
        body, first = self._functions[name]
        outer_state, outer = (self._first, self._inside), worlds[0].variables.get("@")
        self._first, self._inside = first, self._inside | {name}
        worlds = [world.with_value("@", call.words[1:], call.line) for world in worlds]
        worlds = self._node(body, worlds)
        self._first, self._inside = outer_state
        self._called.add(name)
        outer_arguments = [] if outer is None else [(outer.words, outer.line)]
        worlds = [world.without({"@"}) for world in worlds]
        return [world.with_value("@", *outer_arguments[0]) if outer_arguments else world for world in worlds]

    def _shift(self, call: Call, worlds: list[World]) -> list[World]:
        count = next((int(word.text) for word in call.words[1:] if word.text.isdecimal()), 1)
        old = [world.variables.get("@") for world in worlds]
        return [
            world.with_value("@", value.words[count:], value.line) if value else world
            for world, value in zip(worlds, old, strict=True)
        ]

    def _exit(self, call: Call, worlds: list[World]) -> list[World]:
        self.script.ends += worlds
        return []

    def _set(self, call: Call, worlds: list[World]) -> list[World]:
        options = [word.text for word in call.words[1:]]
        on, off = {"-a", "-o allexport"}, {"+a", "+o allexport"}
        flags = {*options, " ".join(options[:2])}
        if flags & (on | off):
            worlds = [replace(world, exports_all=bool(flags & on)) for world in worlds]
        return worlds

    def _setenv(self, call: Call, worlds: list[World]) -> list[World]:
        """Follow ``setenv`` of csh and Tcl."""
        if len(call.words) < 2:
            return worlds
        name, value = call.words[1].text, call.words[2] if len(call.words) > 2 else Word("")
        self.script.calls.append(Call(call.line, call.at, (), ((name, value),), worlds[0], exports=True))
        return [world.with_value(name, [value], call.line, exported=True) for world in worlds]

    def _shell(self, call: Call, worlds: list[World]) -> list[World]:
        texts = [word.text for word in call.words]
        at = next((i for i, word in enumerate(texts) if re.fullmatch(r"-\w*c|--wrap", word)), len(texts))
        wrapped = [replace(w, text=w.text[7:]) for w in call.words if w.text.startswith("--wrap=")]
        return self._aside(call.words[at + 1 : at + 2] or wrapped, call.line, worlds)

    def _aside(self, arguments: Sequence[Word], line: int, worlds: list[World]) -> list[World]:
        self._run(arguments, line, worlds)
        return worlds

    def _run(self, arguments: Sequence[Word], line: int, worlds: list[World]) -> list[World]:
        text = " ".join(word.text for word in arguments)
        return self._text(text, worlds, line - 1) if text.strip() else worlds

    # Helpers of the methods above.

    def _line(self, node: Node) -> int:
        return self._first + node.start_point.row + 1

    def _joined(self, worlds: list[World]) -> list[World]:
        self._copied += sum(len(world.variables) for world in worlds)
        return joined(worlds, self._matters)

    def _substitutions(self, node: Node, worlds: list[World]) -> None:
        """Follow the commands in ``$(…)`` and backquotes below a node."""
        if b"$(" in (source := node.text or b"") or b"`" in source:
            for child in node.named_children:
                if child.type in ("command_substitution", "process_substitution"):
                    self._node(child, worlds)
                elif child.type not in ("variable_assignment",) or node.type != "command":
                    self._substitutions(child, worlds)

    def _assign(
        self, node: Node, pairs: Sequence[Node], worlds: list[World], *, exports: bool = False, how: str = ""
    ) -> list[World]:
        self._substitutions(node, worlds)
        assigned_worlds = []
        self._copied += sum(len(world.variables) * len(pairs) for world in worlds)
        for world in worlds:
            sets: list[tuple[str, Word]] = []
            for assignment in pairs:
                if assignment.type != "variable_assignment":
                    continue
                name, value = pair(assignment, world.variables)
                sets.append((name, value[0] if len(value) == 1 else Word("", literal=False)))
                world = world.with_value(name, value, self._line(assignment), exported=exports)
            declaring_word = (Word(how),) if how else ()
            call = Call(self._line(node), self._at(node), declaring_word, tuple(sets), world, exports)
            self.script.calls.append(call)
            assigned_worlds.append(world)
        return assigned_worlds

    def _at(self, node: Node) -> tuple[int, int]:
        return self._first, node.start_byte

    def _call(self, node: Node, world: World) -> Call:
        call_words: list[Word] = []
        sets = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = pair(child, world.variables)
                sets.append((name, value[0] if len(value) == 1 else Word("", literal=False)))
            elif not child.type.endswith("_redirect"):
                call_words += words(child, world.variables)
        return Call(self._line(node), self._at(node), tuple(call_words), tuple(sets), world)
