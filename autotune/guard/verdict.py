"""Decide whether tuned settings became slower than in earlier nights, or slower than MPI's defaults.

A night is the set of launches of one ``guard check``; the last night is called tonight. A slot is a
collective, a communicator size and a message size.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from autotune.guard.kept import Night, slot_text, slots_of
from autotune.guard.nights import (
    FRESH,
    PAST,
    STEADY,
    WANDERING,
    Floats,
    Rates,
    bounds_of_rise,
    components,
    log_claim_of_rise,
    log_evidence_of_rise,
    nights_wanted,
    of_all_sizes,
    of_launches,
    of_sizes,
    rise,
)
from autotune.history.objectives import Slot
from autotune.verification.comparison import WHOLE
from autotune.verification.evidence import bound, estimate, log_evidence

LOSS = 0.1
"""Relative slowdown that must be excluded at every message size before a check reports "same". Verifications
in campaigns use ``verify.margin`` for the same purpose."""
_LOG_MAX_LOSS = math.log1p(-0.01)
"""Settings are slower than the default if ln of their speed-up is below this; see ``verify.max_loss``."""
_DAY_H = 24  # Checks that are fewer hours apart count as made under the same conditions.
_ALPHA = 0.05  # Error rate of a confidence interval.


class Kind(StrEnum):
    """Kinds of slowdown."""

    SLOWER = "slower than before"  # Slower than in earlier nights.
    BEHIND = "slower than the default"  # Slower than MPI's defaults, launched in turn with the settings.
    KEPT = "slower than as kept"  # Slower than the state saved by ``guard keep``, at the same moments.


@dataclass(frozen=True, slots=True)
class Loss:
    """A slowdown in one slot (collective, communicator size, message size)."""

    slot: Slot
    kind: Kind
    since: str  # Date of the first night with this slowdown.
    ratio: float  # Time of a call divided by the time that it is compared with.
    interval: tuple[float, float]  # 95 % interval of ``ratio``, valid for any number of nights.
    default: float  # The same ratio for MPI's own defaults; if it is as large, the MPI became slower.


@dataclass(frozen=True, slots=True)
class SlotEstimate:
    """Measured times and their variability in one slot (collective, communicator size, message size)."""

    slot: Slot
    settings_s: float  # Tonight's time of a call under the settings, in seconds.
    default_s: float  # Tonight's time of a call with MPI's own defaults, in seconds.
    ratio_bound: float  # Upper bound of the time / the time of earlier nights; may be infinite.
    day: float  # Standard deviation of ln(time of a call) between nights; NaN for a single night.
    launch: float  # Standard deviation of ln(time of a call) between launches of one night.
    nights_needed: float  # Earlier nights needed to detect ``LOSS`` in the next night; may be infinite.
    by_launches: bool = True  # Whether more launches a night would make ``nights_needed`` finite.


@dataclass(frozen=True, slots=True)
class NightVerdict:
    """Result of comparing tonight's launches with earlier nights and with the default."""

    found: tuple[Loss, ...] = ()  # The slowdowns that were detected.
    seen: tuple[SlotEstimate, ...] = ()  # Measured times of every slot.
    suspected: tuple[Slot, ...] = ()  # Slots with some evidence of a slowdown; one more night may confirm it.
    nights: int = 0  # Number of earlier nights that tonight was compared with.

    @property
    def inconclusive(self) -> tuple[SlotEstimate, ...]:
        """Return the slots where no slowdown was detected, but a slowdown by ``LOSS`` is not excluded."""
        lost = {loss.slot for loss in self.found}
        return tuple(s for s in self.seen if s.slot not in lost and s.ratio_bound > 1 + LOSS)

    @property
    def worse(self) -> tuple[Slot, ...]:
        """Return the slots to tune again, where the settings became slower by more than the default did."""
        more = [f for f in self.found if f.kind is Kind.BEHIND or f.ratio > f.default * (1 - _LOG_MAX_LOSS)]
        return tuple(dict.fromkeys(f.slot for f in more if f.slot != WHOLE))


@dataclass(frozen=True)
class _Series:
    """The times of all nights as arrays; the last row is tonight.

    Arrays have the shape ``(n_nights, n_slots)`` unless another is stated, and contain ln t, where t is the
    time of a call in seconds.
    """

    slots: tuple[Slot, ...]
    settings: Floats  # Mean under the settings in each night.
    default: Floats  # Mean with MPI's own defaults in each night.
    launches: Floats  # Number of launches under the settings in each night, ``(n_nights,)``.
    within: Floats  # Variance between the launches under the settings in each night.

    @classmethod
    def of(cls, nights: Sequence[Night], slots: tuple[Slot, ...]) -> "_Series":
        sides = [(night.side(slots, True), night.side(slots, False)) for night in nights]
        settings, within = zip(*(of_launches(side) for side, _ in sides), strict=True)
        default = [of_launches(side)[0] for _, side in sides]
        launches = np.array([len(side) for side, _ in sides], dtype=float)
        return cls(slots, np.array(settings), np.array(default), launches, np.array(within))

    def window(self, since: int) -> tuple[NDArray[np.intp], int]:
        """Return the indices of the nights to compare, and how many of them are before night ``since``."""
        last = len(self.settings)
        earlier, fresh = range(max(0, since - PAST), since), range(max(since, last - FRESH), last)
        return np.array([*earlier, *fresh], dtype=int), len(earlier)


def judge(nights: Sequence[Night], rates: float = Rates().a_year, at_once: bool = True) -> NightVerdict:
    """Compare the last night with the earlier ones and the default; see ``guard.nights`` for the statistics.

    Args:
        nights: The nights as ``kept.comparable`` returns them, the oldest first.
        rates: Expected number of false alarms in a year in which nothing changes.
        at_once: Whether to compare the launches of two checks of one day between which something is known to
            have been changed. This is needless if the state saved by ``guard keep`` was launched at the same
            moments as the current one.
    """
    if not (slots := _common(nights)):
        return NightVerdict()
    nights = [night for night in nights if _is_complete(night, slots)]
    series, budget = _Series.of(nights, slots), Rates(rates, 2 * len(slots) + 1)
    last, all_days = len(nights) - 1, [night.day for night in nights]
    changed = [False, *(a.state != b.state for a, b in pairwise(nights))]
    limits = [budget.limit(sum(changed[: i + 1]) if new else 0) for i, new in enumerate(changed)]
    days = [night.day if all_days.count(night.day) == 1 else night.date for night in nights]
    earlier = {(key, day) for night in nights[:-1] for key, day in night.found}
    found = {name for _, name in earlier}
    # If the night of a slowdown is no longer recorded, tonight replaces it, which is compared in any case.
    known = {next((i for i, n in enumerate(nights) if name in (n.date, n.day)), last) for name in found}
    losses: dict[tuple[Slot, Kind], Loss] = {}
    suspected: dict[Slot, None] = {}
    for since in sorted({*range(max(0, last - FRESH + 1), last + 1), *known}):
        names = (nights[since].date, nights[since].day)
        for slot, kind, evidence, claim in _evidence(nights, series, since, limits[since]):
            found_earlier = any((slot_text(slot), name) in earlier for name in names)
            if claim >= limits[since] or (kind is Kind.SLOWER and found_earlier):
                if (loss := _loss(nights, series, slot, kind, since, days[since])) is not None:
                    losses.setdefault((slot, kind), loss)
            elif evidence >= limits[since] / 2:
                suspected[slot] = None
    for loss in _at_once(nights, slots, limits[last], days[last]) if last and at_once else ():
        if changed[last]:
            losses.setdefault((loss.slot, loss.kind), loss)
        else:
            suspected[loss.slot] = None
    remaining = tuple(slot for slot in suspected if slot not in {loss.slot for loss in losses.values()})
    recent = [i for i in range(max(0, last - FRESH + 1), last + 1) if changed[i]]
    estimates = tuple(_estimates(series, recent[-1] if recent else last))
    return NightVerdict(tuple(losses.values()), estimates, remaining, last)


def _common(nights: Sequence[Night]) -> tuple[Slot, ...]:
    """Return the slots measured under settings and default, tonight and in more than half of all nights."""
    complete = [{slot for slot in slots_of([night]) if _is_complete(night, (slot,))} for night in nights]
    tonight = complete[-1] if complete else ()
    return tuple(sorted(slot for slot in tonight if 2 * sum(slot in one for one in complete) > len(nights)))


def _is_complete(night: Night, slots: Sequence[Slot]) -> bool:
    return all(bool(np.isfinite(of_launches(night.side(slots, tuned))[0]).all()) for tuned in (True, False))


def _evidence(
    nights: Sequence[Night], series: _Series, since: int, limit: float
) -> Iterator[tuple[Slot, Kind, float, float]]:
    """Yield the evidence of each possible slowdown that began with the night ``since``.

    Yields:
        Slot, kind of slowdown, ln of the evidence of all nights from ``since`` on, and the smallest ln of the
        evidence of any half (rounded up) of these nights.
    """
    part, first = series.window(since)
    sides = (series.settings[part], series.default[part])
    for slots, views, walks in (
        (series.slots, of_sizes(*sides), STEADY),
        ((WHOLE,), of_all_sizes(*sides), WANDERING),
    ):
        noise: tuple[Sequence[float], Floats] = (walks, series.launches[part])
        pair = log_evidence_of_rise(views, first, *noise), log_claim_of_rise(views, first, limit, *noise)
        yield from ((slot, Kind.SLOWER, float(e), float(c)) for slot, e, c in zip(slots, *pair, strict=True))
    blocks = [block for night in nights[since:] for block in night.blocks(series.slots)]
    within = log_evidence(blocks, _LOG_MAX_LOSS, -1.0)  # valid because a block's order is random
    yield from ((slot, Kind.BEHIND, float(e), float(e)) for slot, e in zip(series.slots, within, strict=True))


def _at_once(nights: Sequence[Night], slots: tuple[Slot, ...], limit: float, name: str) -> Iterator[Loss]:
    """Yield the slowdowns from one check to the next on the same day, as single launches show them.

    The caller reports them only if something is known to have been changed between the checks, because one
    check alone may have met bad conditions.

    The variance between nights cannot be estimated from fewer than three nights. But the conditions of a day
    affect launches of settings and default alike. So each pair of a launch under the settings and a launch of
    the default is treated like a night, and the machine may drift by any random walk from launch to launch.
    """
    previous, tonight = nights[-2:]
    if tonight.hours_from(previous) >= _DAY_H:
        return
    pairs = [_in_pairs(night, slots) for night in (previous, tonight)]
    first, sides = pairs[0].shape[1], np.concatenate(pairs, axis=1)
    for view_slots, views in ((slots, of_sizes(*sides)), ((WHOLE,), of_all_sizes(*sides))):
        evidence = log_evidence_of_rise(views, first, WANDERING)
        for i in np.flatnonzero(evidence >= limit):
            if loss := _risen(view_slots[i], name, views[..., i], first, WANDERING):
                yield loss


def _in_pairs(night: Night, slots: tuple[Slot, ...]) -> Floats:
    """Return ln of the seconds under the settings and by default, for pairs of complete launches, in order.

    The shape is ``(2, n_pairs, n_slots)``.
    """
    sides = [night.side(slots, tuned) for tuned in (True, False)]
    pairs = min(map(len, sides))
    both_sides = np.stack([side[:pairs] for side in sides])
    return np.asarray(both_sides[:, np.isfinite(both_sides).all(axis=(0, 2))])


def _loss(
    nights: Sequence[Night], series: _Series, slot: Slot, kind: Kind, since: int, day: str
) -> Loss | None:
    """Return a detected slowdown with its size and interval; None if the times no longer show it."""
    if kind is Kind.BEHIND:
        blocks = [block for night in nights[since:] for block in night.blocks((slot,))]
        low, high = (math.exp(-float(bound(blocks, _ALPHA / 2, sign)[0])) for sign in (-1.0, 1.0))
        return Loss(slot, kind, day, math.exp(-float(estimate(blocks)[0])), (low, high), 1.0)
    part, first = series.window(since)
    if first < 1:
        return None
    sides = series.settings[part], series.default[part]
    views = of_all_sizes(*sides)[..., 0] if slot == WHOLE else of_sizes(*sides)[..., series.slots.index(slot)]
    return _risen(slot, day, views, first, WANDERING if slot == WHOLE else STEADY, series.launches[part])


def _risen(
    slot: Slot, day: str, views: Floats, first: int, walks: Sequence[float], launches: Floats | None = None
) -> Loss | None:
    """Return the slowdown in the views of one slot, ``(2, n_nights)``, since the night ``first``, if any."""
    log_ratio, log_excess = rise(views.T, first)
    if max(log_ratio, log_excess) < -_LOG_MAX_LOSS:
        return None
    ends = bounds_of_rise(views[0][:, None], first, _ALPHA, walks, launches)
    low, high = (math.exp(float(end[0])) for end in ends)
    return Loss(slot, Kind.SLOWER, day, math.exp(log_ratio), (low, high), math.exp(log_ratio - log_excess))


def _estimates(series: _Series, since: int) -> Iterator[SlotEstimate]:
    """Yield the estimates of every slot, with an upper bound on the slowdown since the night ``since``."""
    part, first = series.window(since)
    ratio_bounds = np.full(len(series.slots), math.inf)
    if first:  # uses absolute times, which also show a slowdown of all sizes and of the default
        _, ends = bounds_of_rise(series.settings[part], first, _ALPHA, WANDERING, series.launches[part])
        ratio_bounds = np.exp(ends)
    earlier = slice(max(0, since - PAST), since) if since else slice(0, 1)
    day, launch = components(series.settings[earlier], series.within[earlier], series.launches[earlier])
    loss, per_night, limit = math.log1p(LOSS), float(series.launches[-1]), -math.log(_ALPHA / 2)
    for i, slot in enumerate(series.slots):
        days, spreads = float(np.nan_to_num(day[i])), (float(day[i]), float(launch[i]))
        nights_needed = nights_wanted(loss, days, launch[i], per_night, limit)
        by_launches = math.isfinite(nights_wanted(loss, days, 0.0, per_night, limit))
        settings_s, default_s = (float(np.exp(y[-1, i])) for y in (series.settings, series.default))
        times = (settings_s, default_s, float(ratio_bounds[i]))
        yield SlotEstimate(slot, *times, *spreads, nights_needed, by_launches)
