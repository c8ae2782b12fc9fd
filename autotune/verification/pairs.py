"""From fresh launches to paired differences, and how far launches lie apart (step 11 of the flow).

Notation: a *pair* is two neighbouring launches of one block, one of the reference ``A`` and one of the tuned
setting ``B``; ``d`` is ln t_A − ln t_B of a pair in one slot, so that d > 0 means tuned is faster and
exp(d) is the speed-up. A block is A B B A or B A A B, drawn at random, so that a drift that is linear over a
block cancels.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.history.objectives import Slot, slot_of
from autotune.history.trial import Observation
from autotune.recommend.repeats import repeated

PairDifferences = Mapping[Slot, float]
"""``d`` of one pair of launches in each slot that both measured."""

BLOCK = 4
"""Launches of a block: two pairs."""
_DISTURBED = 0.1
"""So far apart on the log scale two launches are not by chance: one was disturbed."""


def order(n_pairs: int, rng: np.random.Generator) -> tuple[tuple[int, bool], ...]:
    """(block, whether the tuned setting runs) for each of ``2 * n_pairs`` launches."""
    launches = []
    for block in range(math.ceil(n_pairs / 2)):
        first = bool(rng.integers(2))
        launches += [(block, tuned) for tuned in (first, not first, not first, first)]
    return tuple(launches[: 2 * n_pairs])


def pairs(
    reference: Sequence[Observation], tuned: Sequence[Observation], other_loop: bool = False
) -> tuple[PairDifferences, ...]:
    """``d`` for each pair: the k-th launch of the reference in a block against the k-th tuned one.

    In A B B A and in B A A B alike these are neighbours. A launch that failed takes its pair with it.
    ``other_loop``: of the times that were measured in the probe's other loop.
    """
    differences = []
    sides = [_by_block(side) for side in (reference, tuned)]
    for block, ours in sides[0].items():
        for mine, theirs in zip(ours, sides[1].get(block, ()), strict=False):
            before, after = _logs(mine, other_loop), _logs(theirs, other_loop)
            difference = {slot: before[slot] - after[slot] for slot in before if slot in after}
            if difference:
                differences.append(difference)
    return tuple(differences)


@dataclass(frozen=True, slots=True)
class LaunchNoise:
    """How far launches of the same setting lay apart in the search."""

    squares: float = 0.0
    """Sum of squared deviations of ln t from the mean of their setting and slot, as a mean over the slots."""
    freedom: int = 0
    """Launches less settings, of those that were launched more than once."""


def launch_noise(observations: Iterable[Observation]) -> LaunchNoise:
    """The noise that the baseline and whatever else was launched more than once show.

    Launches of the baseline are spread over the campaign, so slow drift is in it, which pairs do not see:
    it makes decisions on few pairs cautious, never bold.
    """
    squares, freedom = 0.0, 0
    for _, logs in repeated(observations):
        squares += float(((logs - logs.mean(axis=0)) ** 2).sum(axis=0).mean())
        freedom += len(logs) - 1
    return LaunchNoise(squares, freedom)


def two_that_differ(launches: Iterable[Observation]) -> bool:
    """Whether these are two of one setting, and a third one has to tell which was disturbed."""
    seen = launch_noise(launches)
    return seen.freedom == 1 and math.sqrt(2 * seen.squares) > _DISTURBED


def _by_block(observations: Iterable[Observation]) -> dict[int, list[Observation]]:
    blocks: dict[int, list[Observation]] = defaultdict(list)
    for observation in sorted(observations, key=lambda o: o.trial.number):
        blocks[observation.trial.block].append(observation)
    return blocks


def _logs(observation: Observation, other_loop: bool) -> dict[Slot, float]:
    if not other_loop:
        return {slot_of(e.cell): math.log(e.median_s) for e in observation.usable}
    return {slot_of(e.cell): math.log(seconds) for e in observation.usable if (seconds := e.other_loop_s) > 0}
