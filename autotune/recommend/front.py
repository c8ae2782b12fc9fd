"""From the history to a recommendation (step 10 of the flow).

Notation: a *candidate* is one job-wide setting with its envelope and its scores; the *front* holds the
candidates that no other beats in every objective.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
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
from autotune.recommend.rules import rules_of
from autotune.space import Point, Space, check_words


@dataclass(frozen=True, slots=True)
class Candidate:
    """One job-wide setting, judged."""

    point: Point
    """The launch-level values of its first observation; per-size ones are in ``curve``."""
    curve: Envelope
    """Its best per-size choice in each slot."""
    scores: tuple[Score, ...]
    """In the order of the objectives."""
    launches: int
    """Observations behind it."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Default against tuned in one slot, tuned time first."""

    slot: Slot
    """Where."""
    tuned_s: float
    """Time of the recommendation."""
    tuned_sem_s: float
    """Its standard error."""
    default_s: float
    """Time of the stack's own defaults."""
    default_sem_s: float
    """Its standard error."""
    other_loop: tuple[float, float, float] | None = None
    """Default / tuned in the probe's other loop with its 95 % interval; None: not measured."""

    @property
    def ratio(self) -> float:
        """Default / tuned: above one means faster than the default."""
        return self.default_s / self.tuned_s

    @property
    def interval(self) -> tuple[float, float]:
        """About 95 % for the ratio, from the standard errors of both logarithms."""
        spread = 1.96 * math.hypot(self.tuned_sem_s / self.tuned_s, self.default_sem_s / self.default_s)
        return self.ratio * ratio_of(-spread), self.ratio * ratio_of(spread)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One job-wide setting and a per-size table: exactly what parameter files can say."""

    point: Point
    """The job-wide values."""
    rules: tuple[Rule, ...]
    """The per-size table, sorted by collective, communicator size and size."""
    gains: tuple[Gain, ...] = ()
    """Against the baseline in each slot."""
    provenance: "Provenance" = field(default_factory=lambda: Provenance())
    """For the comments in every exported file."""
    average: tuple[float, float, float] | None = None
    """Default / tuned on the whole with its 95 % interval, as pairs of fresh launches show it; else None."""

    @property
    def speedup(self) -> float:
        """Geometric mean of default / tuned over the slots; NaN without a baseline."""
        if self.average is not None:
            return self.average[0]
        if not self.gains:
            return math.nan
        return ratio_of(sum(math.log(g.ratio) for g in self.gains) / len(self.gains))


class Checked(StrEnum):
    """How far a recommendation has been compared with the stack's own defaults on fresh launches."""

    NOT = "not"
    """No launch was made for it."""
    UNFINISHED = "unfinished"
    """More launches are wanted."""
    UNUSABLE = "unusable"
    """No pair of launches could be compared."""
    HOLDS = "holds"
    """It is better."""
    REFUSED = "refused"
    """Nothing was: what is recommended are the defaults."""

    @property
    def done(self) -> bool:
        """Whether the launches told what there is to tell."""
        return self in (Checked.HOLDS, Checked.REFUSED)


@dataclass(frozen=True, slots=True)
class Part:
    """One campaign among those that were merged."""

    campaign: str
    """Its name."""
    date: str
    """ISO date of its last launch."""
    nodes: int
    """Of the campaign."""
    tables: tuple[tuple[str, int], ...]
    """(collective, communicator size) of the rules that come from it."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a recommendation comes from."""

    campaign: str = ""
    """Name of the scenario."""
    date: str = ""
    """ISO date of the last launch."""
    stack: str = ""
    """MPI implementation and version, UCX version."""
    nodes: int = 1
    """Of the campaign."""
    ranks: int = 0
    """Of the campaign."""
    stamp: str = ""
    """``SIMULATED (…)`` where no real MPI ran, else empty."""
    verified: str = "UNVERIFIED"
    """What the verification says, e.g. ``verified: 1.34× (1.31 … 1.37) on 6 fresh launches``."""
    checked: Checked = Checked.NOT
    """The same as a value."""
    choices: tuple[str, ...] = ()
    """What may be handed over, this among it, a line each."""
    env: tuple[tuple[str, str], ...] = ()
    """Environment that holds the job-wide values, as measured, with what they mean nothing without."""
    placement: tuple[tuple[str, str], ...] = ()
    """``map_by`` and ``bind_to`` where the recommendation sets them."""
    family: str = ""
    """MPI implementation, as in ``Space.stack``; empty: not known."""
    library: str = ""
    """Path of the MPI library that was measured; empty: not known."""
    both_sides: tuple[tuple[str, str], ...] = ()
    """Environment of every launch, the untouched ones too: no part of the recommendation."""
    boot: tuple[tuple[str, str], ...] = ()
    """Values of the boot level: what the machine's firmware was set to."""
    parts: tuple[Part, ...] = ()
    """Of a merged one: the campaigns."""

    def __post_init__(self) -> None:
        """Refuse what a script could take for something else: it may come out of anybody's document.

        Raises:
            SpaceError: names that no variable has, or values that are no placement or of several lines.
        """
        for name, value in (*self.env, *self.both_sides):  # the latter are comments alone
            check_words("env" if (name, value) in self.env else "both sides", name, value)
        for name, value in self.placement:
            check_words(name, name, value)


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
    objectives: tuple[Objective, ...],
    space: Space,
    group: tuple[Observation, ...],
    wanted: tuple[Slot, ...],
) -> Candidate | None:
    """What these launches of one setting come to; asked again after each further launch of any setting."""
    curve = curve_of(space, group)
    judged = scores_of(objectives, curve, group, wanted)
    return Candidate(group[0].trial.point, curve, judged, len(group)) if judged else None


def pareto_front(objectives: Sequence[Objective], judged: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates that no other one dominates, best first in the first objective."""

    def costs(candidate: Candidate) -> tuple[float, ...]:
        return tuple(
            -s.value if o.maximise else s.value for o, s in zip(objectives, candidate.scores, strict=True)
        )

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
    """What ``ranked`` goes by, but for the best values, which are the same for all."""
    pairs = zip(objectives, candidate.scores, strict=True)
    return sum(-math.log(score.value) if o.maximise else math.log(score.value) for o, score in pairs)


def leaders(objectives: Sequence[Objective], space: Space, history: History) -> Iterator[Candidate | None]:
    """The first of ``ranked`` of each beginning of a history, the empty one first, in one pass."""
    groups: dict[Point, list[Observation]] = {}
    judged: dict[Point, Candidate | None] = {}
    losses: dict[Point, float] = {}
    wanted: tuple[Slot, ...] = ()
    best = Point()
    yield None
    for observation in history:
        for told in History((observation,)).of_points(space) if observation.ok else ():
            setting = job_setting(space, told.trial.point)
            groups.setdefault(setting, []).append(told)
            before, wanted = wanted, tuple(sorted({*wanted, *_slots(told)}))
            for changed in groups if wanted != before else (setting,):
                one = _candidate(tuple(objectives), space, tuple(groups[changed]), wanted)
                judged[changed] = one
                losses[changed] = loss(objectives, one) if one else math.inf
            if wanted != before or setting == best:
                best = min(losses, key=losses.__getitem__)
            elif losses[setting] < losses.get(best, math.inf):
                best = setting
        yield judged.get(best)


def in_force(rules: Sequence[Rule], curves: Alternatives) -> Envelope:
    """What was measured of the rules: in each slot the choice that they make there."""
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

    Only sweeps and the baseline count. ``one_row``: collectives whose files cannot tell sizes apart. Fronts
    of ``among`` (None: of all); ``also`` follows in any case, and what one front hid so often (``layers``).
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
    """What a setting may differ in from the baseline, in the slots that both have.

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
