"""The search's findings that are raced in the verification (between steps 10 and 11 of the flow)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from autotune.history.objectives import (
    Objective,
    Slot,
    Winner,
    alternatives,
    by_setting,
    envelope,
    job_setting,
    ratio_of,
)
from autotune.history.trial import History, Phase
from autotune.recommend.front import Candidate, believed, candidates, loss, recommendations, untouched
from autotune.recommend.recommendation import Recommendation
from autotune.recommend.repeats import optimism
from autotune.space import Point, Space
from autotune.verification.deployed import deploys, plain
from autotune.verification.known import Known, search_noise
from autotune.verification.sequential import SequentialDesign


@dataclass(frozen=True)
class Searched:
    """All that is known before the first launch of the verification."""

    space: Space  # The space of parameters.
    objectives: tuple[Objective, ...]  # The objectives.
    design: SequentialDesign  # The loss that does not matter, and how sure is sure.
    one_row: Collection[str]  # Collectives for which the stack's files have one row for all sizes.
    confirmed: tuple[Point, ...]  # Settings that are verified even where the search sees no gain of theirs.
    history: History  # All launches before.

    @cached_property
    def known(self) -> Known:
        """The evidence on settings that lose."""
        baseline = self._made.of(Phase.BASELINE).observations
        lucky = optimism(self.space, [*baseline, *self._made.sweeps])
        return Known.of(self.space, baseline, search_noise(self._made), self.design, self._judged, lucky)

    @cached_property
    def recommended(self) -> tuple[Recommendation, ...]:
        """The search's recommendations without settings known to lose, the best first.

        The defaults, where that leaves nothing; empty before any setting was measured completely.
        """
        known, judged = self.known, self._judged
        admitted = [c for c in judged if not known.losses(c)]
        safe = [c for c in admitted if not known.seen_slower(c)]
        also = {*self.confirmed, *self._safest}
        about = (self.objectives, self.space, self._made, self.one_row, (safe, admitted), also)
        first = recommendations(*about)
        known_of = {setting.point for setting in first}
        least = ratio_of(self.design.max_loss)  # on the whole; less is no promise of what others hid
        hidden = (r for r in recommendations(*about, len(judged)) if r.point not in known_of)
        return (*first, *(r for r in hidden if r.speedup > least))

    @property
    def deployable(self) -> list[Recommendation]:
        """Those of them that differ from the untouched stack, their rules as few as possible."""
        settings = (plain(self.space, setting) for setting in self.recommended)
        return [setting for setting in settings if deploys(self.space, setting)]

    def own_choices(self, setting: Recommendation) -> dict[Slot, tuple[Winner, Winner]]:
        """In each slot what the stack itself chooses in this setting and untouched."""
        of_points = by_setting(self.space, self.history.of_points(self.space))
        launches = of_points.get(job_setting(self.space, setting.point), [])
        baseline = envelope(self.space, self.history.of(Phase.BASELINE))
        found = {}
        for slot, choices in alternatives(self.space, launches).items():
            own = next((winner for choice, winner in choices.items() if not self.space.says(choice)), None)
            if own is not None and slot in baseline:
                found[slot] = own, baseline[slot]
        return found

    @cached_property
    def _made(self) -> History:
        return self.history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)

    @cached_property
    def _judged(self) -> Sequence[Candidate]:
        return candidates(self.objectives, self.space, self._made)

    @property
    def _safest(self) -> tuple[Point, ...]:
        """The setting most likely to lose nowhere among those that are believed to gain.

        However many promise more.
        """
        default = untouched(self.objectives, self.space, self._made)
        if default is None:
            return ()
        each = believed(self.objectives, self.space, self._judged)
        gains = {c.point: loss(self.objectives, default) - loss(self.objectives, c) for c in each}
        gaining = [point for point, gain in gains.items() if gain > -len(self.objectives) * self.design.least]
        safest = max(gaining, key=lambda point: (self.known.chance(point), gains[point]), default=None)
        return () if safest is None else (safest,)
