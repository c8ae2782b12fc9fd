"""Find calls that other work interrupted, and settings that are interrupted more than the default.

Another process that needs the core of a rank takes it for a time slice of the scheduler, 0.75 ms and more on
Linux, whatever call is under way. In all launches of a heat (launches alive at once) such interruptions are
equally frequent per second of measured time, and they make each setting slower by the same factor. But in a
launch of short calls a single interruption can count more in the mean than all other calls together. So calls
that took ``measure.location.SLICE_S`` more than the median are left out of the means on both sides. If
launches of the setting are interrupted more often per second than launches of the default in the same blocks,
all calls count: then the setting makes others take its core, or waits by itself.

Interruptions come in clusters: a process that computes for a second takes eight slices of one launch and
none of the next. So launches are not compared by their numbers of interruptions, but by their ranks within
the block. The probability of the setting's ranks is taken over the orders in which the launches of a block
could have been drawn (van Elteren 1960); its distribution is computed block by block, by convolution (Pagano,
Tritchler 1983).

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
"""Maps each slot (collective, communicator size, message size) and block to the interruptions per second of
each launch."""


def interrupted_more(reference: Iterable[Observation], tuned: Iterable[Observation]) -> frozenset[Slot]:
    """Return the slots in which a setting is significantly more often interrupted than the reference.

    The error rate is 5 % over all slots and all looks (evaluations after a block); the look after k blocks
    may spend the share 1 / (k (k + 1)) of it.
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
    """Return the probability that the tuned launches have ranks at least as high by the random draw alone.

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
    """Return twice the rank of each value, from 0; doubled, the mean ranks of ties are whole numbers."""
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
