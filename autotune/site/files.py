"""Make the recommendation for the files that all jobs of a site have in common."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from autotune.errors import UserError
from autotune.history.trial import Rule
from autotune.recommend.other_calls import slower
from autotune.recommend.recommendation import Checked, Part, Recommendation
from autotune.scenario.whole_site import Job
from autotune.site.directory import SiteDirectory
from autotune.site.rules import exact, handing_over, merged_rules, predicted_rules, sets_han_aside
from autotune.site.transfer import DEFAULT, Shape
from autotune.space import Point
from autotune.stacks import dialect


def recommendation_of(site: SiteDirectory) -> Recommendation:
    """Return the recommendation for the common files: one set of rules for all measured jobs.

    With ``site.predicted=true`` the rules that are predicted for the other jobs are added.

    Raises:
        UserError: no job recommends anything yet, or the jobs ran on different versions of a stack.
    """
    if not site.recommended:
        raise UserError(f"{site.path} recommends nothing yet", "its first job has to be measured")
    stack_dialect, wishes = dialect(site.first.about.space.stack), site.wishes
    one_row = stack_dialect.one_row
    jobs = {job: by_setting[site.common] for job, by_setting in site.offered.items()}
    if aside := any(map(sets_han_aside, jobs.values())):
        jobs = {job: handing_over(part, one_row) for job, part in jobs.items()}
    parts = tuple(jobs.values())
    stacks = dict.fromkeys(part.provenance.stack for part in parts)
    if len(stacks) > 1:
        raise UserError(
            f"{site.path}: its jobs ran on {' and on '.join(stacks)}",
            "ids and defaults differ between versions: another campaign.dir for each",
        )
    # Rules do not distinguish numbers of nodes. So if one job has no rules, calls on its number of ranks are
    # left to the library in all jobs.
    unmeasured = predicted_rules(site.decided, site.choices, one_row, aside)
    unmeasured = unmeasured if wishes.predicted else dict.fromkeys(unmeasured, ())
    within = {job: site.campaigns[job].about.scenario.cluster.comm_sizes for job in jobs}
    rules = _common_rules(wishes.collectives, jobs, within, unmeasured, one_row)
    first = max(parts, key=lambda part: (len(part.provenance.env), any(r.sets for r in part.rules)))
    predicted = wishes.predicted and sum(decision.choice != DEFAULT for decision in site.decided)
    checked = [part.provenance.checked for part in parts]
    doubts, holds = [c for c in checked if not c.done], checked.count(Checked.HOLDS)
    text = f"{holds} of {len(parts)} jobs verified on fresh launches{_scopes(parts)}"
    provenance = replace(
        first.provenance,
        campaign="site",
        date=max(part.provenance.date for part in parts),
        nodes=max(job[0] for job in jobs),
        ranks=max(part.provenance.ranks for part in parts),
        commutative=any(part.provenance.commutative for part in parts),
        verified=f"UNVERIFIED: {predicted} predicted; {text}" if predicted else text,
        checked=Checked.UNFINISHED if predicted else next(iter(doubts), first.provenance.checked),
        parts=tuple(map(_part, parts)),
    )
    # If a job-wide setting disabled coll_han, the rules now have that effect, and the setting is left out.
    point = Point.of(site.first.about.space.untouched if aside else first.point)
    gains = tuple(gain for part in parts for gain in part.gains)
    return Recommendation(point, exact(rules) if stack_dialect.by_ranks else rules, gains, provenance)


def _common_rules(
    collectives: Iterable[str],
    jobs: Mapping[Job, Recommendation],
    within: Mapping[Job, Iterable[int]],
    predicted: Mapping[Shape, Sequence[Rule]],
    one_row: Collection[str],
) -> tuple[Rule, ...]:
    """Return the rules on which all jobs agree; ``within`` contains the smaller communicators of each job."""
    tables: dict[tuple[str, int], list[Sequence[Rule]]] = {}
    for job, recommendation in jobs.items():
        sizes = {job[0] * job[1], *within[job], *(rule.comm_size for rule in recommendation.rules)}
        for key in product(collectives, sizes):
            table = [rule for rule in recommendation.rules if (rule.collective, rule.comm_size) == key]
            tables.setdefault(key, []).append(table)
    for shape, rules in predicted.items():
        tables.setdefault((shape.collective, shape.ranks), []).append(rules)
    return tuple(rule for _, several in sorted(tables.items()) for rule in merged_rules(several, one_row))


def _part(recommendation: Recommendation) -> Part:
    """Return the campaign that a recommendation comes from, for the record in a merged recommendation."""
    tables = dict.fromkeys((rule.collective, rule.comm_size) for rule in recommendation.rules)
    source = recommendation.provenance
    return Part(source.campaign, source.date, source.nodes, tuple(tables))


def _scopes(parts: Iterable[Recommendation]) -> str:
    """Return a text, with a semicolon before each part, on the scope of settings that slow other calls."""
    names = dict.fromkeys(recommendation.scope for recommendation in parts if slower(recommendation.others))
    return "".join(f"; {scope}" for scope in names)
