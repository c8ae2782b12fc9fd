"""How much the order of launches says for a difference between two sides (step 11 of the flow).

Within a block every order with as many launches of each side was drawn with the same chance. Nothing else is
assumed: had the setting no effect, each launch would have shown the same times in any other order, so all
orders are equally likely [1]. Drift, shifts, alternation, heavy tails and dependence between slots are in the
times, and so in that distribution. What is known of launches beside their times may divide them into strata,
or leave some out: orders are then those within the strata, of the launches that are left.

Notation: y is ln t in one slot, ℓ is 1 for launches of the setting and 0 for others, ℓ̄ its mean over the
launches of the stratum in the block that are known; z is y less their median, over the robust standard
deviation (1.4826 times the median of absolute values) of these in all blocks so far, clipped to ±1;
S = −Σ (ℓ − ℓ̄) z, so that S > 0 where the setting is faster. The evidence after some blocks is the e-value

    E = mean over λ of Π over blocks of exp(λ S) / mean over drawable orders of exp(λ S),

whose expectation is at most one at whatever block one stops, where there is no effect. So with a chance of at
most α it ever reaches 1/α [2]: launches may end, go on or be resumed for any reason, and a mean of e-values
over slots is one again, whatever the dependence between them [3]. λ is that of a test for effects of a
tenth to three robust standard deviations.

That the setting gains more than δ is the same of y + δ ℓ. The interval of an effect is what is not rejected,
its estimate the δ at which ΣS is zero [4].

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
from itertools import chain, combinations, product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STRENGTHS = np.array([0.15, 0.3, 0.6, 1.2, 2.4, 4.8])
"""λ: from one that detects small effects by many launches to one that detects large ones by few.

Of a clear effect the scores are ±0.67, and four launches a side reach 59 % of the evidence they can have at
λ = 2.4, 97 % at 4.8.
"""
_CLIP = 1.0
"""Robust standard deviations beyond which a launch counts no further."""
ROBUST = 1.4826
"""From the median of absolute values to the standard deviation of a normal distribution."""
_LEAST_SCALE = 1e-12
"""Least spread, ln t: launches that printed the same time to the last bit are not divided by zero."""
_FAR = 7.0
"""On the log scale: no setting is a thousand times as fast."""
_LEAST_SPREAD = 1e-4
"""Least reach of a search for a bound, ln t: a hundredth of the smallest loss that matters."""
_STEPS = 12
"""Steps of bisection: a bound is known to some hundredths of its distance from the estimate."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A block of launches whose order was drawn, in all slots that are compared."""

    y: Floats  # Ln t, (n_launches, n_slots); NaN where nothing is known.
    tuned: NDArray[np.bool_]  # Which launches are of the setting, (n_launches,).
    strata: NDArray[np.intp]  # Launches with the same number are compared, (n_launches,).

    @classmethod
    def of(cls, y: Floats, tuned: NDArray[np.bool_]) -> "Drawn":
        """A block of one stratum."""
        return cls(y, tuned, np.zeros(len(tuned), dtype=int))

    @property
    def parts(self) -> list[NDArray[np.intp]]:
        """The launches of each stratum."""
        return [np.flatnonzero(self.strata == stratum) for stratum in np.unique(self.strata)]


def log_evidence(blocks: Sequence[Drawn], delta: float | Floats = 0.0, sign: float = 1.0) -> Floats:
    """Ln of the evidence that the setting gains more than δ (``sign`` −1: less), the highest so far."""
    log_e = np.zeros((STRENGTHS.size, blocks[0].y.shape[1] if blocks else 0))
    best = np.zeros(log_e.shape[1])
    for block, z in zip(blocks, _scores(blocks, delta), strict=True):
        for rows, columns in _known(block):
            labels, drawable = _orders(block, rows)
            part = z[np.ix_(rows, columns)]
            seen, others = -sign * labels @ part, -sign * drawable @ part
            exponents = STRENGTHS[:, None, None] * (others - seen)  # (λ, orders, slots)
            log_e[:, columns] -= np.log(np.mean(np.exp(exponents), axis=1))
        best = np.maximum(best, _log_mean(log_e))
    return best


def estimate(blocks: Sequence[Drawn]) -> Floats:
    """The gain of each slot: the δ at which the statistic is zero; NaN without launches of both sides."""
    n_slots = blocks[0].y.shape[1] if blocks else 0
    measured = np.zeros(n_slots, dtype=bool)
    for block in blocks:
        for _, columns in _known(block):
            measured[columns] = True

    def gains_more(delta: Floats) -> NDArray[np.bool_]:
        return statistic(blocks, delta) > 0.0

    # From the difference of the medians outwards, as far as several times the spread of launches.
    start, reach = _medians(blocks)
    low, high = start - reach, start + reach
    for _ in range(_STEPS):
        middle = (low + high) / 2
        more = gains_more(middle)
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.where(measured, (low + high) / 2, math.nan)


def statistic(blocks: Sequence[Drawn], delta: float | Floats) -> Floats:
    """ΣS of each slot, were the launches of the setting slower by δ."""
    total = np.zeros(blocks[0].y.shape[1] if blocks else 0)
    for block, z in zip(blocks, _scores(blocks, delta), strict=True):
        for rows, columns in _known(block):
            total[columns] -= _labels(block, rows) @ z[np.ix_(rows, columns)]
    return total


def bound(blocks: Sequence[Drawn], alpha: float, sign: float = 1.0) -> Floats:
    """The gain of which the launches so far exclude less, for each slot; ``sign`` −1: more.

    Wrong ever with a chance of at most ``alpha``; infinite where nothing is excluded.
    """
    least, gain = -math.log(alpha), np.nan_to_num(estimate(blocks))
    apart = np.maximum(np.nan_to_num(np.hypot(*spread(blocks, gain))), _LEAST_SPREAD)

    def at(u: Floats) -> Floats:
        return np.asarray(gain - sign * apart * np.expm1(u))

    def excluded(u: Floats) -> NDArray[np.bool_]:
        return log_evidence(blocks, at(u), sign) >= least

    # Bisected on a scale on which what is near the estimate is fine, and what is far coarse.
    near, far = np.zeros(len(gain)), np.log1p(_FAR / apart)
    never = ~excluded(far)
    for _ in range(_STEPS):
        middle = (near + far) / 2
        excludes = excluded(middle)
        near, far = np.where(excludes, near, middle), np.where(excludes, middle, far)
    return np.where(never, -sign * math.inf, at(far))


def deviation(blocks: Sequence[Drawn], gain: Floats) -> Floats:
    """ΣS of each slot over its standard deviation over the drawable orders, where it gains ``gain``."""
    total, variance = np.zeros(len(gain)), np.zeros(len(gain))
    for block, z in zip(blocks, _scores(blocks, gain), strict=True):
        for rows, columns in _known(block):
            labels, drawable = _orders(block, rows)
            part = z[np.ix_(rows, columns)]
            total[columns] += -labels @ part
            variance[columns] += np.mean((drawable @ part) ** 2, axis=0)
    return total / np.sqrt(np.maximum(variance, _LEAST_SCALE))


def spread(blocks: Sequence[Drawn], gain: Floats) -> tuple[Floats, Floats]:
    """Robust standard deviation around the block of launches of the setting, and of others, in each slot."""
    parts = [_centred(block, gain) for block in blocks]
    tuned, others = (
        np.concatenate([part[block.tuned == side] for part, block in zip(parts, blocks, strict=True)])
        for side in (True, False)
    )
    return ROBUST * median(np.abs(tuned)), ROBUST * median(np.abs(others))


def _log_mean(log_e: Floats) -> Floats:
    most = log_e.max(axis=0)
    return np.asarray(most + np.log(np.mean(np.exp(log_e - most), axis=0)))


def _scores(blocks: Sequence[Drawn], delta: float | Floats) -> list[Floats]:
    seen, scores = [], []
    for block in blocks:
        centred = _centred(block, np.broadcast_to(delta, block.y.shape[1]))
        seen.append(np.abs(centred))
        with np.errstate(all="ignore"):
            scale = ROBUST * np.nan_to_num(median(np.concatenate(seen)))
        scores.append(np.clip(centred / np.maximum(scale, _LEAST_SCALE), -_CLIP, _CLIP))
    return scores


def _centred(block: Drawn, delta: Floats) -> Floats:
    """Y + δ ℓ of each launch less the median of its stratum."""
    y = block.y + np.outer(block.tuned, delta)
    for part in block.parts:
        y[part] -= median(y[part])
    return y


def median(y: Floats) -> Floats:
    """Median of the known values in each column; NaN where there are none."""
    if not len(y):
        return np.full(y.shape[1], math.nan)
    if not np.isnan(y).any():
        return np.asarray(np.median(y, axis=0))
    n = np.isfinite(y).sum(axis=0)
    ordered, columns = np.sort(y, axis=0), np.arange(y.shape[1])  # NaN last
    low, high = np.maximum((n - 1) // 2, 0), n // 2
    return np.asarray((ordered[low, columns] + ordered[np.minimum(high, len(y) - 1), columns]) / 2)


def _known(block: Drawn) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Launches that are known in strata with both sides, and the slots of which these are."""
    patterns: dict[bytes, list[int]] = {}
    for column, known in enumerate(np.isfinite(block.y).T):
        usable = np.zeros(len(known), dtype=bool)
        for part in block.parts:
            tuned = block.tuned[part[known[part]]]
            usable[part] = known[part] & (0 < tuned.sum() < len(tuned))
        if usable.any():
            patterns.setdefault(usable.tobytes(), []).append(column)
    return [
        (np.flatnonzero(np.frombuffer(known, dtype=bool)), np.array(columns))
        for known, columns in patterns.items()
    ]


def _labels(block: Drawn, rows: NDArray[np.intp]) -> Floats:
    """ℓ − ℓ̄ of the order that was drawn."""
    return _within(block.tuned[rows].astype(float), block.strata[rows])


def _orders(block: Drawn, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """ℓ − ℓ̄ of the order that was drawn, and of all that could have been, (n_orders, n_rows)."""
    key = (tuple(block.tuned[rows].tolist()), tuple(block.strata[rows].tolist()))
    return _labels(block, rows), _balanced(*key)


@lru_cache(maxsize=256)
def _balanced(tuned: tuple[bool, ...], strata: tuple[int, ...]) -> Floats:
    """Every order with as many launches of the setting in each stratum, less its mean there."""
    of, drawn = np.array(strata), np.array(tuned)
    places = [np.flatnonzero(of == stratum) for stratum in np.unique(of)]
    each = [combinations(part.tolist(), int(drawn[part].sum())) for part in places]
    orders = []
    for chosen in product(*each):
        order = np.zeros(len(of))
        order[list(chain(*chosen))] = 1.0
        orders.append(_within(order, of))
    return np.array(orders)


def _within(labels: Floats, strata: NDArray[np.intp]) -> Floats:
    """Labels less their mean in each stratum."""
    centred = labels.copy()
    for stratum in np.unique(strata):
        centred[strata == stratum] -= labels[strata == stratum].mean()
    return centred


def _medians(blocks: Sequence[Drawn]) -> tuple[Floats, Floats]:
    """The median over all strata of the difference of both sides' medians, and how far to look around it."""
    y = [(b.y[part], b.tuned[part]) for b in blocks for part in b.parts]
    apart = [median(of[~tuned]) - median(of[tuned]) for of, tuned in y]
    within = [np.nanmax(of, axis=0, initial=-_FAR) - np.nanmin(of, axis=0, initial=_FAR) for of, _ in y]
    start = np.nan_to_num(median(np.array(apart))) if y else np.zeros(0)
    reach = np.max(within, axis=0) if y else np.zeros(0)
    return start, np.clip(reach, _LEAST_SPREAD, 2 * _FAR)
