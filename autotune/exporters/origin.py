"""Write the comment that begins every exported file and says where its numbers come from (step 12).

Only this module writes and reads these comments. Notation: a *remark* is one line of such a comment, without
the comment sign.
"""

import re
from collections.abc import Sequence

from autotune.errors import printable
from autotune.exporters.launch_line import placed
from autotune.recommend.recommendation import Recommendation
from autotune.resources.secret import environment_without_secrets
from autotune.stacks.cleared import clearance_of

UNTRIED = "FORMAT CHECKED, NEVER RUN HERE: written after the library's sources and documents"
"""Remark in files for libraries that were never run here."""

_SIGNATURE = "autotune: "
_NODES = re.compile(r"^[^\w\n]*stack: .*; (\d+) nodes?, \d+ ranks\r?$", re.MULTILINE)
_STACK = re.compile(r"^[^\w\n]*stack: Open MPI (\d[\w.]*)", re.MULTILINE)
_VERIFIED = re.compile(r"^[^\w\n]*((?:\S+: )*verified: .*?)\r?$", re.MULTILINE)


def remarks(recommendation: Recommendation) -> tuple[str, ...]:
    """Return the lines (remarks) that say how the numbers of a recommendation were measured."""
    source = recommendation.provenance
    stamp = (source.stamp,) if source.stamp else ()
    place = (f"measured with {word}, which belongs on the command line" for word in placed(recommendation))
    boot = (f"measured with {n}={v}, a precondition: firmware, no file sets it" for n, v in source.boot)
    common = environment_without_secrets(dict(source.both_sides))
    common_remarks = (f"measured with {n}={v} on both sides, not part of this" for n, v in common.items())
    parts = (
        f"{', '.join(f'{collective} on {ranks} ranks' for collective, ranks in part.tables) or 'no rule'}: "
        f"from {part.campaign}, {_nodes(part.nodes)}, last launch {part.date}"
        for part in source.parts
    )
    return (
        f"{_SIGNATURE}campaign {source.campaign or '(unnamed)'}, last launch {source.date or '(undated)'}",
        f"stack: {source.stack or 'unknown'}; {_nodes(source.nodes)}, {source.ranks} ranks",
        *stamp,
        source.verified,
        *_any_nodes(recommendation),
        *parts,
        *place,
        *boot,
        *common_remarks,
        *_commuting(recommendation),
    )


def _commuting(recommendation: Recommendation) -> list[str]:
    clearance = clearance_of(recommendation.provenance.stack)
    pairs = ((rule.collective, str(rule.choice.get("algorithm", ""))) for rule in recommendation.rules)
    wrong = dict.fromkeys(pair for pair in pairs if clearance and clearance.commuting_alone(*pair))
    listed = ", ".join(" ".join(pair) for pair in wrong)
    warning = "operations=commutative: wrong for operations of users that do not commute (MPI_Op_create)"
    return [f"{warning}: {listed}"] if wrong else []


def _any_nodes(recommendation: Recommendation) -> list[str]:
    source = recommendation.provenance
    if not source.ranks or not any(rule.sets for rule in recommendation.rules):
        return []
    numbers = sorted({part.nodes for part in source.parts} or {source.nodes})
    return [f"rules know ranks, not nodes: measured on {', '.join(map(_nodes, numbers))}, they hold on all"]


def _nodes(number: int) -> str:
    return f"{number} node{'s' * (number != 1)}"


def commented(lines: Sequence[str], sign: str = "#") -> list[str]:
    """Return lines as comments.

    A line that contains line breaks becomes several comments, and control sequences of terminals are escaped.
    """
    return [f"{sign} {printable(part)}".rstrip() for line in lines for part in (line.splitlines() or [""])]


def untried(text: str) -> bool:
    """Return whether an exported file contains the remark that its format was never tried here."""
    return UNTRIED in text


def is_ours(text: str) -> bool:
    """Return whether a file begins with the remarks of this program."""
    return text.startswith(f"# {_SIGNATURE}")


def verified_in(text: str) -> str:
    """Return the verdict of the verification that an exported file mentions; empty if it mentions none."""
    match = _VERIFIED.search(text)
    return match[1] if match else ""


def other_version(text: str, version: str) -> str:
    """Return a sentence if a file's numbers are not from this version of Open MPI; else an empty text."""
    match = _STACK.search(text)
    if match is None or match[1] == version:
        return ""
    return (
        f"measured on Open MPI {match[1]}, and {version} is here: ids and defaults differ (see guard check)"
    )


def nodes_of(text: str) -> int | None:
    """Return the number of nodes on which a file's numbers were measured; None if the file does not say."""
    match = _NODES.search(text)
    return int(match[1]) if match else None
