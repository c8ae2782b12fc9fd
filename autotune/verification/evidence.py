"""Compute evidence for a difference between two sides from the random order of launches, valid at any time.

Within a block, every order with the same number of launches of each side had the same chance to be drawn.
Nothing else is assumed: if the setting had no effect, each launch would have shown the same times in any
other order, so all orders are equally likely [1]. Drift, shifts, alternation, heavy tails and dependence
between slots affect the times in all these orders alike, so they do no harm. Launches without a time are left
out. A slot is one (collective, communicator size, message size).

Notation: y is ln t in one slot. ℓ is 1 for launches of the setting and 0 for others, and ℓ̄ is the mean of ℓ
over the block's launches whose time is known. z is y minus the median of y in the block, divided by the
robust standard deviation (1.4826 times the median of absolute values) of such differences in all blocks so
far, and clipped to ±1. S is −Σ (ℓ − ℓ̄) z, so that S > 0 where the setting is faster. The evidence after some
blocks is the e-value

    E = mean over λ of Π over blocks of exp(λ S) / mean over drawable orders of exp(λ S),

If there is no effect, the expectation of E is at most one, after whatever block the launches stop. So the
probability that E reaches 1/α after any block is at most α [2], and launches may end, continue or be resumed
for any reason. A mean of e-values over slots is an e-value again, whatever the dependence between slots [3].
The values of λ suit effects of a tenth to three robust standard deviations.

The evidence that the setting gains more than δ is E, computed from y + δ ℓ in place of y. The interval of an
effect contains the values that are not rejected; the estimate of the effect is the δ at which ΣS is zero [4].

References:
    1. R. A. Fisher: The Design of Experiments (1935), ch. 2; E. L. Lehmann, J. P. Romano: Testing Statistical
    Hypotheses (3rd ed., 2005), section 15.2.
    2. J. Ville: Étude critique de la notion de collectif (1939); A. Ramdas, P. Grünwald, V. Vovk, G. Shafer:
    Game-theoretic statistics and safe anytime-valid inference. Statistical Science 38 (2023) 576–601.
    3. V. Vovk, R. Wang: E-values: calibration, combination and applications. Annals of Statistics 49 (2021)
    1736–1754, proposition 3.1.
    4. J. L. Hodges, E. L. Lehmann: Estimates of location based on rank tests. Annals of Mathematical
    Statistics 34 (1963) 598–611.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from autotune.verification.planned import (
    CLIP,
    FAR,
    LEAST_SCALE,
    LEAST_SPREAD,
    ROBUST,
    excluded_beyond,
    median,
)

Floats = NDArray[np.float64]

STRENGTHS = np.array([0.15, 0.3, 0.6, 1.2, 2.4, 4.8])
"""Values of λ: the smallest one detects small effects by many launches, the largest one large effects by few.

If an effect is clear, the scores z are ±0.67. Four launches of each side then reach 59 % of the largest
possible evidence at λ = 2.4, and 97 % of it at λ = 4.8.
"""
_STEPS = 12
"""Steps of bisection: a bound is known to some hundredths of its distance from the estimate."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A block of launches in random order, with their times in all slots that are compared."""

    y: Floats  # ln t, ``(n_launches, n_slots)``; NaN where a launch has no time.
    tuned: NDArray[np.bool_]  # Whether each launch is of the setting, ``(n_launches,)``.


def log_evidence(blocks: Sequence[Drawn], delta: float | Floats = 0.0, sign: float = 1.0) -> Floats:
    """Return ln of the highest evidence so far that the setting gains more than δ, for each slot.

    ``sign`` −1 gives the evidence that it gains less.
    """
    log_e = np.zeros((STRENGTHS.size, blocks[0].y.shape[1] if blocks else 0))
    best = np.zeros(log_e.shape[1])
    for block, z in zip(blocks, _scores(blocks, delta), strict=True):
        for rows, columns in _known(block):
            labels, drawable = _orders(block, rows)
            part = z[np.ix_(rows, columns)]
            drawn_statistic, statistics = -sign * labels @ part, -sign * drawable @ part
            exponents = STRENGTHS[:, None, None] * (statistics - drawn_statistic)  # (λ, orders, slots)
            log_e[:, columns] -= np.log(np.mean(np.exp(exponents), axis=1))
        best = np.maximum(best, _log_mean(log_e))
    return best


def estimate(blocks: Sequence[Drawn]) -> Floats:
    """Return the gain in each slot, the δ at which ΣS is zero; NaN without launches of both sides."""
    n_slots = blocks[0].y.shape[1] if blocks else 0
    measured = np.zeros(n_slots, dtype=bool)
    for block in blocks:
        for _, columns in _known(block):
            measured[columns] = True

    def gains_more(delta: Floats) -> NDArray[np.bool_]:
        return statistic(blocks, delta) > 0.0

    # The search starts at the difference of the medians and is as wide as the range of the launches.
    start, reach = _medians(blocks)
    low, high = start - reach, start + reach
    for _ in range(_STEPS):
        middle = (low + high) / 2
        above = gains_more(middle)
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(measured, (low + high) / 2, math.nan)


def statistic(blocks: Sequence[Drawn], delta: float | Floats) -> Floats:
    """Return ΣS in each slot, as if the launches of the setting were slower by δ."""
    total = np.zeros(blocks[0].y.shape[1] if blocks else 0)
    for block, z in zip(blocks, _scores(blocks, delta), strict=True):
        for rows, columns in _known(block):
            total[columns] -= _labels(block, rows) @ z[np.ix_(rows, columns)]
    return total


def bound(blocks: Sequence[Drawn], alpha: float, sign: float = 1.0) -> Floats:
    """Return a lower bound on the gain in each slot; ``sign`` −1 gives an upper bound.

    The probability that the bound is wrong after any block is at most ``alpha``. The bound is infinite where
    nothing is excluded.
    """
    threshold, gain = -math.log(alpha), np.nan_to_num(estimate(blocks))

    def excludes(delta: Floats) -> NDArray[np.bool_]:
        return log_evidence(blocks, delta, sign) >= threshold

    return excluded_beyond(excludes, gain, spread(blocks, gain), sign, _STEPS)


def spread(blocks: Sequence[Drawn], gain: Floats) -> tuple[Floats, Floats]:
    """Return the robust standard deviations of both sides within blocks, for each slot.

    The first result is for the setting's launches, the second one for the others.
    """
    parts = [_centred(block, gain) for block in blocks]
    tuned, untuned = (
        np.concatenate([part[block.tuned == is_tuned] for part, block in zip(parts, blocks, strict=True)])
        for is_tuned in (True, False)
    )
    return ROBUST * median(np.abs(tuned)), ROBUST * median(np.abs(untuned))


def _log_mean(log_e: Floats) -> Floats:
    largest = log_e.max(axis=0)
    return np.asarray(largest + np.log(np.mean(np.exp(log_e - largest), axis=0)))


def _scores(blocks: Sequence[Drawn], delta: float | Floats) -> list[Floats]:
    deviations, scores = [], []
    for block in blocks:
        centred = _centred(block, np.broadcast_to(delta, block.y.shape[1]))
        deviations.append(np.abs(centred))
        with np.errstate(all="ignore"):
            scale = ROBUST * np.nan_to_num(median(np.concatenate(deviations)))
        scores.append(np.clip(centred / np.maximum(scale, LEAST_SCALE), -CLIP, CLIP))
    return scores


def _centred(block: Drawn, delta: Floats) -> Floats:
    """Return y + δ ℓ of each launch, minus the block's median of these."""
    y = block.y + np.outer(block.tuned, delta)
    return np.asarray(y - median(y))


def _known(block: Drawn) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return pairs (launches with a time, slots in which exactly these launches have a time).

    Slots in which one of the sides has no time are left out.
    """
    patterns: dict[bytes, list[int]] = {}
    for column, is_known in enumerate(np.isfinite(block.y).T):
        if 0 < block.tuned[is_known].sum() < is_known.sum():
            patterns.setdefault(is_known.tobytes(), []).append(column)
    return [
        (np.flatnonzero(np.frombuffer(is_known, dtype=bool)), np.array(columns))
        for is_known, columns in patterns.items()
    ]


def _labels(block: Drawn, rows: NDArray[np.intp]) -> Floats:
    """Return ℓ − ℓ̄ of the order that was drawn."""
    tuned = block.tuned[rows]
    return np.asarray(tuned - tuned.mean())


def _orders(block: Drawn, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return ℓ − ℓ̄ of the order that was drawn, and of all possible ones, ``(n_orders, n_rows)``."""
    return _labels(block, rows), _balanced(len(rows), int(block.tuned[rows].sum()))


@lru_cache(maxsize=256)
def _balanced(n: int, n_tuned: int) -> Floats:
    """Return ℓ − ℓ̄ of every order of ``n`` launches with ``n_tuned`` of the setting."""
    orders = np.zeros((math.comb(n, n_tuned), n))
    for order, tuned_positions in zip(orders, combinations(range(n), n_tuned), strict=True):
        order[list(tuned_positions)] = 1.0
    return orders - n_tuned / n


def _medians(blocks: Sequence[Drawn]) -> tuple[Floats, Floats]:
    """Return where the search for an estimate starts, and how far it reaches, for each slot.

    The search starts at the median over blocks of the difference between the sides' medians.
    """
    y = [(block.y, block.tuned) for block in blocks]
    differences = [median(times[~tuned]) - median(times[tuned]) for times, tuned in y]
    ranges = [
        np.nanmax(times, axis=0, initial=-FAR) - np.nanmin(times, axis=0, initial=FAR) for times, _ in y
    ]
    start = np.nan_to_num(median(np.array(differences))) if y else np.zeros(0)
    reach = np.max(ranges, axis=0) if y else np.zeros(0)
    return start, np.clip(reach, LEAST_SPREAD, 2 * FAR)
