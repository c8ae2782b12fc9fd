"""Settings of a site under other jobs' load: in turn with the library's, beside ``site.under_load``.

A setting that is best alone can be worst then. Where it loses, by what a verification takes for a loss, or
fails more often, the library decides.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.campaign.heats import at_once
from autotune.campaign.observing import measurement_of
from autotune.campaign.site import Site
from autotune.commands.verify import Place, both_sides, made
from autotune.errors import CampaignError
from autotune.history.objectives import Slot
from autotune.history.trial import Observation, Phase, Subject, Trial
from autotune.recommend.recommendation import Recommendation
from autotune.scenario import Scenario
from autotune.stacks.application import Background
from autotune.verification.comparison import Comparison, SlotDecision
from autotune.verification.kept_rules import kept_rules
from autotune.verification.sequential import SequentialDesign
from autotune.views.text import size_text

UNDER_LOAD = "under_load.json"  # In the directory of a job: what was found, for each job-wide setting.


@dataclass(frozen=True, slots=True)
class LoadedSlot:
    """A slot, with and without load."""

    slot: Slot
    alone: float  # The speed-up without load.
    gain: float  # Ln of that under load.
    lost: bool


@dataclass(frozen=True, slots=True)
class UnderLoad:
    """How one job-wide setting did with its rules."""

    setting: str  # Its changes; empty: rules alone.
    slots: tuple[LoadedSlot, ...]
    took_s: float  # All launches together.

    @property
    def lost(self) -> frozenset[Slot]:
        """Slots that lost."""
        return frozenset(s.slot for s in self.slots if s.lost)

    @property
    def refused(self) -> bool:
        """Whether it lost where no rule could be dropped that would leave the library as it is."""
        return bool(self.setting and self.lost)


@dataclass(frozen=True, slots=True)
class Loads:
    """Results of a job, for each setting."""

    found: tuple[UnderLoad, ...] = ()

    def of(self, setting: str) -> UnderLoad | None:
        """The result of a setting; None: it was not launched."""
        return next((one for one in self.found if one.setting == setting), None)


def observed(
    command: str, setting: str, one: Recommendation, scenario: Scenario, place: Site, folder: Path
) -> UnderLoad:
    """Launch a recommendation in turn with the library's defaults, while the command runs.

    Raises:
        CampaignError: the command ended, or no launches of both sides could be compared.
    """
    asked = scenario.verify
    design = SequentialDesign.of(2 * asked.launches, asked.error_rate, asked.max_loss, asked.margin)
    # Other patterns, which decide nothing here, would load the network themselves, with 256 KiB.
    measurement = replace(measurement_of(scenario, place.placement.ranks), beside=())
    observer = place.observer(measurement, place.space, folder)
    design = replace(design, heats=asked.heats and at_once(observer))
    with Background(command, folder / "load.out") as load:

        def trial(at: Place) -> Trial:
            subject, rules = (Subject.DEPLOYED, one.rules) if at.tuned else (Subject.UNTOUCHED, ())
            point = one.point if at.tuned else place.space.untouched
            return Trial(at.number, Phase.VERIFY, point, subject, at.block, at.seed, rules=rules)

        def launched(places: Sequence[Place]) -> Sequence[Observation]:
            observations = made(design, [(observer, trial(at)) for at in places])
            if load.ended:
                raise CampaignError(f"site.under_load={command!r} ended by itself: {load.ended}")
            return observations

        sides, failures, judged = both_sides(design, launched)
    both = [o for side in sides for o in side]
    if not judged:
        reasons = sorted({o.reason for o in both if not o.ok})
        raise CampaignError(f"under load nothing could be compared: {'; '.join(reasons[:3])}")
    alone = {gain.slot: gain.ratio for gain in one.gains}
    slots = tuple(
        LoadedSlot(c.slot, alone.get(c.slot, 1.0), c.gain, c.loses or c.doubtful or failures.doubtful)
        for c in judged
    )
    return UnderLoad(setting, slots, sum(o.duration_s for o in both))


def robust(one: Recommendation, found: UnderLoad | None, one_row: Collection[str]) -> Recommendation:
    """A recommendation without its rules where it lost under load."""
    if found is None or found.refused or not found.lost:
        return one
    words = {False: SlotDecision.STILL_BETTER, True: SlotDecision.NO_LONGER}
    judged = [
        Comparison(s.slot, 0, s.gain, math.nan, s.gain, s.gain, words[s.lost], loses=s.lost)
        for s in found.slots
    ]
    rules = kept_rules(one.rules, judged, one_row=one_row)
    gains = tuple(replace(g, compared=(1.0, 1.0, 1.0)) if g.slot in found.lost else g for g in one.gains)
    return replace(one, rules=rules, gains=gains)


def load_text(found: UnderLoad) -> str:
    """Where a setting lost under load, with what it gained alone."""
    lost = [
        f"{s.slot[0]} of {size_text(s.slot[2])} on {s.slot[1]} ranks "
        f"{s.alone:.2f}× alone and {math.exp(s.gain):.2f}×"
        for s in found.slots
        if s.lost
    ]
    if not lost:
        return f"under load none of {len(found.slots)} slots loses"
    kept = f"{found.setting} is not taken" if found.refused else "the library decides there"
    return f"under load {', '.join(lost)}: {kept}"
