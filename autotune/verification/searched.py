"""Select the search's recommendations that are verified (data flow: recommend to verification)."""

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
    """Hold everything that is known before the first launch of the verification."""

    space: Space  # The space of settings.
    objectives: tuple[Objective, ...]  # The quantities by which settings are compared.
    design: SequentialDesign  # The design of the test: losses that do not matter, and error rates.
    one_row: Collection[str]  # Collectives for which the stack's files have one row for all sizes.
    confirmed: tuple[Point, ...]  # Settings that are verified even if the search sees them gain nothing.
    whole: Space | None  # The space in which a discovery chose its settings; None: there is none.
    history: History  # All observations before the verification.

    @cached_property
    def known(self) -> Known:
        """Return the evidence on losses, in the state of the machine in which each setting is slowest.

        A setting that loses in a state which the machine was in will lose again: other settings come first.
        """
        launches = self._of_settings
        slowest = launches.in_slowest_states
        in_one_state = slowest.observations == launches.observations
        return self.prevailing if in_one_state else self._evidence(slowest)

    @cached_property
    def prevailing(self) -> Known:
        """Return the evidence on losses in the prevailing state; what surely loses there is not verified."""
        return self._evidence(self._of_settings)

    @cached_property
    def recommended(self) -> tuple[Recommendation, ...]:
        """Return the search's recommendations without settings known to lose, the best first.

        If no setting is left, the result is the defaults. The result is empty before any setting was measured
        completely.
        """
        evidence, measured = self.prevailing, self._candidates
        admitted = [c for c in measured if not evidence.losses(c)]
        safe = [c for c in admitted if not evidence.seen_slower(c)]
        added = {*self.confirmed, *self._safest}
        arguments = (self.objectives, self.space, self._search_history, self.one_row, (safe, admitted), added)
        first = recommendations(*arguments)
        first_points = {setting.point for setting in first}
        min_speedup = ratio_of(self.design.max_loss)  # a smaller gain on the whole is not worth launches
        hidden = (r for r in recommendations(*arguments, len(measured)) if r.point not in first_points)
        return (*first, *(r for r in hidden if r.speedup > min_speedup))

    @property
    def deployable(self) -> list[Recommendation]:
        """Return the recommendations that differ from the defaults, each with as few rules as possible."""
        settings = (plain(self.space, setting) for setting in self.recommended)
        return [setting for setting in settings if deploys(self.space, setting)]

    def own_choices(self, setting: Recommendation) -> dict[Slot, tuple[Winner, Winner]]:
        """Return the stack's own choice in each slot, with the setting's job-wide values and the defaults.

        A slot is one (collective, communicator size, message size).
        """
        of_points = by_setting(self.space, self.history.of_points(self.space))
        launches = of_points.get(job_setting(self.space, setting.point), [])
        baseline = envelope(self.space, self.history.of(Phase.BASELINE))
        pairs = {}
        for slot, choices in alternatives(self.space, launches).items():
            own_choice = next(
                (winner for choice, winner in choices.items() if not self.space.says(choice)), None
            )
            if own_choice is not None and slot in baseline:
                pairs[slot] = own_choice, baseline[slot]
        return pairs

    @cached_property
    def _search_history(self) -> History:
        return self.history.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)

    @cached_property
    def _of_settings(self) -> History:
        """Return the launches of settings before the verification, with those of the discovery."""
        return self._search_history.plus(self.history.of_discovery(self.whole or self.space, self.space))

    def _evidence(self, launches: History) -> Known:
        searched, settings = self._search_history, candidates(self.objectives, self.space, launches)
        baseline = searched.of(Phase.BASELINE).observations
        lucky = optimism(self.space, [*baseline, *searched.sweeps])
        return Known.of(self.space, baseline, search_noise(searched), self.design, settings, lucky)

    @cached_property
    def _candidates(self) -> Sequence[Candidate]:
        return candidates(self.objectives, self.space, self._search_history)

    @property
    def _safest(self) -> tuple[Point, ...]:
        """Return the setting that most likely loses nowhere, among settings that probably gain; else nothing.

        This setting is verified however many settings promise more.
        """
        default = untouched(self.objectives, self.space, self._search_history)
        if default is None:
            return ()
        beliefs = believed(self.objectives, self.space, self._candidates)
        gains = {c.point: loss(self.objectives, default) - loss(self.objectives, c) for c in beliefs}
        gaining = [point for point, gain in gains.items() if gain > -len(self.objectives) * self.design.least]
        safest = max(gaining, key=lambda point: (self.known.chance(point), gains[point]), default=None)
        return () if safest is None else (safest,)
