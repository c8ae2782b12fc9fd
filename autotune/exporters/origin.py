"""The head of every file: where the numbers come from, written and read here alone (step 12 of the flow).

Notation: a *remark* is one line of comment without the sign that makes it one.
"""

import re
from collections.abc import Sequence

from autotune.errors import printable
from autotune.exporters.launch_line import placed
from autotune.recommend.recommendation import Recommendation
from autotune.resources.secret import environment_without_secrets
from autotune.stacks.cleared import clearance_of

UNTRIED = "FORMAT CHECKED, NEVER RUN HERE: written after the library's sources and documents"
"""Remark in files of libraries that never ran here."""

_OURS = "autotune: "
_PLACE = re.compile(r"^[^\w\n]*stack: .*; (\d+) nodes?, \d+ ranks\r?$", re.MULTILINE)

_STACK = re.compile(r"^[^\w\n]*stack: Open MPI (\d[\w.]*)", re.MULTILINE)

_VERIFIED = re.compile(r"^[^\w\n]*((?:\S+: )*verified: .*?)\r?$", re.MULTILINE)


def remarks(recommendation: Recommendation) -> tuple[str, ...]:
    """Where the numbers come from."""
    source = recommendation.provenance
    stamp = (source.stamp,) if source.stamp else ()
    place = (f"measured with {word}, which belongs on the command line" for word in placed(recommendation))
    boot = (f"measured with {n}={v}, a precondition: firmware, no file sets it" for n, v in source.boot)
    beside = environment_without_secrets(dict(source.both_sides))
    both = (f"measured with {n}={v} on both sides, not part of this" for n, v in beside.items())
    parts = (
        f"{', '.join(f'{collective} on {ranks} ranks' for collective, ranks in part.tables) or 'no rule'}: "
        f"from {part.campaign}, {_nodes(part.nodes)}, last launch {part.date}"
        for part in source.parts
    )
    return (
        f"{_OURS}campaign {source.campaign or '(unnamed)'}, last launch {source.date or '(undated)'}",
        f"stack: {source.stack or 'unknown'}; {_nodes(source.nodes)}, {source.ranks} ranks",
        *stamp,
        source.verified,
        *parts,
        *place,
        *boot,
        *both,
        *_commuting(recommendation),
    )


def _commuting(recommendation: Recommendation) -> list[str]:
    """The rules that are wrong for operations that do not commute."""
    known = clearance_of(recommendation.provenance.stack)
    named = ((rule.collective, str(rule.choice.get("algorithm", ""))) for rule in recommendation.rules)
    wrong = dict.fromkeys(pair for pair in named if known and known.commuting_alone(*pair))
    listed = ", ".join(" ".join(pair) for pair in wrong)
    return [f"wrong for operations of users that do not commute (MPI_Op_create): {listed}"] if wrong else []


def _nodes(number: int) -> str:
    return f"{number} node{'s' * (number != 1)}"


def commented(lines: Sequence[str], sign: str = "#") -> list[str]:
    """The lines as comments; what is more than one line stays a comment, and a terminal obeys none of it."""
    return [f"{sign} {printable(part)}".rstrip() for line in lines for part in (line.splitlines() or [""])]


def untried(text: str) -> bool:
    """Whether a file of ours says that no library here could read it."""
    return UNTRIED in text


def is_ours(text: str) -> bool:
    """Whether a file begins with our remarks."""
    return text.startswith(f"# {_OURS}")


def verified_in(text: str) -> str:
    """The verdict in a file of ours; empty: it was not verified, or is not ours."""
    said = _VERIFIED.search(text)
    return said[1] if said else ""


def other_version(text: str, here: str) -> str:
    """A sentence if a file of ours was measured on another Open MPI than the one here; else empty."""
    said = _STACK.search(text)
    if said is None or said[1] == here:
        return ""
    return f"measured on Open MPI {said[1]}, and {here} is here: ids and defaults differ (see guard check)"


def nodes_of(text: str) -> int | None:
    """The nodes that a file of ours was measured on; None where it does not say, or is not ours."""
    said = _PLACE.search(text)
    return int(said[1]) if said else None
