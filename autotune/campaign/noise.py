"""Limits of the measurements: interference, drift, and the smallest difference they resolve (step 8).

Notation: launches of one setting differ by σ on the log scale; the mean difference of n fresh
launches of each side is known to ± z σ √(2/n) with 95 %.
"""

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from autotune.campaign.description import Description, SiteKind
from autotune.campaign.drift import corrected, drift
from autotune.campaign.failures import never_applied
from autotune.history.objectives import Z95, Slot, slot_of
from autotune.history.trial import History, Observation, Phase, Subject
from autotune.measure.location import normal_scale
from autotune.measure.machine import Disturbance, worst
from autotune.probe.protocol import NOT_TIMED
from autotune.recommend.repeats import repeated
from autotune.space import Point
from autotune.verification.known import search_noise
from autotune.verification.sequential import EACH

_ENOUGH = 4
"""Launches of one setting that suffice for an estimate of their spread."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing about the noise of a campaign."""

    what: str  # Its name, a word or two.
    text: str  # What was found.
    grave: bool = False  # Whether whoever reads the result must know it.


def disturbed(observation: Observation) -> str:
    """Interference with a launch, in words; empty: none, or none is known."""
    found = Disturbance.of(observation.extra)
    return ", ".join(found.words) if found else ""


def remarks(campaign: Description, history: History) -> tuple[Remark, ...]:
    """Remarks on the noise of a campaign so far; none on a recording, which has none."""
    if campaign.site.stamp.kind is SiteKind.REPLAYED:
        return ()
    found = [_left_out(campaign, history), untimed(history), _machine(history), _drift(history)]
    judged = corrected(history)
    fresh, searched = spread(judged.of(Phase.VERIFY)), search_noise(judged)
    if (together := spread_in_heats(history)) is not None:
        found.append(resolution(campaign, together, "launches of one setting in one heat"))
    elif fresh is not None:  # robustly, as in the verdict: one disturbed launch in five does not matter
        found.append(resolution(campaign, fresh))
    elif searched.repeats > 1:
        found.append(resolution(campaign, searched.sd))
    return tuple(one for one in found if one is not None)


def resolution(campaign: Description, sigma: float, what: str = "launches of one setting") -> Remark | None:
    """The smallest difference that the verification resolves at one size; None: there is none."""
    wanted = campaign.scenario.verify
    if not wanted.enabled or not wanted.launches:
        return None
    resolved = Z95 * sigma * math.sqrt(2 / wanted.launches)
    text = (
        f"{what} differ by {_percent(sigma)}; "
        f"{wanted.launches} fresh launches of each side resolve {_percent(resolved)} at one size (95 %)"
    )
    if not 0 < wanted.max_loss < resolved:
        return Remark("repeatability", text)
    needed = math.ceil(2 * (Z95 * sigma / wanted.max_loss) ** 2 / EACH) * EACH
    asked = f"; verify.max_loss={wanted.max_loss:g} needs verify.launches={needed}"
    return Remark("repeatability", text + asked, grave=True)


def spread(history: History) -> float | None:
    """Spread of launches of one setting by their median absolute deviation; None: too few launches."""
    away = [np.abs(logs - np.median(logs, axis=0)) for _, logs in repeated(history) if len(logs) >= _ENOUGH]
    if not away:
        return None
    return float(np.mean([np.sqrt(np.mean(normal_scale(one) ** 2)) for one in away]))


def spread_in_heats(history: History) -> float | None:
    """Spread of launches of one setting that were alive at once; None: too few of them.

    They met the same moments: what is left is what a launch keeps for its life, and the noise within it.
    """
    sides: dict[tuple[int, Subject, Point], list[Observation]] = defaultdict(list)
    for o in history.of(Phase.VERIFY):
        if o.trial.heat and o.ok:
            sides[o.trial.block, o.trial.subject, o.trial.point].append(o)
    apart: dict[Slot, list[float]] = defaultdict(list)
    for first, second, *_ in (launches for launches in sides.values() if len(launches) > 1):
        others = {e.cell: e.median_s for e in second.usable}
        for e in first.usable:
            if e.cell in others:
                apart[slot_of(e.cell)].append(abs(math.log(e.median_s / others[e.cell])) / math.sqrt(2))
    known = [normal_scale(of) for of in apart.values() if len(of) >= _ENOUGH]
    return float(np.sqrt(np.mean(np.square(known)))) if known else None


def _left_out(campaign: Description, history: History) -> Remark | None:
    gone = never_applied(campaign.space, history)
    said = "; ".join(f"{name}={value}: {reason}" for (name, value), reason in gone.items())
    return Remark("left out of the search", said, grave=True) if said else None


def untimed(history: History) -> Remark | None:
    """The launches that had no time for some of their cells, in the words of the last one; None: all had."""
    said = [note for o in history for note in o.notes if NOT_TIMED in note]
    if not said:
        return None
    text = f"in {len(said)} of {len(history)} launches; of the last one {said[-1]}"
    return Remark("not timed", text, grave=True)


def _machine(history: History) -> Remark | None:
    known = [found for o in history if (found := Disturbance.of(o.extra))]
    if not known:
        return None
    beside = [found for found in known if found.words]
    if not beside:
        return Remark("interference", f"0 of {len(known)} launches disturbed")
    said = f"{len(beside)} of {len(known)} launches disturbed; at most {', '.join(worst(beside).words)}"
    return Remark("interference", said, grave=True)


def _drift(history: History) -> Remark:
    found = drift(history)
    if not found.launches:
        return Remark("drift", "not measured: too few settings were launched again")
    apart = f"repeatability {_percent(found.error)}"
    if not found.offsets:
        return Remark("drift", f"not significant in {found.launches} repeated launches; {apart}")
    low, high = found.span
    effects = (("the machine moved", found.walk), ("nodes differ", found.hosts))
    why = " and ".join(text for text, by in effects if by)
    moved = f"times drifted by {_percent(low, '+')} to {_percent(high, '+')} ({why}); corrected"
    return Remark("drift", f"{moved}; {apart} after that", grave=True)


def _percent(logarithm: float, sign: str = "") -> str:
    return f"{100 * math.expm1(logarithm):{sign}.1f} %"
