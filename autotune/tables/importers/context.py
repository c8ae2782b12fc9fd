"""Read the settings of a launch from the lines between the tables of a log, and find settings that differ.

Between its tables a log contains launch commands, variables, modules and headings. Tables with the same
operation, ranks, sizes and labels count as repeats only if these settings are also the same. Numbers of runs
and jobs, dates, hosts and file names are not compared.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autotune.history.benchmark_row import BenchmarkRow
from autotune.launch_command import (
    LAUNCHERS,
    LauncherWords,
    behind,
    commands,
    is_command,
    is_launcher,
    programs,
)
from autotune.resources import facts
from autotune.tables.importers.runlog import Log

_TABLE = facts("tables/importers/context")
_IGNORED_OPTIONS = frozenset(_TABLE["options_aside"].split())
_IGNORED_NAMES = frozenset(_TABLE["names_aside"].split())
_IGNORED_VARIABLES = tuple(_TABLE["variables_aside"].split())
_LONGEST = 4_000  # Number of characters of a line that are read; the rest of the line is ignored.
_LONGEST_HEADING = 200  # A line with more characters than this is not a heading.

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
"""Matches the parts of a text that are not compared: dates, times, durations, numbers of runs and jobs, hosts
and output files."""


def plainly(text: str) -> str:
    """Return a text without the parts that differ between repeats, such as dates and host names.

    ``_NOISE`` matches these parts.
    """
    return " ".join(_NOISE.sub(" ", text).split()).strip(" ,;:")


@dataclass(slots=True)
class _State:
    """The settings that are in effect at a line of a log; they are updated line by line."""

    variables: dict[str, str] = field(default_factory=dict)
    """Values of exported variables that were not unset."""
    modules: dict[str, str] = field(default_factory=dict)
    """Maps the name of each loaded module, without its version, to the name by which it was loaded."""
    launch: dict[str, str] = field(default_factory=dict)  # Settings in the most recent launch command.
    titles: dict[str, str] = field(default_factory=dict)
    """Names and values of lines such as `Algorithm: ring`."""
    headings: dict[int, str] = field(default_factory=dict)
    """Maps the level of each heading above the current line to its text."""

    def read(self, line: str) -> bool:
        """Update the settings by a line, and return whether the line is a command, a heading or a setting."""
        text = line.strip()
        if heading := _heading(text):
            self.begin(*heading)
            return plainly(heading[1]) != ""  # the name of a file may contain a setting that is not read
        if self._command(text):
            return True
        if (keyed := _KEYED.fullmatch(text)) and not text.startswith(("#", "-")):
            variable = _PLAIN_VARIABLE.fullmatch(keyed[1])
            name = keyed[1] if variable else "_".join(keyed[1].lower().split())
            if _is_ignored(name) or _MEASURE.match(keyed[2]):
                return True
            if _TITLED.match(text) or variable:
                self.titles[name] = keyed[2].strip("'\"")
                return True
        elif _TITLED.match(text) and len(text) <= 60 and not text.endswith((".", "...")):
            self.headings[9] = text
            return True
        return False

    def begin(self, level: int, heading: str) -> None:
        """Begin the part of a log that is below a heading.

        The settings in ``titles``, and all headings of the same level and of deeper levels, are removed.
        """
        if not plainly(heading) or heading.strip("# ").isdecimal():  # the heading is only the number of a run
            return
        self.headings = {depth: title for depth, title in self.headings.items() if depth < level} | {
            level: heading
        }
        self.titles = {}

    def _command(self, text: str) -> bool:
        parts = commands(_PROMPT.sub("", text)) if _may_be_command(text) else []
        understood = False
        for words in parts:
            understood |= self._run(words)
        return understood

    def _run(self, words: Sequence[str]) -> bool:
        """Update the settings by a shell command, and return whether the command is known."""
        position = next((i for i in reversed(range(len(words))) if is_launcher(words, i)), None)
        if position is not None:
            return self._launch(words, position)
        if quoted := next((word for word in words if " " in word and is_command(word)), ""):
            return self._command(quoted)  # for example `sh -c "mpirun …"`
        if not words:
            return False
        if words[0] in ("export", "declare", "setenv", "unset", "unsetenv"):
            return self._variable(words[0], words[1:])
        if words[0] in (*_MODULE, "source", ".", "conda"):
            return self._module(words)
        assignments = [_ASSIGNMENT.fullmatch(word) for word in words]
        if all(assignment and _PLAIN_VARIABLE.fullmatch(assignment[1]) for assignment in assignments):
            return self._variable("export", words)
        return False

    def _variable(self, verb: str, words: Sequence[str]) -> bool:
        if verb.startswith("unset"):
            for word in words:
                self.variables.pop(_parameter(word), None)
        elif verb == "setenv" and len(words) == 2:
            self.variables[_parameter(words[0])] = words[1]
        else:
            self.variables |= _assigned(words)
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

    def _launch(self, words: Sequence[str], position: int) -> bool:
        launcher = LAUNCHERS[words[position].rpartition("/")[2]]
        launch = {"launcher": words[position]} if "/" in words[position] else {}
        launch |= _assigned(words[:position])
        launched = words[behind(words, position) :]
        if not launched or not (launched[0].startswith("-") or re.search(r"[/_\-.\d=]", launched[0])):
            return False  # the text is a sentence that mentions a launcher
        runs = []
        for part in programs(launched):
            for name, values in launcher.options(part):
                launch |= _option(launcher, name, list(values.values()))
            program = launcher.program(part)
            launch |= _assigned(program)
            runs.append(" ".join(word for word in program if not _ASSIGNMENT.fullmatch(word)))
        self.launch = launch | {"command": " : ".join(runs)}
        return True

    def context(self) -> tuple[tuple[str, str], ...]:
        """Return all settings as (name, value), sorted by name; the launch command has precedence."""
        settings = self.titles | self.variables | self.launch
        settings = {name: value for name, value in settings.items() if not _is_ignored(name)}
        if self.modules:
            settings["modules"] = " ".join(self.modules.values())
        if self.headings:
            settings["heading"] = " / ".join(self.headings[level] for level in sorted(self.headings))
        return tuple(sorted(settings.items()))


def _may_be_command(text: str) -> bool:
    return is_command(text) or _VERB.match(_PROMPT.sub("", text)) is not None


def _heading(text: str) -> tuple[int, str] | None:
    """Return the level and the text of a line that has the form of a heading; None for any other line."""
    if len(text) > _LONGEST_HEADING:
        return None
    if match := _MARKDOWN.fullmatch(text):
        return len(match[1]), match[2]
    if (match := _MARKED.fullmatch(text)) and (words := match[1] or match[2] or match[3]):
        return 8, words.strip(" :")
    return None


def _is_ignored(name: str) -> bool:
    return name.lower() in _IGNORED_NAMES or name.upper().startswith(_IGNORED_VARIABLES)


def _parameter(name: str) -> str:
    """Return the name of a variable without the prefix that marks MCA parameters in the environment."""
    return re.sub("^(?:OMPI|PMIX|PRTE)_MCA_", "", name)


def _assigned(words: Iterable[str]) -> dict[str, str]:
    return {_parameter(match[1]): match[2] for word in words if (match := _ASSIGNMENT.fullmatch(word))}


def _option(words: LauncherWords, name: str, values: Sequence[str]) -> dict[str, str]:
    """Return the settings in a launcher's option, by the name of the parameter, variable or option."""
    if name in words.parameters and len(values) == 2:
        return {values[0]: values[1]}
    if name in words.env or (name in words.pairs and "=" in values[0]):
        return _assigned(values[0].split(",")) if "=" in values[0] else {}
    if name in words.pairs and len(values) == 2:
        return {_parameter(values[0]): values[1]}
    if name in words.lists:
        return _assigned(values[0].split(","))
    return {} if name in _IGNORED_OPTIONS else {name: " ".join(values) or "yes"}


def with_contexts(
    log: Log, rows: Sequence[BenchmarkRow], benchmark_output: re.Pattern[str]
) -> list[BenchmarkRow]:
    """Return the rows of a log, with the settings from the lines before their tables.

    Lines before a table that this module does not understand are added as ``BenchmarkRow.unread``.

    Args:
        log: The log that the rows were read from.
        rows: Rows of the log; rows from other files are returned unchanged.
        benchmark_output: Pattern of the lines that the benchmark prints itself.
    """
    row_lines = {row.line for row in rows if row.source == log.name}
    # Maps the number of each row's line to the fields that are added to the row.
    contexts: dict[int, dict[str, Any]] = {}
    state, unread, context = _State(), list[str](), dict[str, Any]()
    new_table = True  # Whether the next row begins a new table.
    # The previous line and the line before it. The previous line is a heading if the current line underlines
    # it.
    previous, second_previous = "", ""
    for number, line in _joined(log):
        text = line[:_LONGEST].strip()
        if number in row_lines:
            if new_table:
                context = {"context": state.context(), "unread": "\n".join(unread)}
                unread, new_table = [], False
            contexts[number] = context
        elif _UNDERLINE.fullmatch(text) or (_BOX.fullmatch(text) and _BOX.fullmatch(second_previous)):
            if previous:
                state.begin(7, previous.strip("#*| "))
                if unread and unread[-1] == previous:
                    unread.pop()
        elif text and not state.read(text):
            new_table |= text.startswith(("#", "Collective:"))
            is_text = not (_RULE.fullmatch(text) or benchmark_output.match(text))
            first_word = re.split(r"\W", text, maxsplit=1)[0]
            if is_text and not text.startswith("[") and not _is_ignored(first_word):
                unread.append(text)
            second_previous, previous = previous or second_previous, text if is_text else ""
            second_previous = text if _RULE.fullmatch(text) else second_previous if is_text else ""
            continue
        second_previous, previous = text if _RULE.fullmatch(text) else "", ""
    return [
        replace(row, **contexts[row.line]) if row.source == log.name and row.line in contexts else row
        for row in rows
    ]


def _joined(log: Log) -> Iterator[tuple[int, str]]:
    """Yield each line with its number; a line that ends in a backslash is joined with the next line."""
    joined, first_number = "", 0
    for number, line in enumerate(log.lines, 1):
        first_number = first_number or number
        if line.endswith("\\") and len(joined) < _LONGEST:
            joined += line[:-1] + " "
            continue
        yield first_number, joined + line
        joined, first_number = "", 0


def told_apart(rows: Sequence[BenchmarkRow]) -> tuple[list[BenchmarkRow], list[str]]:
    """Return the rows with labels for the settings that differ between otherwise identical tables.

    Returns:
        The rows, and sentences about tables that count as repeats but may differ in a setting, because the
        text before them differs and this module does not understand it.
    """
    distinguishing: dict[str, set[str]] = defaultdict(set)
    for group in _repeats(rows):
        contexts = [dict(row.context) for row in group]
        names = set().union(*contexts) if len({row.context for row in group}) > 1 else set()
        for name in names:
            if len({plainly(context.get(name, "")) for context in contexts}) > 1:
                distinguishing[group[0].collective].add(name)
    labelled = [_labelled(row, distinguishing[row.collective]) for row in rows]
    return labelled, list(_doubtful_repeats(labelled))


def _labelled(row: BenchmarkRow, names: set[str]) -> BenchmarkRow:
    labels = {name for name, _ in row.labels}
    pairs = ((name, plainly(value)) for name, value in row.context if name in names - labels)
    added = tuple((name, value) for name, value in pairs if value)
    return replace(row, labels=row.labels + added) if added else row


def _doubtful_repeats(rows: Sequence[BenchmarkRow]) -> Iterator[str]:
    """Yield a sentence for each operation and number of ranks whose tables may not be repeats."""
    bare = {text: _without_figures(text) for text in {row.unread for row in rows}}
    largest: dict[tuple[str, int | None], list[BenchmarkRow]] = {}
    for group in _repeats(rows):
        if len({bare[row.unread] for row in group}) > 1:
            key = group[0].collective, group[0].comm_size
            largest[key] = max(largest.get(key, []), group, key=len)
    for (collective, ranks), group in largest.items():
        tables = f"{collective or 'tables'} on {ranks or 'unknown'} ranks"
        lines = (line for row in reversed(group) for line in row.unread.splitlines())
        text = next(filter(_without_figures, lines))
        yield (
            f"{group[0].source}: {len(group)} tables of {tables} differ in nothing that is read, and "
            f"count as repeats; between them stands for example {text[:60]!r}"
        )


def _without_figures(text: str) -> str:
    """Return the result of ``plainly`` without numbers.

    Numeric lines are left out, and the digits and endings of file names are removed.
    """
    stripped = (_FILE.sub(lambda match: re.sub(r"\d+", "", match[1]), line) for line in text.splitlines())
    lines = [plainly(line) for line in stripped]
    return "\n".join(line for line in lines if line and not line.strip("#: ").isdecimal())


def _repeats(rows: Iterable[BenchmarkRow]) -> Iterable[list[BenchmarkRow]]:
    """Return the rows in groups of repeats; labels whose values are decimal numbers are not compared."""
    groups: dict[object, list[BenchmarkRow]] = defaultdict(list)
    for row in rows:
        labels = tuple(label for label in row.labels if not re.fullmatch(r"\d*\.\d+", label[1]))
        groups[row.collective, row.comm_size, row.message_bytes, labels].append(row)
    return groups.values()
