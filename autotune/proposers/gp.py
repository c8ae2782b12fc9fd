"""``proposer=gp``: a plain Gaussian process with expected improvement on the mean of each curve.

The textbook method, without anything that knows what a collective is: the rival that ``curve`` has to beat.
Several objectives are drawn into one at each call (ParEGO).
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
    """Expected improvement of one number per launch."""

    initial: int = 3  # Launches before the model takes over: the default and drawn points.
    candidates: int = 512  # Points that are drawn from a space too large to be enumerated.

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """The untried candidate with the greatest expected improvement; None when there is none."""
        rng = np.random.default_rng([seed, len(history)])
        seen = launch_costs(problem, history)
        tried = {s.point for s in seen}
        if problem.space.default not in tried:
            return Suggestion(problem.space.default, "the default first")
        good = [s for s in seen if s.costs is not None]
        costs = _scalarised(good, rng)
        best = [good[i].point for i in np.argsort(costs)[:3]]
        left = pool(problem.space, rng, self.candidates, tried, around=best)
        if not left:
            return None
        if len(seen) < self.initial or len(good) < 2 or float(np.std(costs)) == 0:
            return Suggestion(left[int(rng.integers(len(left)))], "drawn")
        gains = _improvement(
            encode(problem.space, [s.point for s in good]), costs, encode(problem.space, left)
        )
        chosen = int(np.argmax(gains))
        return Suggestion(left[chosen], "greatest expected improvement of the mean")


def _scalarised(good: list[LaunchCosts], rng: np.random.Generator) -> NDArray[np.float64]:
    """One cost per launch: the augmented Chebyshev norm with drawn weights of the scaled objectives."""
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
    """Logarithm of the expected improvement of each candidate, by BoTorch's defaults for one output."""
    import torch

    targets = -(costs - costs.mean()) / costs.std()
    with warnings.catch_warnings(action="ignore"):  # BoTorch warns of itself and of constant inputs
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
