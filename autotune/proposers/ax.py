"""Propose launches by Ax, with its own choice of model and acquisition function (``proposer=ax``).

Each call builds Ax's ``Client`` anew from the history, so that no state remains between calls. Failed
launches are abandoned trials for Ax. Ax is imported at the first call, because the import takes seconds.
"""

import logging
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numpy.random import Generator

from autotune.campaign.ports import Problem, Suggestion
from autotune.history.trial import History
from autotune.proposers.observations import LaunchCosts, free_in, indices, sampler_suggestion
from autotune.space import Point

if TYPE_CHECKING:
    from ax.api.client import Client


@dataclass(frozen=True, slots=True)
class Ax:
    """Propose by Bayesian optimisation, with Ax's own defaults."""

    initial: int = 5
    """Number of launches before the model is used: the default, followed by quasi-random points."""
    method: str = "fast"  # ``fast`` (a Gaussian process), ``quality`` (fully Bayesian), or ``random_search``.

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """Return the point that Ax suggests after this history; None if every point was launched."""

        def ask(
            launch_costs: list[LaunchCosts], untried: list[Point], rng: Generator
        ) -> Mapping[str, int] | str:
            return self._suggested(problem, launch_costs, seed) if len(untried) > 1 else "the last one"

        return sampler_suggestion(problem, history, seed, ask, "Ax")

    def _suggested(
        self, problem: Problem, launch_costs: list[LaunchCosts], seed: int
    ) -> Mapping[str, int] | str:
        with warnings.catch_warnings(action="ignore"):  # Ax and its dependencies warn about their own code
            _compile_nothing()
            client = self._client(problem, seed)
            # Ax needs the standard errors of either all launches or no launch.
            has_errors = all(math.isfinite(e) for launch in launch_costs for e in launch.sems)
            for launch in launch_costs:
                _tell(client, problem, launch, has_errors)
            from ax.exceptions.core import SearchSpaceExhausted

            try:
                [(_, parameters)] = client.get_next_trials(max_trials=1).items()
            # Ax sees no difference between points in which a parameter has no effect
            except SearchSpaceExhausted:
                return "drawn: Ax has nothing more to suggest"
        return {name: int(index) for name, index in parameters.items()}

    def _client(self, problem: Problem, seed: int) -> "Client":
        from ax.api.client import Client
        from ax.api.configs import ChoiceParameterConfig
        from ax.utils.common.logger import set_ax_logger_levels

        set_ax_logger_levels(logging.ERROR)
        client = Client(random_seed=seed)
        client.configure_experiment(
            [
                ChoiceParameterConfig(
                    name=p.name,
                    values=list(range(len(p.values))),
                    parameter_type="int",
                    is_ordered=len(p.scale) == len(p.values),
                )
                for p in free_in(problem.space)
            ]
        )
        client.configure_optimization(", ".join(f"-{name}" for name in _metrics(problem)))
        client.configure_generation_strategy(
            method=self.method,  # type: ignore[arg-type] # Ax checks it and lists what it knows
            initialization_budget=self.initial,
            initialization_random_seed=seed,
            initialize_with_center=False,
        )
        return client


def _compile_nothing() -> None:
    """Prevent BoTorch from compiling its fused kernel for the hypervolume improvement at first use.

    The compilation takes a minute, uses a cache that is not checked, and is guarded by a lock file: if the
    process is killed, the file remains, and every later process waits forever for its removal
    (``torch.utils.file_baton``). Without the kernel BoTorch computes the same values.
    """
    from botorch.acquisition.multi_objective import logei

    logei._load_attempted = True


def _tell(client: "Client", problem: Problem, launch: LaunchCosts, has_errors: bool) -> None:
    trial = client.attach_trial({**indices(problem.space, launch.point)})
    if launch.costs is None:
        client.mark_trial_abandoned(trial)
        return
    data: dict[str, float | tuple[float, float]] = {}
    for name, cost, sem in zip(_metrics(problem), launch.costs, launch.sems, strict=True):
        data[name] = (cost, sem) if has_errors else cost
    client.complete_trial(trial, raw_data=data)


def _metrics(problem: Problem) -> list[str]:
    return [f"cost_{i}_{o.name}" for i, o in enumerate(problem.objectives)]
