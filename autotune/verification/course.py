"""How one setting is compared with the untouched stack (step 11 of the flow).

A setting goes on until its launches show that it gains, somewhere and on the whole, and exclude at every size
a loss of more than ``margin``; then it holds, if it had the launches without which nothing is known of rare
failures, and nothing is doubtful. It is refused where it surely loses, fails more often, or where a gain is
out of reach; where twice the launches that are wanted were inconclusive and half as many again would be; and
where those were.

Rules by message size under which it is not better are dropped. Where that leaves the stack's own calls,
nothing is launched again; under a job-wide change it leaves calls that nobody launched, so what is left of
the setting is launched afresh, and keeps the evidence of the slots in which it makes the same calls. So is
the setting without its rules, where sizes at which none acts are doubtful, since a stack that has
rules looks them up at each call.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from autotune.history.lookup import choice_at
from autotune.history.objectives import Z95, Slot, ratio_of
from autotune.history.trial import Observation, Rule, Subject
from autotune.recommend.recommendation import Recommendation
from autotune.verification.blocks import Block, blocks_of
from autotune.verification.comparison import Comparison, SlotDecision, claims, compare, launches_for
from autotune.verification.deployed import deploys, has_rules, ruled, same_calls
from autotune.verification.failed import Failures
from autotune.verification.kept_rules import kept_rules
from autotune.verification.one_round import VerificationRound
from autotune.verification.searched import Searched
from autotune.verification.sequential import ONE_IN_TWENTY, SequentialDesign
from autotune.verification.shared_failures import Suspicion, levels_of

_LOOKED_UP = 0.08
"""No more does it cost a small message that a stack looks rules up, on the log scale."""
_ROUNDS = 4
"""Rounds of a setting: rules are dropped, what that left is launched again."""

Launches = tuple[Observation, ...]  # Launches of one block, in order.


class Course:
    """One walk through the rounds of a setting."""

    def __init__(
        self,
        searched: Searched,
        design: SequentialDesign,
        blocks: Iterable[Launches],
        both_count: bool = False,
        begun: int | None = None,
        untouched: Sequence[Observation] | None = None,
        suspicions: Sequence[Suspicion] = (),
    ) -> None:
        """``blocks``: those of the setting; ``both_count``: what loses in either loop of the probe loses.

        ``begun``: the number of the block that is not launched whole yet, which says nothing of speed.
        ``untouched``: every launch of the untouched stack, None: those in the blocks; ``suspicions``: what
        other settings that fail have in common.
        """
        self._searched, self._space = searched, searched.space
        self.design = design
        self._each_loop = design.share(1 / 2) if both_count else design
        self._both_count, self._begun = both_count, begun
        self._untouched, self._suspicions = untouched, suspicions
        self._blocks = list(blocks)
        self.rounds: list[VerificationRound] = []
        """So far, the last one being under way or the one that decided."""
        self.held: Recommendation | None = None
        """The rest of the setting, where it holds."""
        self.not_worth = 0.0
        """Promised speed-up where it was inconclusive; so are settings that promise less."""

    @property
    def under_way(self) -> bool:
        """Whether more launches are wanted."""
        return not self.rounds[-1].complete

    @property
    def doubtful(self) -> bool:
        """Whether what was launched speaks against the setting, so that another may take its place."""
        last = self.rounds[-1]
        return last.failures.doubtful or bool(last.lost | last.doubtful)

    def verify(self, setting: Recommendation) -> None:
        """Walk through the rounds of a setting until it is refused, or holds, or wants another launch."""
        keeps, promised = self._needed(setting), setting.speedup
        while len(self.rounds) < _ROUNDS:
            done = self._round(setting, keeps)
            self.rounds.append(done)
            if not done.complete:
                return
            if self._better_without_rules(done):
                setting, keeps = replace(setting, rules=()), set()
                continue
            if done.loses or done.failures.doubtful:
                return
            measured = {c.slot for c in done.judged}
            rules = self._kept(done, keeps)
            changed = {s for s in measured if choice_at(rules, s) != choice_at(setting.rules, s)}
            setting = replace(setting, rules=rules)
            if not deploys(self._space, setting):
                return
            if changed and self._space.says(setting.point) and self._better(done):
                keeps = measured  # what was dropped makes calls now that were not measured
            elif not done.gains:
                self.not_worth = promised if self._disappoints(done, promised) else 0.0
                return
            else:
                # A rule for all sizes stays where it is not better: there it must not lose either.
                still = ruled(self._space, setting, measured)
                unsafe = any(c.slot in still and c.at_least <= self.design.hidden for c in done.counting)
                doubted = bool(done.open | done.doubtful or done.suspect)
                self.held = None if doubted or unsafe else setting
                return

    def _better(self, done: VerificationRound) -> bool:
        return done.gains or any(c.decision is SlotDecision.STILL_BETTER for c in done.judged)

    def _kept(self, done: VerificationRound, keeps: Collection[Slot]) -> tuple[Rule, ...]:
        """The rules of a round's setting that hold."""
        alike = same_calls(self._space, done.setting, {c.slot for c in done.judged})
        return kept_rules(done.setting.rules, done.worst, alike.union(keeps), self._searched.one_row)

    def _better_without_rules(self, done: VerificationRound) -> bool:
        """Whether a setting gains without rules too, and loses no more than they may cost where none acts."""
        setting, doubtful = done.setting, done.lost | done.open | done.doubtful
        idle = doubtful - ruled(self._space, setting, doubtful)
        if not (has_rules(setting) and idle and self._space.says(setting.point)):
            return False
        own = self._searched.own_choices(setting).values()
        gain = sum(math.log(untouched.median_s / mine.median_s) for mine, untouched in own) / max(len(own), 1)
        least = min((c.gain for c in done.counting if c.slot in idle), default=-math.inf)
        return least > -_LOOKED_UP and gain > math.log(max(setting.speedup, 1.0)) / 2

    def _disappoints(self, done: VerificationRound, promised: float) -> bool:
        """Whether a setting is no better, and what it promised is out of reach.

        Where one size alone is wild it may well hold, and says nothing of settings that promise less.
        """
        whole = done.total
        return bool(whole and whole.gain >= self.design.least and promised > ratio_of(whole.high))

    def _round(self, setting: Recommendation, keeps: set[Slot]) -> VerificationRound:
        """One round as far as it got; no rule is dropped in the slots that it keeps."""
        own: list[Observation] = []
        before = [o for r in self.rounds if r.setting.point == setting.point for o in r.launches]
        levels = levels_of(self._space, setting.point, setting.rules)
        done = VerificationRound(setting, both_count=self._both_count)
        for block in self._take(setting):
            own += block
            failures = self._failures([*before, *own])
            suspect = next((s.text(levels) for s in self._suspicions if s.concerns(levels, failures)), "")
            done = replace(done, launches=tuple(own), failures=failures, suspect=suspect)
            if failures.wrong:
                return self._judged(replace(done, complete=True))
            if block[0].trial.block != self._begun:
                done = self._looked(done, keeps)
                if failures.surely_more(ONE_IN_TWENTY) or self._ends(done, keeps):
                    return self._judged(replace(done, complete=True))
        return self._judged(done)

    def _failures(self, made: Sequence[Observation]) -> Failures:
        """Those of a setting among these launches, and of the untouched stack in all launches until then."""
        latest = max(o.trial.number for o in made)
        beside = [o for o in made if not _deployed(o)] if self._untouched is None else self._untouched
        until = [o for o in beside if o.trial.number <= latest]
        return Failures.between([o for o in made if _deployed(o)], until)

    def _looked(self, done: VerificationRound, keeps: set[Slot]) -> VerificationRound:
        """A round with what its whole blocks so far say."""
        loops = [
            (*self._earlier(done.setting, other), *self._compared(done.launches, other))
            for other in (False, True)
        ]
        measured = set().union(*(block.slots for block in loops[0]))
        alike = frozenset(same_calls(self._space, done.setting, measured))
        claimed = [claims(blocks, self._each_loop, alike) for blocks in loops[: 1 + self._both_count]]
        healed = ruled(self._space, done.setting, measured) - keeps
        unmeasured: set[Slot] = set()
        if self._both_count:
            unmeasured = measured.difference(*(block.slots for block in loops[1]))
        lost, doubtful, is_open = (
            frozenset().union(*(getattr(one, name) for one in claimed)) - healed
            for name in ("loses", "doubtful", "open")
        )
        return replace(
            done,
            blocks=loops[0],
            other_blocks=loops[1],
            gains=claimed[0].gains,
            lost=lost,
            doubtful=doubtful,
            open=frozenset((is_open | unmeasured) - healed - alike),
        )

    def _judged(self, done: VerificationRound) -> VerificationRound:
        """A round with every slot of it; what was launched most recently decides for all looks."""
        if not done.blocks:
            return done
        slots = set().union(*(block.slots for block in done.blocks))
        alike = frozenset(same_calls(self._space, done.setting, slots))
        return replace(
            done,
            judged=compare(done.blocks, self._each_loop, alike),
            judged_otherwise=compare(done.other_blocks, self._each_loop, alike),
        )

    def _ends(self, done: VerificationRound, keeps: set[Slot]) -> bool:
        """Whether more launches are not wanted: all is clear, a loss is, or a gain is out of reach."""
        n_own = done.failures.n_deployed
        if done.lost or n_own >= self.design.longest:
            return True
        if n_own >= 2 * self.design.own and not self._may_still_hold(done, n_own):
            return True
        if n_own < self.design.own and not done.gains:
            return False
        judged = self._judged(done).judged
        if not done.gains:
            return not self._may_still_win(done, judged)
        if n_own >= self.design.own and not self._unsettled(done):
            return True
        if not self._space.says(done.setting.point):
            return False
        # What is left of its rules is launched afresh: the sooner, the more launches it has.
        at_stake = ruled(self._space, done.setting, (c.slot for c in judged)) - keeps
        decided = all(c.decision is not SlotDecision.INCONCLUSIVE for c in judged if c.slot in at_stake)
        return decided and self._kept(replace(done, judged=judged), keeps) != done.setting.rules

    @staticmethod
    def _unsettled(done: VerificationRound) -> bool:
        return bool(done.open | done.doubtful or done.failures.unsettled or done.suspect)

    def _may_still_win(self, done: VerificationRound, judged: Iterable[Comparison]) -> bool:
        """Whether twice the wanted launches would show a gain, were it a standard error more than seen."""
        alpha, most = self.design.alpha / 2, 2 * self.design.launches
        each = [c for c in judged if c.decision is not SlotDecision.SAME_CALLS]
        whole = replace(done, judged=tuple(each)).total
        return (whole is not None and launches_for(whole, 0.0, alpha) <= most) or any(
            launches_for(c, 0.0, alpha / len(each)) <= most for c in each
        )

    def _may_still_hold(self, done: VerificationRound, n_own: int) -> bool:
        """Whether all launches there may be could leave a setting without doubt.

        They would exclude a loss where one is open now, were its mean a standard error better than seen; a
        few failures of its own without one of the untouched stack remain more than that has.
        """
        if done.failures.doubtful:
            return False
        wanted = (
            self.design.launches_to_exclude(
                c.mean_gain + c.mean_sem - self.design.hidden, c.mean_sem * math.sqrt(n_own)
            )
            for c in self._judged(done).counting
            if c.slot in done.open
        )
        return all(n < self.design.longest for n in wanted)

    def _compared(self, launches: Iterable[Observation], other_loop: bool) -> tuple[Block, ...]:
        made = [o for o in launches if o.trial.block != self._begun]
        sides = [[o for o in made if _deployed(o) is tuned] for tuned in (False, True)]
        found = blocks_of(sides[0], sides[1], other_loop)
        return tuple(block for block in found if 2 * sum(block.tuned) == len(block.tuned))

    def _take(self, setting: Recommendation) -> Iterator[Launches]:
        """The blocks of a setting with these rules, each used once."""
        while (mine := next((b for b in self._blocks if _of(b, setting)), None)) is not None:
            self._blocks.remove(mine)
            yield mine

    def _earlier(self, setting: Recommendation, other_loop: bool) -> tuple[Block, ...]:
        """Blocks of earlier rounds, in the slots in which they made the same calls."""
        found: list[Block] = []
        for one in self.rounds:
            earlier = one.setting
            if earlier.point != setting.point or has_rules(earlier) != has_rules(setting):
                continue
            for block in self._compared(one.launches, other_loop):
                mine, its = setting.rules, earlier.rules
                same = {s for s in block.slots if choice_at(its, s) == choice_at(mine, s)}
                found.append(block.within(same))
        return tuple(found)

    def _needed(self, setting: Recommendation) -> set[Slot]:
        """Slots in which the stack's own choice, in this setting, was seen slower than the untouched stack.

        There a rule stays although it gains nothing: without it the setting would lose.
        """
        slower = set()
        for slot, (own, untouched) in self._searched.own_choices(setting).items():
            spread = math.hypot(own.sem_s / own.median_s, untouched.sem_s / untouched.median_s)
            if math.log(own.median_s / untouched.median_s) > Z95 * spread:
                slower.add(slot)
        return slower


def _deployed(observation: Observation) -> bool:
    return observation.trial.subject is Subject.DEPLOYED


def _of(block: Launches, setting: Recommendation) -> bool:
    """Whether a block compares this setting."""
    wanted = (setting.point, setting.rules)
    return any(_deployed(o) and (o.trial.point, o.trial.rules) == wanted for o in block)
