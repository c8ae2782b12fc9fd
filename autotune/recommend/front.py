"""Choose a recommendation from the history of a campaign.

Place in the flow of ``autotune/__init__.py``: step 10, recommend.

Notation: a *slot* is a collective with a communicator size and a message size. The *envelope* of a job-wide
setting is the best time in each slot over the per-size choices. A *candidate* is a job-wide setting with its
envelope and its scores. A candidate *dominates* another one if it is as good in all objectives and better in
at least one objective. The *front* contains the candidates that no other candidate dominates.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter, le

from autotune.history.lookup import choice_at
from autotune.history.memory import remembered
from autotune.history.objectives import (
    Alternatives,
    Envelope,
    Objective,
    Score,
    Slot,
    alternatives,
    by_setting,
    envelope,
    job_setting,
    ratio_of,
    scores,
    scores_of,
    slots,
)
from autotune.history.trial import History, Observation, Phase, Rule
from autotune.recommend.posterior import posterior
from autotune.recommend.recommendation import Gain, Recommendation
from autotune.recommend.rules import rules_of
from autotune.space import Point, Space


@dataclass(frozen=True, slots=True)
class Candidate:
    """One job-wide setting with its best per-size choices and its scores."""

    point: Point  # Job-wide values of the setting's first launch; ``curve`` has the per-size values.
    curve: Envelope  # The best per-size choice in each slot, with its time.
    scores: tuple[Score, ...]  # One score for each objective, in the order of the objectives.
    launches: int  # Number of launches from which the scores were computed.


def candidates(objectives: Sequence[Objective], space: Space, history: History) -> tuple[Candidate, ...]:
    """Return the job-wide settings that were measured in every slot, in the order of their first launches."""
    sweeps = history.of_points(space)
    all_slots = tuple(sorted({slot for o in sweeps for slot in _slots(o)}))
    groups = by_setting(space, sweeps).values()
    maybe = (_candidate(tuple(objectives), space, tuple(group), all_slots) for group in groups)
    return tuple(candidate for candidate in maybe if candidate is not None)


def untouched(objectives: Sequence[Objective], space: Space, history: History) -> Candidate | None:
    """Return the MPI stack's defaults as a candidate, from the launches of the baseline.

    The result is None if the launches of the baseline have no score in some objective.
    """
    launches = history.of(Phase.BASELINE).observations
    curve = envelope(space, launches)
    default_scores = scores(objectives, space, launches, tuple(curve))
    return Candidate(space.default, curve, default_scores, len(launches)) if default_scores else None


@remembered
def curve_of(space: Space, launches: tuple[Observation, ...]) -> Envelope:
    """Return the best time in each slot among launches that have the same job-wide setting."""
    return envelope(space, launches)


@remembered
def _slots(launch: Observation) -> tuple[Slot, ...]:
    return slots([launch])


@remembered
def _candidate(
    objectives: tuple[Objective, ...], space: Space, group: tuple[Observation, ...], covered: tuple[Slot, ...]
) -> Candidate | None:
    """Return launches of one setting as a candidate; None if they did not measure all slots."""
    curve = curve_of(space, group)
    group_scores = scores_of(objectives, curve, group, covered)
    return Candidate(group[0].trial.point, curve, group_scores, len(group)) if group_scores else None


def pareto_front(objectives: Sequence[Objective], candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates that no other candidate dominates, sorted by the first objective, best first."""

    def costs(candidate: Candidate) -> tuple[float, ...]:
        pairs = zip(objectives, candidate.scores, strict=True)
        return tuple(-s.value if o.maximise else s.value for o, s in pairs)

    front: list[tuple[tuple[float, ...], Candidate]] = []
    # In this order a candidate comes after all candidates that dominate it, so a comparison with the front so
    # far is enough.
    for cost, candidate in sorted(((costs(c), c) for c in candidates), key=itemgetter(0)):
        if not any(all(map(le, rival, cost)) and rival != cost for rival, _ in front):
            front.append((cost, candidate))
    return tuple(candidate for _, candidate in front)


def ranked(objectives: Sequence[Objective], candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return all candidates, the recommended one first.

    The order is by the mean, over the objectives, of ln(value / best value). So the first candidate is the
    compromise that is least worse, in per cent, than the best value of each objective.
    """
    return tuple(sorted(candidates, key=lambda candidate: loss(objectives, candidate)))


def loss(objectives: Sequence[Objective], candidate: Candidate) -> float:
    """Return the cost by which ``ranked`` sorts: the sum of the costs in all objectives.

    The sum leaves out the best values and the division by the number of objectives, which do not change the
    order.
    """
    return sum(o.cost(score) for o, score in zip(objectives, candidate.scores, strict=True))


def leader(objectives: Sequence[Objective], space: Space, history: History) -> Candidate | None:
    """Return the first setting in the order of ``ranked``; None if none was measured in every slot yet."""
    return next(iter(ranked(objectives, candidates(objectives, space, history))), None)


def in_force(rules: Sequence[Rule], curves: Alternatives) -> Envelope:
    """Return for each slot the measured time of the choice that the rules make there.

    Slots in which the rules' choice was not measured are left out.
    """
    choices = {slot: choice_at(rules, slot) for slot in curves}
    return {slot: curves[slot][choice] for slot, choice in choices.items() if choice in curves[slot]}


def gains(tuned: Envelope, baseline: Envelope) -> tuple[Gain, ...]:
    """Return the default and the tuned time in each slot for which both were measured."""
    return tuple(
        Gain(slot, winner.median_s, winner.sem_s, baseline[slot].median_s, baseline[slot].sem_s)
        for slot, winner in tuned.items()
        if slot in baseline
    )


def believed(
    objectives: Sequence[Objective], space: Space, candidates: Sequence[Candidate]
) -> tuple[Candidate, ...]:
    """Return the candidates with the scores that are expected given all launches (posterior means)."""
    points, launches = [c.point for c in candidates], [c.launches for c in candidates]
    columns = []
    for i, objective in enumerate(objectives if candidates else ()):
        sign = -1 if objective.maximise else 1
        fit = posterior(space, points, [objective.cost(c.scores[i]) for c in candidates], launches)
        values = [(ratio_of(sign * mean), sd) for mean, sd in zip(fit.mean, fit.sd, strict=True)]
        columns.append([Score(value, value * float(sd)) for value, sd in values])
    rows = zip(*columns, strict=True)
    return tuple(replace(c, scores=tuple(row)) for c, row in zip(candidates, rows, strict=True))


def recommendations(
    objectives: Sequence[Objective],
    space: Space,
    history: History,
    one_row: Collection[str] = (),
    among: Sequence[Sequence[Candidate]] | None = None,
    also: Collection[Point] = (),
    layers: int = 1,
) -> tuple[Recommendation, ...]:
    """Return the recommended settings, the best compromise first, each with its per-size rules and gains.

    These are the Pareto front. The stack's defaults are part of the comparison: settings that are not a
    better compromise than the defaults are left out, and if none remains, the recommendation is to change
    nothing. Settings are compared by their posterior given all launches, so that the luckiest of many
    settings does not win. Only launches of the search and of the baseline are used.

    Args:
        objectives: The objectives of the campaign.
        space: The search space.
        history: All launches.
        one_row: Collectives whose rules files have one row for all sizes; see ``rules_of``.
        among: Groups of candidates; the front of each group is returned. None means that all candidates are
            one group.
        also: Settings that are also returned, after the fronts, if they are among the candidates.
        layers: Number of fronts for each group. Each further front is that of the settings that earlier
            fronts left.
    """
    baseline = envelope(space, history.of(Phase.BASELINE))
    groups = by_setting(space, history.of_points(space))
    measured = candidates(objectives, space, history)
    default = untouched(objectives, space, history) if measured else None
    estimated = believed(objectives, space, measured)
    by_point: dict[Point, Recommendation] = {}

    def add(candidate: Candidate) -> None:
        curves = alternatives(space, groups[job_setting(space, candidate.point)])
        rules = rules_of(curves, baseline, one_row=one_row, says=space.says)
        tuned = replace(candidate, curve=in_force(rules, curves))
        slot_gains = gains(against(space, tuned, baseline), baseline)
        by_point[candidate.point] = Recommendation(candidate.point, rules, slot_gains)

    groups_of_rivals = (measured,) if among is None else among
    for rivals, _ in product(groups_of_rivals, range(layers)):
        admitted = {c.point for c in rivals} - (set(by_point) if layers > 1 else set())
        front = pareto_front(objectives, [c for c in estimated if c.point in admitted])
        for candidate in ranked(objectives, (*front, default) if default else front):
            if candidate is default:
                break
            if candidate.point not in by_point:
                add(candidate)
    if not by_point and default:
        by_point[space.untouched] = Recommendation(space.untouched, (), gains(baseline, baseline))
    for candidate in (c for rivals in groups_of_rivals for c in rivals):
        if candidate.point in also and candidate.point not in by_point:
            add(candidate)
    return tuple(by_point.values())


def against(space: Space, candidate: Candidate, baseline: Envelope) -> Envelope:
    """Return the times of a setting in the slots that the baseline also measured.

    Where the setting does the same as the stack's defaults, because it has no job-wide change and no per-size
    choice in that slot, the result has the time of the baseline: a difference between the two times would be
    noise.
    """
    changed = space.says(candidate.point)
    return {
        slot: winner if changed or space.says(winner.choice) else baseline[slot]
        for slot, winner in candidate.curve.items()
        if slot in baseline
    }


def recommend(
    objectives: Sequence[Objective], space: Space, history: History, one_row: Collection[str] = ()
) -> Recommendation | None:
    """Return the best compromise of all settings; None if no setting was measured in every slot yet."""
    return next(iter(recommendations(objectives, space, history, one_row)), None)
