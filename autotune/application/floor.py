"""Compute the floor: a machine's best times for an application's calls, from a few launches of a benchmark.

The MPI stack is launched with its own defaults, then with every per-call choice tried in turn, then with one
setting after another, each once, and at the end again with its defaults and with the best settings. A setting
that was selected as the fastest among many was also lucky, so only these last, fresh launches give its time.
If no fresh launch was made, the standard error of the setting's time is increased by Bonferroni's correction
for as many comparisons as settings were launched.

The launches of a *heat* run at the same time and take turns on the same cores, so that they meet the same
conditions. A time in a heat counts as its ratio to the time of the default in the same heat, multiplied by
the geometric mean of the default's times over all heats. A *slot* is a collective, communicator size and
message size.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from autotune.history.objectives import Z95, Slot, pooled, slot_of
from autotune.history.trial import Estimate, Observation, Subject, left_to_the_stack
from autotune.recommend.recommendation import Gain


@dataclass(frozen=True, slots=True)
class Floor:
    """Says how fast a machine can make the calls of a recording, and how that was measured."""

    gains: tuple[Gain, ...]  # Times by default and with the best setting, for each slot.
    best: tuple[str, ...]  # The best setting for each slot, in words; empty: the default.
    settings: tuple[str, ...]  # The settings that were launched, in words, without the default.
    launches: int  # Number of launches.
    seconds: float  # Wall time of all launches in seconds.
    stack: str = ""  # The MPI implementation, described in one line.
    date: str = ""  # ISO date of the measurement.
    left_out: int = 0  # Number of settings that were not launched because the time was used up.
    calls: str = ""  # Hash of the recording whose calls were measured.


@dataclass(frozen=True, slots=True)
class FloorLaunch:
    """One launch that was made to measure a floor."""

    setting: str  # The setting in words; empty: the default.
    seen: Observation  # The result of the launch.
    fresh: bool = False  # Whether earlier launches had selected the setting, so that its time is unbiased.
    heat: int = 0  # Number of the heat in which the launch ran; 0: it ran alone.

    @property
    def default(self) -> bool:
        """Return whether the launch was made with the MPI stack's own defaults."""
        return self.seen.trial.subject is Subject.UNTOUCHED and not self.setting


def gains_of(launches: Sequence[FloorLaunch]) -> tuple[tuple[Gain, ...], tuple[str, ...]]:
    """Return the times by default and with the best setting, and the best setting in words, for each slot.

    Slots in which the default was not measured are left out.
    """
    defaults: dict[Slot, list[Estimate]] = defaultdict(list)
    rivals: dict[Slot, dict[str, list[tuple[Estimate, bool]]]] = defaultdict(lambda: defaultdict(list))
    levels = _levels(launches)
    for launch in launches:
        for estimate in launch.seen.usable:
            slot, choice = slot_of(estimate.cell), estimate.cell.choice
            if launch.heat:
                if (factor := levels.get((slot, launch.heat))) is None:
                    continue  # The default failed in this heat, so there is no factor.
                scaled_s, sem_s = estimate.median_s * factor, estimate.sem_s * factor
                estimate = replace(estimate, median_s=scaled_s, sem_s=sem_s)
            if launch.default:
                defaults[slot].append(estimate)
            else:
                choices = (f"{n}={v}" for n, v in choice.items() if not left_to_the_stack(v))
                words = ", ".join(filter(None, (launch.setting, *choices)))
                rivals[slot][words].append((estimate, launch.fresh))
    fresh = [[e for e, is_fresh in times if is_fresh] for by in rivals.values() for times in by.values()]
    spread = _spread(fresh if levels else list(defaults.values()))
    pairs = [(slot, *_best(default, rivals[slot], spread)) for slot, default in sorted(defaults.items())]
    gains = tuple(Gain(slot, *tuned, *_pooled(defaults[slot], spread)) for slot, _, tuned in pairs)
    return gains, tuple(words for _, words, _ in pairs)


def _levels(launches: Sequence[FloorLaunch]) -> dict[tuple[Slot, int], float]:
    """Return by (slot, heat) the default's geometric mean time over all heats / its time in this heat."""
    logs: dict[Slot, dict[int, float]] = defaultdict(dict)
    for launch in launches:
        for estimate in launch.seen.usable if launch.heat and launch.default else ():
            logs[slot_of(estimate.cell)][launch.heat] = math.log(estimate.median_s)
    return {
        (slot, heat): math.exp(fmean(ys.values()) - y) for slot, ys in logs.items() for heat, y in ys.items()
    }


def _best(
    defaults: Sequence[Estimate], rivals: dict[str, list[tuple[Estimate, bool]]], spread: float
) -> tuple[str, tuple[float, float]]:
    """Return the fastest setting in a slot in words (empty: the default), and its (time, standard error)."""
    default = _pooled(defaults, spread)
    by_words = {words: [e for e, is_fresh in times if is_fresh] for words, times in rivals.items()}
    fresh = {words: estimates for words, estimates in by_words.items() if estimates}
    firsts = {
        words: _pooled([e for e, is_fresh in times if not is_fresh] or [e for e, _ in times], spread)
        for words, times in rivals.items()
        if not fresh or words in fresh
    }
    words = min(firsts, key=lambda w: firsts[w][0], default="")
    if not firsts or firsts[words][0] >= default[0]:
        return "", default
    if words in fresh:
        return words, _pooled(fresh[words], spread)
    from scipy.special import ndtri

    median, sem = firsts[words]
    return words, (median, sem * float(ndtri(1.0 - 0.025 / len(firsts))) / Z95)


def _pooled(estimates: Sequence[Estimate], spread: float) -> tuple[float, float]:
    """Return a setting's time and its standard error, which is at least that by the launches' spread."""
    median, sem, _ = pooled(estimates)
    return median, max(sem, median * spread / math.sqrt(len(estimates)))


def _spread(launches: Sequence[Sequence[Estimate]]) -> float:
    """Return the standard deviation of ln t between launches of a setting in a slot; 0 if none is known."""
    logs = [np.log([e.median_s for e in repeats]) for repeats in launches if len(repeats) > 1]
    squares = math.fsum(float(np.sum((row - row.mean()) ** 2)) for row in logs)
    freedom = sum(len(row) - 1 for row in logs)
    return math.sqrt(squares / freedom) if freedom else 0.0
