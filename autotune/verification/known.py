"""Collect the evidence of the search's own launches about losses, before the verification.

The evidence decides which settings are verified, but it is never a proof: a setting that surely loses at some
size by this evidence is not launched again, but shown as a choice with its cost.

Let t be a setting's time in one slot (collective, communicator size, message size), t₀ the time of the
defaults, n₀ the number of launches of the defaults, and s̃ the standard deviation of ln t of a launch. The
posterior of the difference to the defaults is ln t₀ − ln t ± q √(σ² + s̃²/n₀), with a quantile q of Student's
distribution. In heats (launches alive at once) each launch has a default beside it, and s̃ is the standard
deviation of ratios, so the term s̃²/n₀ is left out. The estimate of ln t and its standard deviation σ come
from ``recommend.posterior``, which uses the launches of all settings: a loss that similar settings show,
launch after launch, is also expected of a setting with a single launch. s̃ comes from the launches that the
search repeated, see ``recommend.repeats``.
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
"""_FAR: limit, in ln of the time, to which gains and losses are clipped before they inform about other
settings. _APART: loss in a slot, in ln of the time, above which a setting does not inform about others."""


def search_noise(history: History) -> LaunchNoise:
    """Return how much launches of one setting differed before the verification."""
    return launch_noise(history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH))


@dataclass(frozen=True, slots=True)
class Known:
    """Hold the search's evidence on how settings compare with the stack's own defaults."""

    space: Space  # The space of settings.
    baseline: Envelope  # Times of the stack's own defaults, by (collective, ranks, message size).
    launches: int  # Number of launches of the baseline.
    noise: LaunchNoise  # Noise of the launches that the search repeated.
    design: SequentialDesign  # The design of the test: losses that do not matter, and error rates.
    rows: tuple[tuple[Point, tuple[float, ...], int], ...] = ()
    """For each setting: its point, ln of (time of the setting / time of the default) in each slot of the
    baseline, and its number of launches."""
    fresh: int = 0  # Number of rows that come from a verification; they are the last ones.
    believed: Mapping[Point, tuple[Mapping[Slot, float], Array]] = field(default_factory=dict)
    """For each setting: the posterior mean of ln (time of the default / time of the setting) in each slot,
    and the posterior standard deviations of ln t."""

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
        """Return the evidence from launches of the defaults and of settings.

        Args:
            space: The space of settings.
            baseline: Launches of the defaults.
            noise: Noise of launches of one setting.
            design: The design of the test.
            settings: The settings with their launches.
            optimism: How much better the best choice of a single launch looks than it is, in ln of the time,
                by slot.
        """
        default = envelope(space, baseline)
        rows = []
        for setting in settings:
            curve = against(space, setting, default)
            if curve and len(curve) == len(default):
                slower = (
                    math.log(curve[slot].median_s / default_estimate.median_s)
                    + (optimism or {}).get(slot, 0.0)
                    / math.sqrt(setting.launches)
                    * (curve[slot] is not default_estimate)
                    for slot, default_estimate in default.items()
                )
                rows.append((setting.point, tuple(slower), setting.launches))
        return cls(space, default, sum(o.ok for o in baseline), noise, design)._with_rows(rows)

    def after(self, fresh: Iterable[tuple[Point, Sequence[Comparison]]]) -> "Known":
        """Return the evidence with fresh launches of some settings, which inform about similar ones too."""
        rows = []
        for point, comparisons in fresh:
            gains = {c.slot: c.gain for c in comparisons}
            if gains and gains.keys() >= self.baseline.keys():
                slower = tuple(-gains[slot] for slot in self.baseline)
                rows.append((point, slower, max(c.launches for c in comparisons)))
        return replace(self, fresh=len(rows))._with_rows(rows) if rows else self

    def _with_rows(self, new_rows: Sequence[tuple[Point, tuple[float, ...], int]]) -> "Known":
        rows = (*self.rows, *new_rows)
        if not rows:
            return self
        points, slower, launches = zip(*rows, strict=True)
        curves = np.array(slower)
        mean, sd = np.clip(curves, -_FAR, _FAR), self._sds / np.sqrt(launches)[:, None]
        # The search's launches, and not the fresh ones, decide whether a setting informs about others.
        searched = dict(zip(reversed(points), reversed(curves), strict=True))
        near = np.flatnonzero([(searched[point] < _APART).all() for point in points])
        # The stack's own defaults gain nothing against themselves, in the search as in fresh launches.
        settings = [*(points[i] for i in near), self.space.untouched]
        launch_counts = [*(launches[i] for i in near), max(self.launches, 1)]
        is_fresh = np.append(near >= len(rows) - self.fresh, True)
        beliefs = pooled(
            self.space, settings, np.vstack([mean[near], 0.0 * mean[:1]]), launch_counts, self._sds, is_fresh
        )
        mean[near], sd[near] = (belief[:-1] for belief in beliefs)
        mean[curves == 0] = 0.0  # there the setting makes the same calls as the defaults
        believed = {
            point: (dict(zip(self.baseline, (-row).tolist(), strict=True)), row_sd)
            for point, row, row_sd in zip(points, mean, sd, strict=True)
        }
        return replace(self, rows=rows, believed=believed)

    def losses(self, candidate: Candidate) -> tuple[Slot, ...]:
        """Return the slots in which a setting is surely slower by more than ``max_loss``.

        The error rate applies to all slots together.
        """
        from scipy.stats import t

        curve = against(self.space, candidate, self.baseline)
        if not curve or not self.launches:
            return ()
        ratios = {
            slot: math.log(self.baseline[slot].median_s / winner.median_s) for slot, winner in curve.items()
        }
        alone = self._sds / math.sqrt(candidate.launches)
        mean, sd = self.believed.get(candidate.point, (ratios, alone))
        # One of two launches may have been slow: where they differ by more than usual, their spread counts.
        own = {slot: winner.sem_s / winner.median_s for slot, winner in curve.items()}
        sd = np.maximum(sd, [own.get(slot, 0.0) for slot in self.baseline])
        quantile = float(t.isf(self.design.alpha / 2 / len(curve), self.noise.freedom))
        reach = dict(zip(self.baseline, quantile * self._spread(sd), strict=True))
        return tuple(
            s for s, log_ratio in ratios.items() if log_ratio and mean[s] + reach[s] < self.design.least
        )

    def chance(self, point: Point, measured: Mapping[Slot, float] | None = None, n_made: int = 0) -> float:
        """Return the predictive probability that a verification will not find a setting doubtful.

        The estimate of a slot after N launches of each side is (n · ``measured`` + (N − n) · new) / N, where
        n is the number of launches made and new ± √(spread² + 2 s² / (N − n)) is the posterior predictive
        distribution of the mean of the launches to come (Spiegelhalter, Freedman, Blackburn: Monitoring
        clinical trials: conditional or predictive power? Controlled Clinical Trials 7, 1986, 8-17). The slot
        passes if the estimate is not below the limit at which ``comparison`` calls a slot doubtful. Slots of
        a launch are correlated, so k slots count as √k independent slots.

        Args:
            point: The setting's job-wide values.
            measured: Ln of (time of the default / time of the setting) on fresh launches, by slot; None:
                there are no fresh launches.
            n_made: Number of fresh launches of each side that were made.
        """
        from scipy.special import ndtri
        from scipy.stats import t

        mean, sd = self.believed.get(point, ({}, np.zeros(0)))
        differing = {slot: ratio for slot, ratio in mean.items() if ratio}
        if not differing:
            return 1.0
        n = min(
            self.design.setting_launches * (n_made // self.design.setting_launches + 1), self.design.longest
        )
        share = max(n - n_made, 0) / n
        if not share:
            return 1.0
        expected_gains, k = np.array(list(differing.values())), len(differing)
        measured_gains = np.array([(measured or {}).get(slot, ratio) for slot, ratio in differing.items()])
        launch_sd = self.noise.sds(differing)
        sides = 1 if self.design.heats else 2  # number of sides with noise of their own
        limit = self.design.least + float(ndtri(DOUBT / k)) * launch_sd * math.sqrt(sides / n)
        belief_sd = self._spread(sd)[[slot in differing for slot in mean]]
        reach = share * np.hypot(belief_sd, launch_sd * math.sqrt(sides / (n - n_made)))
        passes = t.cdf(
            ((1 - share) * measured_gains + share * expected_gains - limit) / reach, self.noise.freedom
        )
        return float(np.prod(passes) ** (1 / math.sqrt(k)))

    def luck(self, point: Point) -> float:
        """Return how much better a setting looks than it is believed to be: mean ln (ratio) over slots."""
        shown = {row[0]: row[1] for row in self.rows}.get(point)
        mean, _ = self.believed.get(point, ({}, None))
        if shown is None or not mean:
            return 0.0
        return float(np.mean(-np.clip(shown, -_FAR, _FAR) - np.array(list(mean.values()))))

    @property
    def _sds(self) -> Array:
        """Return the standard deviation of one launch in each slot of the baseline."""
        return self.noise.sds(self.baseline)

    def _spread(self, sd: Array) -> Array:
        """Return the standard deviations, with the defaults' own noise added unless ratios contain it."""
        if self.design.heats:
            return sd
        return np.hypot(sd, self._sds / math.sqrt(max(self.launches, 1)))

    def seen_slower(self, candidate: Candidate) -> bool:
        """Whether a setting's own launches show it slower in some slot, by more than ``max_loss``."""
        slot_gains = gains(against(self.space, candidate, self.baseline), self.baseline)
        return any(g.interval[1] < 1.0 and g.ratio < 1.0 - self.design.max_loss for g in slot_gains)
