"""Propose by SMAC3's random forest with expected improvement (``proposer=smac``).

Several objectives are combined by ParEGO. Each call makes a new optimiser, adds the whole history to it and
asks it for one point. SMAC's files are in a temporary directory, which is removed when the call returns.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.random import Generator

from autotune.campaign.ports import Problem, Suggestion
from autotune.proposers.observations import LaunchCosts, free_in, indices, sampler_suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ConfigSpace import ConfigurationSpace
    from smac.facade.abstract_facade import AbstractFacade

    from autotune.history.trial import History
    from autotune.space import Point, Space


@dataclass(frozen=True, slots=True)
class Smac:
    """A proposer that applies SMAC3 to the costs of the launches."""

    initial: int = 4  # Number of launches before the forest is used: the default, followed by random points.

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """Return the point that SMAC asks for after this history; None if every point was launched."""

        def ask(
            launch_costs: Sequence[LaunchCosts], untried: Sequence[Point], rng: Generator
        ) -> dict[str, int] | str:
            good = [launch for launch in launch_costs if launch.costs is not None]
            if len(launch_costs) < self.initial or not good:
                return "drawn"
            with tempfile.TemporaryDirectory(prefix="autotune-smac-") as directory:
                return _ask(problem, good, int(rng.integers(2**31)), Path(directory))

        return sampler_suggestion(problem, history, seed, ask, "SMAC")


def _ask(problem: Problem, good: Sequence[LaunchCosts], seed: int, directory: Path) -> dict[str, int] | str:
    """Return the index of each value that SMAC asks for, or in words why it has no further point."""
    with warnings.catch_warnings(action="ignore"):  # SMAC's dependencies warn about their own code
        optimiser, space = _optimiser(problem, seed, directory)
        for launch in good:
            _tell(optimiser, space, problem, launch)
        from smac.main.exceptions import ConfigurationSpaceExhaustedException

        try:
            return {name: int(index) for name, index in dict(optimiser.ask().config).items()}
        except ConfigurationSpaceExhaustedException:
            return "drawn: SMAC has nothing more to ask for"


def _optimiser(problem: Problem, seed: int, directory: Path) -> tuple[AbstractFacade, ConfigurationSpace]:
    from smac import HyperparameterOptimizationFacade as Facade
    from smac import Scenario

    space = _configuration_space(problem.space)
    several = len(problem.objectives) > 1
    scenario = Scenario(
        space,
        output_directory=directory,
        deterministic=True,
        objectives=[f"cost_{i}" for i in range(len(problem.objectives))] if several else "cost",
        n_trials=10_000,  # this number is never reached, because the campaign limits the number of launches
        seed=seed,
    )
    # SMAC warns that there is no initial design; the history takes its place.
    logging.getLogger("smac").setLevel(logging.ERROR)
    design = Facade.get_initial_design(scenario, n_configs=0)
    return Facade(scenario, initial_design=design, logging_level=False, overwrite=True), space


def _tell(
    optimiser: AbstractFacade, space: ConfigurationSpace, problem: Problem, launch: LaunchCosts
) -> None:
    from ConfigSpace import Configuration
    from smac.runhistory.dataclasses import TrialInfo, TrialValue

    values, costs = indices(problem.space, launch.point), list(launch.costs or ())
    value = TrialValue(cost=costs if len(costs) > 1 else costs[0])
    optimiser.tell(TrialInfo(Configuration(space, values=values), seed=0), value, save=False)


def _configuration_space(space: Space) -> ConfigurationSpace:
    """Return SMAC's search space, in which a value is its index: an integer on a scale, else a category."""
    from ConfigSpace import Categorical, ConfigurationSpace, Integer

    configurations = ConfigurationSpace(seed=0)
    for p in free_in(space):
        n, default = len(p.values), p.values.index(p.default)
        if len(p.scale) == n:
            configurations.add(Integer(p.name, (0, n - 1), default=default))
        else:
            configurations.add(Categorical(p.name, list(range(n)), default=default))
    return configurations
