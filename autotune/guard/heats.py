"""Launches of several environments at the same moment, in blocks, until the time is used up (``guard``)."""

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from autotune.campaign.heats import at_once
from autotune.campaign.interruption import check as heed
from autotune.campaign.observing import Measurement, Observer
from autotune.commands.verify import launch_block
from autotune.guard.span import Span
from autotune.history.trial import Observation, Phase, Status, Subject, Trial
from autotune.space import Point
from autotune.verification.sequential import SequentialDesign

FIRST_NUMBER = 100
"""Number of the first launch; the launches that check files have smaller numbers."""


@dataclass(frozen=True, slots=True)
class Side:
    """One environment that is launched in turn with others."""

    name: str  # Name of the environment in messages.
    observer: Observer  # Makes the launches of the environment.
    limit_s: float  # Time limit of one launch in seconds.


def alone(measurement: Measurement) -> Measurement:
    """Return the measurement without the additional ones of a verification, which decide nothing here."""
    return replace(measurement, other_calls=(), other_loop="")


def are_heats(sides: Sequence[Side]) -> bool:
    """Return whether launches of these sides can be alive at once, and take turns."""
    return at_once(*(side.observer for side in sides))


def blocks_in_time(
    sides: Sequence[Side], per_side: int, span: Span
) -> Iterator[tuple[tuple[int, Observation], ...]]:
    """Yield blocks of launches of all sides in random order, each launch with the index of its side.

    The launches of a block are alive at once and take turns, where the launcher can do that. A block is begun
    only if the remaining time is at least that of the longest block so far; for the first block, that of its
    launches one after the other. A block that the end of the time cuts short is not yielded.

    Args:
        sides: The environments.
        per_side: Number of launches of each side at most.
        span: The time of the whole verb.
    """
    rng = np.random.default_rng()
    design = SequentialDesign(setting_launches=per_side, heats=are_heats(sides))
    longest_s = span.launch_s * design.each * len(sides)
    numbers = count(FIRST_NUMBER)
    for block in range(-(-per_side // design.each)):
        heed()
        if span.left_s <= 0 or span.left_s < longest_s:
            return
        order = rng.permutation(np.repeat(np.arange(len(sides)), design.each)).tolist()
        trial = Trial(0, Phase.VERIFY, Point(), Subject.UNTOUCHED, block)
        trials = [replace(trial, number=next(numbers), seed=int(rng.integers(2**31))) for _ in order]
        turns = [
            (sides[side_index], trial_of_side)
            for side_index, trial_of_side in zip(order, trials, strict=True)
        ]
        began_s = span.spent_s
        observations: list[Observation] = []
        for entrants in [turns] if design.heats else [[turn] for turn in turns]:
            limited = [(s.observer, replace(t, timeout_s=span.within(s.limit_s))) for s, t in entrants]
            observations += launch_block(design, limited)
            if span.left_s <= 0 and any(o.status is Status.TIMEOUT for o in observations):
                return  # the end of the time cut the launch short, so its timeout is no result
        took_s = span.spent_s - began_s
        longest_s = max(longest_s if block else 0.0, took_s)
        _report_block(block, [sides[side_index].name for side_index in order], observations, took_s)
        yield tuple(zip(order, observations, strict=True))


def _report_block(
    block: int, names: Sequence[str], observations: Sequence[Observation], took_s: float
) -> None:
    """Print the number of a block, its duration, and the failures of each side."""
    failed: dict[str, list[str]] = defaultdict(list)
    for name, observation in zip(names, observations, strict=True):
        if not observation.ok:
            failed[name].append(f"{observation.status}: {observation.reason}")
    outcome = "; ".join(f"{name}  {', '.join(dict.fromkeys(why))}" for name, why in failed.items()) or "ok"
    sys.stderr.write(f"block {block + 1}, {len(names)} launches, {took_s:.1f} s  {outcome}\n")
