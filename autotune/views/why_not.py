"""Why a setting with a better mean is not the recommended one, in a few words (step 12 of the flow)."""

import math
from collections.abc import Sequence

from autotune.history.objectives import Z95, Objective
from autotune.recommend.front import Candidate
from autotune.recommend.summary import ratio_to
from autotune.views.text import ratio_text


def why_not(objectives: Sequence[Objective], one: Candidate, chosen: Candidate) -> str:
    """Why ``one``, of the Pareto front, is not recommended but ``chosen``, by the launches of the search."""
    ratios, errors = [], []
    for objective, mine, other in zip(objectives, one.scores, chosen.scores, strict=True):
        ratios.append(ratio_to(objective, mine, other))
        errors.append(math.hypot(mine.sem / mine.value, other.sem / other.value))
    if all(abs(math.log(r)) <= Z95 * e for r, e in zip(ratios, errors, strict=True)):
        return "difference within the noise (95 %)"
    said = ", ".join(f"{o.name} {ratio_text(r)}" for o, r in zip(objectives, ratios, strict=True))
    if min(ratios) < 1 <= max(ratios) and math.prod(ratios) <= 1:
        return f"against the recommended setting {said}: worse overall"
    return f"against the recommended setting {said}, but only in the search: not verified"
