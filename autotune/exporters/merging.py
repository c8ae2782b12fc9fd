"""Several recommendations as one: other collectives, other communicator sizes (before step 12).

A job has one environment, so what is merged must have been measured in the same one.
"""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from autotune.errors import UserError
from autotune.recommend.recommendation import Part, Recommendation
from autotune.space import Point

Pairs = Sequence[tuple[str, str]]  # Names with their values.


def merged(recommendations: Sequence[Recommendation], names: Sequence[object] = ()) -> Recommendation:
    """One recommendation with the rules of all; messages call them by ``names``, else by their campaigns'.

    Raises:
        UserError: none is given, they were measured in different environments or on different stacks, or two
            have rules for the same collective on the same communicator size.
    """
    if not recommendations:
        raise UserError("nothing to merge", "name at least one campaign")
    called = [str(n) for n in names] or [one.provenance.campaign for one in recommendations]
    first, *others = recommendations
    if not others:
        return first
    for other, name in zip(others, called[1:], strict=True):
        _check_same(first, other, called[0], name)
    owners: dict[tuple[str, int], str] = {}
    for one, name in zip(recommendations, called, strict=True):
        for key in dict.fromkeys((rule.collective, rule.comm_size) for rule in one.rules):
            if key in owners:
                raise UserError(
                    f"{owners[key]} and {name} both have rules for {key[0]} on {key[1]} ranks",
                    "leave one of them out",
                )
            owners[key] = name
    rules = sorted(
        (rule for one in recommendations for rule in one.rules),
        key=lambda r: (r.collective, r.comm_size, r.min_bytes),
    )
    sources = [one.provenance for one in recommendations]
    verified = dict.fromkeys(s.verified for s in sources)
    each = "; ".join(f"{s.campaign}: {s.verified}" for s in sources)
    provenance = replace(
        first.provenance,
        campaign=" + ".join(dict.fromkeys(s.campaign for s in sources)),
        date=max(s.date for s in sources),
        nodes=max(s.nodes for s in sources),
        ranks=max(s.ranks for s in sources),
        stamp="; ".join(dict.fromkeys(s.stamp for s in sources if s.stamp)),
        checked=next((s.checked for s in sources if not s.checked.done), first.provenance.checked),
        parts=tuple(_part(one) for one in recommendations),
        verified=each if len(verified) > 1 else next(iter(verified)),
    )
    gains = tuple(gain for one in recommendations for gain in one.gains)
    return Recommendation(Point.of(first.point), tuple(rules), gains, provenance)


def _part(one: Recommendation) -> Part:
    source = one.provenance
    tables = dict.fromkeys((rule.collective, rule.comm_size) for rule in one.rules)
    return Part(source.campaign, source.date, source.nodes, tuple(tables))


def _check_same(first: Recommendation, other: Recommendation, mine: str, yours: str) -> None:
    ours, theirs = first.provenance, other.provenance
    if ours.stack != theirs.stack:
        raise UserError(
            f"{mine} was measured on {ours.stack!r}, {yours} on {theirs.stack!r}",
            "ids and defaults differ between versions: export them separately",
        )
    if firmware := _differences(ours.boot, theirs.boot):
        raise UserError(
            f"{mine} and {yours} were measured with different firmware ({firmware})",
            "a node has one: export them separately, or repeat one campaign on the other's",
        )
    if values := _differences((*ours.env, *ours.placement), (*theirs.env, *theirs.placement)):
        raise UserError(
            f"{mine} and {yours} recommend different job-wide values ({values})",
            "a job has one environment: repeat one campaign with the other's values fixed, "
            f"which are verified like any: {_fixing(first) or 'none'} for {yours}, "
            f"or {_fixing(other) or 'none'} for {mine}",
        )
    if values := _differences(ours.both_sides, theirs.both_sides):
        raise UserError(
            f"{mine} and {yours} were measured under different variables ({values})",
            "a job has one environment: repeat one campaign with the other's mpi.mca and mpi.env",
        )


def _differences(ours: Pairs, theirs: Pairs) -> str:
    mine, yours = dict(ours), dict(theirs)
    return "; ".join(
        f"{name}: {mine.get(name, '(unset)')} and {yours.get(name, '(unset)')}"
        for name in sorted(mine.keys() | yours.keys())
        if mine.get(name) != yours.get(name)
    )


def _fixing(one: Recommendation) -> str:
    """The words of a command line that fix a setting; a value with a comma needs quotes of its own."""
    words = (
        f"fix.{name}='{value}'" if "," in str(value) else f"fix.{name}={value}"
        for name, value in one.point.items()
    )
    return " ".join(f'"{word}"' if "'" in word else shlex.quote(word) for word in words)
