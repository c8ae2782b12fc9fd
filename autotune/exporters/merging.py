"""Several recommendations as one: other collectives, other communicator sizes (before step 12).

A job has one environment, so what is merged must have been measured in the same one.
"""

from collections.abc import Sequence
from dataclasses import replace

from autotune.errors import UserError
from autotune.recommend.front import Recommendation
from autotune.space import Point


def merged(recommendations: Sequence[Recommendation]) -> Recommendation:
    """One recommendation with the rules of all.

    Raises:
        UserError: none is given, they were measured in different environments or on different stacks, or two
            have rules for the same collective on the same communicator size.
    """
    if not recommendations:
        raise UserError("nothing to merge", "name at least one campaign")
    first, *others = recommendations
    if not others:
        return first
    for other in others:
        _check_same(first, other)
    owners: dict[tuple[str, int], str] = {}
    for one in recommendations:
        for key in dict.fromkeys((rule.collective, rule.comm_size) for rule in one.rules):
            if key in owners:
                raise UserError(
                    f"{owners[key]} and {one.provenance.campaign} both have rules for "
                    f"{key[0]} on {key[1]} ranks",
                    "leave one of them out",
                )
            owners[key] = one.provenance.campaign
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
        verified=each if len(verified) > 1 else next(iter(verified)),
    )
    gains = tuple(gain for one in recommendations for gain in one.gains)
    return Recommendation(Point.of(first.point), tuple(rules), gains, provenance)


def _check_same(first: Recommendation, other: Recommendation) -> None:
    ours, theirs = first.provenance, other.provenance
    if ours.stack != theirs.stack:
        raise UserError(
            f"{ours.campaign} was measured on {ours.stack!r}, {theirs.campaign} on {theirs.stack!r}",
            "ids and defaults differ between versions: export them separately",
        )
    mine = dict([*ours.env, *ours.placement])
    yours = dict([*theirs.env, *theirs.placement])
    differing = [
        f"{name}: {mine.get(name, '(unset)')} and {yours.get(name, '(unset)')}"
        for name in sorted(mine.keys() | yours.keys())
        if mine.get(name) != yours.get(name)
    ]
    if differing:
        raise UserError(
            f"{ours.campaign} and {theirs.campaign} recommend different job-wide values "
            f"({'; '.join(differing)})",
            "a job has one environment: repeat one campaign with the other's values fixed (fix.NAME=VALUE)",
        )
