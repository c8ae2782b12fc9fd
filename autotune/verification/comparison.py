"""Test whether one setting is faster or slower than another, slot by slot, on fresh launches.

A slot is one (collective, communicator size, message size). All results follow from the group-sequential test
of the order of launches (see ``planned``), and from alpha, the error probability that the comparison may
spend:

- For one slot alone, the interval ``low … high`` has an error rate of alpha / 2 at either end. It decides
  whether the rule in this slot is kept or dropped.
- For all slots together, claims of gains have an error rate of alpha / 2, and so have claims of losses. The
  setting ``gains`` if it is significantly faster on the whole at alpha / 4, or in one slot at alpha / 4
  divided by the number of slots; such a slot ``wins``. The setting ``loses`` in a slot if it was seen slower
  there by more than ``max_loss``, and is significantly slower at alpha / 2 divided by the number of slots. So
  if the two sides do not differ at all, the probability of any claim is at most alpha, whatever the
  dependence between slots, and however often the launches are evaluated.
- A slot may be slower by no more than ``margin`` (non-inferiority). A program waits for the plain mean of its
  calls, with slow calls and slow launches included. So this claim rests on ``at_least``, a lower bound of the
  ratio of the sides' mean times over all calls and launches (``mean_ratio``). The error rate of the bound,
  ``bound_alpha``, is not divided by the number of slots: the claim is wrong only if some slot is slower by
  more than ``margin``, and the test of that very slot has missed it (intersection-union, Berger 1982).

A slot is ``doubtful`` if it was seen slower by more than ``max_loss``, and by so much more that chance hardly
explains it: if all slots lost just ``max_loss``, one comparison in five (``DOUBT``) would have such a slot.
That is no claim of a loss, but a setting with a doubtful slot is not exported.

Slots in which both sides make the same calls win or lose together: only their overhead can differ, so their
mean is treated as one slot.

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
from autotune.verification import mean_ratio
from autotune.verification.blocks import Block
from autotune.verification.planned import Drawn, Floats
from autotune.verification.sequential import DOUBT, SequentialDesign

WHOLE: Slot = ("all", 0, 0)
"""The name that the mean over several slots has in place of a slot."""
_REMEMBERED = 512
"""Number of cached comparisons: those of earlier launches are needed again after each later launch."""


class SlotDecision(StrEnum):
    """State the decision on one slot (collective, communicator size, message size)."""

    STILL_BETTER = "still better"
    """The setting is significantly faster than the reference, and a loss of ``margin`` in the mean time is
    excluded."""
    NO_LONGER = "no longer"  # A gain of more than ``max_loss`` is excluded at the error rate.
    INCONCLUSIVE = "inconclusive"  # Neither was shown; more launches may be conclusive.
    SAME_CALLS = "same calls"
    """Both sides make the same calls in the slot; only the overhead of all such slots together is tested."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compare reference and tuned setting in one slot."""

    slot: Slot  # The (collective, communicator size, message size).
    launches: int  # Number of launches of the tuned side.
    gain: float  # Ln of the speed-up.
    sem: float  # Standard error of ``gain``; NaN if only one launch of either side is known.
    low: float  # Lower end of the interval of ``gain``, for this slot alone.
    high: float  # Upper end of the interval of ``gain``, for this slot alone.
    decision: SlotDecision  # Decision on this slot alone.
    shrunk: float = math.nan
    """``gain``, shrunk towards the mean of all slots; an uncertain gain is shrunk more than a certain one."""
    loses: bool = False
    """Whether the setting is significantly slower by more than ``max_loss``, by a test of all slots
    together."""
    wins: bool = False  # Whether the setting is significantly faster, by a test of all slots together.
    doubtful: bool = False
    """Whether the setting was seen slower by more than ``max_loss``, and by so much more that chance hardly
    explains it (see the module's text)."""
    at_least: float = -math.inf  # One-sided lower bound of ``mean_gain``.
    mean_sem: float = math.nan  # Standard error of ``mean_gain``, on which the bound rests.
    mean_gain: float = math.nan  # Ln of (mean time of the reference / mean time of the setting).

    @property
    def overhead(self) -> bool:
        """Whether both sides make the same calls in the slot, so that only the overhead can differ."""
        return self.decision is SlotDecision.SAME_CALLS


@dataclass(frozen=True, slots=True)
class Claims:
    """Hold what launches show about all slots, without the bounds, which take longer to compute."""

    gains: bool  # Whether the setting is significantly faster, on the whole or in a slot.
    loses: frozenset[Slot]
    """Slots in which the setting is significantly slower by more than ``max_loss``."""
    doubtful: frozenset[Slot]  # Slots that are doubtful (see the module's text).
    open: frozenset[Slot]  # Slots in which the launches do not exclude a loss of ``margin``.
    wins: frozenset[Slot]
    """Slots in which the setting is significantly faster; the error rate is that of all slots together."""


@lru_cache(maxsize=_REMEMBERED)
def claims(
    blocks: tuple[Block, ...], design: SequentialDesign, same_calls: frozenset[Slot] = frozenset()
) -> Claims:
    """Return the claims that launches in complete blocks support at the error rates of the design.

    Args:
        blocks: The blocks of launches.
        design: The design of the test.
        same_calls: Slots in which both sides make the same calls.
    """
    from scipy.special import ndtri

    slots, drawn = _drawn(blocks, same_calls)
    if not slots:
        return Claims(False, frozenset(), frozenset(), frozenset(), frozenset())
    differing = np.array([slot != WHOLE for slot in slots])
    wins = differing & drawn.significant(design.gain_alpha / max(int(differing.sum()), 1))
    mean_over_slots = Drawn(drawn.y[:, :, differing], drawn.tuned).averaged
    faster = differing.any() and mean_over_slots.significant(design.gain_alpha).all()
    seen_slower = drawn.estimate() < design.least
    lost = seen_slower & drawn.significant(design.alpha / 2 / len(slots), -1.0)
    below = drawn.deviation(design.least) < float(ndtri(DOUBT / len(slots)))
    excluded = _of_means(_drawn(blocks, same_calls, means=True)[1], design)[2] > design.hidden

    def where(mask: np.ndarray) -> frozenset[Slot]:
        selected = {slot for slot, is_selected in zip(slots, mask, strict=True) if is_selected}
        return frozenset((selected - {WHOLE}) | (set(same_calls) if WHOLE in selected else set()))

    return Claims(
        bool(faster or wins.any()),
        where(lost),
        where(seen_slower & below) - set(same_calls),
        where(~excluded),
        where(wins) - set(same_calls),
    )


@lru_cache(maxsize=_REMEMBERED)
def compare(
    blocks: tuple[Block, ...], design: SequentialDesign, same_calls: frozenset[Slot] = frozenset()
) -> tuple[Comparison, ...]:
    """Return a comparison with bounds for every slot that both sides have.

    See ``claims`` for the arguments.
    """
    claimed = claims(blocks, design, same_calls)
    slots = _slots(blocks)
    if not slots:
        return ()
    drawn, calls = (_arrays(blocks, slots, means) for means in (False, True))
    gain = drawn.estimate()
    low, high = (drawn.bound(gain, design.alpha / 2, sign) for sign in (1.0, -1.0))
    mean_gain, mean_sem, bounds = _of_means(calls, design)
    at_least = dict(zip(slots, bounds, strict=True))
    if joint_slots := set(same_calls) & set(slots):
        *_, joint_bound = _of_means(_arrays(blocks, sorted(joint_slots), means=True).averaged, design)
        at_least |= dict.fromkeys(joint_slots, float(joint_bound[0]))
    sem, counts = drawn.errors, drawn.launches
    comparisons = [
        Comparison(
            slot,
            int(counts[i]),
            float(gain[i]),
            float(sem[i]),
            float(low[i]),
            float(high[i]),
            SlotDecision.SAME_CALLS
            if slot in same_calls
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
    return _shrunk(comparisons)


def decided(comparisons: Iterable[Comparison]) -> bool:
    """Whether every slot is decided, so that more launches would change nothing."""
    return all(c.decision is not SlotDecision.INCONCLUSIVE for c in comparisons)


@lru_cache(maxsize=_REMEMBERED)
def overall(
    blocks: tuple[Block, ...], slots: frozenset[Slot] | None = None, alpha: float = 0.05
) -> Comparison:
    """Return the comparison of the mean over slots.

    Args:
        blocks: The blocks of launches.
        slots: Slots to average; None: the slots that all launches without a failure have.
        alpha: Error rate of the interval.
    """
    worked = [{slot for slot, _ in launch} for block in blocks for launch in block.logs if launch]
    common = set(slots) if slots is not None else set.intersection(*worked) if worked else set()
    nothing = Comparison(WHOLE, 0, 0.0, math.nan, -math.inf, math.inf, SlotDecision.INCONCLUSIVE)
    if not common:
        return nothing
    drawn = _arrays(blocks, sorted(common)).averaged
    estimate = drawn.estimate()
    gain, sem = float(estimate[0]), float(drawn.errors[0])
    if not math.isfinite(gain):
        return nothing
    low, high = (float(drawn.bound(estimate, alpha / 2, sign)[0]) for sign in (1.0, -1.0))
    decision = _decision(low, high, SequentialDesign(max_loss=0.0))
    return Comparison(WHOLE, int(drawn.launches[0]), gain, sem, low, high, decision, gain)


def _decision(low: float, high: float, design: SequentialDesign, safe: bool = True) -> SlotDecision:
    """Return the decision on a slot by the interval of its gain.

    ``safe`` says whether the bound on mean times excludes a loss of ``margin``: a setting that gains in
    typical times may still lose in the mean, by a few very slow launches.
    """
    if low > 0.0:
        return SlotDecision.STILL_BETTER if safe else SlotDecision.INCONCLUSIVE
    return SlotDecision.NO_LONGER if high <= math.log1p(design.max_loss) else SlotDecision.INCONCLUSIVE


def _slots(blocks: Iterable[Block]) -> list[Slot]:
    return sorted(frozenset().union(*(block.slots for block in blocks)))


def _arrays(blocks: Sequence[Block], slots: Sequence[Slot], means: bool = False) -> Drawn:
    widest = max((len(block.tuned) for block in blocks), default=0)
    y = np.full((len(blocks), widest, len(slots)), math.nan)
    tuned = np.zeros(y.shape[:2], dtype=bool)
    for i, block in enumerate(blocks):
        tuned[i, : len(block.tuned)] = block.tuned
        for j, log_times in enumerate(map(dict, (means and block.means) or block.logs)):
            y[i, j] = [log_times.get(slot, math.nan) for slot in slots]
    return Drawn(y, tuned)


def _drawn(
    blocks: Sequence[Block], same_calls: Collection[Slot], means: bool = False
) -> tuple[list[Slot], Drawn]:
    """Return the slots that are tested, and the launches' typical times in them (mean times with ``means``).

    Slots in which both sides make the same calls are tested as one slot, by their mean.
    """
    slots = _slots(blocks)
    differing, identical = [s for s in slots if s not in same_calls], [s for s in slots if s in same_calls]
    drawn = _arrays(blocks, differing, means)
    if not identical:
        return differing, drawn
    mean = _arrays(blocks, identical, means).averaged
    return [*differing, WHOLE], Drawn(np.concatenate([drawn.y, mean.y], axis=2), drawn.tuned)


def _of_means(calls: Drawn, design: SequentialDesign) -> tuple[Floats, Floats, Floats]:
    """Return ln of (mean time of the reference / of the setting), its standard error and bound, by slot."""
    times = _paired(calls)
    return (*mean_ratio.log_ratio(*times), mean_ratio.bound(*times, design.bound_alpha))


def _paired(calls: Drawn) -> tuple[Floats, Floats]:
    """Return times of both sides in pairs, the setting's first; both launches of a pair are in one block."""
    pairs = []
    for y, tuned in zip(calls.y, calls.tuned, strict=True):
        worked = np.isfinite(y).any(axis=1)
        sides = [y[side & worked] for side in (tuned, ~tuned)]
        n = min(map(len, sides))
        pairs.append([side[:n] for side in sides])
    tuned_s, reference_s = (np.exp(np.concatenate(side)) for side in zip(*pairs, strict=True))
    return tuned_s, reference_s


def _shrunk(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return the comparisons with each gain shrunk to their weighted mean: g̃ = μ + (g − μ) τ² / (τ² + sem²).

    The setting's choices were selected because they looked good. If each gain is shrunk to the mean by as
    much as it is uncertain, the best gains no longer stand out by luck (Efron and Morris 1975). τ², the
    variance of the true gains, is the moment estimate of DerSimonian and Laird (1986), and μ has weights
    1 / (τ² + sem²).
    """
    gains, errors = (np.array([getattr(c, name) for c in comparisons]) for name in ("gain", "sem"))
    errors = errors**2
    if len(comparisons) < 3 or not np.isfinite(errors).all() or not (errors > 0).all():
        return tuple(comparisons)
    weights = 1.0 / errors
    heterogeneity = float(weights @ (gains - np.average(gains, weights=weights)) ** 2)
    scale = float(weights.sum() - (weights**2).sum() / weights.sum())
    between = max((heterogeneity - (len(comparisons) - 1)) / scale, 0.0)
    centre = float(np.average(gains, weights=1.0 / (between + errors)))
    drawn = centre + (gains - centre) * between / (between + errors)
    return tuple(replace(c, shrunk=float(g)) for c, g in zip(comparisons, drawn, strict=True))
