"""Compare the speed of one environment with that of another one, launched in turn or at the same moments.

The result is "slower", "not slower", or "inconclusive". A block is a group of launches of both environments,
made at about the same time and in random order. A slot is a collective, a communicator size and a message
size.
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
    """Comparison of one environment (the side) with a reference that was launched in the same blocks."""

    comparisons: tuple[Comparison, ...] = ()  # Speed of the side / speed of the reference, in each slot.
    slower: tuple[Slot, ...] = ()  # Slots in which the side is significantly slower.
    open: bool = True  # Whether a slowdown of 10 % is still possible in some slot outside of ``slower``.
    failures: str = ""
    """How often launches of both environments failed, as text; empty unless the side fails more often."""
    launches: int = 0  # Number of launches of each of the two environments.

    @classmethod
    def of(
        cls,
        reference: Sequence[Observation],
        side: Sequence[Observation],
        names: tuple[str, str],
        alpha: float = SequentialDesign().alpha,
    ) -> "Beside":
        """Compare all launches of an environment with those of a reference.

        Median times of calls are compared, not means: another program that disturbs a few calls of a launch
        changes their mean, so that on a busy machine a slowdown of any size could not be excluded. ``names``
        are the names of the reference and of the side, and ``alpha`` is the error rate of the comparison.
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
        """Return whether the side is slower in some slot, or fails more often."""
        return bool(self.slower or self.failures)

    @property
    def settled(self) -> bool:
        """Return whether the side is known to be worse and no slot is inconclusive."""
        return self.worse and not self.open

    @property
    def most_lost(self) -> float:
        """Return the largest share of its speed that the side may have lost in any slot (95 % bounds)."""
        return 1 - min((ratio_of(c.at_least) for c in self.comparisons), default=0.0)

    @property
    def lines(self) -> list[str]:
        """Return the text of the comparison: a line about failures, and one with the speed in each slot."""
        lines = [f"failed: {self.failures}"] if self.failures else []
        for c in self.comparisons:
            ratio = ratio_text(ratio_of(c.gain), (ratio_of(c.low), ratio_of(c.high)))
            lines.append(f"{slot_words(c.slot):36} {ratio}{'  SLOWER' if c.slot in self.slower else ''}")
        return lines

    @property
    def bound(self) -> str:
        """Return a text with the largest slowdown of the side that the measurements do not exclude."""
        if not self.comparisons:
            return "not compared"
        return f"typical calls at most {self.most_lost:.1%} slower at any size (95 %)"
