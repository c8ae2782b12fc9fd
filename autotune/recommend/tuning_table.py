"""The table that a framework keeps for a system: the best choice by size and communicator (beside step 10).

Of each campaign the fastest job-wide setting is taken; in each slot the choices swept in it compete. Two
*tie* where their times, compared within the launches that have both, differ by less than 1.96 standard
errors. The winner is the fastest of many measured ones: where it ties, it is one of several.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.history.objectives import Slot, alternatives, by_setting, envelope, slot_of
from autotune.history.trial import Estimate, History, Observation
from autotune.recommend.front import Gain
from autotune.space import Point, Space

_Z95 = 1.96


@dataclass(frozen=True, slots=True)
class Winner:
    """One slot on so many nodes."""

    nodes: int
    """Of the campaign."""
    slot: Slot
    """Collective, communicator size, message size."""
    choice: Point
    """Per-size values of the fastest; empty: what the stack decides."""
    ties: tuple[Point, ...]
    """Choices that cannot be told from it, the fastest first."""
    gain: Gain
    """The stack's own defaults against it; where they were not measured, it against itself."""


def tuning_table(space: Space, history: History, nodes: int) -> tuple[Winner, ...]:
    """The winners of one campaign, by collective, communicator size and message size.

    Empty before any sweep went well.
    """
    groups = by_setting(space, history.sweeps)
    curves = {setting: envelope(space, group) for setting, group in groups.items()}
    most = max(map(len, curves.values()), default=0)
    whole = [setting for setting, curve in curves.items() if len(curve) == most]
    if not whole or not most:
        return ()
    best = min(whole, key=lambda s: math.fsum(math.log(its.median_s) for its in curves[s].values()))
    default, group = envelope(space, history.untouched), groups[best]
    seen = _by_launch(space, group)
    table = []
    for slot, choices in alternatives(space, group).items():
        first, *others = sorted(choices.values(), key=lambda its: its.median_s)
        ties = tuple(o.choice for o in others if not _apart(seen[slot, first.choice], seen[slot, o.choice]))
        own = default.get(slot, first)
        gain = Gain(slot, first.median_s, first.sem_s, own.median_s, own.sem_s)
        table.append(Winner(nodes, slot, first.choice, ties, gain))
    return tuple(table)


def _by_launch(
    space: Space, group: Iterable[Observation]
) -> Mapping[tuple[Slot, Point], Mapping[int, Estimate]]:
    """Slot and choice → launch → what was measured."""
    per_size = {p.name for p in space.job if p.per_size}
    seen: dict[tuple[Slot, Point], dict[int, Estimate]] = defaultdict(dict)
    for observation in group:
        part = observation.trial.point.restricted(per_size)
        for its in observation.usable:
            choice = Point.of({**part, **its.cell.choice}) if part else its.cell.choice
            seen[slot_of(its.cell), choice][observation.trial.number] = its
    return seen


def _apart(first: Mapping[int, Estimate], other: Mapping[int, Estimate]) -> bool:
    """Whether a choice is surely slower, by the launches that have both, else by all of each."""
    both = sorted(first.keys() & other.keys())
    pairs: Sequence[tuple[Estimate, Estimate]] = [(first[n], other[n]) for n in both]
    if not pairs:
        pairs = list(zip(first.values(), other.values(), strict=False))
    logs = np.array([math.log(o.median_s / f.median_s) for f, o in pairs])
    errors = np.array([math.hypot(f.sem_s / f.median_s, o.sem_s / o.median_s) for f, o in pairs])
    within = float(np.sqrt(np.sum(errors**2))) / len(logs)
    between = float(np.std(logs, ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    return float(logs.mean()) > _Z95 * max(within, between)
