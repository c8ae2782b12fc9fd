"""How many launches a verification makes, and what may be said by chance (step 11)."""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

from autotune.errors import ScenarioError

DOUBT = 0.4
"""In how many comparisons some size may be doubted by chance although each loses just ``max_loss``.

A doubt costs launches and claims nothing. Of settings that lose 5 % at one of ten sizes 22 % are exported
with 0.2 and 11 % with 0.4; of settings that gain 5 % 72 and 78 % (``benchmarks/error_rates.py``).
"""
ONE_IN_TWENTY = 0.05
"""How often what is the same may be doubted by chance: refusing a setting claims nothing, so its rate is no
part of the campaign's."""
LONGEST = 3
"""Times the wanted launches that a setting may have while it is inconclusive, and all settings together.

One launch that is twice as slow among 24 leaves a loss of 23 % possible, among 36 one of 17 %. By Student's
interval of means, with 2, 3 and 4, settings that gain 5 % are exported in 75, 86 and 90 % of campaigns, 10 %
in 92, 95 and 96, and of those that lose 5 % at one size 12, 15 and 14; the median of launches stays
(``benchmarks/error_rates.py``).
"""
EACH_IN_A_HEAT = 2
"""Launches of each side in a heat: 6 orders, and the untouched stack beside itself, which shows how well two
launches of one setting agree when they meet the same moments."""
EACH = 4
"""Launches of each side in a block: 70 orders, so that two blocks are conclusive on clear differences."""


@dataclass(frozen=True, slots=True)
class SequentialDesign:
    """How many launches are made, and what may be said by chance, whenever one looks."""

    own: int = 12
    """Launches of a setting before it is exported.

    Fewer show little of what is rare: a fault in a fifth of the launches is missed by 12 in 7 % of campaigns.
    Settings that are 5 or 10 % faster are exported as often as with 16, which take a third more launches
    (``benchmarks/error_rates.py``).
    """
    alpha: float = 0.01
    """Error rate of a campaign: of all settings, looks and slots together. 5 % exports no more."""
    bound_alpha: float = ONE_IN_TWENTY
    """Error rate of the bound on what a campaign may lose at any size, which is said at 95 %."""
    max_loss: float = 0.01  # Differences below this share do not matter.
    margin: float = 0.1  # The largest loss that the launches may leave possible for an exported setting.
    heats: bool = False  # Whether the launches of a block are alive at once and take turns.
    timed: bool = False  # Whether time limits the launches of all settings together, in place of their number

    def __post_init__(self) -> None:
        if self.own < 1:
            raise ScenarioError(f"verification of {self.own} launches", "at least one of each side")
        if not (0 < self.alpha < 1 and 0 <= self.max_loss < 1 and 0 < self.margin < 1):
            raise ScenarioError(
                f"verification alpha={self.alpha}, max_loss={self.max_loss}, margin={self.margin}",
                "needed: 0 < alpha < 1, 0 ≤ max_loss < 1, 0 < margin < 1",
            )

    @classmethod
    def of(cls, launches: int, alpha: float, max_loss: float, margin: float) -> "SequentialDesign":
        """So many launches of both sides together."""
        return cls(max(1, math.ceil(launches / 2)), alpha, max_loss=max_loss, margin=margin)

    def share(self, part: float) -> "SequentialDesign":
        """The same with a part of the error rates."""
        return replace(self, alpha=part * self.alpha, bound_alpha=part * self.bound_alpha)

    @property
    def launches(self) -> int:
        """Number for one setting, and as many for the untouched stack, where nothing is doubtful."""
        return 2 * self.own

    @property
    def most(self) -> int:
        """Launches of all settings together, and of the untouched stack."""
        return LONGEST * self.launches

    @property
    def longest(self) -> int:
        """Launches of one setting while it is inconclusive."""
        return LONGEST * self.own

    def room(self, made: int) -> float:
        """How many launches may follow so many."""
        return math.inf if self.timed else self.most - made

    def launches_to_exclude(self, distance: float, sd: float, power: float = 0.5) -> float:
        """Launches of a setting by which its bound excludes a loss, if its launches differ by ``sd``.

        The bound comes nearer to the gain as 1/√n; what is believed is ``distance`` above that loss. Infinite
        where it is not. They do so with a chance of ``power``, one half: at the gain that is believed.
        """
        reach = NormalDist().inv_cdf(1 - self.bound_alpha) + NormalDist().inv_cdf(power)
        return (reach * sd / distance) ** 2 if distance > 0 else math.inf

    @property
    def each(self) -> int:
        """Launches of each side in a block."""
        return min(EACH_IN_A_HEAT if self.heats else EACH, self.own)

    @property
    def least(self) -> float:
        """Ln of the speed-up below which a slot counts as slower."""
        return math.log1p(-self.max_loss)

    @property
    def hidden(self) -> float:
        """Ln of the speed-up down to which a loss may stay hidden: one that does not matter may, too."""
        return math.log1p(-max(self.margin, self.max_loss))
