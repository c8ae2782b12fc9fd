"""``proposer=random``: uniform without repetition; the yardstick of every other method."""

from dataclasses import dataclass

import numpy as np

from autotune.campaign.ports import Problem, Suggestion
from autotune.history.trial import History
from autotune.proposers.observations import launches, pool


@dataclass(frozen=True, slots=True)
class Random:
    """Draws each launch uniformly from what was not tried."""

    repeats: bool = False  # Whether a point may be drawn again.

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """A point drawn by (seed, length of the history); None when every point was tried."""
        rng = np.random.default_rng([seed, len(history)])
        tried = set() if self.repeats else {o.trial.point for o in launches(problem, history)}
        left = pool(problem.space, rng, 1, tried)
        return Suggestion(left[int(rng.integers(len(left)))], "drawn") if left else None
