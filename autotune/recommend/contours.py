"""How the launches vary over the two ordered parameters that matter most (beside step 10, for the report)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.errors import UserError
from autotune.history.objectives import Objective
from autotune.history.trial import Subject
from autotune.recommend.summary import Step
from autotune.screening import Effects, ScreeningResult
from autotune.screening.decision import Goal
from autotune.screening.levels import ordered_codes
from autotune.screening.surface import Surface, response_surface
from autotune.space import Parameter, Space


@dataclass(frozen=True, slots=True)
class Contours:
    """One objective over two parameters, whatever else was set."""

    parameters: tuple[Parameter, ...]  # The two, the stronger one first.
    codes: NDArray[np.float64]  # (n_launches, 2) places of the launches, in [−1, 1].
    measured: NDArray[np.float64]  # (n_launches,) scores.
    surface: Surface  # A quadratic through the logarithms of the scores.


def strongest(space: Space, effects: Sequence[Effects], screening: ScreeningResult) -> tuple[Parameter, ...]:
    """The two ordered parameters with the largest effects, in standard errors, still searched, or none."""
    sizes = {
        name: max((_size(analysis, name) for analysis in effects), default=0.0)
        for name in screening.active
        if len(space[name].scale) > 1
    }
    names = sorted(sizes, key=lambda name: -sizes[name])[:2]
    return tuple(space[name] for name in names) if len(names) == 2 else ()


def contours(
    objective: Objective, index: int, parameters: tuple[Parameter, ...], steps: Sequence[Step]
) -> Contours | None:
    """Launches with both parameters on their scales, and the surface of an objective; None: too few."""
    swept = [
        (its.observation.trial.point, its.scores[index].value)
        for its in steps
        if its.scores is not None and its.observation.trial.subject is Subject.SWEEP
    ]
    codes = ordered_codes(parameters, [point for point, _ in swept])
    on_scale = np.all(np.isfinite(codes), axis=1)
    codes, measured = codes[on_scale], np.array([value for _, value in swept])[on_scale]
    names = [parameter.name for parameter in parameters]
    goal: Goal = "max" if objective.maximise else "min"
    try:
        surface = response_surface(names, codes, np.log(measured), np.random.default_rng(0), goal=goal)
    except UserError:
        return None
    return Contours(parameters, codes, measured, surface)


def _size(analysis: Effects, factor: str) -> float:
    effects = [effect for effect in analysis.effects if effect.factor == factor]
    ratios = [abs(its.effect) / its.std_err for its in effects if its.std_err > 0]
    return max((ratio for ratio in ratios if math.isfinite(ratio)), default=0.0)
