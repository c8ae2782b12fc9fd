"""Whether a recommendation really is faster than the default, on fresh launches (step 11 of the flow).

Notation: a *pair* is two neighbouring launches of one block, one of the reference ``A`` and one of the tuned
setting ``B``; ``d`` is ln t_A − ln t_B of a pair in one slot, so that d > 0 means tuned is faster and
exp(d) is the speed-up. Slots are judged one by one; launches are spent on all of them together.

Order: a block is A B B A or B A A B, drawn at random, so that a drift that is linear over a block cancels.

Error rate: the test may be looked at after each of K groups of pairs. Of the error ``alpha`` a share
f(t) = 2 − 2 Φ(z_{α/2} / √t) may be spent up to information time t (O'Brien and Fleming's boundary as a
spending function, Lan and DeMets 1983); look k spends α_k = f(t_k) − f(t_{k−1}) on an exact t interval of
level 1 − α_k. By the union bound all intervals of a slot hold together with probability 1 − α, whatever the
dependence between looks: a little conservative, right with unknown variance, no integration needed.

Location: the mean, and from five pairs on the 20 % trimmed mean with the t interval of Tukey and McLaughlin,
since a machine that others share disturbs single launches by far more than it disturbs the rest.

References:
    Tukey, McLaughlin: Less vulnerable confidence and significance procedures for location based on a single
    sample: trimming/winsorization 1. Sankhya A 25 (1963) 331–352.
    Lan, DeMets: Discrete sequential boundaries for clinical trials. Biometrika 70 (1983) 659–663.
    Jennison, Turnbull: Group Sequential Methods with Applications to Clinical Trials (2000), ch. 3 and 7.
    DerSimonian, Laird: Meta-analysis in clinical trials. Controlled Clinical Trials 7 (1986) 177–188.
    Efron, Morris: Data analysis using Stein's estimator and its generalizations. JASA 70 (1975) 311–319.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from autotune.errors import ScenarioError
from autotune.history.objectives import Slot, slot_of
from autotune.history.trial import Observation, Rule
from autotune.space import Point

PairDifferences = Mapping[Slot, float]
"""``d`` of one pair of launches in each slot that both measured."""


class SlotDecision(StrEnum):
    """What can be said about one slot."""

    STILL_BETTER = "still better"
    """Faster than the reference beyond the error rate."""
    NO_LONGER = "no longer"
    """Beyond the error rate not faster by more than ``max_loss``."""
    CANNOT_TELL = "cannot tell"
    """Neither; more launches would tell."""


@dataclass(frozen=True, slots=True)
class SequentialDesign:
    """How many launches are made and when they are looked at."""

    looks: tuple[int, ...] = (4, 6, 8)
    """Pairs after which a decision may be made, ascending and even; the last one ends the verification."""
    alpha: float = 0.05
    """Error rate of each slot over all looks, two-sided."""
    max_loss: float = 0.01
    """Differences below this share do not matter."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ScenarioError: no looks, looks that do not ascend or split a block, or a rate out of its range.
        """
        ascending = all(a < b for a, b in pairwise(self.looks))
        if not self.looks or not ascending or self.looks[0] < 2 or any(n % 2 for n in self.looks):
            raise ScenarioError(
                f"verification looks {self.looks}", "even numbers of pairs, ascending, e.g. (4, 6, 8)"
            )
        if not (0 < self.alpha < 1 and 0 <= self.max_loss < 1):
            raise ScenarioError(
                f"verification alpha={self.alpha}, max_loss={self.max_loss}",
                "needed: 0 < alpha < 1, 0 ≤ max_loss < 1",
            )

    @classmethod
    def of(cls, launches: int, alpha: float = 0.05, max_loss: float = 0.01) -> "SequentialDesign":
        """Looks at half, three quarters and all of so many launches (rounded up to whole blocks)."""
        last = max(2, 2 * math.ceil(launches / 4))
        looks = sorted({max(2, 2 * math.ceil(last * share / 2)) for share in (0.5, 0.75, 1.0)})
        return cls(tuple(looks), alpha, max_loss)

    @property
    def launches(self) -> int:
        """At most, of both sides together."""
        return 2 * self.looks[-1]

    def spent(self, look: int) -> float:
        """The error that look ``look`` (from 0) may make."""
        from scipy.stats import norm

        z = float(norm.isf(self.alpha / 2))

        def share(n_pairs: int) -> float:
            return 2.0 * float(norm.sf(z / math.sqrt(n_pairs / self.looks[-1])))

        return share(self.looks[look]) - (share(self.looks[look - 1]) if look else 0.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Reference against tuned in one slot."""

    slot: Slot
    """Where."""
    pairs: int
    """Pairs of launches behind it."""
    gain: float
    """Mean of ``d``: ln of the speed-up."""
    sem: float
    """Its standard error; NaN with a single pair."""
    low: float
    """Lower end of the interval of ``gain`` at this look."""
    high: float
    """Upper end of it."""
    decision: SlotDecision
    """What can be said."""
    shrunk: float = math.nan
    """``gain`` drawn towards the mean of all slots by as much as it is uncertain."""
    loses: bool = False
    """Whether it is slower beyond its own interval, and by more than ``max_loss`` as estimated: a single slot
    that loses rejects the whole setting. Not corrected for the number of slots, unlike ``wins``: to reject a
    setting by chance costs a gain, to keep one that is slower somewhere breaks the promise."""
    wins: bool = False
    """Whether it is faster beyond the error rate of all slots together."""


def order(n_pairs: int, rng: np.random.Generator) -> tuple[tuple[int, bool], ...]:
    """(block, whether the tuned setting runs) for each of ``2 * n_pairs`` launches."""
    launches = []
    for block in range(math.ceil(n_pairs / 2)):
        first = bool(rng.integers(2))
        launches += [(block, tuned) for tuned in (first, not first, not first, first)]
    return tuple(launches[: 2 * n_pairs])


def pairs(reference: Sequence[Observation], tuned: Sequence[Observation]) -> tuple[PairDifferences, ...]:
    """``d`` for each pair: the k-th launch of the reference in a block against the k-th tuned one.

    In A B B A and in B A A B alike these are neighbours. A launch that failed takes its pair with it.
    """
    differences = []
    sides = [_by_block(side) for side in (reference, tuned)]
    for block, ours in sides[0].items():
        for mine, theirs in zip(ours, sides[1].get(block, ()), strict=False):
            before, after = _logs(mine), _logs(theirs)
            difference = {slot: before[slot] - after[slot] for slot in before if slot in after}
            if difference:
                differences.append(difference)
    return tuple(differences)


def compare(differences: Sequence[PairDifferences], design: SequentialDesign) -> tuple[Comparison, ...]:
    """Every slot judged on all pairs so far.

    A look is due when as many pairs are there as ``design.looks`` names; between looks the interval of the
    last one still holds its level for its own number of pairs only, so it is computed on that many.
    """
    due = [k for k, n in enumerate(design.looks) if n <= len(differences)]
    look = due[-1] if due else 0
    counted = differences[: design.looks[look]] if due else differences
    level = design.spent(look)
    by_slot: dict[Slot, list[float]] = defaultdict(list)
    for pair in counted:
        for slot, difference in pair.items():
            by_slot[slot].append(difference)
    judged = [
        _judge(slot, np.asarray(d), level, design.max_loss, len(by_slot))
        for slot, d in sorted(by_slot.items())
    ]
    return _shrunk(judged)


def decided(judged: Iterable[Comparison], at_stake: Collection[Slot] | None = None) -> bool:
    """Whether more launches could change nothing.

    Args:
        judged: Every slot.
        at_stake: Slots in which a rule could be dropped; elsewhere only a loss would change anything. None:
            all of them.
    """
    return all(
        c.decision is not SlotDecision.CANNOT_TELL
        or (at_stake is not None and c.slot not in at_stake and c.gain >= 0.0)
        for c in judged
    )


def overall(
    differences: Sequence[PairDifferences], slots: Iterable[Slot] | None = None, alpha: float = 0.05
) -> Comparison:
    """The geometric mean of the speed-up over slots, with an interval from the spread between pairs.

    Args:
        differences: All pairs.
        slots: Which slots count; None: those that every pair has.
        alpha: One minus the level of the interval.
    """
    common = set(slots) if slots is not None else set.intersection(*(set(pair) for pair in differences))
    means = np.asarray([np.mean([pair[s] for s in common]) for pair in differences if common <= set(pair)])
    judged = _judge(("all", 0, 0), means, alpha, max_loss=0.0)
    return replace(judged, shrunk=judged.gain)


def kept_rules(
    rules: Sequence[Rule],
    judged: Iterable[Comparison],
    stays: Collection[Slot] = (),
    one_row: Collection[str] = (),
) -> tuple[Rule, ...]:
    """The rules that hold: at every size that is not better with confidence the stack decides again.

    Between a size that holds and one that does not, the boundary lies where the line through both gains over
    ln size crosses zero; where it does not cross, the earlier one holds up to the later size.

    Args:
        rules: The per-size table.
        judged: The slots, compared with the stack's own defaults; a table without any stays as it is.
        stays: Slots whose rule stays although it is not better, because without it, in the same job-wide
            setting, they would be slower.
        one_row: Collectives for which the stack's files cannot tell sizes apart: their rule holds as a whole,
            if it is better anywhere and loses nowhere.
    """
    tables: dict[tuple[str, int], list[Rule]] = defaultdict(list)
    for rule in sorted(rules, key=lambda r: (r.collective, r.comm_size, r.min_bytes)):
        tables[rule.collective, rule.comm_size].append(rule)
    seen: dict[tuple[str, int], list[tuple[int, float, bool]]] = defaultdict(list)
    losing: set[tuple[str, int]] = set()
    for c in sorted(judged, key=lambda c: c.slot):
        collective, comm_size, size = c.slot
        holds = c.decision is SlotDecision.STILL_BETTER or c.slot in stays
        seen[collective, comm_size].append((size, c.gain, holds))
        losing |= {(collective, comm_size)} if c.loses else set()
    for (collective, comm_size), sizes in seen.items():
        if collective in one_row:
            whole = (collective, comm_size) not in losing and any(holds for _, _, holds in sizes)
            seen[collective, comm_size] = [(size, gain, whole) for size, gain, _ in sizes]
    return tuple(
        rule
        for key, table in tables.items()
        for rule in _founded(_clipped(table, _switches(seen[key])), [size for size, _, _ in seen[key]])
    )


def _switches(sizes: Sequence[tuple[int, float, bool]]) -> list[tuple[int, bool]]:
    """(from this size on, whether the rules hold), the first from 0, out of (size, gain, holds)."""
    switches = [(0, not sizes or sizes[0][2])]
    for (low, before, held), (high, after, holds) in pairwise(sizes):
        if held != holds:
            share = before / (before - after) if low > 0 and before * after < 0 else 1.0
            bound = round(math.exp((1 - share) * math.log(max(low, 1)) + share * math.log(high)))
            switches.append((min(max(bound, low + 1), high), holds))
    return switches


def _clipped(table: Sequence[Rule], switches: Sequence[tuple[int, bool]]) -> list[Rule]:
    """A table with the empty choice wherever its rules do not hold."""
    clipped: list[Rule] = []
    for bound in sorted({rule.min_bytes for rule in table} | {start for start, _ in switches}):
        holds = [held for start, held in switches if start <= bound][-1]
        rule = [rule for rule in table if rule.min_bytes <= bound][-1]
        choice = rule.choice if holds else Point()
        if not clipped or clipped[-1].choice != choice:
            clipped.append(replace(rule, min_bytes=bound, choice=choice))
    return clipped


def _founded(table: Sequence[Rule], sizes: Sequence[int]) -> list[Rule]:
    """A table without choices that no measured size reaches: the row before goes on there.

    Such a row is left where a choice began between two sizes and did not hold at the one it was meant for.
    """
    kept: list[Rule] = []
    for rule, after in zip(table, [*table[1:], None], strict=True):
        reached = any(rule.min_bytes <= s and (after is None or s < after.min_bytes) for s in sizes)
        if kept and ((rule.choice and sizes and not reached) or kept[-1].choice == rule.choice):
            continue
        kept.append(rule)
    return kept


def _judge(
    slot: Slot, differences: NDArray[np.float64], level: float, max_loss: float, n_slots: int = 1
) -> Comparison:
    """One slot by a t interval of level ``1 - level``; one pair alone says nothing.

    What a single slot may gain for all ``n_slots`` is asked of the interval of level 1 − level / n_slots.
    """
    from scipy.stats import t

    gain, sem, freedom = trimmed(differences)
    reach = float(t.isf(level / 2, freedom)) * sem if freedom else math.inf
    low, high = gain - reach, gain + reach
    if low > 0.0:
        decision = SlotDecision.STILL_BETTER
    elif high <= math.log1p(max_loss):
        decision = SlotDecision.NO_LONGER
    else:
        decision = SlotDecision.CANNOT_TELL
    wide = float(t.isf(level / (2 * n_slots), freedom)) * sem if freedom else math.inf
    loses = high < 0.0 and gain < math.log1p(-max_loss)
    return Comparison(
        slot, len(differences), gain, sem, low, high, decision, loses=loses, wins=gain - wide > 0.0
    )


def trimmed(values: NDArray[np.float64], share: float = 0.2) -> tuple[float, float, int]:
    """The trimmed mean, its standard error, and the degrees of freedom of its t interval.

    With g = ⌊share · n⌋ values cut off at each end and h = n − 2g left, the standard error is
    sqrt(SS_w / (h (h − 1))), SS_w the sum of squared deviations of the winsorised values, and there are h − 1
    degrees of freedom: for g = 0 the ordinary mean and its t interval.

    Args:
        values: Shape ``(n,)``.
        share: Cut off at each end.
    """
    ordered, n = np.sort(values), len(values)
    cut = math.floor(share * n)
    left = n - 2 * cut
    location = float(np.mean(ordered[cut : n - cut]))
    if left < 2:
        return location, math.nan, 0
    winsorised = np.clip(ordered, ordered[cut], ordered[n - cut - 1])
    squares = float(np.sum((winsorised - winsorised.mean()) ** 2))
    return location, math.sqrt(squares / (left * (left - 1))), left - 1


def _shrunk(judged: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """With each gain drawn to the weighted mean of all: g̃ = μ + (g − μ) τ² / (τ² + sem²).

    Slots were kept because they looked good; drawn to their mean by as much as they are uncertain, the best
    of them no longer stand out by luck (Efron and Morris 1975). τ², how much the true gains differ, is the
    moment estimate of DerSimonian and Laird (1986), and μ has weights 1 / (τ² + sem²).
    """
    gains = np.asarray([c.gain for c in judged])
    errors = np.asarray([c.sem for c in judged]) ** 2
    if len(judged) < 3 or not np.isfinite(errors).all() or not (errors > 0).all():
        return tuple(replace(c, shrunk=c.gain) for c in judged)
    weights = 1.0 / errors
    heterogeneity = float(weights @ (gains - np.average(gains, weights=weights)) ** 2)
    scale = float(weights.sum() - (weights**2).sum() / weights.sum())
    spread = max((heterogeneity - (len(judged) - 1)) / scale, 0.0)
    centre = float(np.average(gains, weights=1.0 / (spread + errors)))
    drawn = centre + (gains - centre) * spread / (spread + errors)
    return tuple(replace(c, shrunk=float(g)) for c, g in zip(judged, drawn, strict=True))


def _by_block(observations: Iterable[Observation]) -> dict[int, list[Observation]]:
    blocks: dict[int, list[Observation]] = defaultdict(list)
    for observation in sorted(observations, key=lambda o: o.trial.number):
        blocks[observation.trial.block].append(observation)
    return blocks


def _logs(observation: Observation) -> dict[Slot, float]:
    return {slot_of(e.cell): math.log(e.median_s) for e in observation.usable}
