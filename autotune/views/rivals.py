"""Say which settings besides the recommended one were in question, and why each of them is not chosen."""

import math
from collections.abc import Sequence

from autotune.history.objectives import Z95, Objective, Score
from autotune.recommend.front import Candidate, pareto_front
from autotune.recommend.recommendation import Recommendation
from autotune.recommend.summary import ratio_to
from autotune.space import Space
from autotune.views.text import ratio_text, setting_text

OTHERS = 5  # Number of settings shown besides the recommended one; figures of the report show all.


def chosen(
    space: Space,
    measured: Sequence[Candidate],
    recommendation: Recommendation,
    baseline: Sequence[Score] | None,
) -> Candidate | None:
    """Return the recommended setting with its scores; None if neither it nor the defaults were measured.

    If the defaults are recommended, ``baseline`` is their scores.
    """
    found = next((c for c in measured if c.point == recommendation.point), None)
    if found is None and baseline is not None and not setting_text(recommendation, space.unset):
        return Candidate(recommendation.point, {}, tuple(baseline), 0)
    return found


def rivals(
    objectives: Sequence[Objective],
    measured: Sequence[Candidate],
    recommendation: Recommendation,
    recommended: Candidate | None,
) -> list[Candidate]:
    """Return the settings of the Pareto front that are better than the recommended one in some objective."""

    def better(rival: Candidate) -> bool:
        pairs = zip(objectives, rival.scores, recommended.scores, strict=True) if recommended else ()
        return recommended is None or any(ratio_to(*pair) > 1 for pair in pairs)

    return [c for c in pareto_front(objectives, measured) if c.point != recommendation.point and better(c)]


def why_not(
    objectives: Sequence[Objective], rival: Candidate, recommended: Candidate | None, objection: str
) -> str:
    """Return why a setting is not chosen; ``objection`` is the verification's, empty if it has none."""
    if objection or recommended is None:
        return objection or "not verified"
    ratios, errors = [], []
    for objective, score, reference in zip(objectives, rival.scores, recommended.scores, strict=True):
        ratios.append(ratio_to(objective, score, reference))
        errors.append(math.hypot(score.sem / score.value, reference.sem / reference.value))
    if all(abs(math.log(r)) <= Z95 * e for r, e in zip(ratios, errors, strict=True)):
        return "difference within the noise (95 %)"
    texts = ", ".join(f"{o.name} {ratio_text(r)}" for o, r in zip(objectives, ratios, strict=True))
    if min(ratios) < 1 and math.prod(ratios) <= 1:
        return f"against the recommended setting {texts}: worse overall"
    return f"against the recommended setting {texts}, but only in the search: not verified"
