"""Join recommendations for different collectives or communicator sizes into one (before step 12 of the flow).

A job has one environment, so recommendations can be joined only if they were measured in the same
environment.
"""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from autotune.errors import UserError
from autotune.recommend.recommendation import Part, Recommendation
from autotune.space import Point

Pairs = Sequence[tuple[str, str]]  # Names with their values.


def merged(recommendations: Sequence[Recommendation], names: Sequence[object] = ()) -> Recommendation:
    """Return a recommendation with the rules of all given ones; messages call these by their ``names``.

    Raises:
        UserError: There is no recommendation; the recommendations were measured in different environments or
            on different MPIs; or two contain rules for the same collective and communicator size.
    """
    if not recommendations:
        raise UserError("nothing to merge", "name at least one campaign")
    labels = [str(n) for n in names] or [r.provenance.campaign for r in recommendations]
    first, *further = recommendations
    if not further:
        return first
    for other, name in zip(further, labels[1:], strict=True):
        _check_same(first, other, labels[0], name)
    owners: dict[tuple[str, int], str] = {}
    for recommendation, name in zip(recommendations, labels, strict=True):
        for key in dict.fromkeys((rule.collective, rule.comm_size) for rule in recommendation.rules):
            if key in owners:
                raise UserError(
                    f"{owners[key]} and {name} both have rules for {key[0]} on {key[1]} ranks",
                    "leave one of them out",
                )
            owners[key] = name
    rules = sorted(
        (rule for recommendation in recommendations for rule in recommendation.rules),
        key=lambda r: (r.collective, r.comm_size, r.min_bytes),
    )
    sources = [recommendation.provenance for recommendation in recommendations]
    verified = dict.fromkeys(s.verified for s in sources)
    each = "; ".join(f"{s.campaign}: {s.verified}" for s in sources)
    provenance = replace(
        first.provenance,
        campaign=" + ".join(dict.fromkeys(s.campaign for s in sources)),
        date=max(s.date for s in sources),
        nodes=max(s.nodes for s in sources),
        ranks=max(s.ranks for s in sources),
        commutative=any(s.commutative for s in sources),
        stamp="; ".join(dict.fromkeys(s.stamp for s in sources if s.stamp)),
        checked=next((s.checked for s in sources if not s.checked.done), first.provenance.checked),
        parts=tuple(_part(recommendation) for recommendation in recommendations),
        verified=each if len(verified) > 1 else next(iter(verified)),
        verdict=(),
        ending=(),
    )
    gains = tuple(gain for r in recommendations for gain in r.gains)
    calls = tuple(call for r in recommendations for call in r.others)
    return Recommendation(Point.of(first.point), tuple(rules), gains, provenance, others=calls)


def _part(recommendation: Recommendation) -> Part:
    source = recommendation.provenance
    tables = dict.fromkeys((rule.collective, rule.comm_size) for rule in recommendation.rules)
    return Part(source.campaign, source.date, source.nodes, tuple(tables))


def _check_same(first: Recommendation, second: Recommendation, first_name: str, second_name: str) -> None:
    first_source, second_source = first.provenance, second.provenance
    if first_source.stack != second_source.stack:
        raise UserError(
            f"{first_name} was measured on {first_source.stack!r}, {second_name} on {second_source.stack!r}",
            "ids and defaults differ between versions: export them separately",
        )
    if firmware := _differences(first_source.boot, second_source.boot):
        raise UserError(
            f"{first_name} and {second_name} were measured with different firmware ({firmware})",
            "a node has one: export them separately, or repeat one campaign on the other's",
        )
    if values := _differences(
        (*first_source.env, *first_source.placement), (*second_source.env, *second_source.placement)
    ):
        raise UserError(
            f"{first_name} and {second_name} recommend different job-wide values ({values})",
            "a job has one environment: repeat one campaign with the other's values fixed, "
            f"which are verified like any: {_fixing(first) or 'none'} for {second_name}, "
            f"or {_fixing(second) or 'none'} for {first_name}",
        )
    if values := _differences(first_source.both_sides, second_source.both_sides):
        raise UserError(
            f"{first_name} and {second_name} were measured under different variables ({values})",
            "a job has one environment: repeat one campaign with the other's mpi.mca and mpi.env",
        )


def _differences(first: Pairs, second: Pairs) -> str:
    first_values, second_values = dict(first), dict(second)
    return "; ".join(
        f"{name}: {first_values.get(name, '(unset)')} and {second_values.get(name, '(unset)')}"
        for name in sorted(first_values.keys() | second_values.keys())
        if first_values.get(name) != second_values.get(name)
    )


def _fixing(recommendation: Recommendation) -> str:
    """Return the words of a command line that fix the values of a setting; values with a comma are quoted."""
    words = (
        f"fix.{name}='{value}'" if "," in str(value) else f"fix.{name}={value}"
        for name, value in recommendation.point.items()
    )
    return " ".join(f'"{word}"' if "'" in word else shlex.quote(word) for word in words)
