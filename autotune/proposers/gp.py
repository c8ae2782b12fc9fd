"""Propose by a plain Gaussian process, with expected improvement of one score per launch (``proposer=gp``).

This is the textbook method, which knows nothing about collectives; the proposer ``curve`` has to be better.
At each call several objectives are combined into one, with random weights (ParEGO).
"""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.campaign.ports import Problem, Suggestion
from autotune.history.trial import History
from autotune.proposers.observations import LaunchCosts, launch_costs, pool
from autotune.space import encode


@dataclass(frozen=True, slots=True)
class MeanProcess:
    """A proposer that maximises the expected improvement of one number per launch."""

    initial: int = 3  # Number of launches before the model is used: the default, followed by random points.
    candidates: int = 512  # Number of points that are drawn from a space that is too large to be enumerated.

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """Return the new point with the largest expected improvement; None if every point was launched."""
        rng = np.random.default_rng([seed, len(history)])
        costs_of_launches = launch_costs(problem, history)
        launched = {launch.point for launch in costs_of_launches}
        if problem.space.default not in launched:
            return Suggestion(problem.space.default, "the default first")
        good = [launch for launch in costs_of_launches if launch.costs is not None]
        costs = _scalarised(good, rng)
        best = [good[i].point for i in np.argsort(costs)[:3]]
        untried = pool(problem.space, rng, self.candidates, launched, around=best)
        if not untried:
            return None
        if len(costs_of_launches) < self.initial or len(good) < 2 or float(np.std(costs)) == 0:
            return Suggestion(untried[int(rng.integers(len(untried)))], "drawn")
        gains = _improvement(
            encode(problem.space, [launch.point for launch in good]), costs, encode(problem.space, untried)
        )
        best_index = int(np.argmax(gains))
        return Suggestion(untried[best_index], "greatest expected improvement of the mean")


def _scalarised(good: list[LaunchCosts], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return one cost per launch: the augmented Chebyshev norm of randomly weighted, scaled objectives."""
    costs = np.array([s.costs for s in good if s.costs is not None])
    if costs.ndim < 2 or costs.shape[1] == 1:
        return costs.reshape(-1)
    span = np.ptp(costs, axis=0)
    scaled = (costs - costs.min(axis=0)) / np.where(span > 0, span, 1.0)
    weighted = scaled * rng.dirichlet(np.ones(costs.shape[1]))
    return np.asarray(weighted.max(axis=1) + 0.05 * weighted.sum(axis=1))


def _improvement(
    x: NDArray[np.float64], costs: NDArray[np.float64], candidates: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return ln of the expected improvement of each candidate, (q,), with BoTorch's default model."""
    import torch

    targets = -(costs - costs.mean()) / costs.std()
    with warnings.catch_warnings(action="ignore"):  # BoTorch's imports and constant inputs cause warnings
        from botorch.acquisition.analytic import LogExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from gpytorch.mlls import ExactMarginalLogLikelihood

        model = SingleTaskGP(torch.as_tensor(x), torch.as_tensor(targets)[:, None])
        fit_gpytorch_mll(
            ExactMarginalLogLikelihood(model.likelihood, model), optimizer_kwargs={"options": {"maxiter": 50}}
        )
        improvement = LogExpectedImprovement(model, best_f=float(targets.max()))
        with torch.no_grad():
            return np.asarray(improvement(torch.as_tensor(candidates)[:, None, :]).numpy())
