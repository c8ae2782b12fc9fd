"""Fresh launches in blocks (step 11 of the flow).

A *block* is launched in an order that is drawn at random, with as many launches of each side: that draw is
all that the comparison rests on (see ``evidence``). Launches whose cores the host of a virtual machine had
moved apart take two to three times as long: they are a stratum of their own in each block, by what was
measured of the cores alone. Earlier versions launched there
and back, A B B A or B A A B, and took these for launches in any order, as they still are where such a journal
is read.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import fmean

import numpy as np

from autotune.history.objectives import Slot, slot_of
from autotune.history.trial import Estimate, Observation
from autotune.measure.machine import core_states
from autotune.verification.sequential import EACH, ONE_IN_TWENTY

_FIRST = 5
"""Launches of each side in a first block of one setting: its 252 orders may be conclusive alone."""


@dataclass(frozen=True, slots=True)
class Block:
    """Launches of two sides whose order was drawn."""

    tuned: tuple[bool, ...]  # For each launch in order whether it is of the setting, or of the reference.
    logs: tuple[tuple[tuple[Slot, float], ...], ...]
    """Slot and ln of the seconds of each launch; empty of one that failed."""
    means: tuple[tuple[tuple[Slot, float], ...], ...] = ()
    """The same of the mean of the calls of each launch; empty: not known, the location stands for it."""
    strata: tuple[int, ...] = ()
    """For each launch how far apart its cores were: equal ones are compared; empty: all were alike."""

    @property
    def states(self) -> tuple[int, ...]:
        """For each launch in order its stratum."""
        return self.strata or (0,) * len(self.tuned)

    @property
    def slots(self) -> frozenset[Slot]:
        """In which any of them was measured."""
        return frozenset(slot for one in self.logs for slot, _ in one)

    def gains(self, slot: Slot) -> list[float]:
        """Ln of the speed-up of each launch of the setting over the mean of the others, in one slot."""
        others: dict[int, list[float]] = defaultdict(list)
        mine: list[tuple[int, float]] = []
        for one, tuned, state in zip(map(dict, self.logs), self.tuned, self.states, strict=True):
            if slot in one and tuned:
                mine.append((state, one[slot]))
            elif slot in one:
                others[state].append(one[slot])
        return [fmean(others[state]) - y for state, y in mine if others[state]]

    def within(self, slots: Collection[Slot]) -> "Block":
        """The same launches in some slots alone."""
        logs, means = (
            tuple(tuple(y for y in one if y[0] in slots) for one in of) for of in (self.logs, self.means)
        )
        return replace(self, logs=logs, means=means)


def order(n_each: int, rng: np.random.Generator, each: int | None = None) -> tuple[tuple[int, bool], ...]:
    """(block, whether the tuned setting runs) of ``n_each`` launches of each side.

    ``each``: launches of each side in a block; None: as many as suit launches that are made in turn.
    """
    widths = [min(each or _FIRST, n_each)]
    while left := n_each - sum(widths):
        widths.append(min(each or EACH, left))
    orders = ((block, rng.permutation([True, False] * width)) for block, width in enumerate(widths))
    return tuple((block, bool(tuned)) for block, drawn in orders for tuned in drawn)


def blocks_of(
    reference: Iterable[Observation], tuned: Iterable[Observation], other_loop: bool = False
) -> tuple[Block, ...]:
    """Launches of both sides by blocks, in order; ``other_loop``: their times in the probe's other loop."""
    both = [*((False, o) for o in reference), *((True, o) for o in tuned)]
    made: dict[int, list[tuple[bool, Observation, int]]] = defaultdict(list)
    for (side, o), stratum in zip(both, strata(both), strict=True):
        made[o.trial.block].append((side, o, stratum))
    found = []
    for _, block in sorted(made.items()):
        block.sort(key=lambda one: one[1].trial.number)
        sides, launched, apart = zip(*block, strict=True)
        medians, means, others = (
            tuple(_logs(o, seconds) for o in launched)
            for seconds in (attrgetter("median_s"), attrgetter("mean_s"), attrgetter("other_loop_s"))
        )
        found.append(Block(sides, *((others, ()) if other_loop else (medians, means)), apart))
    return tuple(found)


def strata(launches: Sequence[tuple[bool, Observation]]) -> tuple[int, ...]:
    """The stratum of each launch, of the setting or not, by how far apart its cores were, 0 the nearest.

    Where the host puts the cores says nothing of a setting. Where those of one side lie far apart more often
    than by chance (Fisher's exact test), it moves its ranks itself: then all are compared as they are.
    """
    from scipy.stats import hypergeom

    found = core_states([o.extra for _, o in launches])
    far = [tuned for (tuned, _), state in zip(launches, found, strict=True) if state]
    if not far:
        return found
    n = Counter(tuned for tuned, _ in launches)
    chances = [hypergeom.sf(far.count(side) - 1, n.total(), len(far), n[side]) for side in (True, False)]
    return (0,) * len(found) if min(chances) <= ONE_IN_TWENTY / 2 else found


def _logs(observation: Observation, of: Callable[[Estimate], float]) -> tuple[tuple[Slot, float], ...]:
    times = ((slot_of(e.cell), of(e)) for e in observation.usable)
    return tuple((slot, math.log(seconds)) for slot, seconds in times if seconds > 0)
