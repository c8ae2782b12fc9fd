"""Compare one setting with the untouched stack (the MPI's own defaults), round by round.

A setting is launched until its launches show that it gains, somewhere or on the whole, and exclude at every
size a loss of more than ``margin``; then it *holds* (is verified), unless a size is doubtful, see
``comparison``. It is refused if it surely loses or fails more often, or if the predictive probability that it
would hold after the largest number of launches that it may have falls below a tenth (Spiegelhalter, Freedman,
Blackburn: Monitoring clinical trials: conditional or predictive power? Controlled Clinical Trials 7, 1986,
8-17).

Before a setting is exported, launches that start, check results and time nothing are made until they exclude
failures in more than one of ten launches, and the failure rate of failing settings that share values with it.

A rule (the choice for a range of message sizes) is dropped if the setting is not better there. If the setting
changes no job-wide value, the stack then makes its own calls at these sizes, and nothing is launched again.
If it changes one, its calls without the rule were never launched. So a new round launches the reduced
setting, and reuses the evidence of slots (collective, communicator size, message size) in which the reduced
setting makes the same calls as before. A new round also launches the setting without any rules if sizes at
which no rule acts are doubtful, since a stack that has rules looks them up at each call.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from autotune.history.lookup import choice_at
from autotune.history.objectives import Z95, Slot, ratio_of
from autotune.history.trial import Observation, Rule, Subject
from autotune.recommend.other_calls import OtherCall, slower
from autotune.recommend.recommendation import Recommendation
from autotune.verification.blocks import Block, blocks_of
from autotune.verification.comparison import Comparison, SlotDecision, claims, compare
from autotune.verification.deployed import deploys, has_rules, ruled, same_calls
from autotune.verification.failed import Failures
from autotune.verification.forecast import Forecast
from autotune.verification.kept_rules import kept_rules
from autotune.verification.one_round import VerificationRound
from autotune.verification.other_calls import other_calls
from autotune.verification.planned import critical
from autotune.verification.searched import Searched
from autotune.verification.sequential import DOUBT, ONE_IN_TWENTY, SequentialDesign
from autotune.verification.shared_failures import Suspicion, levels_of

_LOOKED_UP = 0.08
"""Largest cost of looking up rules that is expected at a small message, in ln of the time."""
HOPELESS = 0.1
"""Predictive probability below which a setting is abandoned: one of ten such settings would be verified."""
_ROUNDS = 4
"""Largest number of rounds of a setting; between two rounds some of its rules are dropped."""

Launches = tuple[Observation, ...]  # Launches of one block, in order.


class Course:
    """Evaluate one setting in rounds; after a round, rules may be dropped and a new round begun."""

    def __init__(
        self,
        searched: Searched,
        design: SequentialDesign,
        blocks: Iterable[Launches],
        both_count: bool = False,
        open_block: int | None = None,
        untouched: Sequence[Observation] | None = None,
        suspicions: Sequence[Suspicion] = (),
        starts: Sequence[Observation] = (),
    ) -> None:
        """Set up the comparison of one setting.

        Args:
            searched: What the launches before the verification showed.
            design: The design of the test, with the setting's share of the error rates.
            blocks: Launches of the setting and of the untouched stack, block by block.
            both_count: Whether a loss in either of the probe's two loops counts.
            open_block: Number of the block that is not complete yet, so its times are not used; None: all
                blocks are complete.
            untouched: Every launch of the untouched stack; None: those in the blocks.
            suspicions: Values that other, failing settings have in common.
            starts: Launches of the setting that only started and checked results.
        """
        self._searched, self._space = searched, searched.space
        self.design = design
        self._each_loop = design.share(1 / 2) if both_count else design
        self._both_count, self._open_block = both_count, open_block
        self._untouched, self._suspicions, self.starts = untouched, suspicions, tuple(starts)
        self._blocks = list(blocks)
        self.rounds: list[VerificationRound] = []
        """The rounds so far; the last one is under way or has decided."""
        self.verified: Recommendation | None = None
        """The verified setting with its remaining rules; None if the setting is not verified."""
        self.proving: Recommendation | None = None
        """The setting with its remaining rules, if its speed is verified and its launches do not exclude
        failures yet; else None."""
        self.not_worth = 0.0
        """The speed-up that the setting had promised, if its launches showed no gain: settings that promise
        less are not worth launches either; else 0."""

    @property
    def under_way(self) -> bool:
        """Whether more launches of the setting are needed."""
        return not self.rounds[-1].complete

    @cached_property
    def other_calls(self) -> tuple[OtherCall, ...]:
        """Return the setting's effects on calls for which it was not tuned; rules alone have no effect."""
        if not self.rounds or not self._space.says(self.rounds[-1].setting.point):
            return ()
        return other_calls((o for r in self.rounds for o in r.launches), self.design)

    @property
    def harmless(self) -> bool:
        """Whether the setting is verified, and slows down no call for which it was not tuned."""
        return self.verified is not None and not slower(self.other_calls)

    @property
    def n_own(self) -> int:
        """Return the number of timed launches of the setting, in all rounds with its job-wide values."""
        last = self.rounds[-1]
        rounds = (r for r in self.rounds if r.setting.point == last.setting.point)
        return _launched(o for r in rounds for o in r.launches)

    def verify(self, setting: Recommendation) -> None:
        """Evaluate the rounds of a setting until it is refused or verified, or needs another launch."""
        keeps, promised = self._needed(setting), setting.speedup
        while len(self.rounds) < _ROUNDS:
            current = self._round(setting, keeps)
            self.rounds.append(current)
            if not current.complete:
                return
            if self._better_without_rules(current):
                setting, keeps = replace(setting, rules=()), set()
                continue
            if current.loses or current.failures.doubtful:
                return
            measured = {c.slot for c in current.comparisons}
            rules = self._holding_rules(current, keeps)
            changed = {s for s in measured if choice_at(rules, s) != choice_at(setting.rules, s)}
            setting = replace(setting, rules=rules)
            if not deploys(self._space, setting):
                return
            if changed and self._space.says(setting.point) and self._better(current):
                keeps = measured  # without the dropped rules the setting makes calls that were not measured
            elif not current.gains:
                self.not_worth = promised if self._disappoints(current, promised) else 0.0
                return
            else:
                # A rule for all sizes also acts where it is not better, and it must not lose there either.
                ruled_slots = ruled(self._space, setting, measured)
                unsafe = any(
                    c.slot in ruled_slots and c.at_least <= self.design.hidden for c in current.counting
                )
                if not (current.open or current.doubtful or unsafe):
                    unproven = current.suspect or current.failures.starts_to_exclude(self.design.max_failures)
                    self.verified, self.proving = (None, setting) if unproven else (setting, None)
                return

    def _better(self, current: VerificationRound) -> bool:
        return current.gains or any(c.decision is SlotDecision.STILL_BETTER for c in current.comparisons)

    def _holding_rules(self, current: VerificationRound, keeps: Collection[Slot]) -> tuple[Rule, ...]:
        """Return the rules of a round's setting that its comparisons confirm."""
        unchanged = same_calls(self._space, current.setting, {c.slot for c in current.comparisons})
        return kept_rules(
            current.setting.rules, current.worst, unchanged.union(keeps), self._searched.one_row
        )

    def _better_without_rules(self, current: VerificationRound) -> bool:
        """Whether a setting gains without its rules too, and loses little at sizes without a rule.

        At these sizes it may lose no more than looking rules up costs.
        """
        setting, doubtful = current.setting, current.lost | current.open | current.doubtful
        idle = doubtful - ruled(self._space, setting, doubtful)
        if not (has_rules(setting) and idle and self._space.says(setting.point)):
            return False
        own_choices = self._searched.own_choices(setting).values()
        gain = sum(
            math.log(untouched.median_s / own_choice.median_s) for own_choice, untouched in own_choices
        ) / max(len(own_choices), 1)
        worst_gain = min((c.gain for c in current.counting if c.slot in idle), default=-math.inf)
        return worst_gain > -_LOOKED_UP and gain > math.log(max(setting.speedup, 1.0)) / 2

    def _disappoints(self, current: VerificationRound, promised: float) -> bool:
        """Whether a setting is no better, and the speed-up that it promised is out of reach.

        A setting that is slower on the whole, by large losses at single sizes, says nothing about settings
        that promise less.
        """
        total = current.total
        if total is None or total.gain < self.design.least or total.low > 0.0:
            return False
        return promised > ratio_of(total.high)

    def _round(self, setting: Recommendation, keeps: set[Slot]) -> VerificationRound:
        """Return the present round of the setting, with its launches so far.

        No rule is dropped in the slots of ``keeps``.
        """
        launches: list[Observation] = []
        earlier = [o for r in self.rounds if r.setting.point == setting.point for o in r.launches]
        levels = levels_of(self._space, setting.point, setting.rules)
        current = VerificationRound(setting, both_count=self._both_count)
        for block in self._take(setting):
            launches += block
        if not launches:
            return current
        failures = self._failures([*earlier, *launches])
        suspect = next((s.text(levels) for s in self._suspicions if s.concerns(levels, failures)), "")
        current = replace(
            current, launches=tuple(launches), failures=failures, starts=self.starts, suspect=suspect
        )
        current = self._with_comparisons(self._with_claims(current, keeps))
        complete = failures.surely_more(ONE_IN_TWENTY)
        if launches[-1].trial.block != self._open_block:
            complete = complete or self._is_over(current, keeps, _launched([*earlier, *launches]))
        return replace(current, complete=complete)

    def _failures(self, launches: Sequence[Observation]) -> Failures:
        """Return the failures among launches of a setting, and of the untouched stack up to the last one."""
        launches = [*launches, *self.starts]
        latest = max(o.trial.number for o in launches)
        untouched = [o for o in launches if not _deployed(o)] if self._untouched is None else self._untouched
        untouched_so_far = [o for o in untouched if o.trial.number <= latest]
        return Failures.between([o for o in launches if _deployed(o)], untouched_so_far)

    def _with_claims(self, current: VerificationRound, keeps: set[Slot]) -> VerificationRound:
        """Return a round with its claims of gains, losses and doubts, from the complete blocks so far."""
        loops = [
            (*self._earlier(current.setting, other_loop), *self._compared(current.launches, other_loop))
            for other_loop in (False, True)
        ]
        measured = set().union(*(block.slots for block in loops[0]))
        unchanged = frozenset(same_calls(self._space, current.setting, measured))
        claimed = [claims(blocks, self._each_loop, unchanged) for blocks in loops[: 1 + self._both_count]]
        healed = ruled(self._space, current.setting, measured) - keeps
        unmeasured: set[Slot] = set()
        if self._both_count:
            unmeasured = measured.difference(*(block.slots for block in loops[1]))
        lost, doubtful, is_open = (
            frozenset().union(*(getattr(loop_claims, name) for loop_claims in claimed)) - healed
            for name in ("loses", "doubtful", "open")
        )
        return replace(
            current,
            blocks=loops[0],
            other_blocks=loops[1],
            gains=claimed[0].gains,
            lost=lost,
            doubtful=doubtful,
            open=frozenset((is_open | unmeasured) - healed - unchanged),
        )

    def _with_comparisons(self, current: VerificationRound) -> VerificationRound:
        """Return a round with a comparison of every slot, from all complete blocks so far."""
        if not current.blocks:
            return current
        slots = set().union(*(block.slots for block in current.blocks))
        unchanged = frozenset(same_calls(self._space, current.setting, slots))
        return replace(
            current,
            comparisons=compare(current.blocks, self._each_loop, unchanged),
            other_comparisons=compare(current.other_blocks, self._each_loop, unchanged),
        )

    def _is_over(self, current: VerificationRound, keeps: set[Slot], n_own: int) -> bool:
        """Whether no more launches are needed: all is decided, a loss is certain, or no gain can be shown."""
        if current.lost or n_own >= self.design.longest:
            return True
        settled = current.gains and not (current.open or current.doubtful)
        if n_own >= self.design.setting_launches and settled:
            return True
        if (
            2 * n_own >= self.design.setting_launches
            and self.chance(current, n_own, self.design.longest) < HOPELESS
        ):
            return True
        if not (current.gains and self._space.says(current.setting.point)):
            return False
        # A setting with fewer rules needs a new round: the sooner that begins, the more launches it can have.
        at_stake = ruled(self._space, current.setting, (c.slot for c in current.comparisons)) - keeps
        decided = all(
            c.decision is not SlotDecision.INCONCLUSIVE for c in current.comparisons if c.slot in at_stake
        )
        return decided and self._holding_rules(current, keeps) != current.setting.rules

    def chance(self, current: VerificationRound, n_own: int, n_total: float) -> float:
        """Return the probability that a setting is verified after ``n_total`` of its launches.

        Slots of a launch are correlated, so k slots count as √k independent slots. ``forecast`` predicts the
        launches to come.
        """
        from scipy.stats import t

        if not current.compared or n_own < 2:
            return 1.0
        if n_total <= n_own:
            return 0.0
        alpha, slots = self._each_loop.bound_alpha, max(len(current.comparisons), 1)
        may_err = [c for c in current.counting if c.slot in current.open | current.doubtful]
        differing = [c for c in current.comparisons if not c.overhead]
        typical = Forecast([c.gain for c in differing], [c.sem for c in differing], n_own, n_total)
        plain = Forecast([c.mean_gain for c in differing], [c.mean_sem for c in differing], n_own, n_total)
        bound = float(t.isf(alpha, n_total - 1)) if n_total < math.inf else 0.0
        doubt = float(-t.isf(DOUBT / slots, n_own - 1))

        def excludes(c: Comparison) -> float:
            """Return the probability that a loss of ``margin`` will be excluded, so that a rule may stay."""
            return plain.exceeds(c.mean_gain, c.mean_sem, self.design.hidden, bound)

        holds = 1.0
        for c in may_err:
            holds *= min(excludes(c), typical.exceeds(c.gain, c.sem, self.design.least, doubt))
        holds = float(holds ** (1 / math.sqrt(max(len(may_err), 1))))
        if current.gains or not differing:
            return holds * current.gains
        each = float(critical(n_total, self._each_loop.gain_alpha / slots))
        total, all_of = current.total, float(critical(n_total, self._each_loop.gain_alpha))
        gains = [typical.exceeds(c.gain, c.sem, 0.0, each) * excludes(c) for c in differing]
        if total is not None:
            whole = Forecast([], [], n_own, n_total)
            gains.append(whole.exceeds(total.gain, total.sem, 0.0, all_of) * max(map(excludes, differing)))
        return holds * max(gains)

    def _compared(self, launches: Iterable[Observation], other_loop: bool) -> tuple[Block, ...]:
        complete = [o for o in launches if o.trial.block != self._open_block]
        sides = [[o for o in complete if _deployed(o) is tuned] for tuned in (False, True)]
        blocks = blocks_of(sides[0], sides[1], other_loop)
        return tuple(block for block in blocks if 2 * sum(block.tuned) == len(block.tuned))

    def _take(self, setting: Recommendation) -> Iterator[Launches]:
        """Yield the unused blocks that compare a setting with exactly these rules, and mark them as used."""
        while (block := next((b for b in self._blocks if _compares(b, setting)), None)) is not None:
            self._blocks.remove(block)
            yield block

    def _earlier(self, setting: Recommendation, other_loop: bool) -> tuple[Block, ...]:
        """Return blocks of earlier rounds, reduced to the slots in which the same calls were made."""
        blocks: list[Block] = []
        for earlier_round in self.rounds:
            earlier = earlier_round.setting
            if earlier.point != setting.point or has_rules(earlier) != has_rules(setting):
                continue
            for block in self._compared(earlier_round.launches, other_loop):
                rules, earlier_rules = setting.rules, earlier.rules
                same_slots = {s for s in block.slots if choice_at(earlier_rules, s) == choice_at(rules, s)}
                blocks.append(block.within(same_slots))
        return tuple(blocks)

    def _needed(self, setting: Recommendation) -> set[Slot]:
        """Return the slots in which this job-wide setting without rules was slower than the defaults.

        In these slots a rule is kept even if it gains nothing: without the rule the setting would lose.
        """
        slower = set()
        for slot, (own_choice, untouched) in self._searched.own_choices(setting).items():
            spread = math.hypot(own_choice.sem_s / own_choice.median_s, untouched.sem_s / untouched.median_s)
            if math.log(own_choice.median_s / untouched.median_s) > Z95 * spread:
                slower.add(slot)
        return slower


def _deployed(observation: Observation) -> bool:
    return observation.trial.subject is Subject.DEPLOYED


def _launched(launches: Iterable[Observation]) -> int:
    """Return the number of launches of the setting among these."""
    return sum(map(_deployed, launches))


def _compares(block: Launches, setting: Recommendation) -> bool:
    """Whether a block compares this setting, with the same rules."""
    compared = (setting.point, setting.rules)
    return any(_deployed(o) and (o.trial.point, o.trial.rules) == compared for o in block)
