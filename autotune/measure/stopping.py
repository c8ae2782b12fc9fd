"""Decides, from the samples that a launch has taken so far, which cells it samples next and how often.

The probe (step 6 of the data flow) calls `next_round` between blocks of samples. `next_round` is a pure
function of its arguments. So ranks that pass the same data (times as maximum over ranks) get the same answer,
and a resumed launch continues where it was. Its decisions need only additions, products, comparisons and
square roots, which IEEE 754 rounds in the same way everywhere. On machines with processors of several
generations, rank 0 should decide and broadcast the decision all the same.

A *cell* is one call to time: (collective, communicator size, message size, algorithm, segment size …). Cells
compete inside a *group*: the same collective, communicator size and message size. Sampling of a cell ends
when the cell is

- precise: the distribution-free interval of the median is within ± `half_width` of the median (with the
  effective number of samples, see `location`, since neighbours are correlated on a busy machine); the cell
  then gets `company` samples in each round of the other cells;
- eliminated: it is significantly slower than `margin` times the best cell of the group;
- out of time: its share of the remaining budget is less than the time of one sample.

**Elimination.** With group size K, a cell is eliminated when the lower bound of its median exceeds `margin`
times the smallest upper bound in its group. With n samples, these bounds are one-sided at the level a(n) =
(error_rate / K) · n₀ / (n (n + 1)). The sum of a(n) over all n ≥ n₀ and all cells is `error_rate`. So in the
whole launch, however often the rule is applied and however blocks are ordered, the best cell of a group is
eliminated with at most that probability, if samples are independent and medians constant. This is successive
elimination with its error probability distributed over sample counts.

**Shares.** The forecast time for making a cell precise is (n (h/target)² − n) · cost, as intervals shrink
with √n; here n is the number of samples so far, h the half-width of the interval, target is `half_width`, and
cost is the time of one sample. If all forecasts together fit into the remaining time, every cell gets its
forecast. Otherwise the time is shared max-min fair with weights min(1, (best upper bound / lower bound)²):
full weight for cells that may still be the best, 1/100 for a cell that is ten times slower. Cells with short
calls need less than their share and leave the remainder to the others.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeVar

from autotune.errors import UserError
from autotune.measure.rows import Row

T = TypeVar("T")


MARGIN = 1.5  # Cells up to this multiple of the best median of their group are measured precisely.


class CellStatus(IntEnum):
    """Status of a cell after the samples so far. Values are written to files: never change one."""

    ACTIVE = 0  # The cell gets more samples in this round.
    PRECISE = 1  # The median's interval is within the target.
    ELIMINATED = 2  # The cell is significantly slower than the margin allows.
    SAMPLED_OUT = 3  # `max_samples` is reached, and the interval is still wider than the target.
    OUT_OF_TIME = 4  # The cell's share of the time is less than a sample takes; a later share may be larger.


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """Constants of the stopping rule."""

    budget_s: float  # Time for all sampling of the launch, in seconds.
    half_width: float = 0.02  # Target: both ends of the median's interval within this fraction of the median.
    confidence: float = 0.95  # Coverage of the median's interval.
    margin: float = MARGIN  # Cells slower than this multiple of the best median are eliminated; at least 1.
    error_rate: float = 0.05  # Accepted probability, per launch, that the best of a group is eliminated.
    min_samples: int = 10  # n₀: samples that every cell gets before its interval is used.
    max_samples: int = 4000  # Number of samples after which a cell gets no more, whether precise or not.
    unknown_need: float = 4
    """Samples that a cell without an interval is assumed to need, in multiples of `min_samples`."""
    least_weight: float = 1e-3
    """Square root of the smallest weight of a cell, used if the best cell takes 0 s by a coarse clock."""
    last_part: float = 0.02  # When only this share of the budget is left, a single round may use all of it.
    company: int = 1
    """Number of samples that a precise cell gets in each round of the other cells.

    Programs send large messages between small ones, so precise cells are sampled further as long as their
    samples take no more time than those of the other cells. Without these samples a transport's data would
    stay in the caches, and calls with small messages would look too fast: UCX with segments of 64 KiB took
    0.78 µs at 512 B in rounds of small messages alone, 0.89 µs with the further samples, and 0.96 µs in a
    verification's launches.
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
    """A decision how often each cell is sampled in the next round; tuples have one value for each cell."""

    status: tuple[CellStatus, ...]  # Status of each cell.
    next_samples: tuple[int, ...]  # Samples to take of each cell before the next decision; 0 at the end.
    half_width: tuple[float, ...]
    """Larger distance of an end of the median's interval from the median, as a fraction of the median.

    Not a number without samples; infinite if there are too few samples for an interval."""


class Random(Protocol):
    """A source of random numbers."""

    def random(self) -> float:
        """Return the next number, uniform in [0, 1)."""


def next_round(
    rule: StoppingRule,
    rows: Sequence[Row],
    cost_s: Sequence[float],
    group: Sequence[Hashable],
    elapsed_s: float,
) -> SamplingRound:
    """Return the status of every cell and how many samples each cell gets next.

    A round at most doubles a cell's samples, and takes at most half of the remaining time. So the shares of
    later rounds follow from more samples, and a wrong guess of a sample's cost cannot use up the budget.

    Args:
        rule: The rule's constants.
        rows: The samples of each cell, possibly none.
        cost_s: Wall time in seconds of one more sample of each cell, including barrier and check, such as the
            time spent so far divided by the number of samples, or the time of the warm-up call. A cell whose
            cost is not a number gets one sample.
        group: The group of each cell; cells of one group compete.
        elapsed_s: Time used so far in seconds, the same on all ranks.

    Raises:
        ValueError: If the arguments have different lengths.
    """
    if not len(rows) == len(cost_s) == len(group):
        raise ValueError(f"{len(rows)} rows of samples, {len(cost_s)} costs, {len(group)} groups")
    n, cells = [len(row) for row in rows], range(len(rows))
    ends = [row.interval_s(row.effective, 1 - rule.confidence) for row in rows]
    half_width = tuple(map(_half_width, rows, ends))
    status = _statuses(rule, rows, half_width, group)
    active = [state is CellStatus.ACTIVE for state in status]

    need = [_need(rule, n[i], half_width[i]) for i in cells]
    best = _best([high for _, high in ends], group)
    weight = [
        max(best[i] / low, rule.least_weight) ** 2 if low > best[i] else 1.0
        for i, (low, _) in enumerate(ends)
    ]
    demand = [min(need[i], max(2 * n[i], rule.min_samples)) - n[i] if active[i] else 0 for i in cells]
    unknown_cost = [active[i] and not cost_s[i] > 0 for i in cells]
    price_s = [0.0 if unknown_cost[i] else cost_s[i] for i in cells]
    remaining_s = max(0.0, rule.budget_s - elapsed_s)
    share_s = _fair_shares(
        [(need[i] - n[i]) * price_s[i] if active[i] else 0.0 for i in cells], weight, remaining_s
    )
    cap_s = max(remaining_s / 2, min(remaining_s, rule.last_part * rule.budget_s))
    next_samples = _affordable(demand, price_s, share_s, weight, remaining_s, cap_s)
    for i in cells:
        if unknown_cost[i]:
            next_samples[i] = int(remaining_s > 0)
        if active[i] and not next_samples[i]:
            status[i] = CellStatus.OUT_OF_TIME
    precise = [i for i in cells if status[i] is CellStatus.PRECISE and n[i] < rule.max_samples]
    round_s = sum(next_samples[i] * price_s[i] for i in cells)
    if any(next_samples) and rule.company * sum(price_s[i] for i in precise) <= min(
        round_s, remaining_s - round_s
    ):
        for i in precise:
            next_samples[i] = rule.company
    return SamplingRound(tuple(status), tuple(next_samples), half_width)


def interleave(next_samples: Sequence[int], block: int, rng: Random) -> list[tuple[int, int]]:
    """Return a round's blocks (cell, number of samples) in an order that spreads those of each cell evenly.

    Since the blocks are spread evenly, a drift of the machine's speed affects all cells in the same way. A
    cell's samples are cut into blocks of at most ``block``. The b-th of B blocks is at a random place in the
    b-th of B equal parts of the round. Ranks with the same random numbers get the same order.

    Args:
        next_samples: Number of samples of each cell.
        block: Largest number of samples in a block.
        rng: Random numbers.
    """
    places: list[tuple[float, int, int]] = []
    for cell, count in enumerate(next_samples):
        n_blocks = -(-count // block)
        for b in range(n_blocks):
            size = count * (b + 1) // n_blocks - count * b // n_blocks
            places.append(((b + rng.random()) / n_blocks, cell, size))
    return [(cell, size) for _, cell, size in sorted(places)]


def shuffled(items: Sequence[T], rng: Random) -> list[T]:
    """Return the items in a random order, every order being equally likely."""
    keys = sorted((rng.random(), place) for place in range(len(items)))
    return [items[place] for _, place in keys]


def _half_width(row: Row, ends: tuple[float, float]) -> float:
    """Return the larger distance of an end of the interval from the median, relative to the median."""
    low, high = ends
    width = max(high - row.median_s, row.median_s - low)
    return width / row.median_s if width else 0.0  # with a coarse clock every sample may be 0 s


def _statuses(
    rule: StoppingRule, rows: Sequence[Row], half_width: Sequence[float], group: Sequence[Hashable]
) -> list[CellStatus]:
    """Return the status of each cell regardless of the time; `next_round` changes some to `OUT_OF_TIME`."""
    size = Counter(group)
    bounds = []
    for row, own_group in zip(rows, group, strict=True):
        n = len(row)
        alpha = 2 * rule.error_rate / size[own_group] * rule.min_samples / (n * (n + 1.0) or 1.0)
        bounds.append(row.interval_s(row.effective if n >= rule.min_samples else 0, alpha))
    best_bounds = _best([high for _, high in bounds], group)
    status = []
    for row, width, (low, _), best_s in zip(rows, half_width, bounds, best_bounds, strict=True):
        if len(row) >= rule.min_samples and width <= rule.half_width:
            status.append(CellStatus.PRECISE)
        elif low > rule.margin * best_s:
            status.append(CellStatus.ELIMINATED)
        else:
            status.append(CellStatus.SAMPLED_OUT if len(row) >= rule.max_samples else CellStatus.ACTIVE)
    return status


def _need(rule: StoppingRule, n: int, half_width: float) -> int:
    """Return the number of samples with which a cell is expected to be precise; intervals shrink with √n."""
    need = float(rule.unknown_need * rule.min_samples)
    if n >= rule.min_samples and math.isfinite(half_width):
        need = n * (half_width / rule.half_width) ** 2
    return min(max(math.ceil(need), n + 1, rule.min_samples), rule.max_samples)


def _best(high: Sequence[float], group: Sequence[Hashable]) -> list[float]:
    """Return for each cell the smallest upper bound in its group."""
    smallest: dict[Hashable, float] = defaultdict(lambda: math.inf)
    for own_group, end in zip(group, high, strict=True):
        smallest[own_group] = min(smallest[own_group], end)
    return [smallest[own_group] for own_group in group]


def _fair_shares(demand: Sequence[float], weight: Sequence[float], total: float) -> list[float]:
    """Return weighted max-min fair shares: min(demand, λ · weight) with the largest λ that fits ``total``."""
    if sum(demand) <= total:
        return list(demand)
    remaining_weight, level = sum(weight), 0.0
    for cell in sorted(range(len(demand)), key=lambda i: demand[i] / weight[i]):
        # λ follows from the first cell whose demand is not met: the part of the total that the cells before
        # this cell leave, divided by the weights of this cell and of all cells after it.
        level = max(0.0, total / remaining_weight)
        if demand[cell] / weight[cell] > level:
            break
        total -= demand[cell]
        remaining_weight -= weight[cell]
    return [min(d, level * w) for d, w in zip(demand, weight, strict=True)]


def _affordable(
    demand: Sequence[int],
    price_s: Sequence[float],
    share_s: Sequence[float],
    weight: Sequence[float],
    remaining_s: float,
    cap_s: float,
) -> list[int]:
    """Return the number of samples of each cell, within its share and all together within the cap.

    Time that remains after rounding down is used for single samples of cells that would get none.

    Args:
        demand: Number of samples that each cell should get.
        price_s: Time of a sample of each cell, in seconds.
        share_s: Each cell's share of the time, in seconds.
        weight: Weight of each cell.
        remaining_s: Remaining time of the launch, in seconds.
        cap_s: Largest time of the round, in seconds.
    """
    cells = range(len(demand))
    counts = [min(demand[i], math.floor(share_s[i] / price_s[i])) if price_s[i] > 0 else 0 for i in cells]
    capped_s = _fair_shares([counts[i] * price_s[i] if counts[i] else 0.0 for i in cells], weight, cap_s)
    counts = [
        min(counts[i], math.floor(capped_s[i] / price_s[i] * (1 + 1e-12))) if counts[i] else 0 for i in cells
    ]
    # A sample that takes longer than the cap is allowed only if no other sample is taken.
    spare_s = cap_s - sum(counts[i] * price_s[i] for i in cells if counts[i]) if any(counts) else remaining_s
    # The order by falling weight, then rising cost, then index is the same on every rank.
    for i in sorted(cells, key=lambda i: (-weight[i], price_s[i])):
        if not counts[i] and demand[i] and 0 < price_s[i] <= spare_s:
            counts[i] = 1
            spare_s -= price_s[i]
    return counts
