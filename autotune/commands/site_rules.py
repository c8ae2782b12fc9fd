"""The rules of all jobs of a site as one table: it changes measured and predicted calls, and no others."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from autotune.history.lookup import last_up_to, size_reach
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Part, Recommendation
from autotune.scenario.whole_site import Job
from autotune.site import DEFAULT, Decision, Shape
from autotune.space import Point
from autotune.stacks import han


def together(
    collectives: Iterable[str],
    jobs: Mapping[Job, Recommendation],
    within: Mapping[Job, Iterable[int]],
    predicted: Mapping[Shape, Sequence[Rule]],
    one_row: Collection[str],
) -> tuple[Rule, ...]:
    """The rules on which all jobs agree.

    Args:
        collectives: of the site.
        jobs: what each measured job recommends.
        within: further communicator sizes that it measured.
        predicted: rules of jobs that were not measured.
        one_row: as in ``agreed``.
    """
    tables: dict[tuple[str, int], list[Sequence[Rule]]] = {}
    for job, one in jobs.items():
        sizes = {job[0] * job[1], *within[job], *(rule.comm_size for rule in one.rules)}
        for key in product(collectives, sizes):
            own = [rule for rule in one.rules if (rule.collective, rule.comm_size) == key]
            tables.setdefault(key, []).append(own)
    for shape, rules in predicted.items():
        tables.setdefault((shape.collective, shape.ranks), []).append(rules)
    return tuple(rule for _, several in sorted(tables.items()) for rule in agreed(several, one_row))


def predicted_rules(
    decided: Iterable[Decision], choices: Mapping[str, Point], one_row: Iterable[str], aside: bool = False
) -> dict[Shape, tuple[Rule, ...]]:
    """Rules of jobs that were not measured, by their shape at no message size.

    Args:
        decided: at every message size of these jobs.
        choices: what the names of choices mean.
        one_row: collectives whose table cannot separate sizes: they get a row where all sizes agree.
        aside: whether they hold where ``coll_han`` does not serve the call.
    """
    jobs: dict[Shape, list[Decision]] = {}
    for made in sorted(decided, key=lambda one: one.shape):
        shape = made.shape
        jobs.setdefault(Shape(shape.collective, shape.nodes, shape.ppn, 0), []).append(made)
    tables: dict[Shape, tuple[Rule, ...]] = {}
    for job, mine in jobs.items():
        points = [choices[one.choice] if one.choice != DEFAULT else Point() for one in mine]
        sizes = [one.shape.message_bytes for one in mine]
        if job.collective in one_row:
            points = points if len(set(points)) == 1 else [Point()] * len(points)
            rows = [Rule(job.collective, job.ranks, 0, points[0])]
        else:
            low, beyond = size_reach(sizes)
            starts = [low, *sizes[1:]]
            rows = [Rule(job.collective, job.ranks, at, p) for at, p in zip(starts, points, strict=True)]
            rows.append(Rule(job.collective, job.ranks, beyond, Point()))
        tables[job] = _short([han.handed_over(row) if aside and row.sets else row for row in rows])
    return tables


def agreed(tables: Sequence[Sequence[Rule]], one_row: Iterable[str] = ()) -> tuple[Rule, ...]:
    """Merge the rules of one collective and communicator size: where jobs differ the library decides.

    Rules know no nodes: 32 ranks are four nodes' or one's. Of a collective in ``one_row`` a table holds as a
    whole, or not at all.
    """
    rows = [rule for table in tables for rule in table]
    if not rows:
        return ()
    merged = []
    for start in sorted({0, *(rule.min_bytes for rule in rows)}):
        said = {last_up_to({r.min_bytes: r.choice for r in table}, start) or Point() for table in tables}
        choice = said.pop() if len(said) == 1 else Point()
        merged.append(Rule(rows[0].collective, rows[0].comm_size, start, choice))
    if rows[0].collective in one_row and not all(rule.sets for rule in merged):
        return ()
    return _short(merged)


def by_rules(one: Recommendation) -> bool:
    """Whether rules can say all that a recommendation sets: what is job-wide changes every call of a job."""
    source = one.provenance
    job_wide = {name for name, _ in source.env} - {name for name, _ in source.both_sides}
    return job_wide <= {han.PRIORITY} and not source.placement and not source.boot


def sets_han_aside(one: Recommendation) -> bool:
    """Whether a recommendation takes all collectives of a job from ``coll_han``."""
    return (han.PRIORITY, "0") in one.provenance.env


def handing_over(one: Recommendation, one_row: Collection[str]) -> Recommendation:
    """The same without ``coll_han`` set aside: by rules it passes on what was measured, and serves the rest.

    Of a collective in ``one_row`` a table has a single row.
    """
    measured: dict[tuple[str, int], list[int]] = {}
    for collective, ranks, size in (gain.slot for gain in one.gains):
        measured.setdefault((collective, ranks), []).append(size)
    rules: list[Rule] = []
    for collective, ranks in dict.fromkeys([*measured, *((r.collective, r.comm_size) for r in one.rules)]):
        table = [r for r in one.rules if (r.collective, r.comm_size) == (collective, ranks)]
        rules += _handed_over(table, collective, ranks, measured.get((collective, ranks), ()), one_row)
    env = tuple(pair for pair in one.provenance.env if pair[0] != han.PRIORITY)
    ordered = tuple(sorted(rules, key=lambda r: (r.collective, r.comm_size, r.min_bytes)))
    return replace(one, rules=ordered, provenance=replace(one.provenance, env=env))


def _handed_over(
    table: Sequence[Rule], collective: str, ranks: int, sizes: Collection[int], one_row: Collection[str]
) -> list[Rule]:
    """One table, within the reach of the sizes that were measured."""
    if collective in one_row or not sizes:
        return [han.handed_over(rule) for rule in table or [Rule(collective, ranks, 0, Point())]]
    low, beyond = size_reach(sizes)
    first = [r for r in table if r.min_bytes <= low][-1:] or [Rule(collective, ranks, low, Point())]
    within = [replace(first[0], min_bytes=low), *(r for r in table if low < r.min_bytes < beyond)]
    return [*map(han.handed_over, within), Rule(collective, ranks, beyond, Point())]


def exact(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Rules that hold for the communicator sizes of their tables alone: next to each the library decides.

    A table of files holds for smaller and larger communicators too, up to the next one.
    """
    tables: dict[str, dict[int, list[Rule]]] = {}
    for rule in rules:
        tables.setdefault(rule.collective, {}).setdefault(rule.comm_size, []).append(rule)
    for collective, by_size in tables.items():
        beside = {ranks + step for ranks in by_size for step in (-1, 1)} - by_size.keys()
        for ranks in sorted(beside - {1}):
            by_size[ranks] = [Rule(collective, ranks, 0, Point())]
    return tuple(
        rule
        for _, by_size in sorted(tables.items())
        for _, table in sorted(by_size.items())
        for rule in table
    )


def _short(rows: Sequence[Rule]) -> tuple[Rule, ...]:
    """Without rows that say what the one before them does; nothing where none sets anything."""
    kept: list[Rule] = []
    for row in rows:
        if row.choice != (kept[-1].choice if kept else Point()):
            kept.append(row)
    return tuple(kept)


def part(one: Recommendation) -> Part:
    """The campaign of a recommendation, for a merged one."""
    tables = dict.fromkeys((rule.collective, rule.comm_size) for rule in one.rules)
    return Part(one.provenance.campaign, one.provenance.date, one.provenance.nodes, tuple(tables))
