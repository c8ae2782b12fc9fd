"""Find calls that other work interrupted, and settings that are interrupted more than the default.

A process that needs the core takes it for a time slice of the scheduler, 0.75 ms and more on Linux, whatever
call is under way. There are so many such interruptions a second of measured time, in all launches of a heat
alike, and they make each setting slower by the same factor; in the mean of a launch of short calls a single
one counts more than all other calls together. So calls that took ``SLICE_S`` more than the median are left
out of the means on both sides, unless launches of the setting are interrupted more often a second than those
of the default in the same blocks: then it makes others take its core, or waits by itself, and all calls
count.

Interruptions come in clusters: a process that computes for a second takes eight slices of one launch and
none of the next. So not their numbers are compared, but the ranks of launches within their block, and the
probability refers to the random draw of the launches in a block that were the setting's (van Elteren 1960;
the distribution is computed block by block, by convolution: Pagano, Tritchler 1983).

References:
    Ph. van Elteren: On the combination of independent two-sample tests of Wilcoxon. Bulletin of the
        International Statistical Institute 37 (1960) 351–361.
    M. Pagano, D. Tritchler: On obtaining permutation distributions in polynomial time. Journal of the
        American Statistical Association 78 (1983) 435–440.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from autotune.history.objectives import Slot, slot_of
from autotune.history.trial import INTERRUPTIONS, UNINTERRUPTED_S, Observation
from autotune.verification.sequential import ONE_IN_TWENTY

Rates = dict[Slot, dict[int, list[float]]]
"""Maps each slot and block to the interruptions per second of each launch."""


def interrupted_more(reference: Iterable[Observation], tuned: Iterable[Observation]) -> frozenset[Slot]:
    """Return the slots in which a setting is significantly more often interrupted than the reference.

    The error rate is 5 % over all slots and all looks (evaluations after a block); the look after k blocks
    has the share 1 / k (k + 1).
    """
    reference_rates, tuned_rates = _rates(reference), _rates(tuned)
    common = [slot for slot in tuned_rates if slot in reference_rates]
    blocks = len({block for slot in common for block in tuned_rates[slot]})
    rate = ONE_IN_TWENTY / max(len(common) * blocks * (blocks + 1), 1)
    return frozenset(
        slot
        for slot in common
        if any(map(any, tuned_rates[slot].values()))
        and chance(tuned_rates[slot], reference_rates[slot]) <= rate
    )


def chance(tuned: dict[int, list[float]], reference: dict[int, list[float]]) -> float:
    """Return the probability that the tuned launches have ranks as high as these by the random draw alone.

    Both arguments contain the values of launches by block; blocks without launches of one side are ignored.
    """
    distribution, observed = np.ones(1), 0
    for block, values in tuned.items():
        if reference_values := reference.get(block):
            ranks = _doubled_ranks([*values, *reference_values])
            distribution = np.convolve(distribution, _sums(tuple(sorted(ranks)), len(values)))
            observed += sum(ranks[: len(values)])
    return float(distribution[observed:].sum())


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, from 0, ties at their middle, so that all are whole numbers."""
    from scipy.stats import rankdata

    return [round(2 * rank) - 2 for rank in rankdata(values)]


@lru_cache(maxsize=4096)
def _sums(ranks: tuple[int, ...], drawn: int) -> NDArray[np.float64]:
    """Return the probability of each sum of ``drawn`` ranks drawn at random, ``(largest sum + 1,)``."""
    ways = np.zeros((drawn + 1, sum(ranks) + 1))
    ways[0, 0] = 1.0
    for rank in ranks:
        shifted = np.zeros_like(ways)
        shifted[1:, rank:] = ways[:-1, : ways.shape[1] - rank]
        ways = ways + shifted
    return np.asarray(ways[drawn] / ways[drawn].sum())


def _rates(launches: Iterable[Observation]) -> Rates:
    rates: Rates = defaultdict(lambda: defaultdict(list))
    for launch in launches:
        for estimate in launch.usable:
            seconds = estimate.extra.get(UNINTERRUPTED_S, 0.0)
            if INTERRUPTIONS in estimate.extra and seconds > 0:
                rate = estimate.extra[INTERRUPTIONS] / seconds
                rates[slot_of(estimate.cell)][launch.trial.block].append(rate)
    return rates
