"""``proposer=ax``: Ax's own choice of model and acquisition function, by its ``Client``.

Each call builds the client anew from the history, so the state of Ax never matters; failed launches are
abandoned trials. Importing Ax takes seconds and happens at the first call.
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
from autotune.proposers.observations import LaunchCosts, asked, free_in, indices
from autotune.space import Point

if TYPE_CHECKING:
    from ax.api.client import Client


@dataclass(frozen=True, slots=True)
class Ax:
    """Bayesian optimisation as Ax does it by default."""

    initial: int = 5  # Launches before the model takes over: quasi-random points, the default among them.
    method: str = "fast"  # ``fast`` (a Gaussian process), ``quality`` (fully Bayesian), ``random_search``.

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """The suggestion of a client that saw this history; None when every point was tried."""

        def ask(seen: list[LaunchCosts], left: list[Point], rng: Generator) -> Mapping[str, int] | str:
            return self._asked(problem, seen, seed) if len(left) > 1 else "the last one"

        return asked(problem, history, seed, ask, "Ax")

    def _asked(self, problem: Problem, seen: list[LaunchCosts], seed: int) -> Mapping[str, int] | str:
        with warnings.catch_warnings(action="ignore"):  # Ax and what it builds on warn about themselves
            _compile_nothing()
            client = self._client(problem, seed)
            # Ax takes standard errors of all launches or of none.
            known = all(math.isfinite(e) for s in seen for e in s.sems)
            for s in seen:
                _tell(client, problem, s, known)
            from ax.exceptions.core import SearchSpaceExhausted

            try:
                [(_, wanted)] = client.get_next_trials(max_trials=1).items()
            except SearchSpaceExhausted:  # it knows no conditions: what is left is all the same to it
                return "drawn: Ax has nothing more to suggest"
        return {name: int(index) for name, index in wanted.items()}

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
    """Keep BoTorch from compiling its fused kernel of the hypervolume improvement at first use.

    That takes a minute, comes from a cache that is not checked, and is guarded by a file: who is killed
    meanwhile leaves it behind, and every later process waits for it without end (``torch.utils.file_baton``).
    The same is computed without it.
    """
    from botorch.acquisition.multi_objective import logei

    logei._load_attempted = True


def _tell(client: "Client", problem: Problem, s: LaunchCosts, known: bool) -> None:
    trial = client.attach_trial({**indices(problem.space, s.point)})
    if s.costs is None:
        client.mark_trial_abandoned(trial)
        return
    data: dict[str, float | tuple[float, float]] = {}
    for name, cost, sem in zip(_metrics(problem), s.costs, s.sems, strict=True):
        data[name] = (cost, sem) if known else cost
    client.complete_trial(trial, raw_data=data)


def _metrics(problem: Problem) -> list[str]:
    return [f"cost_{i}_{o.name}" for i, o in enumerate(problem.objectives)]
