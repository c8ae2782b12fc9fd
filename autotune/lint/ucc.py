"""``ucc.conf``, and maps of scores wherever they are set."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import PurePath

from autotune.errors import UserError
from autotune.lint.assignment import Assignment
from autotune.lint.finding import Finding
from autotune.stacks import ucc

_TUNED = "UCC_TL_UCP_"


def ucc_file(path: PurePath, text: str) -> list[Finding]:
    """Findings in a ``ucc.conf``."""
    try:
        parts = ucc.sections(text)
    except UserError as exc:
        line, _, effect = exc.message.partition(": ")
        return [Finding(path, int(line), f"{effect}: UCC warns, and goes on without it", exc.hint)]
    lines = text.splitlines()
    findings = []
    for part in parts:
        for name, value in part.values.items():
            at = next(
                (n for n, said in enumerate(lines[part.line :], part.line + 1) if said.startswith(name)), 0
            )
            if part.line and not name.startswith(_TUNED):
                effect = f"a section holds for {_TUNED}* alone: {name} is ignored in it"
                findings.append(Finding(path, at, effect, "write it above all sections"))
            findings += score_map(Assignment(path, at, name, value, variable=True))
    for first, second in combinations(parts[1:], 2):
        twice = first.values.keys() & second.values.keys()
        if twice and first.meets(second):
            effect = f"there are teams for which the section of line {first.line} holds too"
            why = f"which of the two sets {min(twice)} is not defined"
            findings.append(Finding(path, second.line, f"{effect}: {why}", "ranges that do not overlap"))
    return findings


def score_map(a: Assignment) -> Iterator[Finding]:
    """What is wrong with one variable, if it holds a map of scores."""
    if not (a.name.startswith("UCC_") and a.name.endswith("_TUNE") and a.literal):
        return
    try:
        listed = ucc.tokens(a.value)
    except UserError as exc:
        yield a.finding(f"{exc.message}: UCC refuses the map, and the layer does not start", exc.hint)
        return
    for token in listed:
        if not (token.score or token.algorithm):
            yield a.finding("an entry without score and algorithm changes nothing", "a score, or @algorithm")
        if a.name == ucc.TUNE and not ucc.known_algorithm(token):
            names = "; ".join(
                f"{c.name}: {', '.join(c.algorithms)}" for c in ucc.COLLECTIVES.values()
                if c.name in token.collectives
            )  # fmt: skip
            effect = (
                f"{','.join(token.collectives)} has no algorithm {token.algorithm!r}: UCC refuses the map"
            )
            yield a.finding(effect, names)
        for name in ucc.without_sizes(token):
            effect = f"UCC cannot tell the sizes of {name}: they count as 0, whatever they are"
            yield a.finding(effect, "leave the range out")
