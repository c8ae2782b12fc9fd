"""``proposer=smac``: SMAC3's random forest with expected improvement, several objectives by ParEGO.

Each call gives a fresh optimiser the whole history and asks it once; SMAC's files go to a directory that is
gone when the call returns.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from autotune.campaign.ports import Problem, Suggestion
from autotune.proposers.observations import LaunchCosts, launch_costs, nearest, pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ConfigSpace import ConfigurationSpace
    from smac.facade.abstract_facade import AbstractFacade

    from autotune.history.trial import History
    from autotune.space import Parameter, Space, Value


@dataclass(frozen=True, slots=True)
class Smac:
    """SMAC3 on the cost of each launch."""

    initial: int = 4  # Launches before the forest takes over: the default and drawn points.

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """The point that an optimiser with this history asks for; None when every point was tried."""
        rng = np.random.default_rng([seed, len(history)])
        seen = launch_costs(problem, history)
        tried = {s.point for s in seen}
        left = pool(problem.space, rng, 1, tried)
        if not left:
            return None
        if problem.space.default not in tried:
            return Suggestion(problem.space.default, "the default first")
        good = [s for s in seen if s.costs is not None]
        if len(seen) < self.initial or not good:
            return Suggestion(left[int(rng.integers(len(left)))], "drawn")
        with tempfile.TemporaryDirectory(prefix="autotune-smac-") as directory:
            values = _ask(problem, good, int(rng.integers(2**31)), Path(directory))
        if values is None:
            return Suggestion(left[int(rng.integers(len(left)))], "drawn: SMAC has nothing more to ask for")
        point = nearest(problem.space, values, rng, tried)
        return None if point is None else Suggestion(point, "asked for by SMAC")


def _ask(
    problem: Problem, good: Sequence[LaunchCosts], seed: int, directory: Path
) -> dict[str, Value] | None:
    """The values that SMAC asks for; None where it has tried all that differ for it."""
    with warnings.catch_warnings(action="ignore"):  # of the libraries that SMAC builds on
        optimiser, space = _optimiser(problem, seed, directory)
        for s in good:
            _tell(optimiser, space, problem, s)
        from smac.main.exceptions import ConfigurationSpaceExhaustedException

        try:
            asked = optimiser.ask().config
        except ConfigurationSpaceExhaustedException:
            return None
    return {p.name: p.values[int(asked[p.name])] for p in _free(problem.space)}


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
        n_trials=10_000,  # the budget is the campaign's business
        seed=seed,
    )
    logging.getLogger("smac").setLevel(logging.ERROR)  # it misses an initial design: the history is one
    design = Facade.get_initial_design(scenario, n_configs=0)
    return Facade(scenario, initial_design=design, logging_level=False, overwrite=True), space


def _tell(optimiser: AbstractFacade, space: ConfigurationSpace, problem: Problem, s: LaunchCosts) -> None:
    """Add one launch; inactive parameters have their defaults."""
    from ConfigSpace import Configuration
    from smac.runhistory.dataclasses import TrialInfo, TrialValue

    free = _free(problem.space)
    values = {p.name: p.values.index(s.point.get(p.name, p.default)) for p in free}
    costs = list(s.costs or ())
    value = TrialValue(cost=costs if len(costs) > 1 else costs[0])
    optimiser.tell(TrialInfo(Configuration(space, values=values), seed=0), value, save=False)


def _configuration_space(space: Space) -> ConfigurationSpace:
    """Indices of values: whole numbers where all values lie on a scale, else categories."""
    from ConfigSpace import Categorical, ConfigurationSpace, Integer

    configurations = ConfigurationSpace(seed=0)
    for p in _free(space):
        n, default = len(p.values), p.values.index(p.default)
        if len(p.scale) == n:
            configurations.add(Integer(p.name, (0, n - 1), default=default))
        else:
            configurations.add(Categorical(p.name, list(range(n)), default=default))
    return configurations


def _free(space: Space) -> list[Parameter]:
    return [p for p in space.job if len(p.values) > 1]
