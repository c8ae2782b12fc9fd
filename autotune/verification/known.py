"""What the search's own launches know before anything is verified (between steps 10 and 11 of the flow).

It chooses what is verified, and is never a proof: a setting of which it is sure that it loses somewhere is
not launched again, but told as a choice with a price.

Posterior of the difference of two settings in a slot, from n and n₀ launches with flat priors on their
locations: ln t₀ − ln t ± s̃ √(1/n + 1/n₀) · t, where s̃² = (ν₀ s₀² + SS) / (ν₀ + ν) has the conjugate scaled
inverse χ² prior of a launch's variance (Gelman et al., Bayesian Data Analysis, 3rd ed., section 3.2), SS and
ν of the launches that the search repeated. Prior: launches of one setting differ by 3 %, worth ν₀ = 4 degrees
of freedom; recorded campaigns show 2 to 5 %.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.history.objectives import Envelope, Slot
from autotune.history.trial import History, Phase
from autotune.recommend.front import Candidate, Gain, against, gains
from autotune.space import Space
from autotune.verification.pairs import LaunchNoise, launch_noise
from autotune.verification.sequential import SequentialDesign

_PRIOR_SD, _PRIOR_FREEDOM = 0.03, 4


def search_noise(history: History) -> LaunchNoise:
    """How far launches of one setting lay apart before the verification."""
    return launch_noise(history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH))


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of settings against the baseline."""

    space: Space
    """What could be turned."""
    baseline: Envelope
    """The stack's own defaults."""
    launches: int
    """Behind it."""
    noise: LaunchNoise
    """Of launches that the search repeated."""
    design: SequentialDesign
    """The loss that does not matter, and how sure is sure."""

    def losses(self, candidate: Candidate) -> tuple[Slot, ...]:
        """Slots in which a setting is slower by more than ``max_loss``, for sure over all slots together."""
        from scipy.stats import t

        curve = against(self.space, candidate, self.baseline)
        if not curve or not self.launches:
            return ()
        freedom, spread = self._spread(candidate.launches)
        reach = float(t.isf(self.design.alpha / 2 / len(curve), freedom)) * spread
        return tuple(
            slot
            for slot, mine in curve.items()
            if math.log(self.baseline[slot].median_s / mine.median_s) + reach < self.design.least
        )

    def chance(self, gains: Sequence[Gain], launches: int) -> float:
        """That no slot loses more than ``max_loss``: of the worst one, as slots of a launch go together."""
        from scipy.stats import t

        freedom, spread = self._spread(launches)
        worst = min((math.log(g.ratio) for g in gains), default=0.0)
        return float(t.cdf((worst - self.design.least) / spread, freedom))

    def _spread(self, launches: int) -> tuple[int, float]:
        """Degrees of freedom and scale of a difference to the baseline, after so many launches."""
        freedom = _PRIOR_FREEDOM + self.noise.freedom
        variance = (_PRIOR_FREEDOM * _PRIOR_SD**2 + self.noise.squares) / freedom
        return freedom, math.sqrt(variance * (1 / max(launches, 1) + 1 / max(self.launches, 1)))

    def seen_slower(self, candidate: Candidate) -> bool:
        """Whether a setting is slower somewhere by its own interval, and by more than ``max_loss``."""
        found = gains(against(self.space, candidate, self.baseline), self.baseline)
        return any(g.interval[1] < 1.0 and g.ratio < 1.0 - self.design.max_loss for g in found)
