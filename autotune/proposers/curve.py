"""Propose the launch with the greatest expected improvement of the envelope (``proposer=curve``).

The envelope of a job-wide setting is the setting's best time at each size over the per-size choices (see
``history.objectives``). A campaign's objectives evaluate envelopes, not single launches. So the value of a
launch is the amount by which it is expected to lower the envelope at each size. ``curve_model`` predicts
curves, ``acquisition`` computes by how much they would lower the envelope, and this module decides whether to
launch a new point, to launch the best setting again because it may have been lucky, or to stop.
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
"""Number of times that the neighbours of the best candidates are examined next, in a large space."""
IMPROVED = 4
"""Number of best candidates whose neighbours are examined each time."""
STARTED = 3
"""Number of settings that are launched before the model is used: the default, and two that differ as much as
possible."""
_FARTHEST = "the farthest from what was launched"


@dataclass(frozen=True, slots=True)
class Curve:
    """A proposer that models whole curves jointly and chooses the launch that improves the envelope most."""

    repeats: bool = True
    """Whether a point that may have been lucky is launched again if this has a larger value than a new
    point."""
    candidates: int = 512  # Number of points that are drawn from a space that is too large to be enumerated.
    warm_start: tuple[FinishedCampaign, ...] = ()  # Finished campaigns whose launches the model also uses.
    samples: int = 128  # Number of curves that are drawn for each candidate if its value has no closed form.

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """Return the launch with the largest expected gain.

        The result is None if every point was launched, or if all gains are below the problem's ``min_gain``.
        """
        rng = np.random.default_rng([seed, len(history)])
        observations = launches(problem, history)
        launched = {o.trial.point for o in observations}
        if not observations:
            return Suggestion(problem.space.default, "the default first")
        if not any(o.ok for o in observations):
            untried = pool(problem.space, rng, 1, launched)
            note = "drawn: nothing has worked yet"
            return Suggestion(untried[int(rng.integers(len(untried)))], note) if untried else None
        if len(launched) < STARTED and not (self.warm_start or problem.earlier):
            untried = pool(problem.space, rng, self.candidates, launched)
            return Suggestion(farthest(problem.space, untried, launched, rng), _FARTHEST) if untried else None
        with warnings.catch_warnings(action="ignore"):  # BoTorch's imports cause warnings
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
        # If launch after launch of similar settings was slower than allowed, further similar settings
        # probably are as well.
        loses_nowhere = _chances(problem.known, state.curves.points, state.lost.tolist())
        suggestion, worth, considered = None, 0.0, set(launched)
        points = pool(problem.space, rng, self.candidates, considered, around=state.leaders())
        # Points about which nothing is known have equal values; a random order makes the choice among them
        # random.
        points = [points[i] for i in rng.permutation(len(points))]
        # A small space is compared as a whole. In a large space, neighbours of the best drawn points are
        # compared next.
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
    """Return a function that predicts, for coded points, the probability that a launch is not bad.

    ``bad`` says of each launched point whether the launch was bad.
    """
    if not any(bad):
        return lambda codes: np.ones(len(codes))
    rate = np.array(bad, dtype=float)[:, None]
    model = CurveModel(space, [("bad", 0, 0)], Curves(points, rate, np.full_like(rate, 0.1)))
    return lambda codes: np.clip(1 - model.predicted(codes).mean[:, 0], 0.02, 1.0)
