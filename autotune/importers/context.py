"""Words of a log before its tables on how they were made, and which of them differ between tables.

Launch lines, variables, modules and headings stand between the tables of a log. Tables that are alike in all
else are repeats only where these are alike, too; a run's number, its date, job, host and files do not count.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from autotune.importers.benchmark_row import BenchmarkRow
from autotune.importers.launch_line import (
    LAUNCHERS,
    LauncherWords,
    behind,
    commands,
    is_command,
    is_launcher,
    programs,
)
from autotune.importers.runlog import Log
from autotune.resources import facts

_TABLE = facts("importers/context")
_OPTIONS_ASIDE = frozenset(_TABLE["options_aside"].split())
_NAMES_ASIDE = frozenset(_TABLE["names_aside"].split())
_VARIABLES_ASIDE = tuple(_TABLE["variables_aside"].split())
_LONGEST = 4_000  # Characters of a line that are read.
_HEADING = 200  # Of one that may be a heading.

_PROMPT = re.compile(r"^\s*(?:\++ +|[$%>] +|# +|\[[^\]]*@[^\]]*\] *[$#%>] *|[\w.-]+@[\w.-]+:\S* *[$#%>] *)?")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_PLAIN_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]+")
_VERB = re.compile(r"(?:export|declare|setenv|unset|unsetenv|module|ml|spack|source|\.|conda)\s|[A-Z]\w+=")
_MODULE = frozenset({"module", "ml", "spack"})
_MARKDOWN = re.compile(r"(#{2,6})\s+([^\s#].*?)[\s#]*$")
_MARKED = re.compile(
    r"(?:\*\*|__)([^*_].*?)(?:\*\*|__):?$|[=*+~#<>-]{2,}\s*([^\s=*+~#<>-].*?)\s*[=*+~#<>-]{2,}$"
    r"|(?:={2,}>?|-{2,}>|>{2,})\s+(\S.*)$"
)
_RULE = re.compile(r"[=*+~#-]+|```\w*")
_BOX = re.compile(r"-{3,}")
_FILE = re.compile(r"([^\s=,;]+)\.(?:log|out|err|txt|csv|dat|json)\b", re.IGNORECASE)
_UNDERLINE = re.compile(r"(?:={3,}|\*{3,}|#{3,}|~{3,})")
_TITLED = re.compile(
    rf"(?:[A-Za-z]+\s+){{0,2}}(?:{'|'.join(_TABLE['headings'].split())})\b[\s:=]*\S", re.IGNORECASE
)
_KEYED = re.compile(r"([A-Za-z][\w. -]{0,30}?)\s*[:=]\s*(\S.{0,60})")
_MEASURE = re.compile(r"[-+]?\d+(?:[.,]\d+|\s?(?:[numk]?s|sec|seconds|min|minutes|h|hours|%|[KMGT]i?B)\b)")
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_NOISE = re.compile(
    "|".join(
        (
            r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?\S*)?",
            r"\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\b",
            r"\b\d{4}/\d\d/\d\d\b",
            rf"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\b,?(?:\s+(?:\d{{1,2}}|\d{{4}}|{_MONTHS})\b[a-z]*)*",
            r"\b(?:AM|PM|UTC|GMT|CES?T)\b",
            r"\b\d+m\d+(?:[.,]\d+)?s\b|\b\d+[.,]\d+ ?(?:[mnu]?s|sec|seconds|%|[KMG]i?B/s)(?!\w)",
            rf"\b(?:{'|'.join(_TABLE['run_words'].split())})s?[\s:#=_.-]*(?:id|no\.?|number)?[\s:#=_.-]*\d+"
            r"(?:\s*(?:/|of)\s*\d+)?\b",
            r"\b(?:node|nid|cn|host|login)[-_]?\d+[\w.-]*|\bhosts?[\s:=]+\S+",
            r"[^\s=,;]+\.(?:log|out|err|txt|csv|dat|json)\b",
        )
    ),
    re.IGNORECASE,
)
"""Dates, times, durations, numbers of runs and jobs, hosts, files of output."""


def plainly(text: str) -> str:
    """A text without what differs between repeats: dates, times, numbers of runs and jobs, hosts, files."""
    return " ".join(_NOISE.sub(" ", text).split()).strip(" ,;:")


@dataclass(slots=True)
class _State:
    """The context at a line of a log."""

    variables: dict[str, str] = field(default_factory=dict)  # Exported ones, until they are unset.
    modules: dict[str, str] = field(default_factory=dict)  # Name without version → as it was loaded.
    launch: dict[str, str] = field(default_factory=dict)  # Of the last launch line.
    titles: dict[str, str] = field(default_factory=dict)  # Lines like `Algorithm: ring`, by what they name.
    headings: dict[int, str] = field(default_factory=dict)  # Level → text.

    def read(self, line: str) -> bool:
        """Take what a line says, and say whether it was understood."""
        text = line.strip()
        if heading := _heading(text):
            self.begin(*heading)
            return plainly(heading[1]) != ""  # a file's name may say something
        if self._command(text):
            return True
        if (keyed := _KEYED.fullmatch(text)) and not text.startswith(("#", "-")):
            variable = _PLAIN_VARIABLE.fullmatch(keyed[1])
            name = keyed[1] if variable else "_".join(keyed[1].lower().split())
            if _is_aside(name) or _MEASURE.match(keyed[2]):
                return True
            if _TITLED.match(text) or variable:
                self.titles[name] = keyed[2].strip("'\"")
                return True
        elif _TITLED.match(text) and len(text) <= 60 and not text.endswith((".", "...")):
            self.headings[9] = text
            return True
        return False

    def begin(self, level: int, heading: str) -> None:
        """A heading ends those of its level and below, and what was said by titles."""
        if not plainly(heading) or heading.strip("# ").isdecimal():  # the number of a run
            return
        self.headings = {at: its for at, its in self.headings.items() if at < level} | {level: heading}
        self.titles = {}

    def _command(self, text: str) -> bool:
        parts = commands(_PROMPT.sub("", text)) if _may_be_command(text) else []
        understood = False
        for words in parts:
            understood |= self._run(words)
        return understood

    def _run(self, words: Sequence[str]) -> bool:
        """One command of a shell."""
        at = next((i for i in reversed(range(len(words))) if is_launcher(words, i)), None)
        if at is not None:
            return self._launch(words, at)
        if quoted := next((word for word in words if " " in word and is_command(word)), ""):
            return self._command(quoted)  # `sh -c "mpirun …"`
        if not words:
            return False
        if words[0] in ("export", "declare", "setenv", "unset", "unsetenv"):
            return self._variable(words[0], words[1:])
        if words[0] in (*_MODULE, "source", ".", "conda"):
            return self._module(words)
        assigned = [_ASSIGNMENT.fullmatch(word) for word in words]
        if all(its and _PLAIN_VARIABLE.fullmatch(its[1]) for its in assigned):
            return self._variable("export", words)
        return False

    def _variable(self, verb: str, words: Sequence[str]) -> bool:
        pairs = [_ASSIGNMENT.fullmatch(word) for word in words]
        if verb.startswith("unset"):
            for word in words:
                self.variables.pop(_parameter(word), None)
        elif verb == "setenv" and len(words) == 2:
            self.variables[_parameter(words[0])] = words[1]
        else:
            self.variables |= {_parameter(its[1]): its[2] for its in pairs if its}
        return True

    def _module(self, words: Sequence[str]) -> bool:
        if words[0] in ("source", ".", "conda"):
            self.modules[words[0]] = " ".join(words[1:])
            return len(words) > 1
        verb, *names = [word for word in words[1:] if not word.startswith("--")] or [""]
        if verb == "purge":
            self.modules = {}
        elif verb in ("unload", "rm", "del", "remove"):
            for name in names:
                self.modules.pop(name.partition("/")[0].partition("@")[0], None)
        elif verb in ("load", "add", "switch", "swap", "use") or (words[0] == "ml" and verb):
            names = names if verb in ("load", "add", "switch", "swap", "use") else [verb, *names]
            if verb in ("switch", "swap") and len(names) == 2:
                self.modules.pop(names.pop(0).partition("/")[0], None)
            self.modules |= {name.partition("/")[0].partition("@")[0]: name for name in names}
        else:
            return False
        return True

    def _launch(self, words: Sequence[str], at: int) -> bool:
        launcher = LAUNCHERS[words[at].rpartition("/")[2]]
        launch = {"launcher": words[at]} if "/" in words[at] else {}
        launch |= _assigned(words[:at])
        rest = words[behind(words, at) :]
        if not rest or not (rest[0].startswith("-") or re.search(r"[/_\-.\d=]", rest[0])):
            return False  # prose about a launcher
        runs = []
        for part in programs(rest):
            for name, values in launcher.options(part):
                launch |= _option(launcher, name, list(values.values()))
            program = launcher.program(part)
            launch |= _assigned(program)
            runs.append(" ".join(word for word in program if not _ASSIGNMENT.fullmatch(word)))
        self.launch = launch | {"command": " : ".join(runs)}
        return True

    def context(self) -> tuple[tuple[str, str], ...]:
        """All of it by name, what the launch line says first of a name."""
        named = self.titles | self.variables | self.launch
        named = {name: value for name, value in named.items() if not _is_aside(name)}
        if self.modules:
            named["modules"] = " ".join(self.modules.values())
        if self.headings:
            named["heading"] = " / ".join(self.headings[level] for level in sorted(self.headings))
        return tuple(sorted(named.items()))


def _may_be_command(text: str) -> bool:
    return is_command(text) or _VERB.match(_PROMPT.sub("", text)) is not None


def _heading(text: str) -> tuple[int, str] | None:
    """Level and words of a line that is marked as a heading."""
    if len(text) > _HEADING:
        return None
    if its := _MARKDOWN.fullmatch(text):
        return len(its[1]), its[2]
    if (its := _MARKED.fullmatch(text)) and (words := its[1] or its[2] or its[3]):
        return 8, words.strip(" :")
    return None


def _is_aside(name: str) -> bool:
    return name.lower() in _NAMES_ASIDE or name.upper().startswith(_VARIABLES_ASIDE)


def _first(text: str) -> str:
    """The first word of a line."""
    return re.match(r"\w*", text)[0]  # type: ignore[index]  # it matches anything


def _parameter(name: str) -> str:
    """A variable's name; an MCA parameter has one, however it is set."""
    return re.sub("^(?:OMPI|PMIX|PRTE)_MCA_", "", name)


def _assigned(words: Iterable[str]) -> dict[str, str]:
    return {_parameter(its[1]): its[2] for word in words if (its := _ASSIGNMENT.fullmatch(word))}


def _option(words: LauncherWords, name: str, values: Sequence[str]) -> dict[str, str]:
    """Value of an option of a launcher, by the name of the parameter, the variable or the option."""
    if name in words.parameters and len(values) == 2:
        return {values[0]: values[1]}
    if name in words.env or (name in words.pairs and "=" in values[0]):
        return _assigned(values[0].split(",")) if "=" in values[0] else {}
    if name in words.pairs and len(values) == 2:
        return {_parameter(values[0]): values[1]}
    if name in words.lists:
        return _assigned(values[0].split(","))
    return {} if name in _OPTIONS_ASIDE else {name: " ".join(values) or "yes"}


class _Before(NamedTuple):
    """The context of a table."""

    context: tuple[tuple[str, str], ...]
    unread: str


def with_contexts(
    log: Log, rows: Sequence[BenchmarkRow], of_benchmark: re.Pattern[str]
) -> list[BenchmarkRow]:
    """Rows of a log with what stands before their tables, and what of it nobody understands.

    Lines that match ``of_benchmark`` are what the benchmark prints itself.
    """
    own = {row.line for row in rows if row.source == log.name}
    before: dict[int, _Before] = {}
    state, unread, held = _State(), list[str](), _Before((), "")
    fresh = True  # Whether another table than that of the last row begins.
    last, above = (
        "",
        "",
    )  # The line before, where a rule below it makes it a heading, and the one before that.
    for number, line in _joined(log):
        text = line[:_LONGEST].strip()
        if number in own:
            if fresh:
                held, unread, fresh = _Before(state.context(), "\n".join(unread)), [], False
            before[number] = held
        elif _UNDERLINE.fullmatch(text) or (_BOX.fullmatch(text) and _BOX.fullmatch(above)):
            if last:
                state.begin(7, last.strip("#*| "))
                if unread and unread[-1] == last:
                    unread.pop()
        elif text and not state.read(text):
            fresh |= text.startswith(("#", "Collective:"))
            words = not (_RULE.fullmatch(text) or of_benchmark.match(text))
            if words and not text.startswith("[") and not _is_aside(_first(text)):
                unread.append(text)
            above, last = last or above, text if words else ""
            above = text if _RULE.fullmatch(text) else above if words else ""
            continue
        above, last = text if _RULE.fullmatch(text) else "", ""
    return [
        replace(row, context=before[row.line].context, unread=before[row.line].unread)
        if row.source == log.name and row.line in before
        else row
        for row in rows
    ]


def _joined(log: Log) -> Iterator[tuple[int, str]]:
    """Numbered lines; those that end in a backslash with what they go on in, under the first one's number."""
    whole, begin = "", 0
    for number, line in enumerate(log.lines, 1):
        begin = begin or number
        if line.endswith("\\") and len(whole) < _LONGEST:
            whole += line[:-1] + " "
            continue
        yield begin, whole + line
        whole, begin = "", 0


def told_apart(rows: Sequence[BenchmarkRow]) -> tuple[list[BenchmarkRow], list[str]]:
    """Rows with labels for what differs between tables that are alike in all else, and words on what may.

    The words name tables with unlike text between them that nobody reads, so that whether they are repeats
    is not known.
    """
    alike: dict[object, list[BenchmarkRow]] = defaultdict(list)
    for row in rows:
        alike[_call(row)].append(row)
    telling: dict[str, set[str]] = defaultdict(set)
    for group in alike.values():
        contexts = [dict(row.context) for row in group]
        names = set().union(*contexts) if len({row.context for row in group}) > 1 else set()
        for name in names:
            if len({plainly(context.get(name, "")) for context in contexts}) > 1:
                telling[group[0].collective].add(name)
    labelled = [_labelled(row, telling[row.collective]) for row in rows]
    return labelled, list(_words(labelled))


def _labelled(row: BenchmarkRow, names: set[str]) -> BenchmarkRow:
    labels = {name for name, _ in row.labels}
    told = ((name, plainly(value)) for name, value in row.context if name in names - labels)
    new = tuple((name, value) for name, value in told if value)
    return replace(row, labels=row.labels + new) if new else row


def _words(rows: Sequence[BenchmarkRow]) -> Iterator[str]:
    """A sentence for each operation and number of ranks with tables that may or may not be repeats."""
    bare = {text: _bare(text) for text in {row.unread for row in rows}}
    alike: dict[object, list[BenchmarkRow]] = defaultdict(list)
    for row in rows:
        alike[_call(row)].append(row)
    most: dict[tuple[str, int | None], list[BenchmarkRow]] = {}
    for group in alike.values():
        if len({bare[row.unread] for row in group}) > 1:
            of = group[0].collective, group[0].comm_size
            most[of] = max(most.get(of, []), group, key=len)
    for (collective, ranks), group in most.items():
        what = f"{collective or 'tables'} on {ranks or 'unknown'} ranks"
        text = next(line for row in reversed(group) for line in row.unread.splitlines() if _bare(line))
        yield (
            f"{group[0].source}: {len(group)} tables of {what} differ in nothing that is read, and "
            f"count as repeats; between them stands for example {text[:60]!r}"
        )


def _bare(text: str) -> str:
    """A text as ``plainly`` has it, without lines that are a number or nothing then; of files the words."""
    named = (_FILE.sub(lambda its: re.sub(r"\d+", "", its[1]), line) for line in text.splitlines())
    lines = [plainly(line) for line in named]
    return "\n".join(line for line in lines if line and not line.strip("#: ").isdecimal())


def _call(row: BenchmarkRow) -> tuple[object, ...]:
    """The common part of repeats of a row; figures among the labels are none of it."""
    labels = tuple(its for its in row.labels if not re.fullmatch(r"\d*\.\d+", its[1]))
    return (row.collective, row.comm_size, row.message_bytes, labels)
