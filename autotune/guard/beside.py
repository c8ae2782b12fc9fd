"""Compare one environment with another that was launched at the same moments.

The result is slower, not slower, or inconclusive.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.guard.kept import slot_words
from autotune.history.objectives import Slot, ratio_of
from autotune.history.trial import Observation
from autotune.verification.blocks import blocks_of
from autotune.verification.comparison import WHOLE, Comparison, claims, compare
from autotune.verification.failed import Failures
from autotune.verification.sequential import SequentialDesign
from autotune.views.text import ratio_text


@dataclass(frozen=True, slots=True)
class Beside:
    """One side compared with a reference that was launched at the same moments."""

    comparisons: tuple[Comparison, ...] = ()
    """Comparison in each slot, with the side's speed over the reference's."""
    slower: tuple[Slot, ...] = ()  # Slots in which the side is significantly slower.
    open: bool = True  # Whether a loss of 10 % is not excluded in some other slot.
    failures: str = ""  # How often both sides failed, in words; empty unless the side fails more often.
    launches: int = 0  # Number of launches of each side.

    @classmethod
    def of(
        cls,
        reference: Sequence[Observation],
        side: Sequence[Observation],
        names: tuple[str, str],
        alpha: float = SequentialDesign().alpha,
    ) -> "Beside":
        """Compare all launches of two sides.

        Typical calls are compared, as for nights: another program that disturbs a few calls of a launch
        changes their mean, and on a busy machine the mean would leave a loss of any size possible.

        Args:
            reference: Launches of the reference.
            side: Launches of the side.
            names: Names of reference and side.
            alpha: Error rate.
        """
        design = SequentialDesign(alpha=alpha)
        blocks = tuple(replace(block, means=()) for block in blocks_of(reference, side))
        claimed, comparisons = claims(blocks, design), compare(blocks, design)
        failures = Failures.between(side, reference)
        failure_text = failures.between_text(*reversed(names)) if failures.more else ""
        slower = tuple(sorted(claimed.loses - {WHOLE}))
        open_ = not comparisons or bool(claimed.open - claimed.loses)
        return cls(comparisons, slower, open_, failure_text, len(side))

    @property
    def worse(self) -> bool:
        """Return whether the side is slower somewhere, or fails more often."""
        return bool(self.slower or self.failures)

    @property
    def settled(self) -> bool:
        """Return whether the side is known to be worse, and nothing is inconclusive."""
        return self.worse and not self.open

    @property
    def most_lost(self) -> float:
        """Return the largest share of the speed that the side may lose at some size, with 95 % confidence.

        1 means that nothing is known.
        """
        return 1 - min((ratio_of(c.at_least) for c in self.comparisons), default=0.0)

    @property
    def lines(self) -> list[str]:
        """Return the speed at each size in words, a line each."""
        lines = [f"failed: {self.failures}"] if self.failures else []
        for c in self.comparisons:
            ratio = ratio_text(ratio_of(c.gain), (ratio_of(c.low), ratio_of(c.high)))
            lines.append(f"{slot_words(c.slot):36} {ratio}{'  SLOWER' if c.slot in self.slower else ''}")
        return lines

    @property
    def bound(self) -> str:
        """Return the bound on the loss in words."""
        return (
            f"typical calls at most {self.most_lost:.1%} slower at any size (95 %)"
            if self.comparisons
            else "not compared"
        )
