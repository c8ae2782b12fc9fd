"""A machine's best times for an application's calls, out of a few launches (beside step 12).

In place of a campaign: the untouched stack, every call-level choice swept by default, then settings one after
another, each launched once; at the end the untouched stack and the best of them again. What was chosen for
being fastest among many was lucky too, so it is judged by these fresh launches; where there are none, its
standard error is widened to what the most extreme of so many normal deviates has (Bonferroni).
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from autotune.history.objectives import Z95, Slot, pooled, slot_of
from autotune.history.trial import Estimate, Observation, Subject, left_to_the_stack
from autotune.recommend.recommendation import Gain


@dataclass(frozen=True, slots=True)
class Floor:
    """A machine's best times for recorded calls."""

    gains: tuple[Gain, ...]  # Default against best in each slot.
    best: tuple[str, ...]  # What was best in each slot; empty: the default.
    settings: tuple[str, ...]  # What was tried beside the default and the choices that are swept by default.
    launches: int  # That it took.
    seconds: float  # Wall time of all that.
    stack: str = ""  # The MPI, in a line.
    date: str = ""  # ISO date.
    left_out: int = 0  # Settings for which no time was left.
    calls: str = ""  # Fingerprint of the recording that it is for.


@dataclass(frozen=True, slots=True)
class FloorLaunch:
    """One launch for it."""

    setting: str  # In words; empty: the default.
    seen: Observation  # What it showed.
    again: bool = False  # Whether the setting was chosen by the launches before.


def gains_of(launches: Sequence[FloorLaunch]) -> tuple[tuple[Gain, ...], tuple[str, ...]]:
    """Default against best in each slot that the default was measured in, and what was best."""
    defaults: dict[Slot, list[Estimate]] = defaultdict(list)
    tried: dict[Slot, dict[str, list[tuple[Estimate, bool]]]] = defaultdict(lambda: defaultdict(list))
    for launch in launches:
        for estimate in launch.seen.usable:
            slot, choice = slot_of(estimate.cell), estimate.cell.choice
            if launch.seen.trial.subject is Subject.UNTOUCHED and not launch.setting:
                defaults[slot].append(estimate)
            else:
                chosen = (f"{n}={v}" for n, v in choice.items() if not left_to_the_stack(v))
                words = ", ".join(filter(None, (launch.setting, *chosen)))
                tried[slot][words].append((estimate, launch.again))
    spread = _spread(defaults)
    pairs = [(slot, *_best(own, tried[slot], spread)) for slot, own in sorted(defaults.items())]
    gains = tuple(Gain(slot, *tuned, *_pooled(defaults[slot], spread)) for slot, _, tuned in pairs)
    return gains, tuple(words for _, words, _ in pairs)


def _best(
    own: Sequence[Estimate], tried: dict[str, list[tuple[Estimate, bool]]], spread: float
) -> tuple[str, tuple[float, float]]:
    """The fastest setting in a slot, its time and standard error; the default where nothing is faster."""
    default = _pooled(own, spread)
    fresh = {words: [e for e, again in made if again] for words, made in tried.items()}
    judged = {words: made for words, made in fresh.items() if made}
    firsts = {
        words: _pooled([e for e, again in made if not again] or [e for e, _ in made], spread)
        for words, made in tried.items()
        if not judged or words in judged
    }
    words = min(firsts, key=lambda w: firsts[w][0], default="")
    if not firsts or firsts[words][0] >= default[0]:
        return "", default
    if words in judged:
        return words, _pooled(judged[words], spread)
    median, sem = firsts[words]
    return words, (median, sem * float(ndtri(1.0 - 0.025 / len(firsts))) / Z95)


def _pooled(estimates: Sequence[Estimate], spread: float) -> tuple[float, float]:
    """One location and its standard error, at least what launches of the default differ by."""
    median, sem, _ = pooled(estimates)
    return median, max(sem, median * spread / math.sqrt(len(estimates)))


def _spread(defaults: dict[Slot, list[Estimate]]) -> float:
    """Standard deviation of the logarithm between launches of one setting; 0: there is one."""
    logs = [np.log([e.median_s for e in made]) for made in defaults.values() if len(made) > 1]
    squares = math.fsum(float(np.sum((row - row.mean()) ** 2)) for row in logs)
    freedom = sum(len(row) - 1 for row in logs)
    return math.sqrt(squares / freedom) if freedom else 0.0
