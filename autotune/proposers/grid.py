"""Propose every point once, the default first; the last parameter varies fastest (``proposer=grid``)."""

from dataclasses import dataclass

from autotune.campaign.ports import Problem, Suggestion
from autotune.history.trial import History
from autotune.proposers.observations import launches


@dataclass(frozen=True, slots=True)
class Grid:
    """Propose the points of the space in order."""

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """Return the first point that was not launched yet, None after the last. The seed has no effect."""
        launched = {o.trial.point for o in launches(problem, history)}
        untried = next((p for p in problem.space.points() if p not in launched), None)
        return None if untried is None else Suggestion(untried, f"point {len(launched) + 1} of the grid")
