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

from numpy.random import Generator

from autotune.campaign.ports import Problem, Suggestion
from autotune.proposers.observations import LaunchCosts, asked, free_in, indices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ConfigSpace import ConfigurationSpace
    from smac.facade.abstract_facade import AbstractFacade

    from autotune.history.trial import History
    from autotune.space import Point, Space


@dataclass(frozen=True, slots=True)
class Smac:
    """SMAC3 on the cost of each launch."""

    initial: int = 4  # Launches before the forest takes over: the default and drawn points.

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """The point that an optimiser with this history asks for; None when every point was tried."""

        def ask(seen: Sequence[LaunchCosts], left: Sequence[Point], rng: Generator) -> dict[str, int] | str:
            good = [s for s in seen if s.costs is not None]
            if len(seen) < self.initial or not good:
                return "drawn"
            with tempfile.TemporaryDirectory(prefix="autotune-smac-") as directory:
                return _ask(problem, good, int(rng.integers(2**31)), Path(directory))

        return asked(problem, history, seed, ask, "SMAC")


def _ask(problem: Problem, good: Sequence[LaunchCosts], seed: int, directory: Path) -> dict[str, int] | str:
    """The indices that SMAC asks for; words where it has tried all that differ for it."""
    with warnings.catch_warnings(action="ignore"):  # of the libraries that SMAC builds on
        optimiser, space = _optimiser(problem, seed, directory)
        for s in good:
            _tell(optimiser, space, problem, s)
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

    values, costs = indices(problem.space, s.point), list(s.costs or ())
    value = TrialValue(cost=costs if len(costs) > 1 else costs[0])
    optimiser.tell(TrialInfo(Configuration(space, values=values), seed=0), value, save=False)


def _configuration_space(space: Space) -> ConfigurationSpace:
    """Indices of values: whole numbers where all values lie on a scale, else categories."""
    from ConfigSpace import Categorical, ConfigurationSpace, Integer

    configurations = ConfigurationSpace(seed=0)
    for p in free_in(space):
        n, default = len(p.values), p.values.index(p.default)
        if len(p.scale) == n:
            configurations.add(Integer(p.name, (0, n - 1), default=default))
        else:
            configurations.add(Categorical(p.name, list(range(n)), default=default))
    return configurations
