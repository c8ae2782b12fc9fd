"""Whether one setting is faster or slower than another, slot by slot, on pairs of launches (step 11).

Notation: ``d`` is the difference of a pair in one slot (see ``pairs``), n the number of pairs, m the number
of *tests* that stand together: one for each slot whose calls differ between the sides, and one for all slots
together in which both sides make the same calls. Of those only the overhead can differ, so their mean over
the slots is tested, pair by pair.

Location: the mean, from five pairs on the 20 % trimmed mean with the variance of Tukey and McLaughlin, since
a machine that others share disturbs single launches by far more than it disturbs the rest.

Noise: few pairs tell little of their own variance s² (ν = n − 1 degrees of freedom, fewer when trimmed). It
is drawn to the variance s₀² that all slots show together, below four pairs with launches which the search
repeated, counted as ν₀ degrees of freedom: s̃² = (ν₀ s₀² + ν s²) / (ν₀ + ν), with a t interval of ν₀ + ν
degrees of freedom (Smyth 2004, eq. 5). ν₀ solves ψ′(ν₀/2) = Var(ln s²) − ψ′(ν/2) (ibid., section 6.2), so
slots that differ in noise stand for themselves, and is at most 4: slots of one launch are disturbed together,
their number proves nothing. One disturbed launch widens s₀ and delays; it does not decide. Where fewer than
three degrees of freedom are behind s₀², nothing is claimed.

Error rates: with K looks and ``alpha`` for all, each look spends alpha / K (the family t^ρ of Kim and DeMets
1987 with ρ = 1: even, since the launches are what costs, so that what is clear ends after a block). By the
union bound all K looks hold together whatever their dependence: a little conservative, right with unknown
variance, no integration needed. Two kinds of statement are made.

- Of one slot alone: ``low … high`` has level 1 − alpha / K. By it rules are kept or dropped.
- Of all together, one-sided, divided by K and by m (Bonferroni; in single steps, since one loss suffices):
  ``loses`` with a half of what the comparison may spend, ``wins`` with a quarter; the last quarter is for the
  gain on the whole. So of a comparison without any difference anything is called a loss, or a gain, with a
  probability of at most ``alpha * share``, for every dependence between slots, and claims from several looks
  and comparisons hold together.
- That no slot is slower by more than ``margin`` (non-inferiority) is claimed where every slot's one-sided
  bound ``at_least`` excludes it, at what the look may spend of the comparison. Nothing is divided by m here:
  the claim is wrong only if one slot is that much slower, and that slot's own test must have missed it
  (intersection-union test, Berger 1982). Noise that hides a gain hides a loss too, so it cannot pass for one.

References:
    Tukey, McLaughlin: Less vulnerable confidence and significance procedures for location based on a single
    sample: trimming/winsorization 1. Sankhya A 25 (1963) 331–352.
    Smyth: Linear models and empirical Bayes methods for assessing differential expression in microarray
    experiments. Stat. Appl. Genet. Mol. Biol. 3 (2004) 3.
    Kim, DeMets: Design and analysis of group sequential tests based on the type I error spending rate
    function. Biometrika 74 (1987) 149–154.
    Jennison, Turnbull: Group Sequential Methods with Applications to Clinical Trials (2000), ch. 7 and 10.
    DerSimonian, Laird: Meta-analysis in clinical trials. Controlled Clinical Trials 7 (1986) 177–188.
    Berger: Multiparameter hypothesis testing and acceptance sampling. Technometrics 24 (1982) 295–300.
    Efron, Morris: Data analysis using Stein's estimator and its generalizations. JASA 70 (1975) 311–319.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from autotune.history.objectives import Slot
from autotune.verification.pairs import LaunchNoise, PairDifferences
from autotune.verification.sequential import SequentialDesign

_PRIOR_FREEDOM = 4.0
"""The most that ν₀ can be."""
_LEAST_FREEDOM = 3
"""Behind s₀², before anything is claimed of all slots together."""
_TRIM = 0.2
"""Share of the pairs that is cut off at each end."""
_TRIMMED_FROM = 5
"""Pairs from which on that is any."""
_UNKNOWN = LaunchNoise()


class SlotDecision(StrEnum):
    """What can be said about one slot."""

    STILL_BETTER = "still better"
    """Faster than the reference beyond the error rate."""
    NO_LONGER = "no longer"
    """Beyond the error rate not faster by more than ``max_loss``."""
    CANNOT_TELL = "cannot tell"
    """Neither; more launches would tell."""
    SAME_CALLS = "same calls"
    """Both sides do the same there; only the overhead of all such slots together is tested."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Reference against tuned in one slot."""

    slot: Slot
    """Where."""
    pairs: int
    """Pairs of launches behind it."""
    gain: float
    """Location of ``d``: ln of the speed-up."""
    sem: float
    """Its standard error; NaN with a single pair."""
    low: float
    """Lower end of the interval of this slot alone."""
    high: float
    """Upper end of it."""
    decision: SlotDecision
    """What can be said of this slot alone."""
    shrunk: float = math.nan
    """``gain`` drawn towards the mean of all slots by as much as it is uncertain."""
    loses: bool = False
    """Whether it is slower by more than ``max_loss``, beyond the error rate of all slots together."""
    wins: bool = False
    """Whether it is faster, beyond the error rate of all slots together."""
    at_least: float = -math.inf
    """What it is at least, one-sided, by all looks of the comparison together."""


def compare(
    differences: Sequence[PairDifferences],
    design: SequentialDesign,
    *,
    same: Collection[Slot] = (),
    share: float = 1.0,
    noise: LaunchNoise = _UNKNOWN,
) -> tuple[Comparison, ...]:
    """Every slot judged on these pairs, which are those of one look.

    Args:
        differences: All pairs; a slot is judged on those that have it.
        design: Error rates, and the loss that does not matter.
        same: Slots in which both sides make the same calls: they win or lose together.
        share: Of the error rate, what this comparison may spend.
        noise: Of launches which the search repeated.
    """
    values = {
        slot: np.array([pair[slot] for pair in differences if slot in pair])
        for slot in sorted({slot for pair in differences for slot in pair})
    }
    level = design.per_look * share / 2 / max(1, len(values.keys() - set(same)) + bool(values.keys() & same))
    prior = _Prior.of(list(values.values()), noise)
    judged = [_judge(slot, d, prior, design, level, share, slot in same) for slot, d in values.items()]
    if alike := [c for c in judged if c.slot in same]:
        slots = {c.slot for c in alike}
        means = [
            np.mean([pair[s] for s in slots & pair.keys()]) for pair in differences if slots & pair.keys()
        ]
        overhead = _judge(("all", 0, 0), np.array(means), prior, design, level, share)
        judged = [
            replace(c, loses=overhead.loses, at_least=overhead.at_least) if c.slot in same else c
            for c in judged
        ]
    return _shrunk(judged, list(values.values()))


def decided(judged: Iterable[Comparison], design: SequentialDesign, at_stake: Collection[Slot]) -> bool:
    """Whether more launches could change nothing about any slot.

    ``at_stake`` are slots in which a rule could be dropped; elsewhere only a loss would change anything, and
    as long as one is seen beyond ``max_loss`` without being sure, launches go on.
    """
    return all(
        c.decision is not SlotDecision.CANNOT_TELL or (c.slot not in at_stake and c.gain >= design.least)
        for c in judged
    )


def may_still_win(comparison: Comparison, design: SequentialDesign, tail: float) -> bool:
    """Whether the last look would find a gain if what was seen is two standard errors too little.

    The curtailment is not binding: the error rates hold whether it is heeded or not (Jennison, Turnbull,
    ch. 10). ``tail`` is the error at one end of the interval there.
    """
    from scipy.stats import t

    if comparison.pairs < _TRIMMED_FROM or not math.isfinite(comparison.sem):
        return True  # one disturbed launch can hide any gain
    now, then = (
        n - 2 * math.floor(_TRIM * n) for n in (comparison.pairs, max(comparison.pairs, design.looks[-1]))
    )
    sem = comparison.sem * math.sqrt(now / then)
    return comparison.gain + 2 * comparison.sem > float(t.isf(tail, _PRIOR_FREEDOM + then - 1)) * sem


def launches_for(comparison: Comparison, bound: float, tail: float) -> float:
    """About how many launches of both sides would show a slot above a bound.

    If it is one standard error better than seen, but no faster than the reference; by the quantile of the
    normal distribution and the spread seen so far. Infinite where that lies below the bound; none more where
    one disturbed launch can hide anything.
    """
    from scipy.stats import norm

    if comparison.pairs < _TRIMMED_FROM:
        return 2.0 * comparison.pairs
    distance = min(comparison.gain + comparison.sem, 0.0) - bound
    if not distance > 0.0:
        return math.inf
    spread = comparison.sem * math.sqrt(comparison.pairs)
    return 4 * math.ceil((float(norm.isf(tail)) * spread / distance) ** 2 / 2)


def overall(
    differences: Sequence[PairDifferences],
    slots: Collection[Slot] | None = None,
    alpha: float = 0.05,
    noise: LaunchNoise = _UNKNOWN,
) -> Comparison:
    """The geometric mean of the speed-up over slots, with an interval from the spread between pairs.

    Slots are by default those that every pair has. With noise of launches which the search repeated the
    variance is moderated as that of a slot is; without it the pairs stand for themselves.
    """
    common = set(slots) if slots is not None else set.intersection(*(set(pair) for pair in differences))
    if not common or not any(common <= set(pair) for pair in differences):
        return Comparison(("all", 0, 0), 0, 0.0, math.nan, -math.inf, math.inf, SlotDecision.CANNOT_TELL)
    means = np.asarray([np.mean([pair[s] for s in common]) for pair in differences if common <= set(pair)])
    every = [np.array([pair[s] for pair in differences if s in pair]) for s in common]
    prior = _Prior.of(every, noise) if noise.freedom else _Prior(0.0, 0.0, True)
    gain, sem, freedom = prior.location(means)
    low, high = _interval(gain, sem, freedom if prior.known else 0.0, alpha / 2)
    return Comparison(("all", 0, 0), len(means), gain, sem, low, high, _decision(low, high, 0.0), shrunk=gain)


def trimmed(values: NDArray[np.float64], share: float = _TRIM) -> tuple[float, float, int]:
    """The trimmed mean, the variance of one value that goes with it, and the number of values left.

    With g = ⌊share · n⌋ values cut off at each end (none below five) and h = n − 2g left, the variance is
    SS_w / (h − 1), SS_w the sum of squared deviations of the winsorised values; that of the location is a
    1/h of it, with h − 1 degrees of freedom. For g = 0 these are the ordinary ones. NaN for one value.
    """
    ordered, n = np.sort(values), len(values)
    cut = math.floor(share * n)
    left = n - 2 * cut
    location = float(np.mean(ordered[cut : n - cut]))
    if left < 2:
        return location, math.nan, left
    winsorised = np.clip(ordered, ordered[cut], ordered[n - cut - 1])
    squares = float(np.sum((winsorised - winsorised.mean()) ** 2))
    return location, squares / (left - 1), left


@dataclass(frozen=True, slots=True)
class _Prior:
    """What all slots together say about the variance of a pair."""

    variance: float
    """s₀²."""
    freedom: float
    """ν₀."""
    known: bool
    """Whether there is enough behind it for a claim about all slots."""

    @classmethod
    def of(cls, values: Sequence[NDArray[np.float64]], noise: LaunchNoise) -> "_Prior":
        """From the pairs of each slot, and the launches that the search repeated."""
        from scipy.optimize import brentq
        from scipy.special import polygamma

        told = [(variance, left - 1) for _, variance, left in map(trimmed, values) if left > 1]
        own = min((freedom for _, freedom in told), default=0)
        variances = np.array([variance for variance, _ in told])
        behind = own + noise.freedom * (own < _LEAST_FREEDOM)
        squares = own * float(variances.mean()) if own else 0.0
        if own < _LEAST_FREEDOM:  # a pair is two launches
            squares += 2 * noise.squares
        common = squares / behind if behind else math.nan
        freedom = _PRIOR_FREEDOM
        if len(told) > 2 and variances.min() > 0.0:
            apart = float(np.var(np.log(variances), ddof=1) - polygamma(1, own / 2))
            if apart > polygamma(1, freedom / 2):
                freedom = 2 * brentq(lambda half: polygamma(1, half) - apart, 1e-3, freedom / 2)
        return cls(common, freedom, behind >= _LEAST_FREEDOM)

    def location(self, values: NDArray[np.float64]) -> tuple[float, float, float]:
        """The trimmed mean, its standard error, and the degrees of freedom of its interval."""
        gain, variance, left = trimmed(values)
        if left < 2:
            return gain, math.nan, 0.0
        freedom = self.freedom + left - 1
        pooled = (self.freedom * self.variance + (left - 1) * variance) / freedom
        return gain, math.sqrt(pooled / left), freedom


def _judge(
    slot: Slot,
    differences: NDArray[np.float64],
    prior: _Prior,
    design: SequentialDesign,
    level: float,
    share: float,
    same: bool = False,
) -> Comparison:
    """One slot: its own interval, and whether it wins or loses at ``level``; one pair alone says nothing."""
    gain, sem, freedom = prior.location(differences)
    low, high = _interval(gain, sem, freedom, design.per_look / 2)
    surely = freedom if prior.known and not same else 0.0
    return Comparison(
        slot,
        len(differences),
        gain,
        sem,
        low,
        high,
        SlotDecision.SAME_CALLS if same else _decision(low, high, design.max_loss),
        loses=_interval(gain, sem, surely, level)[1] < design.least,
        wins=_interval(gain, sem, surely, level / 2)[0] > 0.0,
        at_least=_interval(gain, sem, surely, design.per_look * share)[0],
    )


def _interval(gain: float, sem: float, freedom: float, tail: float) -> tuple[float, float]:
    """The t interval with so much error at each end; without degrees of freedom it is everything."""
    from scipy.stats import t

    reach = float(t.isf(tail, freedom)) * sem if freedom else math.inf
    return gain - reach, gain + reach


def _decision(low: float, high: float, max_loss: float) -> SlotDecision:
    if low > 0.0:
        return SlotDecision.STILL_BETTER
    return SlotDecision.NO_LONGER if high <= math.log1p(max_loss) else SlotDecision.CANNOT_TELL


def _shrunk(judged: Sequence[Comparison], values: Sequence[NDArray[np.float64]]) -> tuple[Comparison, ...]:
    """With each gain drawn to the weighted mean of all: g̃ = μ + (g − μ) τ² / (τ² + sem²).

    Slots were kept because they looked good; drawn to their mean by as much as they are uncertain, the best
    of them no longer stand out by luck (Efron and Morris 1975). τ², how much the true gains differ, is the
    moment estimate of DerSimonian and Laird (1986), and μ has weights 1 / (τ² + sem²). Each slot stands
    for its own error here, as far as it has more than two pairs to tell it.
    """
    gains = np.asarray([c.gain for c in judged])
    alone = ((c, *trimmed(d)[1:]) for c, d in zip(judged, values, strict=True))
    errors = np.asarray([variance / left if left > 2 else c.sem**2 for c, variance, left in alone])
    if len(judged) < 3 or not np.isfinite(errors).all() or not (errors > 0).all():
        return tuple(replace(c, shrunk=c.gain) for c in judged)
    weights = 1.0 / errors
    heterogeneity = float(weights @ (gains - np.average(gains, weights=weights)) ** 2)
    scale = float(weights.sum() - (weights**2).sum() / weights.sum())
    spread = max((heterogeneity - (len(judged) - 1)) / scale, 0.0)
    centre = float(np.average(gains, weights=1.0 / (spread + errors)))
    drawn = centre + (gains - centre) * spread / (spread + errors)
    return tuple(replace(c, shrunk=float(g)) for c, g in zip(judged, drawn, strict=True))
