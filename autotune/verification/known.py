"""Evidence of the search's own launches before the verification (between steps 10 and 11 of the flow).

It chooses what is verified, and is never a proof: a setting that surely loses somewhere by it is
not launched again, but shown as a choice with its cost.

Posterior of the difference to the defaults in a slot, these known from n₀ launches: ln t₀ − ln t ±
√(σ² + s̃²/n₀) · t. The setting's own ln t ± σ is ``recommend.posterior``'s over all settings: what a family
loses, launch after launch, is not left to the one launch that each of its settings had. s̃ is that of the
launches that the search repeated, see ``recommend.repeats``.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autotune.history.objectives import Envelope, Slot, envelope
from autotune.history.trial import History, Observation, Phase
from autotune.recommend.front import Candidate, against, gains
from autotune.recommend.posterior import Array, pooled
from autotune.recommend.repeats import LaunchNoise, launch_noise
from autotune.space import Point, Space
from autotune.verification.comparison import Comparison
from autotune.verification.sequential import DOUBT, SequentialDesign

_FAR, _APART = 0.5, 0.3
"""On the log scale: how much more a setting gains is no hint for others, nor is any loss of so much."""


def search_noise(history: History) -> LaunchNoise:
    """How far launches of one setting lay apart before the verification."""
    return launch_noise(history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH))


@dataclass(frozen=True, slots=True)
class Known:
    """The search's evidence about settings against the baseline."""

    space: Space  # The space of parameters.
    baseline: Envelope  # The stack's own defaults.
    launches: int  # Behind it.
    noise: LaunchNoise  # Noise of the launches that the search repeated.
    design: SequentialDesign  # The loss that does not matter, and how sure is sure.
    rows: tuple[tuple[Point, tuple[float, ...], int], ...] = ()
    """Setting, ln of setting / default in each slot of the baseline, launches behind it."""
    fresh: int = 0  # Of these rows the last so many are of a verification.
    believed: Mapping[Point, tuple[Mapping[Slot, float], Array]] = field(default_factory=dict)
    """For each of them ln of default / setting in each slot, and the standard deviations of ln t there."""

    @classmethod
    def of(
        cls,
        space: Space,
        baseline: Sequence[Observation],
        noise: LaunchNoise,
        design: SequentialDesign,
        settings: Sequence[Candidate],
        optimism: Mapping[Slot, float] | None = None,
    ) -> "Known":
        """The evidence of these launches of the defaults, and of these settings together.

        ``optimism``: by how much the best choice of a single launch looks better than it is, in each slot.
        """
        default = envelope(space, baseline)
        rows = []
        for one in settings:
            curve = against(space, one, default)
            if curve and len(curve) == len(default):
                slower = (
                    math.log(curve[slot].median_s / before.median_s)
                    + (optimism or {}).get(slot, 0.0) / math.sqrt(one.launches) * (curve[slot] is not before)
                    for slot, before in default.items()
                )
                rows.append((one.point, tuple(slower), one.launches))
        return cls(space, default, sum(o.ok for o in baseline), noise, design)._with(rows)

    def after(self, shown: Iterable[tuple[Point, Sequence[Comparison]]]) -> "Known":
        """The same with what fresh launches have shown of some settings, and so of others like them."""
        rows = []
        for point, judged in shown:
            gains = {c.slot: c.gain for c in judged}
            if gains and gains.keys() >= self.baseline.keys():
                slower = tuple(-gains[slot] for slot in self.baseline)
                rows.append((point, slower, max(c.launches for c in judged)))
        return replace(self, fresh=len(rows))._with(rows) if rows else self

    def _with(self, more: Sequence[tuple[Point, tuple[float, ...], int]]) -> "Known":
        rows = (*self.rows, *more)
        if not rows:
            return self
        points, slower, launches = zip(*rows, strict=True)
        curves = np.array(slower)
        mean, sd = np.clip(curves, -_FAR, _FAR), self.noise.sd / np.sqrt(launches)[:, None] + 0.0 * curves
        # What fresh launches show of a setting does not decide whether it is a hint for others.
        searched = dict(zip(reversed(points), reversed(curves), strict=True))
        near = np.flatnonzero([(searched[point] < _APART).all() for point in points])
        # The untouched stack gains nothing against itself, then as now.
        settings = [*(points[i] for i in near), self.space.untouched]
        made = [*(launches[i] for i in near), max(self.launches, 1)]
        later = np.append(near >= len(rows) - self.fresh, True)
        found = pooled(
            self.space, settings, np.vstack([mean[near], 0.0 * mean[:1]]), made, self.noise.sd, later
        )
        mean[near], sd[near] = (of[:-1] for of in found)
        mean[curves == 0] = 0.0  # the untouched stack's own calls
        believed = {
            point: (dict(zip(self.baseline, (-row).tolist(), strict=True)), its)
            for point, row, its in zip(points, mean, sd, strict=True)
        }
        return replace(self, rows=rows, believed=believed)

    def losses(self, candidate: Candidate) -> tuple[Slot, ...]:
        """Slots in which a setting is slower by more than ``max_loss``, for sure over all slots together."""
        from scipy.stats import t

        curve = against(self.space, candidate, self.baseline)
        if not curve or not self.launches:
            return ()
        ratios = {
            slot: math.log(self.baseline[slot].median_s / mine.median_s) for slot, mine in curve.items()
        }
        alone = np.full(len(self.baseline), self.noise.sd / math.sqrt(candidate.launches))
        mean, sd = self.believed.get(candidate.point, (ratios, alone))
        quantile = float(t.isf(self.design.alpha / 2 / len(curve), self.noise.freedom))
        reach = dict(zip(self.baseline, quantile * self._spread(sd), strict=True))
        return tuple(s for s, own in ratios.items() if own and mean[s] + reach[s] < self.design.least)

    def chance(self, point: Point, seen: Mapping[Slot, float] | None = None, made: int = 0) -> float:
        """Predictive probability that the launches of a verification leave no doubt about a setting.

        The estimate of a slot after N launches of each side is (n · ``seen`` + (N − n) · new) / N, with n
        ``made``; new ± √(spread² + 2 s² / (N − n)) is the posterior predictive distribution of the mean of
        what is still to be launched (Spiegelhalter, Freedman, Blackburn: Monitoring clinical trials:
        conditional or predictive power? Controlled Clinical Trials 7, 1986, 8-17). It passes where it is
        not below what ``comparison`` doubts. Slots of a launch go together, so of k slots count √k.
        """
        from scipy.special import ndtri
        from scipy.stats import t

        mean, sd = self.believed.get(point, ({}, np.zeros(0)))
        differing = {slot: ratio for slot, ratio in mean.items() if ratio}
        if not differing:
            return 1.0
        n = min(self.design.own * (made // self.design.own + 1), self.design.longest)
        share = max(n - made, 0) / n
        if not share:
            return 1.0
        new, k = np.array(list(differing.values())), len(differing)
        before = np.array([(seen or {}).get(slot, ratio) for slot, ratio in differing.items()])
        limit = self.design.least + float(ndtri(DOUBT / k)) * self.noise.sd * math.sqrt(2 / n)
        own = self._spread(sd)[[slot in differing for slot in mean]]
        reach = share * np.hypot(own, self.noise.sd * math.sqrt(2 / (n - made)))
        passes = t.cdf(((1 - share) * before + share * new - limit) / reach, self.noise.freedom)
        return float(np.prod(passes) ** (1 / math.sqrt(k)))

    def _spread(self, sd: Array) -> Array:
        return np.hypot(sd, self.noise.sd / math.sqrt(max(self.launches, 1)))

    def seen_slower(self, candidate: Candidate) -> bool:
        """Whether a setting is slower somewhere by its own interval, and by more than ``max_loss``."""
        found = gains(against(self.space, candidate, self.baseline), self.baseline)
        return any(g.interval[1] < 1.0 and g.ratio < 1.0 - self.design.max_loss for g in found)
