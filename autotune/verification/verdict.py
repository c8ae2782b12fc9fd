"""The verdict of a verification, as a value and in words (step 11 of the flow).

Said is what was shown: the speed-up on fresh launches, the loss that they exclude at every size, and every
launch that failed. What could not be compared is not "no better".
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from autotune.history.objectives import place_text, ratio_of
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.recommend.summary import speedup_interval
from autotune.space import Point
from autotune.verification.beside import Beside
from autotune.verification.beside import said as said_beside
from autotune.verification.comparison import Comparison
from autotune.verification.deployed import has_rules
from autotune.verification.one_round import VerificationRound, fresh_launches, launches_behind
from autotune.verification.sequential import SequentialDesign

_MISSED = 0.05
"""A slowdown of so many launches is to be seen, but for so many campaigns."""
_POWER = 0.8
"""Chance with which a number of launches that is named would do: the convention of sample sizes (J. Cohen,
"Statistical Power Analysis for the Behavioral Sciences", 2nd ed. 1988, section 2.4)."""
_A = {"tight": "a tight", "interleaved": "an interleaved", "": "the other"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a verification."""

    recommendation: Recommendation
    """The verified setting, with gains from the fresh launches; no setting and no rules where none holds."""
    rounds: tuple[VerificationRound, ...]
    """How it came to that."""
    complete: bool
    """Whether no more launches are wanted."""
    hidden: float = math.nan
    """The largest loss at any size that the launches do not exclude, as a share; NaN where nothing holds."""
    design: SequentialDesign = field(default_factory=SequentialDesign)
    """The design of the test."""
    other_loop: str = ""
    """Name of the probe's other loop."""
    beside: tuple[Beside, ...] = ()
    """Effects of the setting on patterns that it was not tuned for."""

    @property
    def checked(self) -> Checked:
        """How far the comparison got, and what came of it."""
        if not self.complete:
            return Checked.UNFINISHED
        if self.recommendation.rules or self.recommendation.gains:
            return Checked.HOLDS
        decided = any(r.compared or r.failures.more for r in self.rounds)
        return Checked.REFUSED if decided else Checked.UNUSABLE

    @property
    def text(self) -> str:
        """One line for reports and exported files."""
        if self.checked is Checked.UNFINISHED:
            return f"UNVERIFIED (verification not finished{self._so_far}){self._failed}"
        stay = "; the stack's own defaults stay"
        if self.checked is Checked.UNUSABLE:
            fresh = f"{fresh_launches(self.rounds)} fresh launches"
            return f"UNVERIFIED (could not be compared on {fresh}){self._failed}{stay}"
        if self.checked is Checked.REFUSED:
            return f"verified: {self._refused}{self._failed}{stay}"
        last = self.rounds[-1]
        ratio, (low, high) = self.recommendation.speedup, speedup_interval(self.recommendation)
        behind = launches_behind(self.rounds, self.recommendation.point)
        said = f"{_ranged(ratio, low, high)}{self._in_the_mean(low)} on {behind} fresh launches"
        won = [place_text(c.slot) for c in last.judged if c.wins]
        where = f"faster at {', '.join(won)}; " if low <= 1.0 and won else ""
        said = f"{where}{said}; {self.bound}{self._otherwise}"
        return f"verified: {said}{said_beside(self.beside, self.design.margin)}{self._failed}"

    def _in_the_mean(self, low: float) -> str:
        """The gain of plain means, where it is below the interval of typical times; empty: it is not."""
        last = self.rounds[-1]
        gains = [c.mean_gain for c in last.judged if not c.overhead and math.isfinite(c.mean_gain)]
        mean = ratio_of(sum(gains) / len(last.judged)) if gains else math.inf
        return f" in typical times, {_times(mean)}× in plain means," if mean < low else ""

    @property
    def _so_far(self) -> str:
        """Gain of the leading setting at the last look, by the launches; empty: no gain yet."""
        mine = [r for r in self.rounds if r.setting.point == self.recommendation.point]
        whole = mine[-1].total if mine else None
        if whole is None or whole.low <= 0.0:
            return ""
        return f"; {_interval(whole)} so far, on {fresh_launches(mine)} fresh launches"

    @property
    def bound(self) -> str:
        """Losses of mean times excluded by the launches at every size, and how rare one is that they miss."""
        said = f"no size more than {max(1, math.ceil(100 * self.hidden))} % slower (95 %)"
        own = self.rounds[-1].failures.n_deployed
        rare = -math.expm1(math.log(_MISSED) / max(own, 1))
        return (
            f"{said}, a failure or slowdown in less than {100 * rare:.0f} % of launches"
            f" would not show on {own} of them"
        )

    @property
    def _ends(self) -> list[VerificationRound]:
        """The last round of each setting, which has all its pairs and failures."""
        after = zip_longest(self.rounds, self.rounds[1:])
        return [r for r, next_one in after if next_one is None or _of(next_one) != _of(r)]

    @property
    def _failed(self) -> str:
        """Every launch that failed, by settings; empty: none did."""
        last = {r.setting.point: r.failures for r in self.rounds}
        chosen = self.recommendation.point
        said = [
            f"; {'' if point == chosen or len(last) == 1 else 'another setting: '}{failures.text}"
            for point, failures in sorted(last.items(), key=lambda item: item[0] != chosen)
            if failures.any
        ]
        return "".join(said)

    @property
    def _otherwise(self) -> str:
        """Result in the probe's other loop, on the whole and where it is slower; empty: not measured."""
        last = self.rounds[-1]
        whole = last.total_otherwise
        if whole is None or not self.other_loop:
            return ""
        slower = [c for c in last.judged_otherwise if c.high < 0.0 and c.gain < self.design.least]
        where = ", ".join(f"{ratio_of(c.gain):.2f}× at {place_text(c.slot)}" for c in slower)
        return f"; in {_A[self.other_loop]} loop {_interval(whole)}" + (f", but {where}" if where else "")

    @property
    def _refused(self) -> str:
        """Why nothing was taken, and on how many launches that rests."""
        better = list(self._better())
        if better:
            best, whole = max(better, key=lambda pair: pair[1].gain)
            behind = launches_behind(self.rounds, best.setting.point)
            return f"{self._why(best, whole)} on {behind} fresh launches"
        fresh = f"on {fresh_launches(self.rounds)} fresh launches"
        compared = [r for r in self._ends if r.compared]
        left = [(gain, r) for r in compared if not r.complete and (gain := r.total) and gain.gain > 0.0]
        if left:
            leading, last = max(left, key=lambda pair: pair[0].gain)
            after = f"{last.failures.n_deployed} launches of its own"
            shown = f"what was {_interval(leading)} overall was left after {after}"
            return f"nothing was shown to be better {fresh}; {shown}"
        objections = {r.failures.objection: r for r in self._ends if r.failures.doubtful}
        if objections:
            rest = ", and nothing else was better" if any(not r.failures.doubtful for r in compared) else ""
            return f"what was tried {' or '.join(sorted(objections))}{rest} {fresh}"
        which = "" if len(compared) == len(self._ends) else " that could be compared"
        return f"nothing{which} was better {fresh}"

    def _better(self) -> Iterator[tuple[VerificationRound, Comparison]]:
        """Rounds whose setting gains, but was not taken, with what it gains on the whole."""
        for r in self._ends:
            whole = r.total
            if whole is None:
                continue
            refused = whole.low > 0.0 and (r.lost or r.failures.doubtful)
            if refused or (r.gains and (r.open or r.doubtful or r.suspect)):
                yield r, whole

    def _why(self, best: VerificationRound, whole: Comparison) -> str:
        """Why a setting that gains is not exported."""
        what = f"what was {_times(ratio_of(whole.gain))}× overall"
        if best.failures.doubtful:
            return f"{what} {best.failures.objection}"
        if best.lost:
            worst = min((c for c in best.counting if c.slot in best.lost), key=lambda c: c.gain)
            taken = _accepted_with("max_loss", worst)
            return f"{what} was {ratio_of(worst.gain):.2f}× at {place_text(worst.slot)}" + (
                f"{self._loop(best, worst)}{f' ({taken})' if taken else ''}"
            )
        unsure = best.open | best.doubtful
        worst = min((c for c in best.counting if c.slot in unsure), key=lambda c: c.at_least, default=whole)
        if worst is whole:
            own = best.failures.n_deployed
            return f"{what} {best.suspect}, which {own} launches of its own do not exclude of it,"
        where = place_text(worst.slot) + self._loop(best, worst)
        shown, low = _times(ratio_of(worst.mean_gain)), _times(ratio_of(worst.at_least))
        text = f"{what} may be slower at {where}: {shown}× in mean times, and {low}× is not excluded (95 %)"
        said = ", ".join(filter(None, (self._more(best, worst), _accepted_with("margin", worst))))
        return text + (f" ({said})" if said else "")

    def _more(self, best: VerificationRound, worst: Comparison) -> str:
        """How many launches would show that a size does not lose, if it is as seen; empty: too many."""
        own, design = best.failures.n_deployed, self.design
        spread = worst.mean_sem * math.sqrt(max(worst.launches, 1))
        needed = design.launches_to_exclude(worst.mean_gain - design.hidden, spread, _POWER)
        if not needed <= design.most:
            return ""
        return f"it takes verify.launches={max(math.ceil(needed), own + 1)} at least"

    def _loop(self, one: VerificationRound, worst: Comparison) -> str:
        """In which loop that is, where it is not the campaign's own."""
        return "" if worst in one.judged else f" in {_A[self.other_loop]} loop"


def _of(one: VerificationRound) -> tuple[Point, bool]:
    """Identity of a round: a setting, with rules or without."""
    return one.setting.point, has_rules(one.setting)


def _interval(one: Comparison) -> str:
    return _ranged(*map(ratio_of, (one.gain, one.low, one.high)))


def _ranged(ratio: float, low: float, high: float) -> str:
    """A speed-up with its interval, unless launches of what is left after rules fell are too few for one."""
    bounded = low > 1e-3 or high < 1e3
    return f"{_times(ratio)}× ({_times(low)} … {_times(high)})" if bounded else f"{_times(ratio)}×"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 1e3 else "over 1000"


def _accepted_with(key: str, worst: Comparison) -> str:
    """Which allowance would let a slot through; nothing where none would."""
    loss = math.ceil(100 * -math.expm1(worst.at_least)) / 100
    return f"accepted with verify.{key}={loss:g}" if loss < 1 else ""
