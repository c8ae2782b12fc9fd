"""Say how a campaign stands, in four lines: what to use, what is promising, why, and how to go on.

``ending`` is the one source of these lines. Console, page, ``status`` and summary only print them.
"""

import math
from dataclasses import replace
from pathlib import Path

from autotune.campaign.conclusion import Conclusion
from autotune.campaign.needed import Need, needed
from autotune.campaign.noise import disturbed, percent_text
from autotune.campaign.spec import BenchKind, CampaignSpec
from autotune.history.events import State
from autotune.history.objectives import place_text, ratio_of
from autotune.history.trial import History
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.recommend.summary import speedup_interval
from autotune.verification.one_round import launches_behind
from autotune.views.standing import Ending, Standing
from autotune.views.text import about_text, clock_text, ratio_text, setting_text


def ending(
    about: CampaignSpec, history: History, conclusion: Conclusion, directory: Path, state: State
) -> Ending:
    """Return how a campaign in a directory stands, in words; while it runs, no command goes on."""
    return standing(about, history, conclusion, state).told(directory)


def standing(about: CampaignSpec, history: History, conclusion: Conclusion, state: State) -> Standing:
    """Return how a campaign stands, as facts that hold for whoever asks."""
    recommendation, verdict = conclusion.recommendation, conclusion.verdict
    if recommendation is not None and recommendation.provenance.checked is Checked.HOLDS:
        behind = launches_behind(verdict.rounds if verdict else (), recommendation.point)
        words = setting_text(recommendation, about.space.unset)
        gain = ratio_text(recommendation.speedup, speedup_interval(recommendation))
        return Standing(f"{words}: {gain} on {behind} fresh launches", exported=True)
    if about.bench.stamp.kind is BenchKind.REPLAYED:  # perhaps of a table without any default
        return Standing("", why="a recorded table was searched, and nothing can be launched again")
    use_now = "the stack's own defaults"
    need = needed(about, history, verdict, state is State.COMPLETE)
    if need is None:
        shown = recommendation.provenance.verified if recommendation is not None else ""
        return Standing(use_now, why=shown if verdict else "the search found nothing that is faster")
    promising, why = _promising(about, need, conclusion), _why(about, history, need)
    return Standing(use_now, promising, why, need.seconds, unfinished=state is not State.RUNNING)


def with_ending(recommendation: Recommendation, state: Ending) -> Recommendation:
    """Return a recommendation whose summary says how its campaign stands."""
    return replace(recommendation, provenance=replace(recommendation.provenance, ending=state.lines))


def forecast_text(need: Need, left_s: float) -> str:
    """Return what a verdict needs, before the verification begins; ``left_s`` seconds are left for it.

    Example: ``launches of one setting differ by 11.0 %: a verdict needs about 8 minutes, 2:30 are left``.
    """
    left = f", {clock_text(left_s)} are left" if math.isfinite(left_s) else ""
    differing = f"{need.subject} differ by {percent_text(need.spread)}"
    return f"{differing}: a verdict needs {about_text(need.seconds) or 'more launches'}{left}"


def _promising(about: CampaignSpec, need: Need, conclusion: Conclusion) -> str:
    if need.setting is None:
        return "nothing yet, the search is not over"
    words = setting_text(need.setting, about.space.unset)
    total = need.fresh.total if need.fresh else None
    if need.fresh is None or total is None:
        return f"{words}: {ratio_text(need.setting.speedup)} in the search, no fresh launches yet"
    gain = ratio_text(ratio_of(total.gain), (ratio_of(total.low), ratio_of(total.high)))
    behind = launches_behind(conclusion.verdict.rounds if conclusion.verdict else (), need.setting.point)
    text = f"{words}: {gain} on {behind} fresh launches"
    if worst := need.fresh.undecided:
        least = f"{ratio_text(ratio_of(worst.at_least))} is not excluded"
        least = least if math.isfinite(worst.at_least) else "too few launches for a bound"
        there = ratio_text(ratio_of(worst.mean_gain))
        return f"{text}; {place_text(worst.slot)} keeps it open ({there} there, {least})"
    return text if need.fresh.gains else f"{text}; no gain is shown yet"


def _why(about: CampaignSpec, history: History, need: Need) -> str:
    n_disturbed = sum(bool(disturbed(o)) for o in history)
    parts = [f"{need.subject} differ by {percent_text(need.spread)}"]
    parts += [f"{n_disturbed} of {len(history)} launches were disturbed"] if n_disturbed else []
    if not about.scenario.verify.enabled or not about.scenario.verify.launches:
        parts.append("the verification is disabled")
    if need.setting is not None:
        parts.append(f"it had {need.had} launches of its own, and needs about {need.launches}")
    return "; ".join(parts)
