"""Set how many launches a verification makes, and its error rates."""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from autotune.errors import ScenarioError

DOUBT = 0.2
"""Share of comparisons in which some size may be called doubtful by chance although each size loses just
``max_loss``. A doubt costs launches and claims nothing. With shares of 0.1, 0.2 and 0.4, none of 16 settings
that lose 5 % at one of ten sizes is exported, and 13, 12 and 11 settings that gain 20 % at one size alone are
(in heats, ``benchmarks/error_rates.py``)."""
ONE_IN_TWENTY = 0.05
"""Probability with which a setting that equals the defaults may be doubted by chance. Refusing a setting
claims nothing, so this rate is not part of the campaign's error rate."""
LONGEST = 4
"""Largest number of launches of an inconclusive setting, and of all settings together, as a multiple of the
planned number. A single launch that is twice as slow leaves a loss of 23 % possible among 24 launches, and a
loss of 17 % among 36. With factors of 2, 3 and 4 (and Student's interval of means), settings that gain 5 %
are exported in 75, 86 and 90 % of campaigns, settings that gain 10 % in 92, 95 and 96 %, and settings that
lose 5 % at one size in 12, 15 and 14 %; the median number of launches is the same. Hopeless settings have
fewer launches (``benchmarks/error_rates.py``)."""
LONGEST_IN_HEATS = 9
"""The same multiple where launches are alive at once, so that each takes a third of the time. A single launch
that is three times as slow among 96 leaves a loss of 13 to 15 % possible. With factors of 4, 6 and 9,
settings that gain 20 % at one size alone are exported in 80, 88 and 92 % of 40 campaigns, which take 41, 50
and 57 s on the average; the median number of launches is the same. If launches are made one after the other,
such settings are exported in 25 % of campaigns, which take 122 s (``benchmarks/adversaries.py``)."""
EACH_IN_A_HEAT = 2
"""Number of launches of each side in a heat (launches that are alive at once and measure in turns). They can
have 6 orders, and a second launch of the untouched stack shows how well two launches of one setting agree
when they meet the same moments."""
IN_HEATS = 4 / 3
"""Factor on the number of launches of a setting before it is exported, if launches are alive at once, so that
each measures for a third of the time. With factors of 1, 4/3 and 2, settings that gain 2 % at all sizes are
exported in 75, 85 and 85 % of campaigns, in 31, 38 and 46 s (``benchmarks/error_rates.py``)."""
EACH = 4
"""Number of launches of each side in a block: they can have 70 orders, so two blocks are conclusive if the
difference is clear."""
FIRST_OF_TWO = 5
"""Number of launches of each side in the first block of two sides that are launched one after the other: the
block can have 252 orders, so it may be conclusive alone."""


@dataclass(frozen=True, slots=True)
class SequentialDesign:
    """Set the number of launches and the error rates, which are kept however often results are evaluated."""

    setting_launches: int = 12
    """Number of launches of a setting before it is exported. Few launches show little of rare events: in 7 %
    of campaigns 12 launches miss a fault that occurs in a fifth of launches. Settings that are 5 or 10 %
    faster are exported as often as with 16 launches (``benchmarks/error_rates.py``)."""
    alpha: float = 0.01
    """Error rate of a campaign: for all settings, all slots (collective, communicator size, message size) and
    all evaluations after a block together. With a rate of 5 % no more settings would be exported."""
    bound_alpha: float = ONE_IN_TWENTY
    """Error rate of the bound on the loss at any size, which a campaign states with a confidence of 95 %."""
    max_loss: float = 0.01  # Differences below this share do not matter.
    margin: float = 0.1
    """The largest loss that the launches may leave possible for an exported setting, as a share."""
    max_failures: float = 0.1
    """Rate of failures that the launches of an exported setting exclude; 1: they need not exclude any."""
    heats: bool = False  # Whether the launches of a block are alive at once and measure in turns.
    timed: bool = False  # Whether a time limit, not a number, limits the launches of all settings together.

    def __post_init__(self) -> None:
        if self.setting_launches < 1:
            raise ScenarioError(
                f"verification of {self.setting_launches} launches", "at least one of each side"
            )
        if not (0 < self.alpha < 1 and 0 <= self.max_loss < 1 and 0 < self.margin < 1):
            raise ScenarioError(
                f"verification alpha={self.alpha}, max_loss={self.max_loss}, margin={self.margin}",
                "needed: 0 < alpha < 1, 0 ≤ max_loss < 1, 0 < margin < 1",
            )
        if not 0 < self.max_failures <= 1:
            raise ScenarioError(
                f"verification max_failures={self.max_failures}", "needed: above 0, at most 1"
            )

    @classmethod
    def of_setting(cls, launches: int, heats: bool, **options: Any) -> "SequentialDesign":
        """Return a design for a number of launches of a setting; in heats more and shorter ones are made.

        ``options`` are further fields of the design.
        """
        return cls(math.ceil(launches * IN_HEATS) if heats else launches, heats=heats, **options)

    @classmethod
    def of(cls, launches: int, alpha: float, max_loss: float, margin: float) -> "SequentialDesign":
        """Return a design for a number of launches of both sides together."""
        return cls(max(1, math.ceil(launches / 2)), alpha, max_loss=max_loss, margin=margin)

    def share(self, part: float) -> "SequentialDesign":
        """Return the same design with a share of the error rates."""
        return replace(self, alpha=part * self.alpha, bound_alpha=part * self.bound_alpha)

    @property
    def gain_alpha(self) -> float:
        """Return the error rate of a gain on the whole, which is also that of a gain in any slot."""
        return self.alpha / 4

    @property
    def launches(self) -> int:
        """Return the number of launches of a setting and of the defaults together, if nothing is doubtful."""
        return 2 * self.setting_launches

    @property
    def most(self) -> int:
        """Return the largest number of launches of all settings and of the stack's own defaults together."""
        return self._longest * self.launches

    @property
    def longest(self) -> int:
        """Return the largest number of launches of one setting that stays inconclusive."""
        return self._longest * self.setting_launches

    @property
    def _longest(self) -> int:
        return LONGEST_IN_HEATS if self.heats else LONGEST

    @property
    def starts(self) -> int:
        """Return the number of launches of a setting that only start and check results, if none fails."""
        certain = self.max_failures >= 1
        needed = 0 if certain else math.ceil(math.log(ONE_IN_TWENTY) / math.log1p(-self.max_failures))
        return max(needed - self.setting_launches, 0)

    def room(self, n_made: int) -> float:
        """Return how many launches may follow after ``n_made``; infinite if only time limits them."""
        return math.inf if self.timed else self.most - n_made

    def launches_to_exclude(self, distance: float, sd: float, power: float = 0.5) -> float:
        """Return the number of launches of a setting after which its bound excludes a loss.

        The bound approaches the gain as 1/√n.

        Args:
            distance: How far the believed gain is above that loss, in ln of the time; if it is not above 0,
                the result is infinite.
            sd: Standard deviation of ln of the time between launches.
            power: Probability with which the bound excludes the loss after so many launches. With one half,
                the measured gain is assumed to equal the believed one.
        """
        reach = NormalDist().inv_cdf(1 - self.bound_alpha) + NormalDist().inv_cdf(power)
        return (reach * sd / distance) ** 2 if distance > 0 else math.inf

    @property
    def each(self) -> int:
        """Return the number of launches of each side in a block."""
        return min(EACH_IN_A_HEAT if self.heats else EACH, self.setting_launches)

    def widths(self, n_sides: int) -> tuple[int, ...]:
        """Return the number of launches of each side in every block of a comparison of ``n_sides`` sides."""
        first = FIRST_OF_TWO if n_sides == 2 and not self.heats else self.each
        widths = [min(first, self.setting_launches)]
        while remaining := self.setting_launches - sum(widths):
            widths.append(min(self.each, remaining))
        return tuple(widths)

    @property
    def least(self) -> float:
        """Return ln of the speed-up below which a slot counts as slower."""
        return math.log1p(-self.max_loss)

    @property
    def hidden(self) -> float:
        """Return ln of the smallest speed-up that the launches of an exported setting may leave possible.

        It is below 0, so it stands for a loss. A loss up to ``max_loss`` does not matter, so it need not be
        excluded even if ``margin`` is smaller.
        """
        return math.log1p(-max(self.margin, self.max_loss))
