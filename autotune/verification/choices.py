"""Offer settings for export, and show the cost of each (data flow: verification to files).

A verdict answers one question: which setting gains, fails no more often than the untouched stack (the MPI's
own defaults), and excludes by its launches a large loss at any size. A user who sends large messages only may
want the best setting on the whole and accept its loss at small messages. So a campaign ends in several
choices, each with its cost, verified or not.

A cost is a loss in one slot (collective, communicator size, message size). It is associated with one of the
job-wide values that the setting changes: with the value whose launches in the search are slowest in that
slot, compared with launches that leave the parameter at its default. Such a difference is a main effect, an
average over all other values that the search tried at the same time: it is a hint and not a proof.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from autotune.history.objectives import Envelope, Objective, Slot, envelope, place_text
from autotune.history.trial import History, Phase
from autotune.recommend.front import recommendations
from autotune.recommend.other_calls import slower
from autotune.recommend.recommendation import Checked, Gain, Recommendation
from autotune.space import Point, Space
from autotune.verification.deployed import deploys
from autotune.verification.failed import NO_FAILURES, Failures
from autotune.verification.one_round import VerificationRound
from autotune.verification.rounds import freshly_measured
from autotune.verification.verdict import Verdict


class ChoiceKind(StrEnum):
    """Name the criterion of a choice."""

    RECOMMENDED = "recommended"  # The best setting without a significant loss at any size.
    HARMLESS = "harmless"  # The best verified setting that slows down no call that was not tuned.
    OVERALL = "overall"  # The best on the whole, with all sizes weighted alike.
    PROFILE = "profile"  # The best for the calls that an application makes, by ``objective.weights``.


_WORDS = {
    ChoiceKind.RECOMMENDED: "recommended",
    ChoiceKind.HARMLESS: "best that makes no other call slower",
    ChoiceKind.OVERALL: "best overall",
    ChoiceKind.PROFILE: "best for the profile of calls",
}


@dataclass(frozen=True, slots=True)
class MainEffect:
    """Describe the job-wide value that a loss is associated with in the search's launches."""

    name: str  # Name of the parameter.
    value: object  # The value that the setting gives it.
    ratio: float  # Geometric mean of (time of the default / time of a launch with the value).
    launches: int  # Number of launches with the value.
    other_ratio: float
    """The same mean for launches that leave the parameter at its default; 1 if there are none."""
    others: int  # Number of launches that leave the parameter at its default.

    def __str__(self) -> str:
        without = f"{self.other_ratio:.2f}× in {self.others} without" if self.others else "none without"
        return f"goes with {self.name}={self.value}: {self.ratio:.2f}× in {self.launches} launches, {without}"


@dataclass(frozen=True, slots=True)
class Price:
    """Describe the cost of a choice at one message size: how much slower it is than the default."""

    gain: Gain  # Comparison of the default with the choice in one slot.
    effect: MainEffect | None
    """The value that the loss is associated with; None if no job-wide value is changed."""

    @property
    def text(self) -> str:
        """Return the loss and its slot in words."""
        return f"{self.gain.ratio:.2f}× at {place_text(self.gain.slot)} on {self.gain.slot[1]} ranks"


@dataclass(frozen=True, slots=True)
class Choice:
    """Hold one setting that may be exported."""

    kind: ChoiceKind  # The criterion by which the setting is best.
    recommendation: Recommendation  # The setting, with gains from fresh launches if there are any.
    changes: Point  # The job-wide values that differ from the defaults.
    checked: Checked
    """``holds``: verified; ``refused``: launched in the verification and not confirmed; else not verified."""
    prices: tuple[Price, ...]  # The losses, one for each slot with a loss, the largest first.
    failures: Failures = NO_FAILURES
    """Failures among fresh launches of the setting, and of the stack's own defaults beside them."""

    @property
    def unverified(self) -> str:
        """Return the mark that exported files have if the verification did not confirm the choice."""
        price = f"; {self.prices[0].text}" if self.prices else ""
        return f"UNVERIFIED ({_WORDS[self.kind]}{price}{self._failed})"

    @property
    def _failed(self) -> str:
        return f"; {self.failures.text}" if self.failures.any else ""

    @property
    def harms(self) -> bool:
        """Whether the setting slows down calls for which it was not tuned."""
        return bool(slower(self.recommendation.others))

    @property
    def text(self) -> str:
        """Return one line for users: the setting, its gain, whether it is verified, and its cost."""
        rules = sum(rule.sets for rule in self.recommendation.rules)
        parts = [str(self.changes)] if self.changes else []
        parts += [f"{rules} rule{'s' if rules > 1 else ''} by message size"] if rules else []
        content = " and ".join(parts) or "the stack's own defaults"
        speedup = self.recommendation.speedup
        gain = f", {speedup:.2f}× overall" if parts and math.isfinite(speedup) else ""
        state = "not verified"
        if self.checked is Checked.HOLDS or not parts:
            state = "verified" if self.checked.done else state
        elif self.checked is Checked.REFUSED:
            state = "measured on fresh launches, and not confirmed"
        line = f"{_WORDS[self.kind]}: {content}{gain} [{state}{self._failed if parts else ''}]"
        scope = self.recommendation.scope
        if scope and (
            self.kind is ChoiceKind.HARMLESS or (self.kind is ChoiceKind.RECOMMENDED and self.harms)
        ):
            line = f"{line}; {scope}"
        if not self.prices or self.failures.doubtful:
            return line
        highest = self.prices[0]
        elsewhere = f", less at {len(self.prices) - 1} more" if len(self.prices) > 1 else ""
        effect = f" ({highest.effect})" if highest.effect else ""
        loss = math.ceil(100 * (1 - highest.gain.interval[0])) / 100
        return f"{line}; cost: {highest.text}{effect}{elsewhere}; accepted with verify.max_loss={loss:g}"


def choices(
    space: Space,
    objectives: Sequence[Objective],
    history: History,
    recommended: Recommendation,
    verdict: Verdict | None,
    one_row: Collection[str],
    max_loss: float,
) -> tuple[Choice, ...]:
    """Return the settings that may be exported.

    Args:
        space: The space of settings.
        objectives: The objectives, with the weights of the user's profile if there is one.
        history: All observations.
        recommended: The setting that the campaign recommends.
        verdict: The result of the verification; None: nothing was verified.
        one_row: Collectives for which the stack's files have one row for all sizes.
        max_loss: Relative loss below which differences do not matter.
    """
    criteria = {ChoiceKind.OVERALL: [replace(objective, weights={}) for objective in objectives]}
    if any(objective.weights for objective in objectives):
        criteria[ChoiceKind.PROFILE] = list(objectives)
    searched = history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)
    baseline = envelope(space, searched.of(Phase.BASELINE))
    failures = {r.setting.point: r.failures for r in (verdict.rounds if verdict else ())}

    def choice(kind: ChoiceKind, setting: Recommendation, checked: Checked) -> Choice:
        paid = [g for g in setting.gains if g.ratio < 1.0 - max_loss and g.interval[1] < 1.0]
        changes = space.changes(setting.point)
        prices = tuple(
            Price(gain, main_effect(space, searched, baseline, gain.slot, changes))
            for gain in sorted(paid, key=lambda gain: gain.ratio)
        )
        return Choice(kind, setting, changes, checked, prices, failures.get(setting.point, NO_FAILURES))

    listed = [choice(ChoiceKind.RECOMMENDED, recommended, verdict.checked if verdict else Checked.NOT)]
    if verdict and verdict.harmless:
        listed.append(choice(ChoiceKind.HARMLESS, verdict.harmless.recommendation, Checked.HOLDS))
    for kind, weighted in criteria.items():
        for best in recommendations(weighted, space, searched, one_row):
            if deploys(space, best) and best.point == recommended.point and deploys(space, recommended):
                listed.append(choice(kind, recommended, listed[0].checked))
            elif (launched := _launched(best, verdict)) is None:
                fails = failures.get(best.point, NO_FAILURES).doubtful
                listed.append(choice(kind, best, Checked.REFUSED if fails else Checked.NOT))
            elif _mean_gain(fresh := freshly_measured(space, launched.setting, launched), weighted) > 0.0:
                listed.append(choice(kind, fresh, Checked.REFUSED))
            else:
                continue  # fresh launches show that the setting is not even better on the whole
            break
        else:
            if not deploys(space, recommended):
                listed.append(choice(kind, recommended, listed[0].checked))
    return tuple(listed)


def _mean_gain(setting: Recommendation, objectives: Sequence[Objective]) -> float:
    weights = {slot: weight for objective in objectives for slot, weight in objective.weights.items()}
    weighted = [(math.log(g.ratio), weights.get(g.slot, 0.0) if weights else 1.0) for g in setting.gains]
    total_weight = sum(weight for _, weight in weighted)
    return sum(ratio * weight for ratio, weight in weighted) / total_weight if total_weight else 0.0


def main_effect(
    space: Space, history: History, baseline: Envelope, slot: Slot, changes: Point
) -> MainEffect | None:
    """Return the changed value whose launches in the search are slowest, compared with launches without it.

    The result is None if no value was changed, or the slot was not measured.
    """
    if slot not in baseline:
        return None
    ratios = [
        (o.trial.point, math.log(baseline[slot].median_s / curve[slot].median_s))
        for o in history.sweeps
        if slot in (curve := envelope(space, [o]))
    ]
    effects = []
    for name, value in changes.items():
        with_it = [d for point, d in ratios if point.get(name) == value]
        without = [d for point, d in ratios if point.get(name) == space.untouched.get(name)]
        if with_it:
            mean, mean_without = fmean(with_it), fmean(without) if without else 0.0
            effect = MainEffect(
                name, value, math.exp(mean), len(with_it), math.exp(mean_without), len(without)
            )
            effects.append((mean - mean_without, effect))
    return min(effects, key=lambda pair: pair[0])[1] if effects else None


def _launched(setting: Recommendation, verdict: Verdict | None) -> VerificationRound | None:
    """Return the last complete round that compared a setting's job-wide values; None if there is none."""
    rounds = verdict.rounds if verdict else ()
    comparable = [r for r in rounds if r.setting.point == setting.point and r.comparisons and r.complete]
    return comparable[-1] if comparable else None
