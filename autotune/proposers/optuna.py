"""Propose by Optuna's tree-structured Parzen estimator or its Gaussian process (``proposer=optuna``).

Each call makes a new study in memory, adds the whole history to it and asks it for one point.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numpy.random import Generator

from autotune.campaign.ports import Problem, Suggestion
from autotune.errors import ScenarioError, allowed
from autotune.proposers.observations import LaunchCosts, free_in, indices, sampler_suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

    from autotune.history.trial import History
    from autotune.space import Parameter, Point

SAMPLERS = ("tpe", "gp")


@dataclass(frozen=True, slots=True)
class Optuna:
    """A proposer that applies a sampler of Optuna to the costs of the launches."""

    sampler: str = "tpe"  # One of ``SAMPLERS``.
    initial: int = 5  # Number of launches, including the default, before the sampler uses its model.

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise ScenarioError(f"unknown sampler {self.sampler!r}", allowed(self.sampler, SAMPLERS))

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """Return the point that Optuna asks for after this history; None if every point was launched."""

        def ask(
            launch_costs: Sequence[LaunchCosts], untried: Sequence[Point], rng: Generator
        ) -> dict[str, int]:
            with warnings.catch_warnings(action="ignore"):  # some of the used features are experimental
                return self._ask(problem, launch_costs, int(rng.integers(2**31)))

        return sampler_suggestion(problem, history, seed, ask, f"Optuna ({self.sampler})")

    def _ask(self, problem: Problem, launch_costs: Sequence[LaunchCosts], seed: int) -> dict[str, int]:
        from optuna import create_study, logging
        from optuna.trial import TrialState, create_trial

        logging.set_verbosity(logging.ERROR)
        distributions = {p.name: _distribution(p) for p in free_in(problem.space)}
        sampler = self._sampler(seed)
        study = create_study(directions=["minimize"] * len(problem.objectives), sampler=sampler)
        for launch in launch_costs:
            # A parameter that is not active gets its default, because Optuna's joint samplers skip incomplete
            # trials.
            state = TrialState.FAIL if launch.costs is None else TrialState.COMPLETE
            params = indices(problem.space, launch.point)
            study.add_trial(
                create_trial(params=params, distributions=distributions, values=launch.costs, state=state)
            )
        return {name: int(index) for name, index in study.ask(distributions).params.items()}

    def _sampler(self, seed: int) -> BaseSampler:
        from optuna.samplers import GPSampler, TPESampler

        if self.sampler == "gp":
            return GPSampler(seed=seed, n_startup_trials=self.initial)
        return TPESampler(seed=seed, n_startup_trials=self.initial, multivariate=True)


def _distribution(parameter: Parameter) -> BaseDistribution:
    """Return the distribution of a value's index: a range if all values are on a scale, else categories."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    n = len(parameter.values)
    on_scale = len(parameter.scale) == n
    return IntDistribution(0, n - 1) if on_scale else CategoricalDistribution(tuple(range(n)))
