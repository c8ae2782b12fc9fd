"""Choices for export, and the cost of each (after step 11 of the flow).

A verdict answers one question: what gains, fails no more often than the untouched stack, and loses at no size
more than its launches exclude. Whoever runs large messages only may want the best on
the whole and pay for it at small ones; so a campaign ends in choices, each with its cost, verified or not.

The value that a cost goes with follows from the search's launches: of the job-wide values that a setting
changes, the one whose launches differ the most, in that slot, from those that leave it at its default. That
is a main effect, averaged over whatever else the search did with either value: a hint, not a proof.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from autotune.history.objectives import Envelope, Objective, Slot, envelope, place_text
from autotune.history.trial import History, Phase
from autotune.recommend.front import recommendations
from autotune.recommend.recommendation import Checked, Gain, Recommendation
from autotune.space import Point, Space
from autotune.verification.deployed import deploys
from autotune.verification.failed import NO_FAILURES, Failures
from autotune.verification.one_round import VerificationRound
from autotune.verification.rounds import freshly_measured
from autotune.verification.verdict import Verdict


class ChoiceKind(StrEnum):
    """The criterion of a choice."""

    RECOMMENDED = "recommended"  # Best without a significant loss at any size.
    OVERALL = "overall"  # On the whole, all sizes alike.
    PROFILE = "profile"  # By ``objective.weights``: for the calls that an application makes.


_WORDS = {
    ChoiceKind.RECOMMENDED: "recommended",
    ChoiceKind.OVERALL: "best overall",
    ChoiceKind.PROFILE: "best for the profile of calls",
}


@dataclass(frozen=True, slots=True)
class MainEffect:
    """The job-wide value that a loss goes with in the search's launches."""

    name: str  # Name of the parameter.
    value: object  # Which the setting gives it.
    ratio: float  # Default / launches with it, geometric mean.
    launches: int  # With it.
    other_ratio: float  # The same of launches that leave the parameter at its default; 1 where none does.
    others: int  # So many.

    def __str__(self) -> str:
        without = f"{self.other_ratio:.2f}× in {self.others} without" if self.others else "none without"
        return f"goes with {self.name}={self.value}: {self.ratio:.2f}× in {self.launches} launches, {without}"


@dataclass(frozen=True, slots=True)
class Price:
    """A loss at one size."""

    gain: Gain  # Default against the choice there.
    effect: MainEffect | None  # The value it is associated with; None where no job-wide value is changed.

    @property
    def text(self) -> str:
        """The loss, and where it is."""
        return f"{self.gain.ratio:.2f}× at {place_text(self.gain.slot)} on {self.gain.slot[1]} ranks"


@dataclass(frozen=True, slots=True)
class Choice:
    """One setting that may be exported."""

    kind: ChoiceKind  # Its criterion.
    recommendation: Recommendation  # With gains from fresh launches where it had any.
    changes: Point  # The job-wide values that differ from the defaults.
    checked: Checked
    """``holds``: verified; ``refused``: launched afresh, and slower somewhere; else not verified."""
    prices: tuple[Price, ...]  # At the sizes that pay for it, the highest first.
    failures: Failures = NO_FAILURES  # Among its fresh launches and those of the untouched stack beside them.

    @property
    def unverified(self) -> str:
        """For exported files, where it is not what the verification confirmed."""
        price = f"; {self.prices[0].text}" if self.prices else ""
        return f"UNVERIFIED ({_WORDS[self.kind]}{price}{self._failed})"

    @property
    def _failed(self) -> str:
        return f"; {self.failures.text}" if self.failures.any else ""

    @property
    def text(self) -> str:
        """One line for people."""
        rules = sum(rule.sets for rule in self.recommendation.rules)
        parts = [str(self.changes)] if self.changes else []
        parts += [f"{rules} rule{'s' if rules > 1 else ''} by message size"] if rules else []
        what = " and ".join(parts) or "the stack's own defaults"
        speedup = self.recommendation.speedup
        gain = f", {speedup:.2f}× overall" if parts and math.isfinite(speedup) else ""
        state = "not verified"
        if self.checked is Checked.HOLDS or not parts:
            state = "verified" if self.checked.done else state
        elif self.checked is Checked.REFUSED:
            state = "measured on fresh launches, and not confirmed"
        line = f"{_WORDS[self.kind]}: {what}{gain} [{state}{self._failed if parts else ''}]"
        if not self.prices or self.failures.doubtful:
            return line
        highest = self.prices[0]
        more = f", less at {len(self.prices) - 1} more" if len(self.prices) > 1 else ""
        effect = f" ({highest.effect})" if highest.effect else ""
        loss = math.ceil(100 * (1 - highest.gain.interval[0])) / 100
        return f"{line}; cost: {highest.text}{effect}{more}; accepted with verify.max_loss={loss:g}"


def choices(
    space: Space,
    objectives: Sequence[Objective],
    history: History,
    chosen: Recommendation,
    verdict: Verdict | None,
    one_row: Collection[str],
    max_loss: float,
) -> tuple[Choice, ...]:
    """The settings that may be exported.

    ``chosen`` is what the campaign recommends. Objectives have the weights of the user's profile, if there is
    one; ``one_row`` names collectives for which the stack's files have one row for all sizes;
    differences below ``max_loss`` do not matter.
    """
    wanted = {ChoiceKind.OVERALL: [replace(objective, weights={}) for objective in objectives]}
    if any(objective.weights for objective in objectives):
        wanted[ChoiceKind.PROFILE] = list(objectives)
    made = history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)
    baseline = envelope(space, made.of(Phase.BASELINE))
    failures = {r.setting.point: r.failures for r in (verdict.rounds if verdict else ())}

    def choice(kind: ChoiceKind, setting: Recommendation, checked: Checked) -> Choice:
        paid = [g for g in setting.gains if g.ratio < 1.0 - max_loss and g.interval[1] < 1.0]
        changes = space.changes(setting.point)
        prices = tuple(
            Price(gain, main_effect(space, made, baseline, gain.slot, changes))
            for gain in sorted(paid, key=lambda gain: gain.ratio)
        )
        return Choice(kind, setting, changes, checked, prices, failures.get(setting.point, NO_FAILURES))

    listed = [choice(ChoiceKind.RECOMMENDED, chosen, verdict.checked if verdict else Checked.NOT)]
    for kind, judged in wanted.items():
        for best in recommendations(judged, space, made, one_row):
            if deploys(space, best) and best.point == chosen.point and deploys(space, chosen):
                listed.append(choice(kind, chosen, listed[0].checked))
            elif (launched := _launched(best, verdict)) is None:
                fails = failures.get(best.point, NO_FAILURES).doubtful
                listed.append(choice(kind, best, Checked.REFUSED if fails else Checked.NOT))
            elif _mean_gain(fresh := freshly_measured(space, launched.setting, launched), judged) > 0.0:
                listed.append(choice(kind, fresh, Checked.REFUSED))
            else:
                continue  # its fresh launches say that it is not even better on the whole
            break
        else:
            if not deploys(space, chosen):
                listed.append(choice(kind, chosen, listed[0].checked))
    return tuple(listed)


def _mean_gain(setting: Recommendation, objectives: Sequence[Objective]) -> float:
    weights = {slot: weight for objective in objectives for slot, weight in objective.weights.items()}
    weighted = [(math.log(g.ratio), weights.get(g.slot, 0.0) if weights else 1.0) for g in setting.gains]
    whole = sum(weight for _, weight in weighted)
    return sum(ratio * weight for ratio, weight in weighted) / whole if whole else 0.0


def main_effect(
    space: Space, history: History, baseline: Envelope, slot: Slot, changes: Point
) -> MainEffect | None:
    """The changed value whose launches in the search are furthest behind those without it."""
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
            mean, other = fmean(with_it), fmean(without) if without else 0.0
            effect = MainEffect(name, value, math.exp(mean), len(with_it), math.exp(other), len(without))
            effects.append((mean - other, effect))
    return min(effects, key=lambda pair: pair[0])[1] if effects else None


def _launched(setting: Recommendation, verdict: Verdict | None) -> VerificationRound | None:
    """The last round of a setting's job-wide values that could be compared; None: it had none."""
    rounds = verdict.rounds if verdict else ()
    mine = [r for r in rounds if r.setting.point == setting.point and r.judged and r.complete]
    return mine[-1] if mine else None
