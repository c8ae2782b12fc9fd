"""The head of every file: where the numbers come from, written and read here alone (step 12 of the flow).

Notation: a *remark* is one line of comment without the sign that makes it one.
"""

import re
from collections.abc import Sequence

from autotune.recommend.front import Recommendation

_OURS = "autotune: "
_PLACE = re.compile(r"^\W*stack: .*; (\d+) nodes?, \d+ ranks\r?$", re.MULTILINE)


def remarks(recommendation: Recommendation) -> tuple[str, ...]:
    """Where the numbers come from."""
    source = recommendation.provenance
    stamp = (source.stamp,) if source.stamp else ()
    place = tuple(
        f"measured with {option}, which belongs on the command line" for option in mapping(recommendation)
    )
    return (
        f"{_OURS}campaign {source.campaign or '(unnamed)'}, last launch {source.date or '(undated)'}",
        f"stack: {source.stack or 'unknown'}; "
        f"{source.nodes} node{'s' * (source.nodes != 1)}, {source.ranks} ranks",
        *stamp,
        source.verified,
        *place,
    )


def commented(lines: Sequence[str], sign: str = "#") -> list[str]:
    """The lines as comments; what is more than one line stays a comment."""
    return [f"{sign} {part}".rstrip() for line in lines for part in (line.splitlines() or [""])]


def mapping(recommendation: Recommendation) -> tuple[str, ...]:
    """The options of ``mpirun`` that place the ranks as they were placed when measured."""
    options = {"map_by": "--map-by", "bind_to": "--bind-to"}
    return tuple(f"{options[name]} {value}" for name, value in recommendation.provenance.placement if value)


def is_ours(text: str) -> bool:
    """Whether a file begins with our remarks."""
    return text.startswith(f"# {_OURS}")


def nodes_of(text: str) -> int | None:
    """The nodes that a file of ours was measured on; None where it does not say, or is not ours."""
    said = _PLACE.search(text)
    return int(said[1]) if said else None
