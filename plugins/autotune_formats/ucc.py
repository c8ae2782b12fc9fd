"""Export the configuration file ``ucc.conf`` of UCC, and check such files.

Open MPI's component ``coll_ucc`` passes calls to UCC. Rules choose UCC's algorithms by the per-size values
``ucc_algorithm`` and ``ucc_radix``; the names that rules for ``coll_tuned`` use belong to another component.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations, pairwise
from pathlib import Path, PurePath

from autotune.errors import UserError
from autotune.exporters.launch_line import mpirun, stated
from autotune.exporters.origin import UNTRIED, commented, remarks
from autotune.exporters.settings import job_wide
from autotune.history.lookup import last_up_to, table_starts
from autotune.history.trial import Rule
from autotune.lint.assignment import Assignment
from autotune.lint.finding import Finding
from autotune.lint.traps import Traps
from autotune.recommend.recommendation import Recommendation
from autotune.stacks.asked import Answer, Asked
from autotune.stacks.tables import tables
from autotune_formats import ucc_grammar as ucc

UCC_FILE = "ucc.conf"  # Name of the exported file.

ALGORITHM, RADIX = "ucc_algorithm", "ucc_radix"
"""Names of the per-size values in a rule that choose UCC's algorithm and its radix."""

_ANY_SIZE = 2**31 - 1  # Upper bound of the last range of team sizes, since such a range must have one.
_PREFIX = "UCC_TL_UCP_"
_SCORE = 10
"""Default score of tl/ucp, UCC's layer over UCP (``UCC_TL_UCP_DEFAULT_SCORE``).

Of all algorithms for a call, UCC uses the one with the highest score."""


class UccConf:
    """Export score maps (which choose algorithms) and radices by team size, and UCC's other variables."""

    name = "ucc_conf"
    summary = f"{UCC_FILE}: score maps, radices and variables of UCC; format checked, never run"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """Return a mapping from the name of the file to its text.

        Raises:
            UserError: no rule is for UCC, UCC lacks an algorithm of a rule, or there are rules by size for a
                collective whose message sizes UCC does not know.
        """
        tuned = {rule.collective for rule in recommendation.rules if ALGORITHM in rule.choice}
        rules = [rule for rule in recommendation.rules if rule.collective in tuned]
        if not rules and any(rule.choice for rule in recommendation.rules):
            hint = f"per-size values: {ALGORITHM}, {RADIX}"
            raise UserError("no rule of this recommendation is for UCC", hint)
        job = {n: v for n, v in recommendation.provenance.env if n.startswith("UCC_")}
        parts = [[f"{name}={value}" for name, value in job.items()]]
        parts += [[head, *lines] for head, lines in _sections(recommendation, rules).items()]
        totals = (c.name for c in ucc.COLLECTIVES.values() if c.counts is ucc.Counts.TOTAL)
        top = [
            *remarks(recommendation),
            UNTRIED,
            f"sizes of {', '.join(totals)} are those of all ranks together",
            "",
            f"use: {self.use(recommendation, directory)}",
            "what the environment sets wins, variable by variable; UCC_COLL_TRACE=INFO prints what runs",
        ]
        return {UCC_FILE: "\n".join([*commented(top), *(line for part in parts for line in part)]) + "\n"}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return the command line with the file, Open MPI's component ``coll_ucc`` and job-wide settings."""
        mca, other_env = job_wide(recommendation)
        set_here = [*other_env, *(name for rule in recommendation.rules for name in rule.choice)]
        uses_ucc = any(name.lower().startswith("ucc_") for name in set_here)
        enabling = {"coll_ucc_enable": "1", "coll_ucc_priority": "100"} if uses_ucc else {}
        remaining_env = {name: value for name, value in other_env.items() if not name.startswith("UCC_")}
        file = {"UCC_CONFIG_FILE": str(directory.absolute() / UCC_FILE)}
        return mpirun(recommendation, stated({**enabling, **mca}, {**remaining_env, **file}))


def _sections(recommendation: Recommendation, rules: Sequence[Rule]) -> dict[str, list[str]]:
    """Return a mapping from the head of each section to its lines.

    The sections are for ranges of team sizes (numbers of ranks) that do not overlap, since UCC searches the
    sections in no particular order.
    """
    by_collective = tables(rules)
    starts = {name: table_starts(sorted(by_size)) for name, by_size in by_collective.items()}
    bounds = sorted({start for team_starts in starts.values() for start in team_starts})
    sections: dict[str, list[str]] = {}
    for low, next_start in pairwise([*bounds, _ANY_SIZE + 1]):
        owners = {name: last_up_to(team_starts, low) or 0 for name, team_starts in starts.items()}
        spans = [
            (name, *span) for name, owner in owners.items() if owner
            for span in _spans(name, owner, by_collective[name][owner])
        ]  # fmt: skip
        if spans:
            head = _head(recommendation, low, next_start - 1, {owners[span[0]] for span in spans})
            sections[head] = _lines(spans)
    return sections


def _lines(spans: Sequence[tuple[str, int, int | None, Rule]]) -> list[str]:
    """Return the score map and the radices for spans (collective, first size, end of sizes, rule)."""
    scores: list[str] = []
    radices: dict[str, list[str]] = {}
    for collective, low, high, rule in spans:
        algorithm = ucc.check(collective, str(rule.choice[ALGORITHM]))
        span = _span(collective, low, high)
        scores.append(":".join(filter(None, [ucc.COLLECTIVES[collective].name, span, f"@{algorithm}"])))
        if RADIX not in rule.choice:
            continue
        radix, variable = str(rule.choice[RADIX]), ucc.COLLECTIVES[collective].radix.get(algorithm, "")
        if not variable or not radix.isdecimal():
            why = f"{algorithm} of {collective} takes no radix {radix!r} in UCC"
            raise UserError(why, f"leave {RADIX} out")
        value = f"{span}:host:{radix}" if span and variable in ucc.RANGED else radix
        if variable not in ucc.RANGED and radices.get(variable, [value]) != [value]:
            raise UserError(f"{variable} is one number for all sizes", "the rules ask for several")
        listed = radices.setdefault(variable, [])
        listed += [value] if value not in listed else []
    lines = [f"{ucc.TUNE}={'#'.join(scores)}"]
    return lines + [f"{_PREFIX}{name}={','.join(values)}" for name, values in radices.items()]


def _spans(collective: str, comm_size: int, table: Sequence[Rule]) -> list[tuple[int, int | None, Rule]]:
    """Return (first size, end of sizes or None, rule) for each UCC algorithm, in bytes as UCC counts them."""
    factor = comm_size if ucc.of(collective).counts is ucc.Counts.TOTAL else 1
    ends = [rule.min_bytes * factor for rule in table[1:]]
    spans = zip(table, [*ends, None], strict=True)
    return [(rule.min_bytes * factor, end, rule) for rule, end in spans if ALGORITHM in rule.choice]


def _span(collective: str, low: int, high: int | None) -> str:
    if low == 0 and high is None:
        return ""
    if ucc.COLLECTIVES[collective].counts is ucc.Counts.NOTHING:
        raise UserError(f"UCC takes no size rules for {collective}", "one algorithm for all sizes, or none")
    return f"{low}-{'inf' if high is None else high}"


def _head(recommendation: Recommendation, low: int, high: int, owners: Collection[int]) -> str:
    """Return the head of a section for team sizes from ``low`` to ``high``.

    The head has conditions on nodes too if all communicators of its rules (``owners`` has their sizes)
    consisted of all ranks of the job, on nodes with equally many ranks.
    """
    source = recommendation.provenance
    conditions = [f"team_size={_between(low, high)}"]
    ppn, uneven = divmod(source.ranks, source.nodes or 1)
    if set(owners) == {source.ranks} and not uneven and not source.parts:
        conditions += [f"ppn={ppn}"] if source.nodes > 1 else []
        nodes = (-(-low // ppn), -(-high // ppn)) if source.nodes > 1 else (1, 1)
        conditions.append(f"nnodes={_between(*nodes)}")
    return f"[{' '.join(conditions)}]"


def _between(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


class UccTraps(Traps):
    """Check ``ucc.conf``, and score maps in any file or environment."""

    prefixes = ("UCC_",)

    def reads(self, path: PurePath, first: str) -> bool:
        """Whether a file is a ``ucc.conf``, by its name or because it begins with a variable or a head."""
        begins = re.match(rf"UCC_\w+=|\[({'|'.join(ucc.KEYS)})=", first)
        return path.name == "ucc.conf" or bool(begins)

    def file(self, path: PurePath, text: str) -> list[Finding]:
        """Return the findings in a ``ucc.conf``."""
        try:
            parts = ucc.sections(text)
        except UserError as exc:
            line, _, effect = exc.message.partition(": ")
            return [
                Finding(path, int(line), "MPI621", f"{effect}: UCC warns, and goes on without it", exc.hint)
            ]
        lines = text.splitlines()
        findings = []
        for part in parts:
            for name, value in part.values.items():
                numbered = enumerate(lines[part.line :], part.line + 1)
                at = next((n for n, content in numbered if content.startswith(name)), 0)
                if part.line and not name.startswith(_PREFIX):
                    effect = f"a section holds for {_PREFIX}* alone: {name} is ignored in it"
                    findings.append(Finding(path, at, "MPI622", effect, "write it above all sections"))
                findings += self.variable(Assignment(path, at, name, value, variable=True))
        for first, second in combinations(parts[1:], 2):
            twice = first.values.keys() & second.values.keys()
            if twice and first.meets(second):
                effect = f"there are teams for which the section of line {first.line} holds too"
                why = f"which of the two sets {min(twice)} is not defined"
                findings.append(
                    Finding(path, second.line, "MPI623", f"{effect}: {why}", "ranges that do not overlap")
                )
        return findings

    def environment(self, text: str) -> dict[str, str]:
        """Return the variables that are set before the first section; these apply to all teams."""
        head = re.split(r"^\[", text, maxsplit=1, flags=re.MULTILINE)[0]
        pairs = (line.strip().partition("=") for line in head.splitlines())
        return {name.strip(): value.strip() for name, _, value in pairs if name.startswith("UCC_")}

    def variable(self, a: Assignment) -> Iterator[Finding]:
        """Yield findings on the assignment of a variable, if its value is a score map."""
        if not (a.name.startswith("UCC_") and a.name.endswith("_TUNE") and a.literal):
            return
        try:
            listed = ucc.tokens(a.value)
        except UserError as exc:
            yield a.finding(
                "MPI624", f"{exc.message}: UCC refuses the map, and the layer does not start", exc.hint
            )
            return
        for token in listed:
            if not (token.score or token.algorithm):
                effect = "an entry without score and algorithm changes nothing"
                yield a.finding("MPI625", effect, "a score, or @algorithm")
            if a.name == ucc.TUNE and not ucc.known_algorithm(token):
                collectives = (c for c in ucc.COLLECTIVES.values() if c.name in token.collectives)
                names = "; ".join(f"{c.name}: {', '.join(c.algorithms)}" for c in collectives)
                effect = f"{','.join(token.collectives)} has no algorithm {token.algorithm!r}"
                yield a.finding("MPI624", f"{effect}: UCC refuses the map", names)
            for name in ucc.without_sizes(token):
                effect = f"UCC does not know the sizes of {name}: they count as 0, whatever they are"
                yield a.finding("MPI625", effect, "leave the range out")

    def explained(self, path: PurePath, text: str, call: Asked) -> Answer | None:
        """Return the algorithm that a file selects for a call: that of the matching entry with the top score.

        Raises:
            UserError: UCC would refuse a line or a score map.
        """
        answer = Answer(call.collective, component="tl/ucp of UCC, where coll_ucc is enabled and comes first")
        if call.collective not in ucc.COLLECTIVES:
            return answer
        collective = ucc.COLLECTIVES[call.collective]
        others = {ucc.Counts.TOTAL: call.total_bytes, ucc.Counts.NOTHING: 0}
        nbytes = others.get(collective.counts, call.nbytes)
        answer.why.append(f"UCC compares {collective.counts.value}: {nbytes}")
        teams = {"team_size": call.ranks, "ppn": call.ppn or call.ranks, "nnodes": call.nodes}
        parts = [part for part in ucc.sections(text) if ucc.TUNE in part.values and part.holds(teams)]
        for part in parts[-1:]:
            numbered = list(enumerate(text.splitlines(), 1))[part.line :]
            line = next(n for n, content in numbered if content.startswith(ucc.TUNE))
            listed = ucc.tokens(part.values[ucc.TUNE])
            if reached := [t for t in listed if t.reaches(collective.name, nbytes, call.ranks)]:
                best = max(reversed(reached), key=lambda token: float(token.score or _SCORE))
                answer.line, answer.algorithm = line, best.algorithm
                holds = f"the entry with @{best.algorithm} holds, score {best.score or _SCORE}"
                answer.why.append(f"{path}:{line}: {holds}")
        return answer

    def together(
        self, last: Mapping[str, Assignment], texts: Collection[str], own: Sequence[str]
    ) -> Iterator[Finding]:
        """Yield findings on environment variables that some section of a ``ucc.conf`` also sets."""
        in_file: set[str] = set()
        for text in own:
            with suppress(UserError):
                in_file.update(name for part in ucc.sections(text) for name in part.values)
        for name in sorted(last.keys() & in_file):
            effect = f"{name} is in ucc.conf too: the environment wins, in each of its sections"
            yield last[name].finding("MPI626", effect, "keep one of them")
