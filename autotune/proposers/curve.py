"""Propose the launch with the greatest expected improvement of the envelope (``proposer=curve``).

The search judges the envelope of a job-wide setting (see ``objectives``) and not a launch, so a launch is
worth what it is expected to take off that envelope at each size. ``curve_model`` predicts curves,
``acquisition`` computes what they would change, and this module decides: a new point, a doubtful leader
again, or nothing more.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.campaign.ports import Problem, Suggestion
from autotune.history.trial import History, Observation
from autotune.proposers.acquisition import SearchState
from autotune.proposers.curve_model import CurveModel, Curves
from autotune.proposers.observations import farthest, informative, launches, pool
from autotune.proposers.warm_start import FinishedCampaign, with_finished
from autotune.space import Point, Space

ROUNDS = 2
"""How often the best candidates of a large space are replaced by their neighbours."""
IMPROVED = 4
"""Number of best candidates that are replaced."""
STARTED = 3
"""Number of settings before the model chooses: the default and the two farthest away."""
_FARTHEST = "the farthest from what was launched"


@dataclass(frozen=True, slots=True)
class Curve:
    """Model whole curves jointly and improve the envelope."""

    repeats: bool = True
    """Whether a doubtful leader is launched again if that is worth more than a new point."""
    candidates: int = 512  # Number of points that are drawn from a space too large to be enumerated.
    warm_start: tuple[FinishedCampaign, ...] = ()  # Finished campaigns whose launches are used as well.
    samples: int = 128  # Number of curves drawn for each candidate where no closed form exists.

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """Return the launch worth most; None when every point was launched or none is worth ``min_gain``."""
        rng = np.random.default_rng([seed, len(history)])
        observations = launches(problem, history)
        launched = {o.trial.point for o in observations}
        if not observations:
            return Suggestion(problem.space.default, "the default first")
        if not any(o.ok for o in observations):
            untried = pool(problem.space, rng, 1, launched)
            note = "drawn: nothing has worked yet"
            return Suggestion(untried[int(rng.integers(len(untried)))], note) if untried else None
        if len(launched) < STARTED and not self.warm_start:
            untried = pool(problem.space, rng, self.candidates, launched)
            return Suggestion(farthest(problem.space, untried, launched, rng), _FARTHEST) if untried else None
        with warnings.catch_warnings(action="ignore"):  # BoTorch's imports warn about themselves
            untouched = history.untouched.observations
            return self._choose(problem, informative(problem, observations), untouched, launched, rng, seed)

    def _choose(
        self,
        problem: Problem,
        observations: Sequence[Observation],
        untouched: Sequence[Observation],
        launched: set[Point],
        rng: np.random.Generator,
        seed: int,
    ) -> Suggestion | None:
        state = SearchState.of(problem, observations, untouched)
        curves = state.curves
        if self.warm_start:
            curves = with_finished(curves, self.warm_start, problem.known, state.slots)
        model = CurveModel(problem.known, state.slots, curves)
        believed = state.believed(model)
        works = _chances(
            problem.known, [o.trial.point for o in observations], [not o.ok for o in observations]
        )
        # If settings of a family lose at a size, launch after launch, the others will probably lose too.
        loses_nowhere = _chances(problem.known, state.curves.points, state.lost.tolist())
        suggestion, worth, considered = None, 0.0, set(launched)
        points = pool(problem.space, rng, self.candidates, considered, around=state.leaders())
        # Points without any evidence have equal worth: choose among them at random, not in the space's order.
        points = [points[i] for i in rng.permutation(len(points))]
        # A small space is compared at once; in a large one the best of the drawn points are improved on.
        for _ in range(1 + ROUNDS):
            if not points:
                break
            codes = model.codes(points)
            predicted, likely, chances = model.predicted(codes), loses_nowhere(codes), works(codes)
            ranks, gains = believed.gains(points, predicted, self.samples, seed, likely)
            order = np.argsort(-ranks * chances, kind="stable")
            best = int(order[0])
            if suggestion is None or ranks[best] * chances[best] > worth:
                worth, gain = float(ranks[best] * chances[best]), float(gains[best] * chances[best])
                suggestion = Suggestion(points[best], f"expected to take {100 * gain:.1f} % off", gain)
            considered |= set(points)
            if problem.space.size <= len(considered):
                break
            near = (q for i in order[:IMPROVED] for q in problem.space.neighbours(points[i]))
            points = [q for q in dict.fromkeys(near) if q not in considered]
        if self.repeats:
            repetition = self._repetition(state)
            if repetition and (
                suggestion is None or (repetition.expected_gain or 0) > (suggestion.expected_gain or 0)
            ):
                suggestion = repetition
        if suggestion is None or (suggestion.expected_gain or 0) < problem.min_gain:
            return None
        return suggestion

    def _repetition(self, state: SearchState) -> Suggestion | None:
        worth = state.worth_of_repeating()
        if not worth:
            return None
        point = max(worth, key=lambda p: worth[p])
        if worth[point] <= 0:
            return None
        return Suggestion(point, f"again: worth {100 * worth[point]:.2f} % to be sure of it", worth[point])


def _chances(
    space: Space, points: Sequence[Point], bad: Sequence[bool]
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return a function from values of points to the probability that a launch of them is not bad.

    The model is that of a curve with one slot, whose values are 0 and 1.
    """
    if not any(bad):
        return lambda codes: np.ones(len(codes))
    rate = np.array(bad, dtype=float)[:, None]
    model = CurveModel(space, [("bad", 0, 0)], Curves(points, rate, np.full_like(rate, 0.1)))
    return lambda codes: np.clip(1 - model.predicted(codes).mean[:, 0], 0.02, 1.0)
