"""``proposer=optuna``: Optuna's tree-structured Parzen estimator or its Gaussian process.

Each call gives a fresh in-memory study the whole history and asks it once.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from autotune.campaign.ports import Problem, Suggestion
from autotune.errors import ScenarioError, allowed
from autotune.proposers.observations import LaunchCosts, launch_costs, nearest, pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

    from autotune.history.trial import History
    from autotune.space import Parameter, Value

SAMPLERS = ("tpe", "gp")


@dataclass(frozen=True, slots=True)
class Optuna:
    """Optuna's samplers on the cost of each launch."""

    sampler: str = "tpe"  # One of ``SAMPLERS``.
    initial: int = 5  # Launches before the sampler's model takes over, the default among them.

    def __post_init__(self) -> None:
        """Check the name.

        Raises:
            ScenarioError: a sampler that is not one of ``SAMPLERS``.
        """
        if self.sampler not in SAMPLERS:
            raise ScenarioError(f"unknown sampler {self.sampler!r}", allowed(self.sampler, SAMPLERS))

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """The point that a study with this history asks for; None when every point was tried."""
        rng = np.random.default_rng([seed, len(history)])
        seen = launch_costs(problem, history)
        tried = {s.point for s in seen}
        left = pool(problem.space, rng, 1, tried)
        if not left:
            return None
        if problem.space.default not in tried:
            return Suggestion(problem.space.default, "the default first")
        with warnings.catch_warnings(action="ignore"):  # Optuna marks what we use as experimental
            values = self._ask(problem, seen, int(rng.integers(2**31)))
        point = nearest(problem.space, values, rng, tried)
        return None if point is None else Suggestion(point, f"asked for by Optuna ({self.sampler})")

    def _ask(self, problem: Problem, seen: Sequence[LaunchCosts], seed: int) -> dict[str, Value]:
        from optuna import create_study, logging
        from optuna.trial import TrialState, create_trial

        logging.set_verbosity(logging.ERROR)
        free = [p for p in problem.space.job if len(p.values) > 1]
        distributions = {p.name: _distribution(p) for p in free}
        sampler = self._sampler(seed)
        study = create_study(directions=["minimize"] * len(problem.objectives), sampler=sampler)
        for s in seen:
            # An inactive parameter has its default: Optuna's joint samplers skip trials with gaps.
            indices = {p.name: p.values.index(s.point.get(p.name, p.default)) for p in free}
            state = TrialState.FAIL if s.costs is None else TrialState.COMPLETE
            study.add_trial(
                create_trial(params=indices, distributions=distributions, values=s.costs, state=state)
            )
        asked = study.ask(distributions)
        return {p.name: p.values[asked.params[p.name]] for p in free}

    def _sampler(self, seed: int) -> BaseSampler:
        from optuna.samplers import GPSampler, TPESampler

        if self.sampler == "gp":
            return GPSampler(seed=seed, n_startup_trials=self.initial)
        return TPESampler(seed=seed, n_startup_trials=self.initial, multivariate=True)


def _distribution(parameter: Parameter) -> BaseDistribution:
    """The index of the value: a range where all values lie on a scale, else categories."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    n = len(parameter.values)
    return (
        IntDistribution(0, n - 1) if len(parameter.scale) == n else CategoricalDistribution(tuple(range(n)))
    )
