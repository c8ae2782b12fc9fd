"""Whether one setting is faster or slower than another, slot by slot, on fresh launches (step 11).

All follows from the evidence E of the order of launches (see ``evidence``), and from the probability that the
comparison may spend, alpha:

- of one slot alone: ``low … high`` excludes more and less with alpha / 2 each. By it rules are kept or
  dropped.
- of all together, gains and losses with alpha / 2 each: the setting ``gains`` where the mean of E on the
  whole and of the mean of E over the slots reaches 2 / alpha, ``wins`` in a slot where its share of that mean
  alone does, ``loses`` in one where its share of the mean of the evidence for losses does. So of a comparison
  without any difference anything is claimed with a probability of at most alpha, whatever the dependence
  between slots, and whenever one looks.
- that a slot is slower by no more than ``margin`` (non-inferiority): what a program waits for is the plain
  mean of its calls, slow calls and slow launches included. So what excludes it is an interval of the ratio of
  the means over launches of the means over calls (``mean_ratio``), and one of the means of the launches'
  locations, with ``bound_alpha`` each, each launch over the median of the reference in its block and stratum.
  ``at_least`` is the lower of both.
  Nothing is divided by the number of slots: the claim is wrong only if one slot is that much slower, and the
  test of that slot must have missed it (intersection-union, Berger 1982).

``doubtful`` is a slot that was seen slower by more than ``max_loss``, where the statistic of a loss of just
``max_loss`` is below its mean over the drawable orders by more than some slot does by chance in two
comparisons of five: it is no claim, but a doubtful setting is not exported.

Slots in which both sides make the same calls win or lose together: of those only the overhead can differ, so
their mean is one slot.

References:
    Berger: Multiparameter hypothesis testing and acceptance sampling. Technometrics 24 (1982) 295–300.
    DerSimonian, Laird: Meta-analysis in clinical trials. Controlled Clinical Trials 7 (1986) 177–188.
    Efron, Morris: Data analysis using Stein's estimator and its generalizations. JASA 70 (1975) 311–319.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np

from autotune.history.objectives import Slot
from autotune.verification import evidence, mean_ratio
from autotune.verification.blocks import Block
from autotune.verification.evidence import Drawn, Floats
from autotune.verification.sequential import DOUBT, SequentialDesign

WHOLE: Slot = ("all", 0, 0)
"""The mean over slots."""
_REMEMBERED = 512
"""Comparisons: those of earlier launches are asked for with each that follows."""


class SlotDecision(StrEnum):
    """Decision on one slot."""

    STILL_BETTER = "still better"
    """Faster than the reference beyond the error rate, and its mean time surely not slower by ``margin``."""
    NO_LONGER = "no longer"  # Beyond the error rate not faster by more than ``max_loss``.
    INCONCLUSIVE = "inconclusive"  # Neither; more launches may be conclusive.
    SAME_CALLS = "same calls"
    """Both sides do the same there; only the overhead of all such slots together is tested."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Reference against tuned in one slot."""

    slot: Slot  # Where.
    launches: int  # Launches of the tuned side behind it.
    gain: float  # Ln of the speed-up.
    sem: float  # Its standard error; NaN where one launch alone of either side is known.
    low: float  # Lower end of the interval of this slot alone.
    high: float  # Upper end of it.
    decision: SlotDecision  # Decision on this slot alone.
    shrunk: float = math.nan  # ``gain`` drawn towards the mean of all slots by as much as it is uncertain.
    loses: bool = False
    """Whether it is slower by more than ``max_loss``, beyond the error rate of all slots together."""
    wins: bool = False  # Whether it is faster, beyond the error rate of all slots together.
    doubtful: bool = False
    """Whether it was seen slower, by more than ``max_loss`` and than some slot is in two of five."""
    at_least: float = -math.inf  # Its lower bound, one-sided.
    mean_sem: float = math.nan  # Standard error of ln of the ratio of mean times, on which the bound rests.
    mean_gain: float = math.nan
    """Ln of the ratio of mean times, of the mean calls or the locations of launches, the lower of both."""

    @property
    def overhead(self) -> bool:
        """Whether both sides make the same calls there, so that only the overhead can differ."""
        return self.decision is SlotDecision.SAME_CALLS


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims on all slots, without the bounds that take longer."""

    gains: bool  # Whether the setting is faster, on the whole or somewhere, beyond the error rate.
    loses: frozenset[Slot]  # Where it is slower by more than ``max_loss``, beyond it.
    doubtful: frozenset[Slot]  # Where it was seen slower by more than ``max_loss``.
    open: frozenset[Slot]  # Where a loss of ``margin`` is not excluded.
    wins: frozenset[Slot]  # Where it is faster, beyond the error rate of all slots together.


@lru_cache(maxsize=_REMEMBERED)
def claims(
    blocks: tuple[Block, ...], design: SequentialDesign, same: frozenset[Slot] = frozenset()
) -> Claims:
    """The claims of launches in whole blocks; ``same``: slots in which both make the same calls."""
    from scipy.special import ndtri

    slots, drawn = _drawn(blocks, same)
    if not slots:
        return Claims(False, frozenset(), frozenset(), frozenset(), frozenset())
    gain, limit = evidence.estimate(drawn), math.log(2 / design.alpha)
    each, against = evidence.log_evidence(drawn), evidence.log_evidence(drawn, sign=-1.0)
    differing = [i for i, slot in enumerate(slots) if slot != WHOLE]
    share = math.log(max(len(differing), 1))
    whole = float(evidence.log_evidence(_averaged(drawn, differing))[0]) if differing else 0.0
    parts = [whole, *(each[differing] - share)]
    least = gain < design.least
    lost = least & (against - math.log(len(slots)) >= limit)
    below = evidence.deviation(drawn, np.full(len(slots), design.least)) < float(ndtri(DOUBT / len(slots)))
    excluded = _of_means(drawn, _drawn(blocks, same, means=True)[1], design)[2] > design.hidden
    wins = each - share - math.log(2) >= limit

    def where(which: np.ndarray) -> frozenset[Slot]:
        chosen = {slot for slot, chosen_one in zip(slots, which, strict=True) if chosen_one}
        return frozenset((chosen - {WHOLE}) | (set(same) if WHOLE in chosen else set()))

    return Claims(
        math.log(sum(map(math.exp, np.array(parts) - max(parts)))) + max(parts) - math.log(2) >= limit,
        where(lost),
        where(least & below) - set(same),
        where(~excluded),
        where(wins) - set(same),
    )


@lru_cache(maxsize=_REMEMBERED)
def compare(
    blocks: tuple[Block, ...], design: SequentialDesign, same: frozenset[Slot] = frozenset()
) -> tuple[Comparison, ...]:
    """Every slot that both sides have, judged on these launches with its bounds; as ``claims`` takes them."""
    claimed = claims(blocks, design, same)
    slots = _slots(blocks)
    drawn, calls = (_arrays(blocks, slots, means) for means in (False, True))
    if not slots:
        return ()
    gain = evidence.estimate(drawn)
    low, high = (evidence.bound(drawn, design.alpha / 2, sign) for sign in (1.0, -1.0))
    mean_gain, mean_sem, bounds = _of_means(drawn, calls, design)
    at_least = dict(zip(slots, bounds, strict=True))
    if together := set(same) & set(slots):
        chosen = [i for i, slot in enumerate(slots) if slot in together]
        *_, whole = _of_means(_averaged(drawn, chosen), _averaged(calls, chosen), design)
        at_least |= dict.fromkeys(together, float(whole[0]))
    sem, counts = _errors(drawn, gain), _launches(drawn)
    judged = [
        Comparison(
            slot,
            int(counts[i]),
            float(gain[i]),
            float(sem[i]),
            float(low[i]),
            float(high[i]),
            SlotDecision.SAME_CALLS
            if slot in same
            else _decision(low[i], high[i], design, at_least[slot] > design.hidden),
            float(gain[i]),
            slot in claimed.loses,
            slot in claimed.wins,
            slot in claimed.doubtful,
            float(at_least[slot]),
            float(mean_sem[i]),
            float(mean_gain[i]),
        )
        for i, slot in enumerate(slots)
        if math.isfinite(gain[i])
    ]
    return _shrunk(judged)


def decided(judged: Iterable[Comparison]) -> bool:
    """Whether more launches could change nothing about any slot."""
    return all(c.decision is not SlotDecision.INCONCLUSIVE for c in judged)


@lru_cache(maxsize=_REMEMBERED)
def overall(
    blocks: tuple[Block, ...], slots: frozenset[Slot] | None = None, alpha: float = 0.05
) -> Comparison:
    """The mean gain over slots, by default those that all working launches have, at an error rate."""
    worked = [{slot for slot, _ in one} for block in blocks for one in block.logs if one]
    common = set(slots) if slots is not None else set.intersection(*worked) if worked else set()
    drawn = _averaged(_arrays(blocks, sorted(common)), range(len(common))) if common else []
    if not common or not np.isfinite(gain := float(evidence.estimate(drawn)[0])):
        return Comparison(WHOLE, 0, 0.0, math.nan, -math.inf, math.inf, SlotDecision.INCONCLUSIVE)
    low, high = (float(evidence.bound(drawn, alpha / 2, sign)[0]) for sign in (1.0, -1.0))
    sem = float(_errors(drawn, np.array([gain]))[0])
    said = _decision(low, high, SequentialDesign(max_loss=0.0))
    return Comparison(WHOLE, int(_launches(drawn)[0]), gain, sem, low, high, said, gain)


def launches_for(comparison: Comparison, to: float, alpha: float) -> float:
    """About how many launches of both sides would show that a slot gains more than ``to``.

    If it is one standard error better than seen, but no faster than the reference where ``to`` is a loss. The
    evidence of n launches that lie σ apart, with an effect d, grows as n d² / (8 σ²) to first order (that of
    the normal distribution at its best λ, of which the mean over λ has its share). Infinite where the slot
    is below.
    """
    if not math.isfinite(comparison.sem) or comparison.launches < 2:
        return 2.0 * comparison.launches
    better = comparison.gain + comparison.sem
    distance = (min(better, 0.0) if to < 0.0 else better) - to
    if not distance > 0.0:
        return math.inf
    variance = comparison.sem**2 * comparison.launches / 2
    return 8 * variance * math.log(len(evidence.STRENGTHS) / alpha) / distance**2


def _decision(low: float, high: float, design: SequentialDesign, safe: bool = True) -> SlotDecision:
    """``safe``: its bound excludes a loss, which a fast setting with a few very slow launches may have."""
    if low > 0.0:
        return SlotDecision.STILL_BETTER if safe else SlotDecision.INCONCLUSIVE
    return SlotDecision.NO_LONGER if high <= math.log1p(design.max_loss) else SlotDecision.INCONCLUSIVE


def _slots(blocks: Iterable[Block]) -> list[Slot]:
    return sorted(frozenset().union(*(block.slots for block in blocks)))


def _arrays(blocks: Iterable[Block], slots: Sequence[Slot], means: bool = False) -> list[Drawn]:
    found = []
    for block in blocks:
        each = list(map(dict, (means and block.means) or block.logs))
        y = np.array([[one.get(slot, math.nan) for slot in slots] for one in each], dtype=float)
        found.append(Drawn(y, np.array(block.tuned, dtype=bool), np.array(block.states, dtype=int)))
    return found


def _drawn(
    blocks: Sequence[Block], same: Collection[Slot], means: bool = False
) -> tuple[list[Slot], list[Drawn]]:
    """Slots that are tested, those of the same calls as one, and the launches in them, or their means."""
    slots = _slots(blocks)
    differing, alike = [s for s in slots if s not in same], [s for s in slots if s in same]
    drawn = _arrays(blocks, differing, means)
    if not alike:
        return differing, drawn
    mean = _averaged(_arrays(blocks, alike, means), range(len(alike)))
    both = zip(drawn, mean, strict=True)
    return [*differing, WHOLE], [replace(d, y=np.hstack([d.y, m.y])) for d, m in both]


def _averaged(blocks: Iterable[Drawn], columns: Iterable[int]) -> list[Drawn]:
    """The mean over some slots of each launch, as far as it has them all."""
    chosen = list(columns)
    return [replace(block, y=block.y[:, chosen].mean(axis=1, keepdims=True)) for block in blocks]


def _launches(blocks: Sequence[Drawn]) -> Floats:
    return np.asarray(sum(np.isfinite(block.y[block.tuned]).sum(axis=0) for block in blocks), dtype=float)


def _errors(blocks: Sequence[Drawn], gain: Floats) -> Floats:
    known = [
        np.concatenate([np.isfinite(block.y[block.tuned == tuned]) for block in blocks]).sum(axis=0)
        for tuned in (True, False)
    ]
    with np.errstate(divide="ignore"):
        spread = evidence.spread(blocks, gain)
        error = np.hypot(*(one / np.sqrt(n) for one, n in zip(spread, known, strict=True)))
    return np.where(np.minimum(*known) > 1, error, math.nan)


def _of_means(
    blocks: Sequence[Drawn], calls: Sequence[Drawn], design: SequentialDesign
) -> tuple[Floats, Floats, Floats]:
    """Ln of the mean time of the reference over the setting's, its standard error and lower bound by slot.

    ``blocks`` are of the launches' locations, ``calls`` of their calls' means. Of the two the lower gain and
    bound count, with the error that belongs to the gain of the calls.
    """
    (typical, _), (gain, error) = (mean_ratio.log_ratio(*_times(of)) for of in (blocks, calls))
    bounds = [mean_ratio.bound(*_times(of), design.bound_alpha) for of in (blocks, calls)]
    return np.fmin(gain, typical), error, np.minimum(*bounds)


def _times(blocks: Sequence[Drawn]) -> tuple[Floats, Floats]:
    """Times of both sides, the setting's first, each over the median of the reference beside it."""
    times = []
    known = {stratum for block in blocks for stratum in block.strata[~block.tuned].tolist()}
    for block in blocks:
        level = np.empty_like(block.y)
        whole = evidence.median(block.y[~block.tuned])
        for part in block.parts:
            own = evidence.median(block.y[part[~block.tuned[part]]])
            if block.strata[part[0]] not in known:  # the setting itself may have moved the ranks
                own = whole
            elif not block.tuned[part].any():  # compared with nothing
                own = math.nan * own
            level[part] = own
        times.append(np.exp(block.y - level))
    tuned, others = (
        np.concatenate([x[block.tuned == side] for x, block in zip(times, blocks, strict=True)])
        for side in (True, False)
    )
    return tuned, others


def _shrunk(judged: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """With each gain drawn to the weighted mean of all: g̃ = μ + (g − μ) τ² / (τ² + sem²).

    Slots were kept because they looked good; drawn to their mean by as much as they are uncertain, the best
    of them no longer stand out by luck (Efron and Morris 1975). τ², how much the true gains differ, is the
    moment estimate of DerSimonian and Laird (1986), and μ has weights 1 / (τ² + sem²).
    """
    gains, errors = (np.array([getattr(c, name) for c in judged]) for name in ("gain", "sem"))
    errors = errors**2
    if len(judged) < 3 or not np.isfinite(errors).all() or not (errors > 0).all():
        return tuple(judged)
    weights = 1.0 / errors
    heterogeneity = float(weights @ (gains - np.average(gains, weights=weights)) ** 2)
    scale = float(weights.sum() - (weights**2).sum() / weights.sum())
    between = max((heterogeneity - (len(judged) - 1)) / scale, 0.0)
    centre = float(np.average(gains, weights=1.0 / (between + errors)))
    drawn = centre + (gains - centre) * between / (between + errors)
    return tuple(replace(c, shrunk=float(g)) for c, g in zip(judged, drawn, strict=True))
