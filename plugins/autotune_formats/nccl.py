"""The table of NCCL's and RCCL's example tuner: its words, the format, and what is wrong with anybody's.

Read in the sources of NCCL (June 2026: ``plugins/tuner/example``, ``src/enqueue.cc``), never run here. A row:
``collective,min,max,algorithm,protocol,channels,nNodes,nRanks[,numPipeOps[,regBuff]]``, bounds inclusive; the
first row that matches wins. What is misspelt is taken for something else, in silence.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from autotune.collectives import COLLECTIVES as _TABLE
from autotune.collectives import Size
from autotune.errors import UserError, allowed
from autotune.exporters.launch_line import PROGRAM
from autotune.exporters.origin import UNTRIED, commented, remarks
from autotune.exporters.settings import EVERYWHERE, check_family, everywhere
from autotune.history.trial import Rule
from autotune.lint.assignment import Assignment
from autotune.lint.finding import Finding
from autotune.lint.traps import Traps
from autotune.recommend.recommendation import Recommendation

TABLE_FILE = "nccl_tuner.conf"  # Name of the table: the plugin looks for it in the working directory too.

COLLECTIVES: Mapping[str, str] = {c.name: c.nccl for c in _TABLE.values() if c.nccl}
"""MPI's name → NCCL's; the plugin knows no others."""

TOTAL = frozenset(c.nccl for c in _TABLE.values() if c.nccl and c.size is Size.BLOCK)
"""NCCL's operations whose sizes are those of all ranks together."""

ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")
LARGEST = 2**64 - 1
"""Sizes are 64 bits wide: 4294967295, which the documentation takes for all, ends below 4 GiB."""

_DIGITS = 30  # More than any size has.

LONGEST_LINE = 255  # Bytes; what is longer goes on as a line of its own.


@dataclass(frozen=True, slots=True)
class TunerRow:
    """One row."""

    line: int  # Counted from 1.
    fields: tuple[str, ...]  # As they stand, without blanks around them.

    @property
    def collective(self) -> str:
        """NCCL's name."""
        return self.fields[0]

    @property
    def where(self) -> tuple[str, ...]:
        """All that it asks for beside the size: collective, nodes, ranks, operations, registration."""
        return (self.fields[0], *self.fields[6:], *("-1",) * (10 - len(self.fields)))

    def takes(self, where: tuple[str, ...]) -> bool:
        """Whether it is for all calls that another row's ``where`` asks for."""
        return all(mine in ("-1", theirs) for mine, theirs in zip(self.where, where, strict=True))

    @property
    def bounds(self) -> tuple[int, int]:
        """From and to, bytes, inclusive; what is no number counts as 0, as there."""
        low, high = (int(text[:_DIGITS]) if text.isdecimal() else 0 for text in self.fields[1:3])
        return low, high


def rows(text: str) -> Iterator[TunerRow]:
    """The rows of a table, whatever they hold."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line and not line.startswith("#"):
            yield TunerRow(number, tuple(field.strip() for field in line.split(",") if field))


_VALUES = {"algorithm": ALGORITHMS, "protocol": PROTOCOLS}


class NcclTuner:
    """Algorithm, protocol and channels by size, for the nodes and ranks that were measured."""

    name = "nccl"
    summary = f"{TABLE_FILE}: table of NCCL's and RCCL's example tuner plugin; format checked, never run"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The table; without any row where there are no rules.

        Raises:
            UserError: measured on an MPI, a word that the plugin would take for another, or sizes left out.
        """
        check_family(recommendation, "nccl")
        by_collective: dict[tuple[str, int], list[Rule]] = {}
        for rule in everywhere(recommendation):
            by_collective.setdefault((rule.collective, rule.comm_size), []).append(rule)
        lines = [
            line for where, rules in by_collective.items() for line in _rows(*where, rules, recommendation)
        ]
        head = [
            *remarks(recommendation),
            UNTRIED,
            EVERYWHERE,
            "sizes of allgather and reducescatter are those of all ranks together",
            "",
            f"use: {self.use(recommendation, directory)}",
            "collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks",
        ]
        return {TABLE_FILE: "\n".join([*_short(commented(head)), *lines]) + "\n"}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By the plugin, which its user builds."""
        path = directory.absolute() / TABLE_FILE
        return f"NCCL_TUNER_PLUGIN=…/libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE={path} {PROGRAM}"


def _rows(collective: str, comm_size: int, rules: list[Rule], recommendation: Recommendation) -> list[str]:
    """The rows of one collective and communicator size; every size has one."""
    if collective not in COLLECTIVES:
        raise UserError(f"the tuner has no {collective}", allowed(collective, COLLECTIVES))
    name = COLLECTIVES[collective]
    factor = comm_size if name in TOTAL else 1
    if rules[0].min_bytes or not all("algorithm" in rule.choice for rule in rules):
        raise UserError(
            f"{collective} on {comm_size} ranks has sizes without an algorithm",
            "where no row matches the plugin leaves NCCL one channel: measure all sizes from 0 on",
        )
    source = recommendation.provenance
    nodes = source.nodes if comm_size == source.ranks and not source.parts else -1
    made = []
    for rule, after in zip(rules, [*rules[1:], None], strict=True):
        words = {key: str(rule.choice.get(key, "simple")) for key in _VALUES}
        for key, known in _VALUES.items():
            if words[key] not in known:
                raise UserError(f"the tuner knows no {key} {words[key]!r}", allowed(words[key], known))
        channels = str(rule.choice.get("channels", -1))
        if not channels.removeprefix("-").isdecimal():
            raise UserError(f"channels={channels!r} is no number", "a number of channels, or -1")
        end = after.min_bytes * factor - 1 if after else LARGEST
        fields = (name, rule.min_bytes * factor, end, *words.values(), channels, nodes, comm_size)
        made.append(",".join(map(str, fields)))
    return made


def _short(lines: list[str]) -> list[str]:
    """Comments in lines that the plugin reads whole: the rest of a longer one would be a row."""
    most = LONGEST_LINE - 4
    made = []
    for line in lines:
        while len(line.encode()) > most:
            cut = len(line.encode()[:most].decode(errors="ignore"))
            made.append(line[:cut])
            line = f"# {line[cut:]}"
        made.append(line)
    return made


_WORDS = (
    (0, "collective", tuple(COLLECTIVES.values()), "allreduce"),
    (3, "algorithm", ALGORITHMS, "ring"),
    (4, "protocol", PROTOCOLS, "simple"),
)
"""Field, what it holds, what is known, and for what any other word is taken."""

_ROW = re.compile(rf"({'|'.join(COLLECTIVES.values())}) *, *\d+ *, *\d+ *, *\w+ *, *\w+ *, *-?\d+ *,")


class NcclTraps(Traps):
    """Such tables, and the variables that name one."""

    prefixes = ("NCCL_",)

    def reads(self, path: PurePath, first: str) -> bool:
        """By its name or its first row."""
        return path.name == TABLE_FILE or bool(_ROW.match(first))

    def file(self, path: PurePath, text: str) -> list[Finding]:
        """Findings in a table."""
        findings = [
            Finding(path, n, f"only {LONGEST_LINE} bytes of a line are read: the rest is a line", "shorter")
            for n, line in enumerate(text.splitlines(), start=1)
            if len(line.encode()) > LONGEST_LINE - 1
        ]
        sound: list[TunerRow] = []
        for row in rows(text):
            if row.fields[0] == "collective_type":
                continue
            if not 8 <= len(row.fields) <= 10:
                effect = f"{len(row.fields)} fields: the row is skipped in silence"
                findings.append(Finding(path, row.line, effect, "8 to 10 fields"))
                continue
            for at, what, known, taken in _WORDS:
                if row.fields[at] not in known:
                    effect = f"{what} {row.fields[at]!r} is not known: it is taken for {taken}"
                    findings.append(Finding(path, row.line, effect, ", ".join(known)))
            sound.append(row)
        for where in dict.fromkeys(row.where for row in sound):
            findings += _gaps(path, where, [row for row in sound if row.takes(where)])
        for number, row in enumerate(sound):
            before = next((r for r in sound[:number] if r.takes(row.where) and _holds(r, row)), None)
            if before:
                effect = f"the row of line {before.line} is for all of its calls too, and first: never used"
                findings.append(Finding(path, row.line, effect, "order them, without overlaps"))
        return findings

    def together(
        self, last: Mapping[str, Assignment], texts: Collection[str], own: Sequence[str]
    ) -> Iterator[Finding]:
        """A table that nothing reads."""
        if "NCCL_TUNER_CONFIG_FILE" in last and "NCCL_TUNER_PLUGIN" not in last:
            effect = "NCCL itself reads no table: without a plugin it is ignored"
            yield last["NCCL_TUNER_CONFIG_FILE"].finding(effect, "add NCCL_TUNER_PLUGIN")


def _gaps(path: PurePath, where: tuple[str, ...], rows: list[TunerRow]) -> Iterator[Finding]:
    """Sizes that no row is for, of those that take all calls of one kind."""
    kind = f"{where[0]} on {where[2]} ranks of {where[1]} nodes".replace("-1", "any")
    otherwise = "the plugin leaves NCCL one channel (its documentation: ring and simple)"
    first = next(row for row in rows if row.where == where)
    covered = 0
    for row in sorted(rows, key=lambda r: r.bounds):
        low, high = row.bounds
        if low > covered:
            effect = f"no row for {kind} from {covered} to {low - 1} bytes: {otherwise}"
            yield Finding(path, first.line, effect, "cover every size")
        covered = max(covered, high + 1)
    if covered <= LARGEST:
        effect = f"no row for {kind} from {covered} bytes on: {otherwise}"
        yield Finding(path, first.line, effect, f"end the last one at {LARGEST}")


def _holds(outer: TunerRow, inner: TunerRow) -> bool:
    return outer.bounds[0] <= inner.bounds[0] and inner.bounds[1] <= outer.bounds[1]
