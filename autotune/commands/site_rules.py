"""The rules of all jobs of a site as one table."""

from collections.abc import Iterable, Mapping, Sequence

from autotune.history.lookup import last_up_to, size_reach
from autotune.history.trial import Rule
from autotune.site import DEFAULT, Decision, Shape
from autotune.space import Point


def predicted_rules(
    decided: Iterable[Decision], choices: Mapping[str, Point], one_row: Iterable[str]
) -> dict[Shape, tuple[Rule, ...]]:
    """Rules of jobs that were not measured, by their shape at no message size.

    Args:
        decided: at every message size of these jobs.
        choices: what the names of choices mean.
        one_row: collectives whose table cannot separate sizes: they get a row where all sizes agree.
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
        tables[job] = _short(rows)
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


def _short(rows: Sequence[Rule]) -> tuple[Rule, ...]:
    """Without rows that say what the one before them does; nothing where none sets anything."""
    kept: list[Rule] = []
    for row in rows:
        if row.choice != (kept[-1].choice if kept else Point()):
            kept.append(row)
    return tuple(kept)
