"""How many launches a comparison has, when they are looked at, and what may be said by chance (step 11)."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

from autotune.errors import ScenarioError


@dataclass(frozen=True, slots=True)
class SequentialDesign:
    """How many launches are made, when they are looked at, and what may be said by chance."""

    looks: tuple[int, ...] = (2, 4, 6, 8)
    """Pairs after which a decision may be made, ascending and even; the last one ends the comparison."""
    alpha: float = 0.05
    """Error rate of a campaign: of all comparisons, looks and slots together."""
    max_loss: float = 0.01
    """Differences below this share do not matter."""
    margin: float = 0.1
    """The largest loss that the launches may leave possible where something is handed over.

    A round's launches go on until they exclude half of it.
    """

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ScenarioError: no looks, looks that do not ascend or split a block, or a rate out of its range.
        """
        ascending = all(a < b for a, b in pairwise(self.looks))
        if not self.looks or not ascending or self.looks[0] < 2 or any(n % 2 for n in self.looks):
            raise ScenarioError(
                f"verification looks {self.looks}", "even numbers of pairs, ascending, e.g. (2, 4, 6, 8)"
            )
        if not (0 < self.alpha < 1 and 0 <= self.max_loss < 1 and 0 < self.margin < 1):
            raise ScenarioError(
                f"verification alpha={self.alpha}, max_loss={self.max_loss}, margin={self.margin}",
                "needed: 0 < alpha < 1, 0 ≤ max_loss < 1, 0 < margin < 1",
            )

    @classmethod
    def of(cls, launches: int, alpha: float, max_loss: float, margin: float) -> "SequentialDesign":
        """Looks at the four quarters of so many launches (rounded up to whole blocks)."""
        last = max(2, 2 * math.ceil(launches / 4))
        looks = sorted({max(2, 2 * math.ceil(last * quarter / 8)) for quarter in (1, 2, 3, 4)})
        return cls(tuple(looks), alpha, max_loss, margin)

    def longer(self, sigma: float) -> "SequentialDesign":
        """With rounds twice as long where one of these would not exclude a loss of ``margin`` at a size.

        Args:
            sigma: How far launches of one setting lie apart, on the log scale: n of both sides know a size to
                2 σ / √n.
        """
        from scipy.stats import norm

        told = float(norm.isf(self.per_look / 2)) * 2 * sigma / math.sqrt(self.launches)
        return replace(self, looks=tuple(2 * n for n in self.looks)) if told > -self.hidden else self

    @property
    def launches(self) -> int:
        """At most, of both sides together."""
        return 2 * self.looks[-1]

    @property
    def least(self) -> float:
        """Ln of the speed-up below which a slot counts as slower."""
        return math.log1p(-self.max_loss)

    @property
    def hidden(self) -> float:
        """Ln of the speed-up down to which a loss may stay hidden: one that does not matter may, too."""
        return math.log1p(-max(self.margin, self.max_loss))

    @property
    def per_look(self) -> float:
        """What one look may spend of ``alpha``."""
        return self.alpha / len(self.looks)

    def whole(self, share: float) -> float:
        """One minus the level of the interval by which one look calls a setting better on the whole."""
        return self.per_look * share / 2
