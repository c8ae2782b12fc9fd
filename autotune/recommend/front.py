"""From the history to a recommendation (step 10 of the flow).

Notation: a *candidate* is one job-wide setting with its envelope and its scores; the *front* holds the
candidates that no other beats in every objective.
"""

import math
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
    """One job-wide setting, judged."""

    point: Point  # The launch-level values of its first observation; per-size ones are in ``curve``.
    curve: Envelope  # Its best per-size choice in each slot.
    scores: tuple[Score, ...]  # In the order of the objectives.
    launches: int  # Observations behind it.


def candidates(objectives: Sequence[Objective], space: Space, history: History) -> tuple[Candidate, ...]:
    """All job-wide settings whose curves are complete, in order of appearance."""
    sweeps = history.of_points(space)
    wanted = tuple(sorted({slot for o in sweeps for slot in _slots(o)}))
    groups = by_setting(space, sweeps).values()
    judged = (_candidate(tuple(objectives), space, tuple(group), wanted) for group in groups)
    return tuple(one for one in judged if one is not None)


def untouched(objectives: Sequence[Objective], space: Space, history: History) -> Candidate | None:
    """The stack's own defaults, as the baseline shows them; None where it is not complete."""
    made = history.of(Phase.BASELINE).observations
    curve = envelope(space, made)
    own = scores(objectives, space, made, tuple(curve))
    return Candidate(space.default, curve, own, len(made)) if own else None


@remembered
def curve_of(space: Space, launches: tuple[Observation, ...]) -> Envelope:
    """The envelope of these launches, which share their job-wide setting."""
    return envelope(space, launches)


@remembered
def _slots(launch: Observation) -> tuple[Slot, ...]:
    return slots([launch])


@remembered
def _candidate(
    objectives: tuple[Objective, ...], space: Space, group: tuple[Observation, ...], wanted: tuple[Slot, ...]
) -> Candidate | None:
    """The candidate of these launches of one setting; asked again after each launch of any setting."""
    curve = curve_of(space, group)
    judged = scores_of(objectives, curve, group, wanted)
    return Candidate(group[0].trial.point, curve, judged, len(group)) if judged else None


def pareto_front(objectives: Sequence[Objective], judged: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates that no other one dominates, best first in the first objective."""

    def costs(candidate: Candidate) -> tuple[float, ...]:
        pairs = zip(objectives, candidate.scores, strict=True)
        return tuple(-s.value if o.maximise else s.value for o, s in pairs)

    front: list[tuple[tuple[float, ...], Candidate]] = []
    # In this order whoever dominates comes first, and is dominated by none or by one of the front.
    for mine, one in sorted(((costs(one), one) for one in judged), key=itemgetter(0)):
        if not any(all(map(le, rival, mine)) and rival != mine for rival, _ in front):
            front.append((mine, one))
    return tuple(one for _, one in front)


def ranked(objectives: Sequence[Objective], judged: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """All candidates, the recommended one first.

    The order is by the mean over the objectives of ln(value / best value), with equal weights: the
    compromise that gives up the least, in per cent, of what each objective could have.
    """
    return tuple(sorted(judged, key=lambda candidate: loss(objectives, candidate)))


def loss(objectives: Sequence[Objective], candidate: Candidate) -> float:
    """Cost by which ``ranked`` sorts, without the best values, which are the same for all."""
    pairs = zip(objectives, candidate.scores, strict=True)
    return sum(-math.log(score.value) if o.maximise else math.log(score.value) for o, score in pairs)


def leader(objectives: Sequence[Objective], space: Space, history: History) -> Candidate | None:
    """The first of ``ranked`` of all settings; None before any was measured completely."""
    return next(iter(ranked(objectives, candidates(objectives, space, history))), None)


def in_force(rules: Sequence[Rule], curves: Alternatives) -> Envelope:
    """Measured times under the rules: in each slot those of the choice that they make there."""
    chosen = {slot: choice_at(rules, slot) for slot in curves}
    return {slot: curves[slot][choice] for slot, choice in chosen.items() if choice in curves[slot]}


def gains(tuned: Envelope, baseline: Envelope) -> tuple[Gain, ...]:
    """Default against tuned in each slot that both have."""
    return tuple(
        Gain(slot, mine.median_s, mine.sem_s, baseline[slot].median_s, baseline[slot].sem_s)
        for slot, mine in tuned.items()
        if slot in baseline
    )


def believed(
    objectives: Sequence[Objective], space: Space, judged: Sequence[Candidate]
) -> tuple[Candidate, ...]:
    """The same candidates with the scores that all launches together make believable."""
    points, launches = [c.point for c in judged], [c.launches for c in judged]
    columns = []
    for i, objective in enumerate(objectives if judged else ()):
        sign = -1 if objective.maximise else 1
        found = posterior(space, points, [sign * math.log(c.scores[i].value) for c in judged], launches)
        values = [(ratio_of(sign * mean), sd) for mean, sd in zip(found.mean, found.sd, strict=True)]
        columns.append([Score(value, value * float(sd)) for value, sd in values])
    rows = zip(*columns, strict=True)
    return tuple(replace(c, scores=tuple(row)) for c, row in zip(judged, rows, strict=True))


def recommendations(
    objectives: Sequence[Objective],
    space: Space,
    history: History,
    one_row: Collection[str] = (),
    among: Sequence[Sequence[Candidate]] | None = None,
    also: Collection[Point] = (),
    layers: int = 1,
) -> tuple[Recommendation, ...]:
    """The Pareto front, the best compromise first, each setting with its per-size table and its gains.

    The stack's own defaults take part: settings that are not a better compromise than the untouched stack are
    left out, and where nothing is left, the recommendation is to change nothing. Judged is what all launches
    together make believable, so that the luckiest of many settings does not lead.

    Only sweeps and the baseline count. ``one_row``: collectives whose files have one row for all sizes.
    Fronts of ``among`` (None: of all); ``also`` always follows, and so often what a front hid (``layers``).
    """
    baseline = envelope(space, history.of(Phase.BASELINE))
    groups = by_setting(space, history.of_points(space))
    judged = candidates(objectives, space, history)
    default = untouched(objectives, space, history) if judged else None
    known = believed(objectives, space, judged)
    by_point: dict[Point, Recommendation] = {}

    def recommend_it(candidate: Candidate) -> None:
        curves = alternatives(space, groups[job_setting(space, candidate.point)])
        rules = rules_of(curves, baseline, one_row=one_row, says=space.says)
        tuned = replace(candidate, curve=in_force(rules, curves))
        gained = gains(against(space, tuned, baseline), baseline)
        by_point[candidate.point] = Recommendation(candidate.point, rules, gained)

    fronts = (judged,) if among is None else among
    for rivals, _ in product(fronts, range(layers)):
        admitted = {c.point for c in rivals} - (set(by_point) if layers > 1 else set())
        front = pareto_front(objectives, [c for c in known if c.point in admitted])
        for candidate in ranked(objectives, (*front, default) if default else front):
            if candidate is default:
                break
            if candidate.point not in by_point:
                recommend_it(candidate)
    if not by_point and default:
        by_point[space.untouched] = Recommendation(space.untouched, (), gains(baseline, baseline))
    for candidate in (c for rivals in fronts for c in rivals):
        if candidate.point in also and candidate.point not in by_point:
            recommend_it(candidate)
    return tuple(by_point.values())


def against(space: Space, candidate: Candidate, baseline: Envelope) -> Envelope:
    """The slots of a setting that may differ from the baseline, where both have them.

    Where it makes the untouched stack's calls, no job-wide change and no choice of its own, it is the
    baseline: what was measured apart there is noise.
    """
    changed = space.says(candidate.point)
    return {
        slot: mine if changed or space.says(mine.choice) else baseline[slot]
        for slot, mine in candidate.curve.items()
        if slot in baseline
    }


def recommend(
    objectives: Sequence[Objective], space: Space, history: History, one_row: Collection[str] = ()
) -> Recommendation | None:
    """The best compromise among all measured settings; None before any was measured completely."""
    return next(iter(recommendations(objectives, space, history, one_row)), None)
