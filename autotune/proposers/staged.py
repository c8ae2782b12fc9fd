"""Propose three small grids one after another, like a cloud vendor's tutorial (``proposer=staged``).

The first grid combines the transports with the rendezvous threshold. The second grid contains the zero-copy
threshold. The third grid contains all other parameters: offload component, mapping, NUMA setting and so on.
Each grid starts from the best point of the grids before it.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune.campaign.ports import Problem, Suggestion
from autotune.history.trial import History
from autotune.proposers.observations import best_costs
from autotune.space import Parameter, Point, Space

STAGES = (r"tls|transport|rndv|rendezvous", r"zcopy|zero.?copy", r"")
"""Patterns that assign parameters to grids: a parameter belongs to the first grid whose pattern occurs in its
name, in upper or lower case."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A proposer of the points of three grids, one grid after the other."""

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """Return the next point of the current grid; None after the last grid. The seed has no effect."""
        costs = best_costs(problem, history)
        base = problem.space.default
        if base not in costs:
            return Suggestion(base, "the default first")
        for number, parameters in enumerate(_stages(problem.space), start=1):
            grid = _grid(problem.space, base, parameters)
            unknown = next((point for point in grid if point not in costs), None)
            if unknown is not None:
                return Suggestion(unknown, f"stage {number}: {' × '.join(p.name for p in parameters)}")
            base = min([base, *_grid(problem.space, base, parameters)], key=lambda p: costs[p])
        return None


def _stages(space: Space) -> list[list[Parameter]]:
    stages: list[list[Parameter]] = [[] for _ in STAGES]
    for parameter in space.job:
        number = next(i for i, stage in enumerate(STAGES) if re.search(stage, parameter.name.lower()))
        stages[number].append(parameter)
    return [stage for stage in stages if stage]


def _grid(space: Space, base: Point, parameters: Sequence[Parameter]) -> Iterator[Point]:
    """Yield the base with each combination of values of the given parameters, if the space contains it."""
    for values in itertools.product(*(p.values for p in parameters)):
        point = space.complete({**base, **dict(zip((p.name for p in parameters), values, strict=True))})
        if point in space:
            yield point
