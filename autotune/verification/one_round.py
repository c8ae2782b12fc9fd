"""One setting with its rules against the untouched stack, as far as it got (step 11 of the flow)."""

from collections.abc import Iterable
from dataclasses import dataclass

from autotune.history.objectives import Slot, place_text, ratio_of
from autotune.history.trial import Observation, Subject
from autotune.recommend.recommendation import Recommendation
from autotune.space import Point
from autotune.verification.blocks import Block
from autotune.verification.comparison import Comparison, SlotDecision, overall
from autotune.verification.failed import NO_FAILURES, Failures


@dataclass(frozen=True, slots=True)
class VerificationRound:
    """One setting with its rules against the untouched stack."""

    setting: Recommendation  # The setting under comparison.
    launches: tuple[Observation, ...] = ()  # Launches of both sides, in order.
    blocks: tuple[Block, ...] = ()
    """Whole blocks of the same calls: those of other rules of the same job-wide values, and its own."""
    other_blocks: tuple[Block, ...] = ()  # The same in the probe's other loop, as far as it was measured.
    judged: tuple[Comparison, ...] = ()  # Every slot after the last whole block.
    judged_otherwise: tuple[Comparison, ...] = ()  # Every slot in the other loop.
    gains: bool = False
    """Whether it is faster beyond the error rate: on the whole, or in one slot that is conclusive for all.

    A setting without that evidence is not deployed: noise that hides a gain hides a loss too.
    """
    lost: frozenset[Slot] = frozenset()
    """Where it is slower and dropping a rule would not change that: the setting is refused."""
    open: frozenset[Slot] = frozenset()
    """Where it could be slower by more than ``margin``, and dropping a rule would not change that."""
    doubtful: frozenset[Slot] = frozenset()
    """Where it was seen slower, and dropping a rule would not change that."""
    both_count: bool = False  # Whether what loses in either loop loses.
    failures: Failures = NO_FAILURES  # Failures of both sides, in all blocks of its job-wide setting so far.
    suspect: str = ""
    """The values that its setting shares with settings that fail; its own launches do not excuse it."""
    complete: bool = False  # Whether no more launches are wanted.

    @property
    def runs(self) -> bool:
        """Whether the setting was launched successfully."""
        return any(o.ok and o.trial.subject is Subject.DEPLOYED for o in self.launches)

    @property
    def compared(self) -> bool:
        """Whether anything can be said of its speed."""
        return bool(self.judged)

    @property
    def loses(self) -> bool:
        """Whether the setting is refused: slower somewhere, failing more often, or not running at all."""
        return self.complete and (bool(self.lost) or self.failures.doubtful or not self.runs)

    @property
    def total(self) -> Comparison | None:
        """All slots together; None before its speed was compared."""
        return overall(self.blocks, frozenset(c.slot for c in self.judged)) if self.compared else None

    @property
    def total_otherwise(self) -> Comparison | None:
        """All slots together in the other loop; None where it was not measured."""
        slots = frozenset(c.slot for c in self.judged_otherwise)
        return overall(self.other_blocks, slots) if slots else None

    @property
    def against(self) -> str:
        """The objection to its setting, in a few words; empty: none."""
        if self.failures.doubtful:
            return f"{self.failures.objection} on fresh launches"
        if self.suspect:
            return self.suspect
        if not self.compared:
            return "its fresh launches could not be compared"
        for slots, text in ((self.lost, "slower"), (self.open | self.doubtful, "may be slower")):
            those = [c for c in self.counting if c.slot in slots]
            if worst := min(those, key=lambda c: c.gain, default=None):
                return f"{text} at {place_text(worst.slot)} on fresh launches ({ratio_of(worst.gain):.2f}×)"
        return "" if self.gains else "no significant gain on fresh launches"

    @property
    def counting(self) -> tuple[Comparison, ...]:
        """The comparisons in which nothing may be lost."""
        return (*self.judged, *(self.judged_otherwise if self.both_count else ()))

    @property
    def worst(self) -> tuple[Comparison, ...]:
        """One comparison of each slot: in the loop in which it does worse."""
        better = SlotDecision.STILL_BETTER
        ordered = sorted(self.counting, key=lambda c: (c.decision is better, c.gain), reverse=True)
        return tuple({c.slot: c for c in ordered}.values())


def fresh_launches(rounds: Iterable[VerificationRound]) -> int:
    """How many there are in rounds: those of the untouched stack are common to settings that were raced."""
    return len({o.trial.number for one in rounds for o in one.launches})


def launches_behind(rounds: Iterable[VerificationRound], point: Point) -> int:
    """How many launches what is said of one setting rests on: its own and the untouched ones beside them."""
    return fresh_launches(one for one in rounds if one.setting.point == point)
