"""One setting against the untouched stack on fresh launches, as far as they got (step 11 of the flow)."""

from dataclasses import dataclass

from autotune.history.objectives import Slot
from autotune.history.trial import Observation, Subject
from autotune.recommend.front import Recommendation
from autotune.verification.paired_test import Comparison, overall
from autotune.verification.pairs import PairDifferences


@dataclass(frozen=True, slots=True)
class VerificationRound:
    """One setting with its rules against the untouched stack."""

    setting: Recommendation
    """What is compared."""
    launches: tuple[Observation, ...] = ()
    """Of both sides, in order."""
    differences: tuple[PairDifferences, ...] = ()
    """The differences of its pairs."""
    judged: tuple[Comparison, ...] = ()
    """Every slot at the last look, on all pairs of the same calls, those of earlier rounds too."""
    gains: bool = False
    """Whether it is faster beyond the error rate: on the whole, or in one slot that tells for all.

    A setting of which this cannot be told is not deployed: noise that hides a gain hides a loss too.
    """
    lost: frozenset[Slot] = frozenset()
    """Where it is slower and dropping a rule would not change that: the setting is refused."""
    open: frozenset[Slot] = frozenset()
    """Where it could be slower by more than ``margin``, and dropping a rule would not change that."""
    before: tuple[PairDifferences, ...] = ()
    """Pairs of earlier rounds, in the slots in which they made the same calls."""
    other_loop: tuple[PairDifferences, ...] = ()
    """The differences of its pairs in the probe's other loop, as far as it was measured."""
    other_before: tuple[PairDifferences, ...] = ()
    """Those of earlier rounds."""
    judged_otherwise: tuple[Comparison, ...] = ()
    """Every slot in the other loop at the last look."""
    both_count: bool = False
    """Whether what loses in either loop loses."""
    complete: bool = False
    """Whether no more launches are wanted."""

    @property
    def runs(self) -> bool:
        """Whether the setting was launched successfully."""
        return any(o.ok and o.trial.subject is Subject.DEPLOYED for o in self.launches)

    @property
    def loses(self) -> bool:
        """Whether the setting is refused: slower somewhere, or it does not run at all."""
        return self.complete and (bool(self.lost) or not self.runs)

    @property
    def total(self) -> Comparison | None:
        """All slots together, as all its pairs show them; None before there are two of its own."""
        if len(self.differences) < 2:
            return None
        return overall(self.pairs, set.intersection(*map(set, self.differences)))

    @property
    def total_otherwise(self) -> Comparison | None:
        """All slots together in the other loop; None where it was not measured."""
        differences = (*self.other_before, *self.other_loop)
        return overall(differences) if differences else None

    @property
    def counting(self) -> tuple[Comparison, ...]:
        """The comparisons in which nothing may be lost."""
        return (*self.judged, *(self.judged_otherwise if self.both_count else ()))

    @property
    def worst(self) -> tuple[Comparison, ...]:
        """One comparison of each slot: in the loop in which it does worse."""
        ordered = sorted(self.counting, key=lambda c: c.gain, reverse=True)
        return tuple({c.slot: c for c in ordered}.values())

    @property
    def pairs(self) -> tuple[PairDifferences, ...]:
        """All of the same calls: those of earlier rounds, and its own."""
        return (*self.before, *self.differences)
