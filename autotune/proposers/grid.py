"""``proposer=grid``: every point once, the default first, the last parameter of the space fastest."""

from dataclasses import dataclass

from autotune.campaign.ports import Problem, Suggestion
from autotune.history.trial import History
from autotune.proposers.observations import launches


@dataclass(frozen=True, slots=True)
class Grid:
    """Goes through the space in order."""

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """The first point that was not tried; None when there is none. The seed changes nothing."""
        tried = {o.trial.point for o in launches(problem, history)}
        untried = next((p for p in problem.space.points() if p not in tried), None)
        return None if untried is None else Suggestion(untried, f"point {len(tried) + 1} of the grid")
