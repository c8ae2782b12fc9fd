"""Merge the rules of all jobs of a site into one table; a rule is an algorithm for a range of message sizes.

The table changes only calls that were measured and, with ``site.predicted=true``, calls that were predicted.
For some collectives, ``one_row``, a table can have only one rule, for all message sizes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from autotune.history.lookup import last_up_to, size_reach
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Recommendation
from autotune.site.abstention import Decision
from autotune.site.transfer import DEFAULT, Shape
from autotune.space import Point
from autotune.stacks import han


def predicted_rules(
    decided: Iterable[Decision], choices: Mapping[str, Point], one_row: Iterable[str], aside: bool = False
) -> dict[Shape, tuple[Rule, ...]]:
    """Return the rules of jobs that were not measured, from the decisions at every message size.

    The keys are shapes (collective, nodes, ranks per node) with a message size of 0, because each rule states
    its own message sizes.

    Args:
        decided: The decisions at every message size of these jobs.
        choices: Maps the name of each choice to its per-size values.
        one_row: These collectives get a rule only if the decisions at all sizes agree.
        aside: Whether the measured settings disable Open MPI's component ``coll_han``. Each rule then makes
            ``coll_han`` pass the call on to another component.
    """
    jobs: dict[Shape, list[Decision]] = {}
    for decision in sorted(decided, key=lambda decision: decision.shape):
        shape = decision.shape
        jobs.setdefault(Shape(shape.collective, shape.nodes, shape.ppn, 0), []).append(decision)
    tables: dict[Shape, tuple[Rule, ...]] = {}
    for job, decisions in jobs.items():
        points = [choices[one.choice] if one.choice != DEFAULT else Point() for one in decisions]
        sizes = [decision.shape.message_bytes for decision in decisions]
        if job.collective in one_row:
            pairs = [(0, points[0] if len(set(points)) == 1 else Point())]
        else:
            low, beyond = size_reach(sizes)
            pairs = [*zip([low, *sizes[1:]], points, strict=True), (beyond, Point())]
        rows = [Rule(job.collective, job.ranks, start, point) for start, point in pairs]
        tables[job] = _without_repeats([han.handed_over(row) if aside and row.sets else row for row in rows])
    return tables


def merged_rules(tables: Sequence[Sequence[Rule]], one_row: Iterable[str] = ()) -> tuple[Rule, ...]:
    """Merge the rules of several jobs for one collective and communicator size.

    At message sizes where the jobs' rules differ, the choice is left to the library, because rules do not
    distinguish 32 ranks on four nodes from 32 ranks on one. For collectives in ``one_row``, all rules are
    dropped if the jobs differ at any message size.
    """
    rows = [rule for table in tables for rule in table]
    if not rows:
        return ()
    merged = []
    for start in sorted({0, *(rule.min_bytes for rule in rows)}):
        choices = {
            last_up_to({rule.min_bytes: rule.choice for rule in table}, start) or Point() for table in tables
        }
        choice = choices.pop() if len(choices) == 1 else Point()
        merged.append(Rule(rows[0].collective, rows[0].comm_size, start, choice))
    if rows[0].collective in one_row and not all(rule.sets for rule in merged):
        return ()
    return _without_repeats(merged)


def by_rules(recommendation: Recommendation) -> bool:
    """Return whether rules alone can express a recommendation.

    The result is True if the recommendation sets nothing for the whole job, or only the priority of
    ``coll_han``. Any other job-wide setting would also change the calls that were not measured.
    """
    source = recommendation.provenance
    job_wide = {name for name, _ in source.env} - {name for name, _ in source.both_sides}
    return job_wide <= {han.PRIORITY} and not source.placement and not source.boot


def sets_han_aside(recommendation: Recommendation) -> bool:
    """Return whether a recommendation disables Open MPI's component ``coll_han`` for the whole job."""
    return (han.PRIORITY, "0") in recommendation.provenance.env


def handing_over(recommendation: Recommendation, one_row: Collection[str]) -> Recommendation:
    """Return a recommendation that disables ``coll_han`` only for the measured calls, by means of rules.

    By these rules ``coll_han`` passes the measured calls on to another component and serves all others.
    """
    tables: dict[tuple[str, int], tuple[list[int], list[Rule]]] = {}
    for collective, ranks, size in (gain.slot for gain in recommendation.gains):
        tables.setdefault((collective, ranks), ([], []))[0].append(size)
    for rule in recommendation.rules:
        tables.setdefault((rule.collective, rule.comm_size), ([], []))[1].append(rule)
    rules: list[Rule] = []
    for (collective, ranks), (sizes, table) in tables.items():
        rules += _handed_over(table, collective, ranks, sizes, one_row)
    env = tuple(pair for pair in recommendation.provenance.env if pair[0] != han.PRIORITY)
    ordered = tuple(sorted(rules, key=lambda rule: (rule.collective, rule.comm_size, rule.min_bytes)))
    return replace(recommendation, rules=ordered, provenance=replace(recommendation.provenance, env=env))


def _handed_over(
    table: Sequence[Rule], collective: str, ranks: int, sizes: Collection[int], one_row: Collection[str]
) -> list[Rule]:
    """Return rules of one collective and communicator size by which ``coll_han`` passes the calls on.

    The rules apply to message sizes close to the measured ones; all other sizes are left to the library.
    """
    if collective in one_row or not sizes:
        return [han.handed_over(rule) for rule in table or [Rule(collective, ranks, 0, Point())]]
    low, beyond = size_reach(sizes)
    first = [r for r in table if r.min_bytes <= low][-1:] or [Rule(collective, ranks, low, Point())]
    within = [replace(first[0], min_bytes=low), *(r for r in table if low < r.min_bytes < beyond)]
    return [*map(han.handed_over, within), Rule(collective, ranks, beyond, Point())]


def exact(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules with empty tables added, so that each rule applies to its own communicator size alone.

    In a rules file a table also applies to larger communicators, up to the size of the next table. Empty
    tables for one rank fewer and for one rank more leave all other communicators to the library.
    """
    tables: dict[str, dict[int, list[Rule]]] = {}
    for rule in rules:
        tables.setdefault(rule.collective, {}).setdefault(rule.comm_size, []).append(rule)
    for collective, by_size in tables.items():
        neighbours = {ranks + step for ranks in by_size for step in (-1, 1)} - by_size.keys()
        for ranks in sorted(neighbours - {1}):
            by_size[ranks] = [Rule(collective, ranks, 0, Point())]
    ordered = (by_size[ranks] for _, by_size in sorted(tables.items()) for ranks in sorted(by_size))
    return tuple(rule for table in ordered for rule in table)


def _without_repeats(rows: Sequence[Rule]) -> tuple[Rule, ...]:
    """Drop rows that repeat the choice of the row before them; return no rows if none sets anything."""
    rules: list[Rule] = []
    for row in rows:
        if row.choice != (rules[-1].choice if rules else Point()):
            rules.append(row)
    return tuple(rules)
