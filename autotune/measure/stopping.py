"""Samples so far → what to sample next: the adaptive repetition rule of one launch.

Between steps 6 and 7 of the flow: the probe calls `next_round` on every rank, between blocks of samples. It
is a pure function of its arguments and keeps no state, so ranks that give it the same data (times as
maximum over ranks) get the same answer; a resumed launch goes on where it was. Only additions, products,
comparisons and square roots decide, which IEEE 754 rounds alike everywhere; on machines that mix processor
generations let rank 0 decide and broadcast all the same.

A *cell* is one thing to time: (collective, communicator size, message size, algorithm, segment size …).
Cells compete inside a *group*: the same collective, communicator size and message size. Cells end

- precise: the distribution-free interval of the median is within ± `half_width` of the median (samples
  count with their effective number, see `location`: on a busy machine neighbours resemble each other); it
  then gets `company` samples in each round of others;
- eliminated: surely slower than `margin` times the best of the group;
- out of time: the share of the budget that is left buys no further sample.

**Elimination.** With group size K, a cell goes when its lower bound exceeds `margin` times the smallest
upper bound of its group. The bounds here are one-sided at level a(n) = (error_rate / K) · n₀ / (n (n + 1)).
Summed over all n ≥ n₀ and all cells that is `error_rate`, so in the whole launch, however often one looks
and however blocks arrive, the best of a group is eliminated with at most that probability (samples
independent, medians constant). This is successive elimination with its error spent over sample counts.

**Shares.** The forecast cost of making a cell precise is (n (h/target)² − n) · cost, as intervals shrink
with √n. If all forecasts together fit into what is left, all get what they want. Else it is shared max-min
fair with weights min(1, (best upper bound / lower bound)²): full weight for cells that can still win, 1/100
for one ten times slower. Cheap cells take less than their share and leave the rest to the others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotune.errors import UserError
from autotune.measure.location import FloatArray, design_effect, median_ranks

IntArray: TypeAlias = NDArray[np.int64]


class CellStatus(IntEnum):
    """Where a cell stands after the samples so far. Values are written to files: only ever add."""

    ACTIVE = 0  # Gets more samples in this round.
    PRECISE = 1  # Interval within the target.
    ELIMINATED = 2  # Surely slower than the margin allows.
    SAMPLED_OUT = 3  # `max_samples` reached, interval still wider than the target.
    OUT_OF_TIME = 4  # Its share of what is left buys no sample. It may get one later, when others need less.


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """The rule's constants."""

    budget_s: float  # Time for all sampling of the launch, in seconds.
    half_width: float = 0.02  # Target: both ends of the median's interval within this fraction of the median.
    confidence: float = 0.95  # Coverage of that interval.
    margin: float = 1.5  # A cell is of interest up to this multiple of the best of its group, at least 1.
    error_rate: float = 0.05  # Accepted probability that the best of a group is eliminated, a launch.
    min_samples: int = 10  # n₀: samples before an interval is believed; a hopeless cell gets no more.
    max_samples: int = 4000  # Samples after which a cell is left as it is.
    unknown_need: float = 4  # Samples that a cell is expected to need at first, in `min_samples`.
    least_weight: float = 1e-3  # Root of the smallest weight, where a coarse clock shows 0 s for the best.
    last_part: float = 0.02  # The last part of the budget, which a single round may take whole.
    company: int = 1
    """Samples of a precise cell in each round of others: between small messages a program sends large ones.

    All of them take no longer than the others do. After them caches hold little of a transport: with
    rounds of small messages alone, UCX with segments of 64 KiB took 0.78 µs at 512 B, with company 0.89, and
    0.96 in a verification's launches.
    """

    def __post_init__(self) -> None:
        for name, ok, allowed_values in (
            ("budget_s", 0 < self.budget_s < math.inf, "above 0"),
            ("half_width", 0 < self.half_width < 1, "between 0 and 1"),
            ("confidence", 0 < self.confidence <= 0.999999, "above 0, at most 0.999999"),
            ("margin", self.margin >= 1, "at least 1"),
            ("error_rate", 0 < self.error_rate < 1, "between 0 and 1"),
            ("min_samples", self.min_samples >= 6, "at least 6: fewer have no 95 % interval"),
            ("max_samples", self.max_samples >= self.min_samples, "at least min_samples"),
        ):
            if not ok:
                raise UserError(
                    f"stopping rule with {name}={getattr(self, name)!r}", f"allowed: {allowed_values}"
                )


@dataclass(frozen=True, slots=True)
class SamplingRound:
    """State of the samples and the next step; all arrays `(n_cells,)`."""

    status: NDArray[np.int8]  # `CellStatus` of each cell.
    more: IntArray  # Samples to take of each cell before asking again; all 0 when sampling is over.
    median_s: FloatArray  # Medians in seconds; not a number without samples.
    low_s: FloatArray  # Lower ends of the medians' intervals, seconds; 0: too few samples for one.
    high_s: FloatArray  # Upper ends, in seconds; infinite where there are too few samples.

    @property
    def half_width(self) -> FloatArray:
        """Larger distance of an end of the interval from the median, as a fraction of the median."""
        width = np.maximum(self.high_s - self.median_s, self.median_s - self.low_s)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(width == 0, 0.0, width / self.median_s)  # a coarse clock shows 0 s, and surely


def next_round(
    rule: StoppingRule, samples_s: Sequence[ArrayLike], cost_s: ArrayLike, group: ArrayLike, elapsed_s: float
) -> SamplingRound:
    """Status of every cell and how many samples each gets next.

    Counts at most double a cell's samples, and a round takes at most half of the time left, so that shares
    follow what is learnt and a wrong guess of a cost cannot eat the budget.

    Args:
        rule: The rule's constants.
        samples_s: One row of times `(n,)` per cell in the order in which they were taken, possibly empty;
            seconds, above 0.
        cost_s: `(n_cells,)`, wall time of one more sample with all that belongs to it (barrier, check), for
            instance time spent / n, or of the warm-up call; not a number where unknown: such a cell gets
            one sample.
        group: `(n_cells,)`, whole numbers; cells of one number compete.
        elapsed_s: Time used so far, the same on all ranks.

    Raises:
        ValueError: Arguments of different lengths.
    """
    rows = [np.asarray(row, np.float64) for row in samples_s]
    n = np.array([row.size for row in rows], np.int64)
    cost = np.asarray(cost_s, np.float64)
    _, group_of, group_size = np.unique(np.asarray(group), return_inverse=True, return_counts=True)
    if not len(rows) == cost.size == group_of.size:
        raise ValueError(f"{len(rows)} rows of samples, {cost.size} costs, {group_of.size} groups")
    ordered, median, effective = _summary(rows, n)
    low, high = _interval(ordered, n, effective, np.full(n.size, 1 - rule.confidence))
    sure_alpha = 2 * rule.error_rate / group_size[group_of] * rule.min_samples / (n * (n + 1.0) + (n == 0))
    sure_low, sure_high = _interval(ordered, n, np.where(n < rule.min_samples, 0, effective), sure_alpha)

    state = SamplingRound(np.zeros(n.size, np.int8), np.zeros(n.size, np.int64), median, low, high)
    status, half_width = state.status, state.half_width
    status[n >= rule.max_samples] = CellStatus.SAMPLED_OUT
    status[sure_low > rule.margin * _best(sure_high, group_of)] = CellStatus.ELIMINATED
    status[(n >= rule.min_samples) & (half_width <= rule.half_width)] = CellStatus.PRECISE
    active = status == CellStatus.ACTIVE

    need = np.full(n.size, float(rule.unknown_need * rule.min_samples))
    known = (n >= rule.min_samples) & np.isfinite(half_width)
    need[known] = n[known] * (half_width[known] / rule.half_width) ** 2
    need = np.clip(np.ceil(need), np.maximum(n + 1, rule.min_samples), rule.max_samples)
    best = _best(high, group_of)
    weight = np.ones(n.size)
    slower = low > best
    weight[slower] = np.maximum(best[slower] / low[slower], rule.least_weight) ** 2

    wanted = np.where(active, np.minimum(need, np.maximum(2 * n, rule.min_samples)) - n, 0.0)
    unknown = active & ~(cost > 0)
    price = np.where(unknown, 0.0, cost)
    left = max(0.0, rule.budget_s - elapsed_s)
    share = _fair_shares(np.where(active, need - n, 0.0) * price, weight, left)
    cap = max(left / 2, min(left, rule.last_part * rule.budget_s))
    more = state.more
    more[:] = _affordable(wanted, price, share, weight, left, cap)
    more[unknown] = int(left > 0)
    status[active & (more == 0)] = CellStatus.OUT_OF_TIME
    precise, own_s = status == CellStatus.PRECISE, float(more @ price)
    if more.any() and rule.company * price[precise].sum() <= min(own_s, left - own_s):
        more[precise] = rule.company
    return state


def interleave(more: ArrayLike, block: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """A round's order: blocks of each cell spread over the whole round, so that drift hits all alike.

    Cell i's samples are cut into blocks of at most ``block``; the b-th of B blocks falls at a random place in
    the b-th of B equal parts of the round. Ranks that share the seed get the same order of (cell, samples).
    """
    places: list[tuple[float, int, int]] = []
    for cell, count in enumerate(np.asarray(more, np.int64).tolist()):
        n_blocks = -(-count // block)
        for b, jitter in enumerate(rng.random(n_blocks).tolist()):
            size = count * (b + 1) // n_blocks - count * b // n_blocks
            places.append(((b + jitter) / n_blocks, cell, size))
    return [(cell, size) for _, cell, size in sorted(places)]


def _summary(rows: list[FloatArray], n: IntArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Rows sorted and padded with infinity `(n_cells, n_max)`; medians and effective numbers `(n_cells,)`."""
    ordered = np.full((n.size, max(1, int(n.max(initial=0)))), np.inf)
    taken = np.concatenate(rows) if rows else np.empty(0)
    ordered[np.arange(ordered.shape[1]) < n[:, None]] = taken
    ordered.sort(axis=1)
    cell, some = np.arange(n.size), np.maximum(n, 1)
    median = np.where(n > 0, (ordered[cell, (some - 1) // 2] + ordered[cell, some // 2]) / 2, np.nan)
    middle = np.repeat(median, n)
    above = (taken > middle) + 0.5 * (taken == middle)
    return ordered, median, np.floor(n / design_effect(above, n)).astype(np.int64)


def _interval(
    ordered: FloatArray, n: IntArray, effective: IntArray, alpha: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Ends of the median's interval at two-sided level alpha; (0, ∞) where samples are too few for it."""
    keys = list(zip(effective.tolist(), alpha.tolist(), strict=True))
    rank = {key: _rank(*key) for key in set(keys)}
    k = np.array([rank[key] for key in keys], np.int64) * n // np.maximum(effective, 1)
    cell, some = np.arange(n.size), np.maximum(n, 1)
    low = np.where(k > 0, ordered[cell, np.maximum(k, 1) - 1], 0.0)
    high = np.where(k > 0, ordered[cell, some - np.maximum(k, 1)], np.inf)
    return low, high


def _rank(n: int, alpha: float) -> int:
    """Rank of the interval's ends; 0 where n samples have no interval at that level."""
    if not n:
        return 0
    k, coverage = median_ranks(n, alpha)
    return k if coverage >= 1 - alpha else 0


def _best(high: FloatArray, group_of: IntArray) -> FloatArray:
    """Smallest upper bound of each cell's group, `(n_cells,)`."""
    best = np.full(int(group_of.max(initial=-1)) + 1, np.inf)
    np.minimum.at(best, group_of, high)
    return np.asarray(best[group_of])


def _fair_shares(demand: FloatArray, weight: FloatArray, left: float) -> FloatArray:
    """Weighted max-min fair shares: min(demand, λ · weight) with the largest λ that `left` allows."""
    if demand.sum() <= left:
        return demand
    level = demand / weight
    order = np.argsort(level, kind="stable")
    filled = np.cumsum(demand[order])
    weight_above = weight.sum() - np.cumsum(weight[order])
    # λ is below the first cell that is not filled: (left − filled before it) / weight from it on.
    before = filled - demand[order]
    lam = (left - before) / (weight_above + weight[order])
    first = int(np.argmax(level[order] > lam))
    return np.asarray(np.minimum(demand, max(0.0, float(lam[first])) * weight))


def _affordable(
    wanted: FloatArray, price: FloatArray, share: FloatArray, weight: FloatArray, left: float, cap: float
) -> IntArray:
    """Whole samples within shares and together within cap; single ones for what rounding left over."""
    with np.errstate(invalid="ignore", divide="ignore"):
        more = np.where(price > 0, np.minimum(wanted, np.floor(share / price)), 0.0)
        within = np.floor(_fair_shares(more * price, weight, cap) / price * (1 + 1e-12))
    more = np.where(price > 0, np.minimum(more, within), 0.0)
    # A sample dearer than the cap is taken when nothing else is.
    spare = cap - float((more * price).sum()) if more.any() else left
    starved = np.flatnonzero((more == 0) & (wanted > 0) & (price > 0))
    # The weightiest first, among equals the cheapest, then by number: the same order on every rank.
    for cell in starved[np.lexsort((price[starved], -weight[starved]))]:
        if price[cell] <= spare:
            more[cell] = 1.0
            spare -= price[cell]
    return more.astype(np.int64)
