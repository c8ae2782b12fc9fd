"""The rounds of a verification, as far as a history tells of them (step 11 of the flow).

A *round* compares one setting with its rules against the untouched stack, block after block, until its
outcome is sure or its launches are used up:

- a loss that dropping a rule would not heal ends it at once: the setting is refused, the next one is up;
- a gain, on the whole or at one size, ends it as soon as nothing is left open at any size: no loss, no rule,
  and no size that could be slower by more than ``margin`` for all that the launches say;
- where not even the gain that is still likely would do, it ends too (stochastic curtailment).

Then rules that are not better are dropped. Without a job-wide change that leaves the stack's own calls, and
nothing has to be launched again. With one, the sizes whose rule was dropped make other calls now, and get a
round of their own. Pairs of earlier rounds count on wherever calls and job-wide setting are the same, as a
rule acts at its own sizes only; intervals stay valid whatever is chosen by them, since they hold for all
slots, looks and rounds together. So a setting that was nearly better gets one more round with all its pairs.
So does one that is better but was seen slower somewhere, by that size's own interval and by more than
``max_loss``: it is refused if it still is. And so does one that is better while of some size nothing is
known, as long as more launches are likely to tell: "cannot tell" is not "never slower".

Round r may spend 1/2, 1/4, 1/8, 1/8 of the campaign's error rate: by the union bound a campaign without any
difference refuses or confirms with a probability of at most ``alpha``. Where launches of the search lay so
far apart that a round would tell of no size, there are two in place of four, twice as long: as many launches,
and each may spend a half.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby

from autotune.history.lookup import choice_at
from autotune.history.objectives import (
    Slot,
    ratio_of,
)
from autotune.history.trial import History, Observation, Phase, Subject
from autotune.recommend.front import Recommendation
from autotune.space import Space
from autotune.verification.deployed import deploys, has_rules, own_choices, ruled, same_calls
from autotune.verification.kept_rules import kept_rules
from autotune.verification.known import search_noise
from autotune.verification.one_round import VerificationRound
from autotune.verification.paired_test import (
    Comparison,
    SlotDecision,
    compare,
    decided,
    launches_for,
    may_still_win,
    overall,
)
from autotune.verification.pairs import BLOCK, LaunchNoise, PairDifferences, pairs
from autotune.verification.sequential import SequentialDesign

_LOOKED_UP = 0.08
"""No more does it cost a small message that a stack looks rules up, on the log scale."""
SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 8)
"""Of the campaign's error rate, what each round may spend; after so many rounds the default stays."""
_LONGER = (1 / 2, 1 / 2)
"""The same of rounds twice as long."""
_TELLS = 3
"""Degrees of freedom of the search's noise from which on it says how long rounds are."""

_CHANCE = 1e-3
"""That a setting which runs as well as others is refused because each of its launches failed."""


Block = tuple[Observation, ...]
"""Launches of one block, in order; the last one of a history may be begun only."""


class Course:
    """One walk through the rounds that a history tells of."""

    def __init__(
        self,
        space: Space,
        design: SequentialDesign,
        one_row: Collection[str],
        history: History,
        both_count: bool = False,
        patient: bool = True,
    ) -> None:
        """``both_count``: what loses in either loop of the probe loses; ``patient``: rounds may be longer."""
        self._space, self._one_row, self._history = space, one_row, history
        self._asked, noise = design, self._noise
        far = math.sqrt(noise.squares / noise.freedom) if noise.freedom >= _TELLS else 0.0
        self.design = design.longer(far) if patient else design
        self.shares = SHARES if self.design is design else _LONGER
        self._both_count = both_count
        self._blocks = _blocks(history)
        self.rounds: list[VerificationRound] = []
        """So far, the last one being under way or the one that decided."""
        self.held: Recommendation | None = None
        """What is handed over; None: the defaults, or not decided yet."""
        self.not_worth = 0.0
        """The speed-up that a setting promised which could not be told from the defaults: those that promised
        less could not either."""

    def verify(self, setting: Recommendation, others_promise_more: Callable[[Recommendation], bool]) -> bool:
        """Walk through the rounds of one setting; whether the next one is up after them.

        That is so where this one is refused or no better, where no rule of it is left, or where it would need
        another round and others promise more by now.
        """
        keeps, again, promised = self._needed(setting), False, setting.speedup
        while len(self.rounds) < len(self.shares):
            done = self._round(setting, keeps, again)
            self.rounds.append(done)
            if not done.complete:
                return False
            if self._better_without_rules(done):
                setting, keeps, again = replace(setting, rules=()), set(), False
                continue
            if done.loses:
                return True
            measured = {c.slot for c in done.judged}
            alike = same_calls(self._space, setting, measured)
            rules = kept_rules(setting.rules, done.worst, keeps | alike, self._one_row)
            changed = {s for s in measured if choice_at(rules, s) != choice_at(setting.rules, s)}
            setting = replace(setting, rules=rules)
            if not deploys(self._space, setting):
                return True
            if self._goes_on(done, bool(changed)):
                keeps = measured
            elif not done.gains:
                if self._disappoints(done, promised):
                    self.not_worth = max(self.not_worth, promised)
                return True
            elif (not again and self._doubtful(done.counting) - changed) or self._may_close(done):
                keeps, again = measured, True
            elif done.open:
                return True
            else:
                self.held = setting
                return False
            if others_promise_more(setting):
                return True
        return False

    def _better_without_rules(self, done: VerificationRound) -> bool:
        """Whether a setting gains without rules too, and loses no more than they may cost where none acts.

        A stack that has rules looks them up at each call, which costs small messages some per cent.
        """
        setting, doubtful = done.setting, done.lost | done.open | self._doubtful(done.counting)
        idle = doubtful - ruled(self._space, setting, doubtful)
        if not (has_rules(setting) and idle and self._space.says(setting.point)):
            return False
        own = own_choices(self._space, self._history, setting).values()
        gain = sum(math.log(untouched.median_s / mine.median_s) for mine, untouched in own) / max(len(own), 1)
        least = min(c.gain for c in done.counting if c.slot in idle)
        return least > -_LOOKED_UP and gain > math.log(max(setting.speedup, 1.0)) / 2

    def _disappoints(self, done: VerificationRound, promised: float) -> bool:
        """Whether a setting is no better, and what it promised is out of reach.

        Where one size alone is wild it may well hold, and says nothing of settings that promise less.
        """
        whole = done.total
        return bool(whole and whole.gain >= self.design.least and promised > ratio_of(whole.high))

    def _may_close(self, done: VerificationRound) -> bool:
        """Whether what is open is likely to be told by the rounds that are left."""
        tail, most = self.design.per_look * self.shares[-1], len(self.shares) * self.design.launches
        wanted = [c for c in done.counting if c.slot in done.open]
        return bool(wanted) and all(launches_for(c, self.design.hidden, tail) <= most for c in wanted)

    def _goes_on(self, done: VerificationRound, changed: bool) -> bool:
        """Whether another round of what is left of a setting may tell more."""
        if done.gains:  # what was dropped makes calls now that were not measured
            return changed and self._space.says(done.setting.point)
        better = any(c.decision is SlotDecision.STILL_BETTER for c in done.judged)
        return (changed and better) or (done.total is not None and done.total.low > 0.0)

    def count_the_rest(self) -> None:
        """Let launches of the last setting count that an earlier version made after all was clear."""
        done = self.rounds[-1]
        if done.complete and (rest := [o for block in self._take(done.setting) for o in block]):
            done = replace(done, launches=(*done.launches, *rest))
            done = self._looked(done, set(), self.shares[-1])
            self.rounds[-1] = done
            self.held = None if done.lost or done.open else self.held

    def judged_by_others(self) -> VerificationRound | None:
        """The last setting launched for which these rules have not asked, on all its launches."""
        deployed = [o.trial for block in self._blocks for o in block if _deployed(o)]
        if not deployed:
            return None
        setting = Recommendation(deployed[-1].point, deployed[-1].rules)
        launches = tuple(o for block in self._take(setting) for o in block)
        done = self._looked(VerificationRound(setting, launches), set(), share=1.0)
        return replace(done, complete=True)

    @cached_property
    def _noise(self) -> LaunchNoise:
        return search_noise(self._history)

    def _round(self, setting: Recommendation, keeps: set[Slot], again: bool) -> VerificationRound:
        """One round as far as it got.

        No rule is dropped in the slots that it keeps; ``again``: the setting was found better in the round
        before, and only its losses are in doubt.
        """
        share = self.shares[len(self.rounds)]
        done = VerificationRound(
            setting,
            gains=again,
            before=self._earlier(setting, [(r.setting, r.differences) for r in self.rounds]),
            other_before=self._earlier(setting, [(r.setting, r.other_loop) for r in self.rounds]),
            both_count=self._both_count,
        )
        for block in self._take(setting):
            done = replace(done, launches=(*done.launches, *block))
            n_pairs = len(done.launches) // 2
            dead = self._dead(done)
            if len(block) < BLOCK or (n_pairs not in self.design.looks and not dead):
                continue
            done = self._looked(done, keeps, share)
            last = n_pairs >= self.design.looks[-1]
            if last and again:
                done = replace(done, lost=done.lost | self._doubtful(done.counting))
            if done.lost or last or dead or (done.differences and self._settled(done, keeps, share)):
                return replace(done, complete=True)
        return done

    def _dead(self, done: VerificationRound) -> bool:
        """Whether a setting does not run at all: that it failed each time is no chance any more.

        Chance is how often launches of the search failed in such a way, or those of the other side.
        """
        mine = [o for o in done.launches if _deployed(o)]
        if done.runs or not all(o.status.may_pass for o in mine):
            return not done.runs
        searched = self._history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH).observations
        others = [o for o in done.launches if not _deployed(o)]
        return max(map(_failing, (searched, others))) ** len(mine) <= _CHANCE

    def _looked(self, done: VerificationRound, keeps: set[Slot], share: float) -> VerificationRound:
        """A round with what its launches so far say."""
        untouched = [o for o in done.launches if o.trial.subject is Subject.UNTOUCHED]
        deployed = [o for o in done.launches if _deployed(o)]
        own, other = (pairs(untouched, deployed, other_loop) for other_loop in (False, True))
        if not own:
            return done
        every = (*done.before, *own)
        measured = {slot for pair in every for slot in pair}
        alike = same_calls(self._space, done.setting, measured)
        each = share / 2 if self._both_count else share
        judged = compare(every, self.design, same=alike, share=each, noise=self._noise)
        otherwise = compare(
            (*done.other_before, *other), self.design, same=alike, share=each, noise=self._noise
        )
        whole = overall(every, measured - alike, self.design.whole(share), self._noise)
        healed = ruled(self._space, done.setting, measured) - keeps
        untold = measured - {c.slot for c in otherwise} if self._both_count else set()
        done = replace(
            done,
            differences=own,
            judged=judged,
            other_loop=other,
            judged_otherwise=otherwise,
            gains=done.gains or whole.low > 0.0 or any(c.wins for c in judged),
        )
        is_open = {c.slot for c in done.counting if c.at_least < self.design.hidden} | untold
        return replace(
            done,
            lost=frozenset(c.slot for c in done.counting if c.loses) - healed,
            open=frozenset(is_open - healed - alike),
        )

    def _settled(self, done: VerificationRound, keeps: set[Slot], share: float) -> bool:
        """Whether more launches would change nothing: all is clear, or a gain is out of reach."""
        at_stake = ruled(self._space, done.setting, (c.slot for c in done.judged)) - keeps
        tested = [c for c in done.judged if c.decision is not SlotDecision.SAME_CALLS]
        if done.gains:  # more than is needed, as long as a round as asked for has launches
            tested = [c for c in done.counting if c.decision is not SlotDecision.SAME_CALLS]
            enough = 1.0 if len(done.launches) >= self._asked.launches else 0.5
            wide = {c.slot for c in tested if c.at_least < enough * self.design.hidden}
            return decided(done.counting, self.design, at_stake) and wide <= at_stake
        level = self.design.per_look * share / 4
        slots = {c.slot for c in tested}
        whole = overall(done.differences, slots, self.design.whole(share), self._noise)
        return not may_still_win(whole, self.design, level) and not any(
            may_still_win(c, self.design, level / len(tested)) for c in tested
        )

    def _doubtful(self, judged: Iterable[Comparison]) -> frozenset[Slot]:
        """Slots that are slower by their own interval, and by more than ``max_loss`` as seen."""
        alone = (c for c in judged if c.decision is not SlotDecision.SAME_CALLS)
        return frozenset(c.slot for c in alone if c.high < 0.0 and c.gain < self.design.least)

    def _take(self, setting: Recommendation) -> Iterator[Block]:
        """The blocks of a setting, each used once; at last one that has begun and says of none yet."""
        while self._blocks:
            mine = next((b for b in self._blocks if _of(b, setting)), None)
            if mine is None and len(self._blocks) == 1 and not any(map(_deployed, self._blocks[0])):
                mine = self._blocks[0]
            if mine is None:
                return
            self._blocks.remove(mine)
            yield mine

    def _earlier(
        self, setting: Recommendation, rounds: Iterable[tuple[Recommendation, tuple[PairDifferences, ...]]]
    ) -> tuple[PairDifferences, ...]:
        """Pairs of earlier rounds, in the slots in which they made the same calls."""
        return tuple(
            {
                slot: d
                for slot, d in pair.items()
                if choice_at(earlier.rules, slot) == choice_at(setting.rules, slot)
            }
            for earlier, differences in rounds
            if earlier.point == setting.point and has_rules(earlier) == has_rules(setting)
            for pair in differences
        )

    def _needed(self, setting: Recommendation) -> set[Slot]:
        """Slots in which the stack's own choice, in this setting, was seen slower than the untouched stack.

        There a rule stays although it gains nothing: without it the setting would lose.
        """
        slower = set()
        for slot, (own, untouched) in own_choices(self._space, self._history, setting).items():
            spread = math.hypot(own.sem_s / own.median_s, untouched.sem_s / untouched.median_s)
            if math.log(own.median_s / untouched.median_s) > 1.96 * spread:
                slower.add(slot)
        return slower


def _blocks(history: History) -> list[Block]:
    """The launches of the verification by their blocks, in order."""
    made = history.of(Phase.VERIFY).observations
    return [tuple(group) for _, group in groupby(made, key=lambda o: o.trial.block)]


def _failing(launches: Sequence[Observation]) -> float:
    """The share of launches whose failure may pass."""
    return sum(o.status.may_pass for o in launches) / max(len(launches), 1)


def _deployed(observation: Observation) -> bool:
    return observation.trial.subject is Subject.DEPLOYED


def _of(block: Block, setting: Recommendation) -> bool:
    """Whether a block compares this setting."""
    return any(
        _deployed(o) and (o.trial.point, o.trial.rules) == (setting.point, setting.rules) for o in block
    )
