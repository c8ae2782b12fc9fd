"""Represent the verdict of a verification, as a value and in words (data flow: verification).

The text states what was shown: the speed-up on fresh launches (made after the search), the loss that these
launches exclude at every size, and every launch that failed. A setting that could not be compared is not
called "no better".
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import zip_longest

from autotune.history.objectives import place_text, ratio_of
from autotune.recommend.other_calls import slower
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.recommend.summary import speedup_interval
from autotune.space import Point
from autotune.verification.comparison import Comparison
from autotune.verification.deployed import has_rules
from autotune.verification.one_round import (
    VerificationRound,
    fresh_launches,
    last_round,
    launches_behind,
)
from autotune.verification.sequential import SequentialDesign

_MISSED = 0.05
"""Probability with which a slowdown of the stated frequency goes unnoticed: one campaign in twenty."""
POWER = 0.8
"""Probability with which the number of launches that a message names suffices: the convention of sample sizes
(J. Cohen, "Statistical Power Analysis for the Behavioral Sciences", 2nd ed. 1988, section 2.4)."""
_A = {"tight": "a tight", "interleaved": "an interleaved", "": "the other"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Hold the result of a verification."""

    recommendation: Recommendation
    """The verified setting with gains from fresh launches; until a setting is verified, the leading setting;
    the defaults if there is no setting at all."""
    rounds: tuple[VerificationRound, ...]
    """The rounds of all settings that led to the verdict."""
    complete: bool
    """Whether no more launches are needed."""
    hidden: float = math.nan
    """The largest loss at any size that launches do not exclude, as a share; NaN if nothing is verified."""
    design: SequentialDesign = field(default_factory=SequentialDesign)
    """The design of the test."""
    other_loop: str = ""
    """Name of the second loop in which the probe measured; empty: none."""
    harmless: "Verdict | None" = None
    """The verdict on the best verified setting that slows down no call for which it was not tuned; None:
    there is no such setting, or this verdict is on that setting."""

    @property
    def checked(self) -> Checked:
        """Return whether the verification is complete, and its result."""
        if not self.complete:
            return Checked.UNFINISHED
        if not math.isnan(self.hidden):
            return Checked.HOLDS
        decided = any(r.compared or r.failures.more for r in self.rounds)
        return Checked.REFUSED if decided else Checked.UNUSABLE

    @property
    def leading(self) -> VerificationRound | None:
        """Return the last round of the setting that more launches may verify; None if no setting is left.

        While the verification is not finished, this is the setting that is launched next. Later it is the
        best setting that gains and was refused neither for a loss nor for failures.
        """
        if not self.complete:
            point = self.recommendation.point
            under_way = (r for r in reversed(self._ends) if r.setting.point == point and r.compared)
            return next(under_way, None)
        left = ((gain.gain, r) for r, gain in self._better() if not (r.lost or r.failures.doubtful))
        return max(left, key=lambda pair: pair[0], default=(0.0, None))[1]

    @property
    def text(self) -> str:
        """Return the verdict in one line, for reports and exported files."""
        if self.checked is Checked.UNFINISHED:
            return f"UNVERIFIED (verification not finished{self._so_far}){self._failed}"
        stay = "; the stack's own defaults stay"
        if self.checked is Checked.UNUSABLE:
            fresh = f"{fresh_launches(self.rounds)} fresh launches"
            return f"UNVERIFIED (could not be compared on {fresh}){self._failed}{stay}"
        if self.checked is Checked.REFUSED:
            return f"verified: {self._refused}{self._failed}{stay}"
        return f"verified: {'; '.join(text for _, text in self.lines)}"

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """Return the verdict as lines (label, text); empty unless a setting is verified."""
        if self.checked is not Checked.HOLDS:
            return ()
        last = self.rounds[-1]
        ratio, (low, high) = self.recommendation.speedup, speedup_interval(self.recommendation)
        behind = launches_behind(self.rounds, self.recommendation.point)
        won = [place_text(c.slot) for c in last.comparisons if c.wins]
        lines = (
            ("sizes", f"faster at {', '.join(won)}" if won and low <= 1.0 else ""),
            ("speed-up", f"{_ranged(ratio, low, high)}{self._in_the_mean(low)} on {behind} fresh launches"),
            ("loss", self.bound),
            ("rare events", self._unseen),
            ("other loop", self._otherwise),
            ("other calls", self._scope),
            ("failures", self._failed.removeprefix("; ")),
        )
        return tuple((label, text) for label, text in lines if text)

    def _repr_html_(self) -> str:
        """Return the verdict and what it is on, which a notebook shows."""
        return f"<p>{escape(self.text)}</p>{self.recommendation._repr_html_()}"

    @property
    def _scope(self) -> str:
        """Return in words the effect on calls for which the setting was not tuned.

        If the setting slows down such calls, and no verified setting avoids that, the text says so. The
        result is empty if no such call was measured.
        """
        unavoided = slower(self.recommendation.others) and self.harmless is None
        warning = "no setting that makes none of them slower was verified" if unavoided else ""
        return "; ".join(filter(None, (self.recommendation.scope, warning)))

    def _in_the_mean(self, low: float) -> str:
        """Return the gain in plain means in words; empty unless below the interval of typical times."""
        last = self.rounds[-1]
        gains = [c.mean_gain for c in last.comparisons if not c.overhead and math.isfinite(c.mean_gain)]
        mean = ratio_of(sum(gains) / len(last.comparisons)) if gains else math.inf
        return f" in typical times, {_times(mean)}× in plain means," if mean < low else ""

    @property
    def _so_far(self) -> str:
        """Return the leading setting's gain so far, and its launches in words; empty without a gain yet."""
        last = last_round(self.rounds, self.recommendation.point)
        total = last.total if last else None
        if total is None or total.low <= 0.0:
            return ""
        behind = launches_behind(self.rounds, self.recommendation.point)
        return f"; {_interval(total)} so far, on {behind} fresh launches"

    @property
    def bound(self) -> str:
        """Return which loss in mean times is excluded at every size, in words."""
        return f"no size more than {max(1, math.ceil(100 * self.hidden))} % slower (95 %)"

    @property
    def _unseen(self) -> str:
        """Return how rare an event must be that the launches did not show, in words."""
        last = self.rounds[-1]
        n_launches, starts = last.failures.n_deployed, last.starts
        timed = n_launches - len(starts)
        events = "slowdown" if starts else "failure or slowdown"
        text = f"a {events} in less than {_rarest(timed)} of launches would not show on {timed} of them"
        if not starts:
            return text
        cost_s = sum(o.duration_s for o in starts)
        return (
            f"{text}, a failure in less than {_rarest(n_launches)} not on {n_launches}"
            f" ({len(starts)} that time nothing took {cost_s:.0f} s)"
        )

    @property
    def _ends(self) -> list[VerificationRound]:
        """Return the last round of each setting, which includes all its comparisons and failures."""
        with_next = zip_longest(self.rounds, self.rounds[1:])
        return [r for r, next_one in with_next if next_one is None or _identity(next_one) != _identity(r)]

    @property
    def _failed(self) -> str:
        """Return the failed launches of each setting in words; empty if no launch failed."""
        last = {r.setting.point: r.failures for r in self.rounds}
        recommended = self.recommendation.point
        texts = [
            f"; {'' if point == recommended or len(last) == 1 else 'another setting: '}{failures.text}"
            for point, failures in sorted(last.items(), key=lambda item: item[0] != recommended)
            if failures.any
        ]
        return "".join(texts)

    @property
    def _otherwise(self) -> str:
        """Return the result in the probe's other loop in words, with slower sizes; empty if not measured."""
        last = self.rounds[-1]
        total = last.total_otherwise
        if total is None or not self.other_loop:
            return ""
        slower = [c for c in last.other_comparisons if c.high < 0.0 and c.gain < self.design.least]
        slower_at = ", ".join(f"{ratio_of(c.gain):.2f}× at {place_text(c.slot)}" for c in slower)
        return f"in {_A[self.other_loop]} loop {_interval(total)}" + (
            f", but {slower_at}" if slower_at else ""
        )

    @property
    def _refused(self) -> str:
        """Return why no setting was accepted, and how many launches show that, in words."""
        better = list(self._better())
        if better:
            best, total = max(better, key=lambda pair: pair[1].gain)
            behind = launches_behind(self.rounds, best.setting.point)
            return f"{self._why(best, total)} on {behind} fresh launches"
        fresh = f"on {fresh_launches(self.rounds)} fresh launches"
        compared = [r for r in self._ends if r.compared]
        undecided = [r for r in compared if not r.complete or r.open or r.doubtful]
        promising = [(gain, r) for r in undecided if (gain := r.total) and gain.gain > 0.0]
        if promising:
            leading, last = max(promising, key=lambda pair: pair[0].gain)
            evidence = f"{last.failures.n_deployed} launches of its own"
            remainder = f"what was {_interval(leading)} overall was left after {evidence}"
            return f"nothing was shown to be better {fresh}; {remainder}"
        objections = {r.failures.objection: r for r in self._ends if r.failures.doubtful}
        if objections:
            others_text = (
                ", and nothing else was better" if any(not r.failures.doubtful for r in compared) else ""
            )
            return f"what was tried {' or '.join(sorted(objections))}{others_text} {fresh}"
        which = "" if len(compared) == len(self._ends) else " that could be compared"
        return f"nothing{which} was better {fresh}"

    def _better(self) -> Iterator[tuple[VerificationRound, Comparison]]:
        """Yield the rounds whose setting gains but was not accepted, each with the gain on the whole."""
        for r in self._ends:
            total = r.total
            if total is None:
                continue
            objection = r.lost or r.failures.doubtful or r.open or r.doubtful or r.suspect
            if objection and (r.gains or total.low > 0.0):
                yield r, total

    def _why(self, best: VerificationRound, total: Comparison) -> str:
        """Return why a setting that gains is not exported."""
        subject = f"what was {_times(ratio_of(total.gain))}× overall"
        if best.failures.doubtful:
            return f"{subject} {best.failures.objection}"
        if best.lost:
            slowest = min((c for c in best.counting if c.slot in best.lost), key=lambda c: c.gain)
            condition = _accepted_with("max_loss", slowest)
            return f"{subject} was {ratio_of(slowest.gain):.2f}× at {place_text(slowest.slot)}" + (
                f"{self._loop(best, slowest)}{f' ({condition})' if condition else ''}"
            )
        if (worst := best.undecided) is None:
            n_launches = best.failures.n_deployed
            return f"{subject} {best.suspect}, which {n_launches} launches of its own do not exclude of it,"
        slot = place_text(worst.slot) + self._loop(best, worst)
        ratio, low = _times(ratio_of(worst.mean_gain)), _times(ratio_of(worst.at_least))
        text = f"{subject} may be slower at {slot}: {ratio}× in mean times, and {low}× is not excluded (95 %)"
        allowance = "max_loss" if worst.doubtful else "margin"
        conditions = ", ".join(filter(None, (self._more(best), _accepted_with(allowance, worst))))
        return text + (f" ({conditions})" if conditions else "")

    def launches_needed(self, verified_round: VerificationRound) -> float:
        """Return how many launches of a setting exclude a loss at every size, if it gains as measured.

        The result is 0 if no size is open, infinite if no number suffices, and NaN before launches differ.
        """
        if (worst := verified_round.undecided) is None:
            return 0.0
        spread = worst.mean_sem * math.sqrt(max(worst.launches, 1))
        return self.design.launches_to_exclude(worst.mean_gain - self.design.hidden, spread, POWER)

    def _more(self, best: VerificationRound) -> str:
        """Return in words how many launches would exclude a loss at a size, if the true gain is as measured.

        The result is empty if too many launches would be needed.
        """
        needed = self.launches_needed(best)
        if not needed <= self.design.most:
            return ""
        return f"it takes verify.launches={max(math.ceil(needed), best.failures.n_deployed + 1)} at least"

    def _loop(self, verified_round: VerificationRound, worst: Comparison) -> str:
        """Return the loop of a comparison in words; empty if it is the campaign's own loop."""
        return "" if worst in verified_round.comparisons else f" in {_A[self.other_loop]} loop"


def _identity(verified_round: VerificationRound) -> tuple[Point, bool]:
    """Return the job-wide values of a round's setting, and whether the setting has rules."""
    return verified_round.setting.point, has_rules(verified_round.setting)


def _rarest(launches: int) -> str:
    """Return the frequency of an event that so many launches miss in one campaign of twenty."""
    return f"{-100 * math.expm1(math.log(_MISSED) / max(launches, 1)):.0f} %"


def _interval(comparison: Comparison) -> str:
    return _ranged(*map(ratio_of, (comparison.gain, comparison.low, comparison.high)))


def _ranged(ratio: float, low: float, high: float) -> str:
    """Return a speed-up with its interval, if there are enough launches for one."""
    bounded = low > 1e-3 or high < 1e3
    interval = f"{_times(low)} … {_times(high)}" if bounded else "too few launches for an interval"
    return f"{_times(ratio)}× ({interval})"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 1e3 else "over 1000"


def _accepted_with(key: str, worst: Comparison) -> str:
    """Return in words the option that would accept the loss in a slot; empty if no value of it would."""
    loss = math.ceil(100 * -math.expm1(worst.at_least)) / 100
    return f"accepted with verify.{key}={loss:g}" if loss < 1 else ""
