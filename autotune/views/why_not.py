"""Why a setting with a better mean is not the recommended one, in a few words (step 12 of the flow)."""

import math
from collections.abc import Sequence

from autotune.history.objectives import Z95, Objective, ratio_of
from autotune.recommend.front import Candidate
from autotune.recommend.summary import ratio_to
from autotune.verification.one_round import VerificationRound
from autotune.verification.verdict import Verdict
from autotune.views.text import ratio_text, size_text


def why_not(
    objectives: Sequence[Objective], one: Candidate, chosen: Candidate, verdict: Verdict | None
) -> str:
    """Why ``one`` is not recommended: by its fresh launches, else by those of the search.

    Args:
        objectives: What is judged.
        one: A setting of the Pareto front.
        chosen: The recommended setting, or the defaults.
        verdict: What the verification says; None where there was none.
    """
    rounds = [r for r in verdict.rounds if r.setting.point == one.point] if verdict else []
    if rounds and (said := _on_fresh_launches(rounds[-1])):
        return said
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


def _on_fresh_launches(last: VerificationRound) -> str:
    """What the verification found against a setting; empty: nothing."""
    if last.failures.more:
        return "fails more often than the defaults on fresh launches"
    if not last.compared:
        return "its fresh launches could not be compared"
    for slots, text in ((last.lost, "slower"), (last.open | last.doubtful, "may be slower")):
        if worst := min((c for c in last.counting if c.slot in slots), key=lambda c: c.gain, default=None):
            return f"{text} at {size_text(worst.slot[2])} on fresh launches ({ratio_of(worst.gain):.2f}×)"
    return "" if last.gains else "no significant gain on fresh launches"
