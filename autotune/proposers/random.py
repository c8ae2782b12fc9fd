"""Propose random points, none of them twice, as a baseline for all other methods (``proposer=random``)."""

from dataclasses import dataclass

import numpy as np

from autotune.campaign.ports import Problem, Suggestion
from autotune.history.trial import History
from autotune.proposers.observations import launches, pool


@dataclass(frozen=True, slots=True)
class Random:
    """A proposer that draws each point uniformly from the points that were not launched yet."""

    repeats: bool = False  # Whether a point may be drawn several times.

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """Return a random point, determined by seed and length of history; None if all were launched."""
        rng = np.random.default_rng([seed, len(history)])
        launched = set() if self.repeats else {o.trial.point for o in launches(problem, history)}
        untried = pool(problem.space, rng, 1, launched)
        return Suggestion(untried[int(rng.integers(len(untried)))], "drawn") if untried else None
