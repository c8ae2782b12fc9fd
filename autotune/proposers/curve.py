"""``proposer=curve``: the launch with the greatest expected improvement of the envelope.

What is judged is not a launch but the envelope of a job-wide setting (see ``objectives``), so a launch is
worth what it is expected to take off that envelope at each size. ``curve_model`` predicts curves,
``acquisition`` says what they would change, this module decides: a new point, a doubtful leader again, or
nothing more.
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
from autotune.proposers.observations import informative, launches, pool
from autotune.proposers.warm_start import FinishedCampaign, with_finished
from autotune.space import Point, Space

ROUNDS = 2
"""How often the best candidates of a large space are replaced by their neighbours."""
IMPROVED = 4
"""How many of them."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Models whole curves jointly and improves the envelope."""

    repeats: bool = True  # Whether a doubtful leader is launched again where it is worth more.
    candidates: int = 512  # Points that are drawn from a space too large to be enumerated.
    warm_start: tuple[FinishedCampaign, ...] = ()  # Finished campaigns whose launches are brought along.
    samples: int = 128  # Curves drawn for each candidate where no closed form exists.

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """The launch worth most; None when every point was tried or none is worth ``min_gain``."""
        rng = np.random.default_rng([seed, len(history)])
        seen = launches(problem, history)
        tried = {o.trial.point for o in seen}
        if not seen:
            return Suggestion(problem.space.default, "the default first")
        if not any(o.ok for o in seen):
            left = pool(problem.space, rng, 1, tried)
            note = "drawn: nothing has worked yet"
            return Suggestion(left[int(rng.integers(len(left)))], note) if left else None
        with warnings.catch_warnings(action="ignore"):  # BoTorch's imports warn about themselves
            untouched = history.untouched.observations
            return self._choose(problem, informative(problem, seen), untouched, tried, rng, seed)

    def _choose(
        self,
        problem: Problem,
        seen: Sequence[Observation],
        untouched: Sequence[Observation],
        tried: set[Point],
        rng: np.random.Generator,
        seed: int,
    ) -> Suggestion | None:
        state = SearchState.of(problem, seen, untouched)
        curves = state.curves
        if self.warm_start:
            curves = with_finished(curves, self.warm_start, problem.known, state.slots)
        model = CurveModel(problem.known, state.slots, curves)
        believed = state.believed(model)
        works = _chances(problem.known, [o.trial.point for o in seen], [not o.ok for o in seen])
        # A size at which a family loses, launch after launch, is no chance of each of its settings anew.
        loses_nowhere = _chances(problem.known, state.curves.points, state.lost.tolist())
        suggestion, worth, known = None, 0.0, set(tried)
        points = pool(problem.space, rng, self.candidates, known, around=state.leaders())
        # What nothing is known of is worth the same: by chance, not by the order in which somebody wrote it.
        points = [points[i] for i in rng.permutation(len(points))]
        # All of a small space are compared at once; in a large one the best of those drawn are improved on.
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
            known |= set(points)
            if problem.space.size <= len(known):
                break
            near = (q for i in order[:IMPROVED] for q in problem.space.neighbours(points[i]))
            points = [q for q in dict.fromkeys(near) if q not in known]
        if self.repeats:
            again = self._again(state)
            if again and (suggestion is None or (again.expected_gain or 0) > (suggestion.expected_gain or 0)):
                suggestion = again
        if suggestion is None or (suggestion.expected_gain or 0) < problem.min_gain:
            return None
        return suggestion

    def _again(self, state: SearchState) -> Suggestion | None:
        worth = state.worth_of_repeating()
        if not worth:
            return None
        point = max(worth, key=lambda p: worth[p])
        if worth[point] <= 0:
            return None
        return Suggestion(point, f"again: worth {100 * worth[point]:.2f} % to be sure of it", worth[point])


def _chances(
    space: Space, shown: Sequence[Point], bad: Sequence[bool]
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """From values of points to the chance that a launch of them is not bad: a curve of one slot, 0 or 1."""
    if not any(bad):
        return lambda codes: np.ones(len(codes))
    rate = np.array(bad, dtype=float)[:, None]
    model = CurveModel(space, [("bad", 0, 0)], Curves(shown, rate, np.full_like(rate, 0.1)))
    return lambda codes: np.clip(1 - model.predicted(codes).mean[:, 0], 0.02, 1.0)
