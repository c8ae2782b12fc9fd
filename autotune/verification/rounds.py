"""The verification phase: what it launches next, and what it says, as functions of the history (step 11).

Settings are verified in the order of the gain to be expected of them: what they gain by the search, times the
chance that they lose nowhere by all launches so far. After a round that left a setting in doubt others go
first that promise more by now, and it waits. Those of which the search is sure that they lose are never
launched again.

What "never slower" claims: at every size fresh launches exclude a loss of more than ``margin``, by all looks
and rounds together, and showed none beyond ``max_loss`` that is sure over all sizes, nor one beyond that
size's own interval in two rounds. ``Verdict.hidden`` says which loss they exclude; with which probability a
true loss passes ``benchmarks/error_rates.py`` measures.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest

import numpy as np

from autotune.history.objectives import Objective, Slot, envelope, ratio_of
from autotune.history.trial import History, Observation, Phase, Subject, Trial
from autotune.recommend.front import Checked, Gain, Recommendation, candidates, recommendations
from autotune.recommend.repeats import optimism
from autotune.recommend.summary import speedup_interval
from autotune.space import Point, Space
from autotune.verification.course import SHARES, Course
from autotune.verification.deployed import deploys, has_rules, plain, same_calls
from autotune.verification.known import Known, search_noise
from autotune.verification.one_round import VerificationRound
from autotune.verification.paired_test import Comparison, launches_for
from autotune.verification.pairs import BLOCK, PairDifferences
from autotune.verification.sequential import SequentialDesign

_A = {"tight": "a tight", "interleaved": "an interleaved", "": "the other"}
_LAYERS = 8
"""Pareto fronts of the search of which settings are verified, where those before did not hold."""
MAX_ROUNDS = len(SHARES)
"""After so many the default stays."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the verification says."""

    recommendation: Recommendation
    """What holds, with gains from the fresh launches; no setting and no rules where nothing does."""
    rounds: tuple[VerificationRound, ...]
    """How it came to that."""
    complete: bool
    """Whether no more launches are wanted."""
    hidden: float = math.nan
    """The largest loss at any size that the launches do not exclude, as a share; NaN where nothing holds."""
    design: SequentialDesign = field(default_factory=SequentialDesign)
    """By which it was told."""
    other_loop: str = ""
    """What the probe's other loop is called."""

    @property
    def checked(self) -> Checked:
        """How far the comparison got, and what came of it."""
        if not self.complete:
            return Checked.UNFINISHED
        if not self.recommendation.rules and not self.recommendation.gains:
            return Checked.REFUSED
        return Checked.HOLDS if self.rounds[-1].differences else Checked.UNUSABLE

    @property
    def text(self) -> str:
        """One line for reports and exported files."""
        fresh = f"{sum(len(r.launches) for r in self.rounds)} fresh launches"
        if self.checked is Checked.UNFINISHED:
            return "UNVERIFIED (verification not finished)"
        if self.checked is Checked.REFUSED:
            return f"verified: {self._refused} on {fresh}; the stack's own defaults stay"
        if self.checked is Checked.UNUSABLE:
            return f"UNVERIFIED (no pair of {fresh} could be used)"
        last = self.rounds[-1]
        ratio, (low, high) = self.recommendation.speedup, speedup_interval(self.recommendation)
        said = f"{_times(ratio)}× ({_times(low)} … {_times(high)}) on {fresh}"
        bound = f"; no size slower by more than {math.ceil(100 * self.hidden)} %" if self.hidden > 0 else ""
        won = [f"{c.slot[2]} B of {c.slot[0]}" for c in last.judged if c.wins]
        where = f"faster at {', '.join(won)}; " if low <= 1.0 and won else ""
        return f"verified: {where}{said}{bound or '; no size slower'}{self._otherwise}"

    @property
    def _otherwise(self) -> str:
        """What the probe's other loop shows, on the whole and where it is slower; empty: not measured."""
        last = self.rounds[-1]
        whole = last.total_otherwise
        if whole is None or not self.other_loop:
            return ""
        ratio, low, high = (_times(ratio_of(x)) for x in (whole.gain, whole.low, whole.high))
        said = f"{ratio}× ({low} … {high})"
        slower = [c for c in last.judged_otherwise if c.high < 0.0 and c.gain < self.design.least]
        where = ", ".join(f"{ratio_of(c.gain):.2f}× at {_place(c)}" for c in slower)
        return f"; in {_A[self.other_loop]} loop {said}" + (f", but {where}" if where else "")

    @property
    def _refused(self) -> str:
        """Why nothing was taken: nothing was better, or what was better was slower somewhere, or may be."""
        # Of a setting with several rounds the last one tells, since it has all the pairs.
        ends = [
            r
            for r, after in zip_longest(self.rounds, self.rounds[1:])
            if after is None or _of(after) != _of(r)
        ]
        better = [
            (r, whole)
            for r in ends
            if (whole := r.total) is not None and ((r.lost and whole.low > 0.0) or (r.open and r.gains))
        ]
        if not better:
            return "nothing was better"
        best, whole = max(better, key=lambda pair: pair[1].gain)
        what = f"what was {_times(ratio_of(whole.gain))}× on the whole"
        if best.lost:
            worst = min((c for c in best.counting if c.slot in best.lost), key=lambda c: c.gain)
            taken = _would_take("max_loss", worst)
            return f"{what} was {ratio_of(worst.gain):.2f}× at {_place(worst)}{self._loop(best, worst)}" + (
                f" ({taken})" if taken else ""
            )
        worst = min((c for c in best.counting if c.slot in best.open), key=lambda c: c.at_least)
        low, high = ratio_of(worst.at_least), ratio_of(2 * worst.gain - worst.at_least)
        where = _place(worst) + self._loop(best, worst)
        text = f"{what} may be slower at {where}: {_times(low)} … {_times(high)}× there"
        needed = launches_for(worst, self.design.hidden, self.design.per_look * SHARES[0])
        needed = max(needed, 2.0 * self.design.launches)  # those that were made did not tell
        more = f"about verify.launches={needed:.0f} would tell" if math.isfinite(needed) else ""
        said = ", ".join(filter(None, (more, _would_take("margin", worst))))
        return text + (f" ({said})" if said else "")

    def _loop(self, one: VerificationRound, worst: Comparison) -> str:
        """In which loop that is, where it is not the campaign's own."""
        return "" if worst in one.judged else f" in {_A[self.other_loop]} loop"


def _of(one: VerificationRound) -> tuple[Point, bool]:
    """What a round is of: a setting, with rules or without."""
    return one.setting.point, has_rules(one.setting)


def _times(ratio: float) -> str:
    """A ratio, in as many digits as say something."""
    return f"{ratio:.2f}" if ratio < 1000 else "over 1000"


def _place(comparison: Comparison) -> str:
    collective, _, size = comparison.slot
    return f"{size} B of {collective}"


def _would_take(key: str, worst: Comparison) -> str:
    """Which allowance would let a slot through; nothing where none would."""
    loss = math.ceil(100 * -math.expm1(worst.at_least)) / 100
    return f"verify.{key}={loss:g} would take it" if loss < 1 else ""


@dataclass(frozen=True)
class Verifier:
    """Which launch the verification makes next."""

    space: Space
    """What could be turned."""
    objectives: tuple[Objective, ...]
    """What was judged."""
    design: SequentialDesign
    """How many launches a round has and when it is looked at."""
    seed: int = 0
    """Of the order within blocks."""
    one_row: Collection[str] = ()
    """Collectives for which the stack's files cannot tell message sizes apart."""
    other_loop: str = ""
    """What the probe's other loop is called, where launches measure it too."""
    both_count: bool = False
    """Whether what loses in either loop loses."""
    confirmed: Collection[Point] = ()
    """Settings that are verified even where the search sees no gain of theirs, or a loss that may be noise: a
    discovery confirmed them, one launch beside the other."""
    patient: bool = True
    """Whether rounds may be longer where launches lie far apart: nothing limits what all phases cost."""
    _kept: dict[str, tuple[tuple[Observation, ...], tuple[Recommendation, ...]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def next_trial(self, history: History) -> Trial | None:
        """The next launch; None when everything is decided, or nothing was found that could be verified."""
        course = self._course(history)
        rounds = course.rounds
        if not rounds or rounds[-1].complete:
            return None
        current, number, most = rounds[-1], history.next_number, course.design.launches
        begun = current.launches[len(current.launches) // BLOCK * BLOCK :]
        # A B B A or B A A B: the first launch says which.
        first = begun[0].trial.subject is Subject.DEPLOYED if begun else self._draw(3, number, 2) == 1
        tuned = (first, not first, not first, first)[len(begun)]
        return Trial(
            number,
            Phase.VERIFY,
            current.setting.point if tuned else self.space.default,
            Subject.DEPLOYED if tuned else Subject.UNTOUCHED,
            block=begun[0].trial.block if begun else number,
            seed=self._draw(4, number, 2**31),
            note=f"round {len(rounds)}, launch {len(current.launches) + 1} of at most {most}",
            rules=current.setting.rules if tuned else (),
        )

    def launches_left(self, history: History) -> int:
        """How many more this round may have."""
        course = self._course(history)
        rounds = course.rounds
        return max(course.design.launches - len(rounds[-1].launches), 0) if rounds else 0

    def verdict(self, history: History) -> Verdict | None:
        """What the launches so far say; None where there is nothing that could be verified.

        Where an earlier version launched settings that these rules would not have, the last one is judged on
        what was launched, rather than told to be unverified.
        """
        course = self._course(history)
        rounds, held = course.rounds, course.held
        if (not rounds or not rounds[-1].launches) and (last := course.judged_by_others()) is not None:
            rounds = [*(r for r in rounds if r.launches), last]
            held = last.setting if last.gains and not last.lost | last.open else None
        if not rounds:
            return None
        last = rounds[-1]
        if not last.complete:
            return Verdict(last.setting, tuple(rounds), complete=False)
        if held is None:
            untouched = Recommendation(self.space.untouched, ())
            return Verdict(untouched, tuple(rounds), True, design=self.design, other_loop=self.other_loop)
        alike = same_calls(self.space, held, (c.slot for c in last.judged))
        hidden = max((-c.at_least for c in last.counting if c.slot not in alike), default=0.0)
        fresh = freshly_measured(self.space, held, last)
        bound = -math.expm1(-hidden)
        return Verdict(fresh, tuple(rounds), True, bound, self.design, self.other_loop)

    def known(self, history: History) -> Known:
        """What the search knows of settings that lose."""
        searched = history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)
        judged = candidates(self.objectives, self.space, searched)
        made = history.of(Phase.BASELINE).observations
        lucky = optimism(self.space, [*made, *searched.sweeps])
        return Known.of(self.space, made, search_noise(history), self.design, judged, lucky)

    def _course(self, history: History) -> Course:
        """The walk through all rounds, each following from those before."""
        course = Course(self.space, self.design, self.one_row, history, self.both_count, self.patient)
        known, waiting = self.known(history), self._waiting(history)

        def judge() -> Callable[[Recommendation], float]:
            """By what was known and what the rounds show: of their settings, and of others like them."""
            shown = ((one.setting.point, one.judged) for one in course.rounds)
            return partial(self._expected, known.after(shown))

        def others_promise_more(setting: Recommendation) -> bool:
            expected = judge()
            more = max(map(expected, waiting), default=0.0) > expected(setting)
            if more:  # where those do not hold it may be up again, with all its pairs
                waiting.append(setting)
            return more

        while waiting:
            setting = max(waiting, key=judge())
            waiting.remove(setting)
            if setting.speedup <= course.not_worth:
                continue
            if len(course.rounds) >= len(course.shares) or not course.verify(setting, others_promise_more):
                break
        if course.rounds:
            course.count_the_rest()
        return course

    def best(self, history: History) -> Recommendation | None:
        """What would be verified first: the best of which the search does not know that it loses anywhere.

        The defaults, where that leaves nothing; None before any setting was measured completely.
        """
        return next(iter(self._recommended(history)), None)

    def _waiting(self, history: History) -> list[Recommendation]:
        """What may be verified."""
        settings = (plain(self.space, setting) for setting in self._recommended(history))
        return [setting for setting in settings if deploys(self.space, setting)]

    def _expected(self, known: Known, setting: Recommendation) -> float:
        """The gain that is to be expected of a setting, which a loss may undo.

        The best on the whole is often not what is slower nowhere, and has hidden it on the Pareto front.
        """
        chance = 1.0 if setting.point in self.confirmed else known.chance(setting.point)
        return chance * math.log(max(setting.speedup, 1.0))

    def _recommended(self, history: History) -> tuple[Recommendation, ...]:
        """What the search recommends of what it does not know to lose; kept until it has seen more."""
        made = history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)
        kept = self._kept.get("search", ((), ()))
        if len(kept[0]) != len(made) or any(a is not b for a, b in zip(kept[0], made, strict=True)):
            known = self.known(made)
            judged = candidates(self.objectives, self.space, made)
            admitted = [c for c in judged if not known.losses(c)]
            safe = [c for c in admitted if not known.seen_slower(c)]
            about = (self.objectives, self.space, made, self.one_row, (safe, admitted), self.confirmed)
            first = recommendations(*about)
            known_of = {setting.point for setting in first}
            least = ratio_of(self.design.max_loss)  # on the whole; less is no promise of what others hid
            hidden = (r for r in recommendations(*about, _LAYERS) if r.point not in known_of)
            settings = (*first, *(r for r in hidden if r.speedup > least))
            self._kept["search"] = kept = (made.observations, settings)
        return kept[1]

    def _draw(self, purpose: int, number: int, below: int) -> int:
        return int(np.random.default_rng([self.seed, purpose, number]).integers(below))


def freshly_measured(space: Space, setting: Recommendation, last: VerificationRound) -> Recommendation:
    """A setting with what fresh launches showed: its gains by size and on the whole.

    Gains are shrunken, with standard errors that give their interval. Where the setting, that of the last
    round or what is left of it, makes the stack's own calls, there is nothing to gain.
    """
    reference = envelope(space, [o for o in last.launches if o.trial.subject is Subject.UNTOUCHED])
    alike = same_calls(space, setting, reference)
    otherwise = {c.slot: c for c in last.judged_otherwise if c.slot not in alike}
    gains = []
    for c in last.judged:
        default = reference[c.slot]
        tuned_s = default.median_s / (1.0 if c.slot in alike else math.exp(c.shrunk))
        # The two standard errors together give the interval of the paired comparison.
        whole = (c.high - c.low) / (2 * 1.96)
        share = min(default.sem_s / default.median_s, whole / math.sqrt(2))
        rest = math.sqrt(whole**2 - share**2) if math.isfinite(whole) else math.inf
        o = otherwise.get(c.slot)
        other = (ratio_of(o.gain), ratio_of(o.low), ratio_of(o.high)) if o else None
        gain = Gain(c.slot, tuned_s, tuned_s * rest, default.median_s, default.median_s * share, other)
        gains.append(gain)
    left = replace(
        last,
        before=tuple(_without(pair, alike) for pair in last.before),
        differences=tuple(_without(pair, alike) for pair in last.differences),
    )
    if (total := left.total) is None:
        return replace(setting, gains=tuple(gains))
    average = (ratio_of(total.gain), ratio_of(total.low), ratio_of(total.high))
    return replace(setting, gains=tuple(gains), average=average)


def _without(pair: PairDifferences, alike: Collection[Slot]) -> PairDifferences:
    """The differences of a pair where nothing is said in some slots."""
    return {slot: 0.0 if slot in alike else d for slot, d in pair.items()}
