"""A history in the form in which proposers need it (between steps 8 and 9 of the flow).

Notation: the *cost* of a launch in one objective is the logarithm of its score, negated where more is
better: less is always better, differences are relative gains, and a standard error of a cost is a relative
standard error.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from autotune.campaign.ports import Problem
from autotune.history.objectives import Objective, Score, job_setting, scores, slots
from autotune.history.trial import History, Observation
from autotune.recommend.front import candidates
from autotune.space import Point, Space, Value, encode

ENUMERABLE = 4096
"""Spaces up to this size are enumerated; larger ones are sampled."""
SHOWN = 512
"""Launches that a model is shown at most: its cost grows with their cube, its memory with their square."""


@dataclass(frozen=True, slots=True)
class LaunchCosts:
    """One launch as a data point."""

    point: Point  # What was launched.
    costs: tuple[float, ...] | None  # One for each objective; None: the launch failed, or its curve has gaps.
    sems: tuple[float, ...] = ()  # Standard errors of the costs.


def launches(problem: Problem, history: History) -> list[Observation]:
    """The observations of points in the problem's known space, in order."""
    return [o for o in history.of_points(problem.known) if o.trial.point in problem.known]


def informative(problem: Problem, seen: list[Observation]) -> list[Observation]:
    """The launches that a model is shown, in order: all, or so many that its cost stays bounded.

    Half of them are those of the best settings, with all their repeats; the rest is spread evenly over the
    others in the order in which they were made, failed ones too, so that the space stays covered.
    """
    if len(seen) <= SHOWN:
        return seen
    space, costs = problem.known, dict[Point, float]()
    for one in candidates(problem.objectives, space, History(tuple(seen))):
        judged = zip(problem.objectives, one.scores, strict=True)
        costs[job_setting(space, one.point)] = sum(cost(objective, score) for objective, score in judged)
    of = [costs.get(job_setting(space, o.trial.point), math.inf) if o.ok else math.inf for o in seen]
    order = np.argsort(of, kind="stable")
    rest = np.sort(order[SHOWN // 2 :])
    spread = rest[np.linspace(0, len(rest) - 1, SHOWN - SHOWN // 2).round().astype(int)]
    return [seen[i] for i in sorted({*order[: SHOWN // 2], *spread})]


def launch_costs(problem: Problem, history: History) -> list[LaunchCosts]:
    """Each launch of a point of the problem's space with its costs."""
    seen = [o for o in launches(problem, history) if o.trial.point in problem.space]
    wanted = slots(seen)
    costs_of = []
    for observation in seen:
        judged = scores(problem.objectives, problem.space, [observation], wanted) if observation.ok else None
        if judged is None:
            costs_of.append(LaunchCosts(observation.trial.point, None))
        else:
            pairs = list(zip(problem.objectives, judged, strict=True))
            costs = tuple(cost(objective, s) for objective, s in pairs)
            # A single sample says nothing about its error.
            known = all(e.n > 1 for e in observation.usable)
            sems = tuple(s.relative_sem if known else math.nan for _, s in pairs)
            costs_of.append(LaunchCosts(observation.trial.point, costs, sems))
    return costs_of


def best_costs(problem: Problem, history: History) -> dict[Point, float]:
    """Mean cost over the objectives of each point that was launched; infinite where no launch succeeded."""
    best: dict[Point, float] = {}
    for s in launch_costs(problem, history):
        value = math.inf if s.costs is None else sum(s.costs) / len(s.costs)
        best[s.point] = min(value, best.get(s.point, math.inf))
    return best


def cost(objective: Objective, score: Score) -> float:
    """The cost of a score: its logarithm, negated where more is better."""
    return -math.log(score.value) if objective.maximise else math.log(score.value)


def pool(
    space: Space,
    rng: np.random.Generator,
    n: int,
    tried: Collection[Point] = (),
    around: Collection[Point] = (),
) -> list[Point]:
    """Points that were not tried: all of a small space, else up to ``n`` drawn ones.

    In a large space the neighbours of the points ``around`` are added.
    """
    if space.size <= max(n, ENUMERABLE):
        candidates = dict.fromkeys(space.points())
    else:
        near = [q for p in around for q in space.neighbours(p)]
        candidates = dict.fromkeys([*near, *space.draw(rng, n + len(tried))])
    out = set(tried)
    return [p for p in candidates if p not in out]


def nearest(
    space: Space, wanted: Mapping[str, Value], rng: np.random.Generator, tried: Collection[Point] = ()
) -> Point | None:
    """The untried point of the space that is closest to what a third-party sampler asked for.

    Third-party samplers know neither conditions nor lists of points: values of parameters that are not active
    are left out, and a combination that does not exist (or was tried) gives way to the one that differs from
    it in the fewest features of ``encode``; ties are drawn.
    """
    free = _active_part(space, wanted)
    if free in space and free not in tried:
        return free
    left = pool(space, rng, 512, tried, around=[free] if space.listed is None else [])
    if not left:
        return None
    distance = np.abs(encode(space, left) - encode(space, [free])).sum(axis=1)
    closest = np.flatnonzero(distance <= distance.min() + 1e-9)
    return left[int(closest[rng.integers(len(closest))])]


def _active_part(space: Space, wanted: Mapping[str, Value]) -> Point:
    """The wanted values of the parameters that are active among them."""
    return space.complete({p.name: wanted.get(p.name, p.default) for p in space.job})
