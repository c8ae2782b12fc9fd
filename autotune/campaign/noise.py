"""Report the limits of a campaign's measurements: interference, resolution, values that were not tried.

Notation: σ is the standard deviation of ln of the time between launches of one setting. The verification
makes n *fresh* launches (after the search) of each side. Their mean difference is known to ± z σ √(2/n) with
95 %, where z is 1.96.
"""

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from autotune.campaign.apart import why_apart
from autotune.campaign.failures import never_applied
from autotune.campaign.same_moment import at_one_moment
from autotune.campaign.spec import BenchKind, CampaignSpec
from autotune.history.objectives import Z95, Slot, slot_of
from autotune.history.trial import History, Observation, Phase, Subject
from autotune.measure.location import normal_scale
from autotune.measure.machine import Disturbance, worst
from autotune.probe.protocol import NOT_TIMED
from autotune.recommend.repeats import repeated
from autotune.space import Point
from autotune.stacks.cleared import left_out
from autotune.verification.known import search_noise
from autotune.verification.sequential import EACH

_ENOUGH = 4
"""Least number of launches of one setting, or of pairs of them, from which their spread is estimated."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Hold one remark on the noise of a campaign."""

    subject: str  # The subject, one word or two.
    text: str  # The finding in words.
    grave: bool = False  # Whether every reader of the result must know it.
    fix: str = ""  # What to do about it; empty: nothing is known to help.

    @property
    def finding(self) -> str:
        """Return the text without what to do about it."""
        return self.text.removesuffix(f"; {self.fix}")


def disturbed(observation: Observation) -> str:
    """Return interference with a launch in words; empty if there was none, or none is known."""
    interference = Disturbance.of(observation.extra)
    return ", ".join(interference.words) if interference else ""


def remarks(campaign: CampaignSpec, history: History) -> tuple[Remark, ...]:
    """Return the remarks on the noise of a campaign so far.

    There is no remark on a recorded table, which has no noise of its own.
    """
    if campaign.bench.stamp.kind is BenchKind.REPLAYED:
        return ()
    exclusions = (_algorithms(campaign), _left_out(campaign, history))
    candidates = [
        *exclusions,
        untimed(history),
        heats_apart(history),
        interference(history),
        _moments(history),
    ]
    if (measured := measured_spread(history)) is not None:
        candidates.append(resolution(campaign, *measured))
    return tuple(remark for remark in candidates if remark is not None)


def measured_spread(history: History) -> tuple[float, str] | None:
    """Return the spread of a campaign's launches of one setting; None if too few were repeated.

    The spread is a standard deviation of ln of the time. The second result names the launches that differ by
    it, as the subject of a sentence.
    """
    if (heat_sd := spread_in_heats(history)) is not None:
        return heat_sd, "launches of one setting in one heat"
    comparable = at_one_moment(history)
    fresh_sd, noise = spread(comparable.of(Phase.VERIFY)), search_noise(comparable)
    if fresh_sd is not None:  # a robust spread, on which one disturbed launch in five has no effect
        return fresh_sd, "launches of one setting"
    return (noise.sd, "launches of one setting") if noise.repeats > 1 else None


def resolution(
    campaign: CampaignSpec, sigma: float, subject: str = "launches of one setting"
) -> Remark | None:
    """Return a remark on the smallest difference that the verification resolves; None without verification.

    Args:
        campaign: The campaign's description.
        sigma: Standard deviation of ln of the time between launches of one setting.
        subject: The launches that differ by ``sigma``, as the subject of a sentence.
    """
    verify = campaign.scenario.verify
    if not verify.enabled or not verify.launches:
        return None
    resolved = Z95 * sigma * math.sqrt(2 / verify.launches)
    text = (
        f"{subject} differ by {percent_text(sigma)}; "
        f"{verify.launches} fresh launches of each side resolve {percent_text(resolved)} at one size (95 %)"
    )
    if not 0 < verify.max_loss < resolved:
        return Remark("repeatability", text)
    needed = math.ceil(2 * (Z95 * sigma / verify.max_loss) ** 2 / EACH) * EACH
    advice = f"verify.max_loss={verify.max_loss:g} needs verify.launches={needed}"
    return Remark("repeatability", f"{text}; {advice}", grave=True, fix=advice)


def spread(history: History) -> float | None:
    """Return the spread of launches of one setting; None with too few launches.

    The spread is a standard deviation of ln of the time, estimated by the median absolute deviation.
    """
    deviations = [
        np.abs(logs - np.median(logs, axis=0)) for _, logs, _ in repeated(history) if len(logs) >= _ENOUGH
    ]
    if not deviations:
        return None
    return float(np.mean([np.sqrt(np.mean(normal_scale(deviation) ** 2)) for deviation in deviations]))


def spread_in_heats(history: History) -> float | None:
    """Return the spread of launches of one setting in a heat (alive at once); None with too few launches.

    Such launches met the same moments, so the remaining spread comes from properties that each launch keeps
    until it ends, such as the place of its memory, and from the noise within each launch.
    """
    groups: dict[tuple[int, Subject, Point], list[Observation]] = defaultdict(list)
    for o in history:
        compared = o.trial.subject is Subject.UNTOUCHED or o.trial.phase is Phase.VERIFY
        if o.trial.heat and o.ok and compared and not why_apart(o):
            groups[o.trial.heat, o.trial.subject, o.trial.point].append(o)
    differences: dict[Slot, list[float]] = defaultdict(list)
    for first, second, *_ in (launches for launches in groups.values() if len(launches) > 1):
        second_s = {e.cell: e.median_s for e in second.usable}
        for e in first.usable:
            if e.cell in second_s:
                differences[slot_of(e.cell)].append(
                    abs(math.log(e.median_s / second_s[e.cell])) / math.sqrt(2)
                )
    spreads = [normal_scale(logs) for logs in differences.values() if len(logs) >= _ENOUGH]
    return float(np.sqrt(np.mean(np.square(spreads)))) if spreads else None


def _algorithms(campaign: CampaignSpec) -> Remark | None:
    text = left_out(campaign.space, campaign.bench.description, campaign.scenario.collective)
    return Remark("algorithms", text, grave=True) if text else None


def _left_out(campaign: CampaignSpec, history: History) -> Remark | None:
    removed = never_applied(campaign.space, history)
    text = "; ".join(f"{name}={value}: {reason}" for (name, value), reason in removed.items())
    return Remark("left out of the search", text, grave=True) if text else None


def untimed(history: History) -> Remark | None:
    """Return a remark on launches whose time did not suffice to measure all cells.

    A cell is a collective with a communicator size, a message size and a per-call choice. The remark quotes
    the last of these launches. Return None if every launch measured all of its cells.
    """
    notes = [note for o in history for note in o.notes if NOT_TIMED in note]
    if not notes:
        return None
    text = f"in {len(notes)} of {len(history)} launches; of the last one {notes[-1]}"
    return Remark("not timed", text, grave=True)


def heats_apart(history: History) -> Remark | None:
    """Return a remark on launches that could not be made at once (in a heat), with a reason.

    Return None if there are no such launches.
    """
    reasons = [reason for o in history if (reason := why_apart(o))]
    if not reasons:
        return None
    text = f"{len(reasons)} launches were made one after the other, not at once: {reasons[-1]}"
    return Remark("no heats", text, grave=True)


def interference(history: History) -> Remark | None:
    """Return a remark on launches that other work or slow cores disturbed; None if no launch looked."""
    disturbances = [disturbance for o in history if (disturbance := Disturbance.of(o.extra))]
    if not disturbances:
        return None
    noisy = [disturbance for disturbance in disturbances if disturbance.words]
    if not noisy:
        return Remark("interference", f"0 of {len(disturbances)} launches disturbed")
    text = f"{len(noisy)} of {len(disturbances)} launches disturbed; at most {', '.join(worst(noisy).words)}"
    return Remark("interference", text, grave=True, fix="stop other work there, or take other nodes")


def _moments(history: History) -> Remark:
    """Return a remark on how many launches ran beside the default in a heat, and how precise heats are."""
    launches = [o for o in history if o.ok and o.trial.subject is not Subject.UNTOUCHED]
    compared = sum(bool(o.trial.heat) for o in launches)
    text = (
        f"{compared} of {len(launches)} launches of settings had the default beside them at the same moment"
    )
    if (heat_sd := spread_in_heats(history)) is not None:
        text += f"; there two launches of one setting differ by {percent_text(heat_sd)} at one size (A/A)"
    return Remark("moments", text, grave=compared < len(launches))


def percent_text(logarithm: float) -> str:
    """Return a difference in ln of the time as text, such as ``3.1 %``."""
    return f"{100 * math.expm1(logarithm):.1f} %"
