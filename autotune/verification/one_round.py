"""Hold one round of the verification: a setting with its rules compared with the untouched stack.

A slot is one (collective, communicator size, message size).
"""

from collections.abc import Iterable, Sequence
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
    """Compare a setting with its rules against the untouched stack (the MPI's own defaults)."""

    setting: Recommendation  # The setting under comparison.
    launches: tuple[Observation, ...] = ()  # Launches of the setting and of the defaults, in order.
    blocks: tuple[Block, ...] = ()
    """Complete blocks of this round, and blocks of rounds with other rules, reduced to the slots in which the
    setting makes the same calls as in this round."""
    other_blocks: tuple[Block, ...] = ()
    """The same blocks in the probe's other loop, as far as it was measured."""
    comparisons: tuple[Comparison, ...] = ()  # Comparison of every slot after the last complete block.
    other_comparisons: tuple[Comparison, ...] = ()  # Comparison of every slot in the other loop.
    gains: bool = False
    """Whether the setting is significantly faster: on the whole, or in one slot at the error rate of all
    slots together. A setting without that evidence is not deployed: noise that hides a gain hides a loss
    too."""
    lost: frozenset[Slot] = frozenset()
    """Slots in which the setting is slower, and dropping a rule would not help; a setting with such a slot is
    refused."""
    open: frozenset[Slot] = frozenset()
    """Slots in which the setting could be slower by more than ``margin``, and dropping a rule would not
    help."""
    doubtful: frozenset[Slot] = frozenset()
    """Slots in which the setting was seen slower, and dropping a rule would not help."""
    both_count: bool = False  # Whether a loss in either of the probe's two loops counts.
    failures: Failures = NO_FAILURES  # Failures of both sides, in all blocks with these job-wide values.
    starts: tuple[Observation, ...] = ()
    """Launches of the setting that only started and checked results; ``failures`` counts them, too."""
    suspect: str = ""
    """The values that the setting shares with failing settings, in words; empty once its own launches exclude
    such failures."""
    complete: bool = False  # Whether no more launches are needed.

    @property
    def runs(self) -> bool:
        """Whether a launch of the setting ended well."""
        return any(o.ok and o.trial.subject is Subject.DEPLOYED for o in self.launches)

    @property
    def compared(self) -> bool:
        """Whether the setting's speed could be compared."""
        return bool(self.comparisons)

    @property
    def loses(self) -> bool:
        """Whether the setting is refused: slower somewhere, failing more often, or not running at all."""
        return self.complete and (bool(self.lost) or self.failures.doubtful or not self.runs)

    @property
    def total(self) -> Comparison | None:
        """Return the comparison of the mean over all slots; None before the setting's speed was compared."""
        return overall(self.blocks, frozenset(c.slot for c in self.comparisons)) if self.compared else None

    @property
    def total_otherwise(self) -> Comparison | None:
        """Return the comparison of the mean over all slots in the probe's other loop.

        Return None if nothing was measured in the other loop.
        """
        slots = frozenset(c.slot for c in self.other_comparisons)
        return overall(self.other_blocks, slots) if slots else None

    @property
    def against(self) -> str:
        """Return the objection to the setting in a few words; empty if there is none."""
        if self.failures.doubtful:
            return f"{self.failures.objection} on fresh launches"
        if self.suspect:
            return self.suspect
        if not self.compared:
            return "its fresh launches could not be compared"
        for slots, text in ((self.lost, "slower"), (self.open | self.doubtful, "may be slower")):
            compared = [c for c in self.counting if c.slot in slots]
            if worst := min(compared, key=lambda c: c.gain, default=None):
                return f"{text} at {place_text(worst.slot)} on fresh launches ({ratio_of(worst.gain):.2f}×)"
        return "" if self.gains else "no significant gain on fresh launches"

    @property
    def undecided(self) -> Comparison | None:
        """Return the comparison in the slot with the largest loss that launches leave possible.

        Return None if no slot is open or doubtful.
        """
        uncertain = self.open | self.doubtful
        return min((c for c in self.counting if c.slot in uncertain), key=lambda c: c.at_least, default=None)

    @property
    def counting(self) -> tuple[Comparison, ...]:
        """Return the comparisons in which a loss counts: of every slot, in both loops if both count."""
        return (*self.comparisons, *(self.other_comparisons if self.both_count else ()))

    @property
    def worst(self) -> tuple[Comparison, ...]:
        """Return one comparison of each slot, in the loop in which the setting does worse."""
        better = SlotDecision.STILL_BETTER
        ordered = sorted(self.counting, key=lambda c: (c.decision is better, c.gain), reverse=True)
        return tuple({c.slot: c for c in ordered}.values())


def fresh_launches(rounds: Iterable[VerificationRound]) -> int:
    """Return the number of launches in rounds; launches of the defaults that rounds share count once."""
    return len({o.trial.number for each_round in rounds for o in each_round.launches})


def last_round(rounds: Sequence[VerificationRound], point: Point) -> VerificationRound | None:
    """Return the last round of the setting with these job-wide values; None if it was not verified."""
    return next((each_round for each_round in reversed(rounds) if each_round.setting.point == point), None)


def launches_behind(rounds: Iterable[VerificationRound], point: Point) -> int:
    """Return the number of launches of one setting and of the stack's own defaults beside it."""
    return fresh_launches(each_round for each_round in rounds if each_round.setting.point == point)
