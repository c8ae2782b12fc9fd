"""Compare a site's settings with the defaults while other work, the command ``site.under_load``, runs.

A setting that is best on an idle machine can be the worst on a loaded one. Launches of the setting and of the
library's defaults alternate while the command runs. A slot is a collective, a communicator size and a message
size. In slots where the setting is slower, by the criterion of the verification, or its launches fail more
often, the choice is left to the library.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.campaign.bench import Bench
from autotune.campaign.observing import measurement_of
from autotune.campaign.turns import Side, Turn, are_heats
from autotune.commands.verify import compare_sides
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

UNDER_LOAD = "under_load.json"  # File in a job's directory with the results of its settings under load.


@dataclass(frozen=True, slots=True)
class LoadedSlot:
    """The speed-up at one slot (collective, communicator size, message size), with and without load."""

    slot: Slot
    alone: float  # Speed-up over the library's defaults without load.
    gain: float  # Natural logarithm of the speed-up under load.
    lost: bool  # Whether the setting was slower than the defaults under load, or may have been.


@dataclass(frozen=True, slots=True)
class UnderLoad:
    """The results of one job-wide setting and its rules on the loaded machine."""

    setting: str  # The values changed for the whole job, as text; empty if there are only rules.
    slots: tuple[LoadedSlot, ...]
    took_s: float  # Duration of all launches together, in seconds.

    @property
    def lost(self) -> frozenset[Slot]:
        """Return the slots at which the setting was slower than the defaults, or may have been."""
        return frozenset(s.slot for s in self.slots if s.lost)

    @property
    def refused(self) -> bool:
        """Whether the whole setting is refused, because leaving out rules does not undo job-wide changes."""
        return bool(self.setting and self.lost)


@dataclass(frozen=True, slots=True)
class Loads:
    """The results of each setting of a job on the loaded machine."""

    found: tuple[UnderLoad, ...] = ()

    def of(self, setting: str) -> UnderLoad | None:
        """Return the results of a setting; None if it was not launched on the loaded machine."""
        return next((result for result in self.found if result.setting == setting), None)


def compare_under_load(
    command: str, setting: str, recommendation: Recommendation, scenario: Scenario, place: Bench, folder: Path
) -> UnderLoad:
    """Compare a job's recommendation with the library's defaults while a shell command loads the machine.

    ``setting`` is a text of the values that the recommendation changes for the whole job. The section
    ``verify`` of the scenario says how many launches are made. The files of the launches and the output of
    the command are written to ``folder``.

    Raises:
        CampaignError: the command ended by itself, or no launches of both sides could be compared.
    """
    options = scenario.verify
    design = SequentialDesign.of(2 * options.launches, options.error_rate, options.max_loss, options.margin)
    # Calls that were not tuned decide nothing here, and their messages of 256 KiB would load the network.
    measurement = replace(measurement_of(scenario, place.placement.ranks), other_calls=())
    observer = place.observer(measurement, place.space, folder)

    def default(turn: Turn) -> Trial:
        point = place.space.untouched
        return Trial(turn.number, Phase.VERIFY, point, Subject.UNTOUCHED, turn.block, turn.seed)

    def tuned(turn: Turn) -> Trial:
        about = (Phase.VERIFY, recommendation.point, Subject.DEPLOYED, turn.block, turn.seed)
        return Trial(turn.number, *about, rules=recommendation.rules)

    entrants = (Side("the library", observer, default), Side(setting, observer, tuned))
    design = replace(design, heats=scenario.launch.heats and are_heats(entrants))
    with Background(command, folder / "load.out") as load:

        def check_load(block: Sequence[tuple[Turn, Observation]]) -> None:
            if load.ended:
                raise CampaignError(f"site.under_load={command!r} ended by itself: {load.ended}")

        sides, failures, comparisons = compare_sides(design, entrants, check_load)
    observations = [o for side in sides for o in side]
    if not comparisons:
        reasons = sorted({o.reason for o in observations if not o.ok})
        raise CampaignError(f"under load nothing could be compared: {'; '.join(reasons[:3])}")
    alone = {gain.slot: gain.ratio for gain in recommendation.gains}
    slots = tuple(
        LoadedSlot(c.slot, alone.get(c.slot, 1.0), c.gain, c.loses or c.doubtful or failures.doubtful)
        for c in comparisons
    )
    return UnderLoad(setting, slots, sum(o.duration_s for o in observations))


def without_lost_rules(
    recommendation: Recommendation, result: UnderLoad | None, one_row: Collection[str]
) -> Recommendation:
    """Return a recommendation without its rules for the slots at which it was slower on the loaded machine.

    Each collective in ``one_row`` has a single rule for all message sizes.
    """
    if result is None or result.refused or not result.lost:
        return recommendation
    words = {False: SlotDecision.STILL_BETTER, True: SlotDecision.NO_LONGER}
    comparisons = [
        Comparison(s.slot, 0, s.gain, math.nan, s.gain, s.gain, words[s.lost], loses=s.lost)
        for s in result.slots
    ]
    rules = kept_rules(recommendation.rules, comparisons, one_row=one_row)
    gains = tuple(
        replace(g, compared=(1.0, 1.0, 1.0)) if g.slot in result.lost else g for g in recommendation.gains
    )
    return replace(recommendation, rules=rules, gains=gains)


def load_text(result: UnderLoad) -> str:
    """Return a text with the slots where a setting was slower under load, and both speed-ups there."""
    if not result.lost:
        return f"under load none of {len(result.slots)} slots loses"
    texts = []
    for (collective, ranks, size), one in ((one.slot, one) for one in result.slots if one.lost):
        speeds = f"{one.alone:.2f}× alone and {math.exp(one.gain):.2f}×"
        texts.append(f"{collective} of {size_text(size)} on {ranks} ranks {speeds}")
    consequence = f"{result.setting} is not taken" if result.refused else "the library decides there"
    return f"under load {', '.join(texts)}: {consequence}"
