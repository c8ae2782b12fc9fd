"""Propose one factor at a time, shuffled and repeated, as people tune by hand (``proposer=ofat``).

From a base, all values of one parameter are launched with the others fixed; the best one joins the base and
the next parameter follows, in a shuffled order. Rounds through all parameters are repeated, in other orders;
a round that changes nothing is followed by one from a drawn base.

The method is replayed against the history at each call: the first point it needs and does not know is next.
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
    """Sweep one parameter after another."""

    rounds: int = 64  # Number of rounds after which the remaining launches are drawn.

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """Return the next point that the method needs; None when every point was launched."""
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
            if base == start:  # the round changed nothing: begin from another base
                base = space.draw(rng, 1)[0]
                if base not in costs:
                    return Suggestion(base, "a fresh base, drawn")
        untried = pool(space, rng, 1, costs)
        return Suggestion(untried[int(rng.integers(len(untried)))], "drawn") if untried else None


def _sweep(space: Space, base: Point, name: str) -> Iterator[Point]:
    """Yield the base with each other value of one parameter, as far as these points exist."""
    if name in base:
        for value in space[name].values:
            if value != base[name]:
                point = space.complete({**base, name: value})
                if point in space:
                    yield point
