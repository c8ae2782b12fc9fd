"""Convert a campaign's history to the form that proposers need.

Place in the flow of ``autotune/__init__.py``: between steps 8, store, and 9, propose.

Notation: the *cost* of a launch in one objective is the logarithm of its score, negated if a larger score is
better. So a lower cost is always better, differences of costs are relative gains, and the standard error of a
cost is a relative standard error.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from autotune.campaign.ports import Problem, Suggestion
from autotune.history.objectives import job_setting, scores, slots
from autotune.history.trial import History, Observation
from autotune.recommend.front import candidates, loss
from autotune.space import Parameter, Point, Space, Value, encode

ENUMERABLE = 4096
"""A space is enumerated if it has at most this number of points; from larger spaces, points are drawn at
random."""
SHOWN = 512
"""Largest number of launches that a model uses: its computing time grows with the cube of this number, and
its memory with the square."""


@dataclass(frozen=True, slots=True)
class LaunchCosts:
    """The costs of one launch."""

    point: Point
    costs: tuple[float, ...] | None
    """One cost for each objective; None if the launch failed or did not measure all slots (collective,
    communicator size, message size)."""
    sems: tuple[float, ...] = ()  # Standard errors of the costs.


def launches(problem: Problem, history: History) -> list[Observation]:
    """Return the launches of points in the problem's known space, in the order of the launches."""
    return [o for o in history.of_points(problem.known) if o.trial.point in problem.known]


def informative(problem: Problem, observations: list[Observation]) -> list[Observation]:
    """Return the launches that a model uses, in order: all launches, or ``SHOWN`` of them if there are more.

    Half of the ``SHOWN`` launches are launches of the best settings, including repeated ones. The other half
    is spread evenly over the remaining launches in their order, including failed ones, so that all of the
    selected launches still cover the space.
    """
    if len(observations) <= SHOWN:
        return observations
    space, costs = problem.known, dict[Point, float]()
    for candidate in candidates(problem.objectives, space, History(tuple(observations))):
        costs[job_setting(space, candidate.point)] = loss(problem.objectives, candidate)
    setting_costs = [
        costs.get(job_setting(space, o.trial.point), math.inf) if o.ok else math.inf for o in observations
    ]
    order = np.argsort(setting_costs, kind="stable")
    remaining = np.sort(order[SHOWN // 2 :])
    spread = remaining[np.linspace(0, len(remaining) - 1, SHOWN - SHOWN // 2).round().astype(int)]
    return [observations[i] for i in sorted({*order[: SHOWN // 2], *spread})]


def launch_costs(problem: Problem, history: History) -> list[LaunchCosts]:
    """Return the costs of all launches of points in the problem's space, in the order of the launches."""
    observations = [o for o in launches(problem, history) if o.trial.point in problem.space]
    all_slots = slots(observations)
    costs_of = []
    for observation in observations:
        launch_scores = (
            scores(problem.objectives, problem.space, [observation], all_slots) if observation.ok else None
        )
        if launch_scores is None:
            costs_of.append(LaunchCosts(observation.trial.point, None))
        else:
            pairs = list(zip(problem.objectives, launch_scores, strict=True))
            costs = tuple(objective.cost(s) for objective, s in pairs)
            # A single sample has no standard error.
            has_errors = all(e.n > 1 for e in observation.usable)
            sems = tuple(s.relative_sem if has_errors else math.nan for _, s in pairs)
            costs_of.append(LaunchCosts(observation.trial.point, costs, sems))
    return costs_of


def best_costs(problem: Problem, history: History) -> dict[Point, float]:
    """Map each launched point to its mean cost over the objectives; infinite if all its launches failed.

    If a point was launched several times, the lowest cost counts.
    """
    best: dict[Point, float] = {}
    for s in launch_costs(problem, history):
        value = math.inf if s.costs is None else sum(s.costs) / len(s.costs)
        best[s.point] = min(value, best.get(s.point, math.inf))
    return best


def pool(
    space: Space, rng: Generator, n: int, launched: Collection[Point] = (), around: Collection[Point] = ()
) -> list[Point]:
    """Return points that were not launched yet, as candidates.

    In a small space these are all such points. In a large space they are about ``n`` random points, and the
    points ``around`` with their neighbours.
    """
    if space.size <= max(n, ENUMERABLE):
        candidates = dict.fromkeys(space.points())
    else:
        near = [q for p in around for q in (p, *space.neighbours(p))]
        candidates = dict.fromkeys([*near, *space.draw(rng, n + len(launched))])
    excluded = set(launched)
    return [p for p in candidates if p not in excluded]


def farthest(space: Space, points: Sequence[Point], launched: Collection[Point], rng: Generator) -> Point:
    """Return the candidate that is farthest from its nearest launched point; ties are broken at random.

    Distances are those of the features that ``encode`` returns. Source: the maximin distance design of M. E.
    Johnson, L. M. Moore and D. Ylvisaker, "Minimax and maximin distance designs", Journal of Statistical
    Planning and Inference 26 (1990), here with one point at a time.
    """
    codes = encode(space, points)
    distances = [np.abs(codes - encode(space, [point])).sum(axis=1) for point in launched]
    to_nearest = np.min(distances, axis=0)
    ties = np.flatnonzero(to_nearest >= to_nearest.max() - 1e-9)
    return points[int(ties[rng.integers(len(ties))])]


def nearest(
    space: Space, choice: Mapping[str, Value], rng: Generator, launched: Collection[Point] = ()
) -> Point | None:
    """Return the point that is closest to a third-party sampler's choice and was not launched yet.

    Third-party samplers do not consider conditions of parameters or lists of points. So values of parameters
    that are not active are left out of the choice. If the resulting point does not exist in the space, or was
    launched already, it is replaced by the point with the smallest difference in the features that ``encode``
    returns; ties are broken at random. The result is None if every point was launched.
    """
    requested = space.complete({p.name: choice.get(p.name, p.default) for p in space.job})
    if requested in space and requested not in launched:
        return requested
    untried = pool(space, rng, 512, launched, around=[requested] if space.listed is None else [])
    if not untried:
        return None
    distance = np.abs(encode(space, untried) - encode(space, [requested])).sum(axis=1)
    closest = np.flatnonzero(distance <= distance.min() + 1e-9)
    return untried[int(closest[rng.integers(len(closest))])]


def sampler_suggestion(
    problem: Problem,
    history: History,
    seed: int,
    ask: Callable[[list[LaunchCosts], list[Point], Generator], Mapping[str, int] | str],
    name: str,
) -> Suggestion | None:
    """Return the point that a third-party sampler chooses, or a similar point that exists and is new.

    Args:
        problem: The task of the proposer.
        history: All observations so far.
        seed: Random seed of the search.
        ask: Function of the launches, of the points that were not launched (at least one), and of a
            generator. It returns an index into the values of each parameter of ``free_in``, or the reason why
            a random point is used instead.
        name: Name of the sampler, for the note in the suggestion.

    Returns:
        The suggestion; None if every point was launched.
    """
    rng, costs_so_far = np.random.default_rng([seed, len(history)]), launch_costs(problem, history)
    launched = {launch.point for launch in costs_so_far}
    untried = pool(problem.space, rng, 1, launched)
    if not untried:
        return None
    if problem.space.default not in launched:
        return Suggestion(problem.space.default, "the default first")
    answer = ask(costs_so_far, untried, rng)
    if isinstance(answer, str):
        return Suggestion(untried[int(rng.integers(len(untried)))], answer)
    values = {p.name: p.values[int(answer[p.name])] for p in free_in(problem.space)}
    point = nearest(problem.space, values, rng, launched)
    return None if point is None else Suggestion(point, f"asked for by {name}")


def free_in(space: Space) -> list[Parameter]:
    """Return the parameters whose values a third-party sampler chooses.

    Parameters with a single value are left out, because some samplers refuse them.
    """
    return [p for p in space.job if len(p.values) > 1]


def indices(space: Space, point: Point) -> dict[str, int]:
    """Return the index of each parameter's value in a point, or of its default if it is not active there."""
    return {p.name: p.values.index(point.get(p.name, p.default)) for p in free_in(space)}
