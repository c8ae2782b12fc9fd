"""Propose changes of one parameter at a time, as people tune by hand (``proposer=ofat``).

Starting from a base point, all values of one parameter are launched while the other parameters stay fixed.
The best value becomes part of the base, and the next parameter follows, in a random order. Such rounds
through all parameters are repeated, each in a new random order. After a round that changes nothing, the next
round starts from a random point.

The method is replayed on the history at each call: the next launch is the first point that the method needs
and that was not launched yet.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autotune.campaign.ports import Problem, Suggestion
from autotune.history.trial import History
from autotune.proposers.observations import best_costs, pool
from autotune.space import Point, Space


@dataclass(frozen=True, slots=True)
class OneFactor:
    """A proposer that varies one parameter after another."""

    rounds: int = 64  # Number of rounds after which the remaining launches are random points.

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """Return the next point that the method needs; None if every point was launched."""
        space, costs = problem.space, best_costs(problem, history)
        base = space.default
        if base not in costs:
            return Suggestion(base, "the default first")
        rng = np.random.default_rng(seed)
        for _ in range(self.rounds):
            start = base
            for name in rng.permutation([p.name for p in space.job]):
                row = list(_sweep(space, base, str(name)))
                unknown = next((point for point in row if point not in costs), None)
                if unknown is not None:
                    return Suggestion(unknown, f"{name} alone, the rest held")
                base = min([base, *row], key=lambda p: costs[p])
            if base == start:  # the round changed nothing, so the next round starts from another base
                base = space.draw(rng, 1)[0]
                if base not in costs:
                    return Suggestion(base, "a fresh base, drawn")
        untried = pool(space, rng, 1, costs)
        return Suggestion(untried[int(rng.integers(len(untried)))], "drawn") if untried else None


def _sweep(space: Space, base: Point, name: str) -> Iterator[Point]:
    """Yield the base with each other value of one parameter, as far as the space contains these points."""
    if name in base:
        for value in space[name].values:
            if value != base[name]:
                point = space.complete({**base, name: value})
                if point in space:
                    yield point
