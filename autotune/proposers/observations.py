"""A history in the form in which proposers need it (between steps 8 and 9 of the flow).

Notation: the *cost* of a launch in one objective is the logarithm of its score, negated where more is
better: less is always better, differences are relative gains, and a standard error of a cost is a relative
standard error.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from autotune.campaign.ports import Problem, Suggestion
from autotune.history.objectives import Objective, Score, job_setting, scores, slots
from autotune.history.trial import History, Observation
from autotune.recommend.front import candidates
from autotune.space import Parameter, Point, Space, Value, encode

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
    space: Space, rng: Generator, n: int, tried: Collection[Point] = (), around: Collection[Point] = ()
) -> list[Point]:
    """Points not tried: all of a small space, else ``n`` drawn ones and neighbours of ``around``."""
    if space.size <= max(n, ENUMERABLE):
        candidates = dict.fromkeys(space.points())
    else:
        near = [q for p in around for q in space.neighbours(p)]
        candidates = dict.fromkeys([*near, *space.draw(rng, n + len(tried))])
    out = set(tried)
    return [p for p in candidates if p not in out]


def nearest(
    space: Space, wanted: Mapping[str, Value], rng: Generator, tried: Collection[Point] = ()
) -> Point | None:
    """The untried point of the space that is closest to what a third-party sampler asked for.

    Third-party samplers know neither conditions nor lists of points: values of parameters that are not active
    are left out, and a combination that does not exist (or was tried) gives way to the one that differs from
    it in the fewest features of ``encode``; ties are drawn.
    """
    free = space.complete({p.name: wanted.get(p.name, p.default) for p in space.job})
    if free in space and free not in tried:
        return free
    left = pool(space, rng, 512, tried, around=[free] if space.listed is None else [])
    if not left:
        return None
    distance = np.abs(encode(space, left) - encode(space, [free])).sum(axis=1)
    closest = np.flatnonzero(distance <= distance.min() + 1e-9)
    return left[int(closest[rng.integers(len(closest))])]


def asked(
    problem: Problem,
    history: History,
    seed: int,
    ask: Callable[[list[LaunchCosts], list[Point], Generator], Mapping[str, int] | str],
    name: str,
) -> Suggestion | None:
    """The point that a third-party sampler asks for, or one like it that exists; None when all were tried.

    ``ask`` is given the launches, what is left, and a source of randomness. It answers by an index into the
    values of each of the ``free_in`` parameters, or says in words why a point is drawn.
    """
    rng, seen = np.random.default_rng([seed, len(history)]), launch_costs(problem, history)
    tried = {s.point for s in seen}
    left = pool(problem.space, rng, 1, tried)
    if not left:
        return None
    if problem.space.default not in tried:
        return Suggestion(problem.space.default, "the default first")
    wanted = ask(seen, left, rng)
    if isinstance(wanted, str):
        return Suggestion(left[int(rng.integers(len(left)))], wanted)
    values = {p.name: p.values[int(wanted[p.name])] for p in free_in(problem.space)}
    point = nearest(problem.space, values, rng, tried)
    return None if point is None else Suggestion(point, f"asked for by {name}")


def free_in(space: Space) -> list[Parameter]:
    """The parameters that a third-party sampler decides; some refuse those with a single value."""
    return [p for p in space.job if len(p.values) > 1]


def indices(space: Space, point: Point) -> dict[str, int]:
    """A point as such a sampler sees it: the index of each value, the default's where it is not active."""
    return {p.name: p.values.index(point.get(p.name, p.default)) for p in free_in(space)}
