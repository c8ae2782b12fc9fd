"""Decide whether tuned settings became slower than in earlier nights, or slower than MPI's defaults.

A night is the set of launches of one ``guard check``; the last one is called tonight.
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
    log_evidence_within,
    nights_wanted,
    of_all_sizes,
    of_launches,
    of_sizes,
    rise,
)
from autotune.history.objectives import Slot
from autotune.verification.comparison import WHOLE
from autotune.verification.evidence import bound, estimate

LOSS = 0.1
"""Relative slowdown that must be excluded at every message size before a check reports "same"; a
verification uses ``verify.margin`` in the same way."""
_LOG_MAX_LOSS = math.log1p(-0.01)
"""ln of the speed-up over the default below which settings count as slower: ``verify.max_loss``."""
_DAY_H = 24
"""Checks that are fewer hours apart than this ran under the same conditions of the machine."""
_ALPHA = 0.05
"""Error rate of a confidence interval."""


class Kind(StrEnum):
    """Kind of loss."""

    SLOWER = "slower than before"
    """Slower than in earlier nights."""
    BEHIND = "slower than the default"
    """Slower than MPI's defaults, which were launched in turn with the settings."""
    KEPT = "slower than as kept"
    """Slower than the state saved by ``guard keep``, which was launched at the same moments."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A slowdown in one slot (collective, communicator size, message size)."""

    slot: Slot
    """Slot in which the settings became slower."""
    kind: Kind
    """Reference that the settings are slower than."""
    since: str
    """Date of the first night with this slowdown."""
    ratio: float
    """Time of a call divided by that of the reference."""
    interval: tuple[float, float]
    """95 % confidence interval of ``ratio``, valid however many nights were looked at."""
    default: float
    """The same ratio for MPI with its own defaults; if it rose as much as ``ratio``, the MPI became slower,
    not the settings."""


@dataclass(frozen=True, slots=True)
class SlotEstimate:
    """Measured times and their variability in one slot (collective, communicator size, message size)."""

    slot: Slot
    """Slot that was measured."""
    settings_s: float
    """Tonight's time of a call under the settings, in seconds."""
    default_s: float
    """Tonight's time of a call with MPI's own defaults, in seconds."""
    ratio_bound: float
    """Upper confidence bound of the time over that of earlier nights; infinite if there is no bound."""
    day: float
    """Standard deviation of ln t between nights (t: time of a call); NaN if there is only one night."""
    launch: float
    """Standard deviation of ln t between launches of one night."""
    nights_needed: float
    """Number of earlier nights needed to detect a slowdown of ``LOSS`` in one further night; infinite if it
    exceeds the number of nights that are compared."""
    by_launches: bool = True
    """Whether more launches a night would make the number of nights needed finite; False if nights differ so
    much from each other that no number of launches suffices."""


@dataclass(frozen=True, slots=True)
class NightVerdict:
    """Result of comparing tonight's launches with earlier nights and with the default."""

    found: tuple[Loss, ...] = ()
    """The slowdowns that were detected."""
    seen: tuple[SlotEstimate, ...] = ()
    """Measured times of every slot."""
    suspected: tuple[Slot, ...] = ()
    """Slots with some evidence of a slowdown, which one more night may confirm."""
    nights: int = 0
    """Number of earlier nights that tonight was compared with."""

    @property
    def inconclusive(self) -> tuple[SlotEstimate, ...]:
        """Return the slots without a detected slowdown in which one of ``LOSS`` is not excluded."""
        lost = {loss.slot for loss in self.found}
        return tuple(s for s in self.seen if s.slot not in lost and s.ratio_bound > 1 + LOSS)

    @property
    def worse(self) -> tuple[Slot, ...]:
        """Return the slots to tune again: there the settings became slower by more than the default."""
        return tuple(
            dict.fromkeys(
                f.slot
                for f in self.found
                if f.slot != WHOLE and (f.kind is Kind.BEHIND or f.ratio > f.default * (1 - _LOG_MAX_LOSS))
            )
        )


@dataclass(frozen=True)
class _Series:
    """The times of all nights as arrays; the last row is tonight."""

    slots: tuple[Slot, ...]
    settings: Floats
    """Mean ln t under the settings in each night, ``(n_nights, n_slots)``; t is the time of a call in
    seconds."""
    default: Floats
    """Mean ln t with MPI's own defaults in each night, ``(n_nights, n_slots)``."""
    launches: Floats
    """Number of launches under the settings in each night, ``(n_nights,)``."""
    within: Floats
    """Variance of ln t between the launches under the settings in each night, ``(n_nights, n_slots)``."""


def judge(
    nights: Sequence[Night], rates: float = Rates().a_year, bounds: bool = True, at_once: bool = True
) -> NightVerdict:
    """Compare the last night with the earlier ones and the default; see ``guard.nights`` for the statistics.

    Args:
        nights: The nights as ``kept.comparable`` returns them, the oldest first.
        rates: Expected number of false alarms in a year in which nothing changes.
        bounds: Whether to return the estimates of every slot too, with bounds on the slowdown.
        at_once: Whether to compare the launches of two checks of one day between which something is known to
            have been changed. This is needless if the state saved by ``guard keep`` was launched at the same
            moments as the current one.
    """
    slots = _common(nights)
    if not slots:
        return NightVerdict()
    nights = [night for night in nights if _is_complete(night, slots)]
    series, budget = _series(nights, slots), Rates(rates, 2 * len(slots) + 1)
    states = [night.state for night in nights]
    upgrades = np.cumsum([False, *(a != b for a, b in pairwise(states))])
    last = len(nights) - 1
    earlier = {(key, day) for night in nights[:-1] for key, day in night.found}
    days = _names(nights)
    losses: dict[tuple[Slot, Kind], Loss] = {}
    suspected: dict[Slot, None] = {}
    for since in sorted(
        {
            *range(max(0, last - FRESH + 1), last + 1),
            *(i for _, since in earlier if (i := _since(nights, since)) is not None),
        }
    ):
        new = bool(since and upgrades[since] != upgrades[since - 1])
        limit = budget.limit(int(upgrades[since]) if new else 0)
        for slot, kind, evidence, claim in _evidence(nights, series, since, limit):
            found_earlier = any(
                (slot_text(slot), name) in earlier for name in (nights[since].date, nights[since].day)
            )
            if claim >= limit or (kind is Kind.SLOWER and found_earlier):
                if (loss := _loss(nights, series, slot, kind, since, days[since])) is not None:
                    losses.setdefault((slot, kind), loss)
            elif evidence >= limit / 2:
                suspected[slot] = None
    changed = bool(last and upgrades[last] != upgrades[last - 1])
    limit = budget.limit(int(upgrades[last]) if changed else 0)
    for loss in _at_once(nights, slots, limit, days[last]) if last and at_once else ():
        if changed:
            losses.setdefault((loss.slot, loss.kind), loss)
        else:
            suspected[loss.slot] = None
    remaining = tuple(slot for slot in suspected if slot not in {loss.slot for loss in losses.values()})
    recent = [i for i in range(1, last + 1) if upgrades[i] != upgrades[i - 1] and i > last - FRESH]
    estimates = tuple(_estimates(series, recent[-1] if recent else last)) if bounds else ()
    return NightVerdict(tuple(losses.values()), estimates, remaining, last)


def _common(nights: Sequence[Night]) -> tuple[Slot, ...]:
    """Return the slots measured under settings and default, tonight and in most of the earlier nights."""
    if not nights:
        return ()
    complete = [{slot for slot in slots_of([night]) if _is_complete(night, (slot,))} for night in nights]
    counts = {slot: sum(slot in slots_of_night for slots_of_night in complete) for slot in complete[-1]}
    return tuple(sorted(slot for slot, n in counts.items() if 2 * n > len(nights)))


def _is_complete(night: Night, slots: Sequence[Slot]) -> bool:
    return all(bool(np.isfinite(of_launches(night.side(slots, tuned))[0]).all()) for tuned in (True, False))


def _series(nights: Sequence[Night], slots: tuple[Slot, ...]) -> _Series:
    settings = [of_launches(night.side(slots, True)) for night in nights]
    default = [of_launches(night.side(slots, False))[0] for night in nights]
    launches = np.array([len(night.side(slots, True)) for night in nights], dtype=float)
    return _Series(
        slots,
        np.array([y for y, _ in settings]),
        np.array(default),
        launches,
        np.array([v for _, v in settings]),
    )


def _window(series: _Series, since: int) -> NDArray[np.intp]:
    """Return the indices of the nights to compare: some before night ``since``, and the last from it on."""
    last = len(series.settings)
    return np.array([*range(max(0, since - PAST), since), *range(max(since, last - FRESH), last)], dtype=int)


def _evidence(
    nights: Sequence[Night], series: _Series, since: int, limit: float
) -> Iterator[tuple[Slot, Kind, float, float]]:
    """Yield the evidence of each possible slowdown that began with the night ``since``.

    Yields:
        Slot, kind of slowdown, ln of the evidence of all nights from ``since`` on, and the smallest evidence
        of any larger half of these nights.
    """
    part = _window(series, since)
    first, sides = int((part < since).sum()), (series.settings[part], series.default[part])
    for slots, views, walks in (
        (series.slots, of_sizes(*sides), STEADY),
        ((WHOLE,), of_all_sizes(*sides), WANDERING),
    ):
        noise: tuple[Sequence[float], Floats] = (walks, series.launches[part])
        pair = log_evidence_of_rise(views, first, *noise), log_claim_of_rise(views, first, limit, *noise)
        yield from (
            (slot, Kind.SLOWER, float(e), float(claim)) for slot, e, claim in zip(slots, *pair, strict=True)
        )
    within = log_evidence_within([night.blocks(series.slots) for night in nights[since:]], _LOG_MAX_LOSS)
    yield from ((slot, Kind.BEHIND, float(e), float(e)) for slot, e in zip(series.slots, within, strict=True))


def _names(nights: Sequence[Night]) -> list[str]:
    """Return a name of each night: its day, or its date with the time if several nights were on one day."""
    days = [night.day for night in nights]
    return [night.day if days.count(night.day) == 1 else night.date for night in nights]


def _since(nights: Sequence[Night], name: str) -> int | None:
    """Return the index of the night with a name that ``_names`` returned; None if there is no such night."""
    return next((i for i, night in enumerate(nights) if name in (night.date, night.day)), None)


def _at_once(nights: Sequence[Night], slots: tuple[Slot, ...], limit: float, name: str) -> Iterator[Loss]:
    """Yield the slowdowns from one check to the next on the same day, as single launches show them.

    The caller reports them only if something is known to have been changed between the checks, because one
    check alone may have met bad conditions.

    The variance between nights cannot be estimated before there are three. But the conditions of a day affect
    the launches of settings and default alike, so each pair of one launch under the settings and one of the
    default is treated as a night is; any random walk of the machine from launch to launch is allowed for.
    """
    previous, tonight = nights[-2:]
    if tonight.hours_from(previous) >= _DAY_H:
        return
    pairs = [_in_pairs(night, slots) for night in (previous, tonight)]
    first = pairs[0].shape[1]
    settings, default = np.concatenate(pairs, axis=1)
    for view_slots, views in (
        (slots, of_sizes(settings, default)),
        ((WHOLE,), of_all_sizes(settings, default)),
    ):
        evidence = log_evidence_of_rise(views, first, WANDERING)
        for i in np.flatnonzero(evidence >= limit):
            log_ratio, log_excess = rise(views[..., i].T, first)
            if max(log_ratio, log_excess) < -_LOG_MAX_LOSS:
                continue
            ends = bounds_of_rise(views[0][:, [i]], first, _ALPHA, WANDERING)
            low, high = (math.exp(float(end[0])) for end in ends)
            yield Loss(
                view_slots[i],
                Kind.SLOWER,
                name,
                math.exp(log_ratio),
                (low, high),
                math.exp(log_ratio - log_excess),
            )


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
    part = _window(series, since)
    first = int((part < since).sum())
    if first < 1:
        return None
    sides = series.settings[part], series.default[part]
    walks: Sequence[float] = WANDERING if slot == WHOLE else STEADY
    column = 0 if slot == WHOLE else series.slots.index(slot)
    views = (of_all_sizes if slot == WHOLE else of_sizes)(*sides)[..., column]
    log_ratio, log_excess = rise(views.T, first)
    if max(log_ratio, log_excess) < -_LOG_MAX_LOSS:
        return None
    ends = bounds_of_rise(views[0][:, None], first, _ALPHA, walks, series.launches[part])
    low, high = (float(end[0]) for end in ends)
    return Loss(
        slot,
        kind,
        day,
        math.exp(log_ratio),
        (math.exp(low), math.exp(high)),
        math.exp(log_ratio - log_excess),
    )


def _estimates(series: _Series, since: int) -> Iterator[SlotEstimate]:
    """Yield the estimates of every slot, with an upper bound on the slowdown since the night ``since``."""
    part = _window(series, since)
    y, first = series.settings[part], int((part < since).sum())
    ratio_bounds = np.full(len(series.slots), math.inf)
    if first:  # absolute times, so that a slowdown of all sizes and of the default too is excluded as well
        ratio_bounds = np.exp(bounds_of_rise(y, first, _ALPHA, WANDERING, series.launches[part])[1])
    earlier = slice(max(0, since - PAST), since) if since else slice(0, 1)
    day, launch = components(series.settings[earlier], series.within[earlier], series.launches[earlier])
    for i, slot in enumerate(series.slots):
        loss, days, per_night = math.log1p(LOSS), float(np.nan_to_num(day[i])), float(series.launches[-1])
        nights_needed = nights_wanted(loss, days, launch[i], per_night, -math.log(_ALPHA / 2))
        by_launches = math.isfinite(nights_wanted(loss, days, 0.0, per_night, -math.log(_ALPHA / 2)))
        settings_s, default_s = (float(np.exp(y[-1, i])) for y in (series.settings, series.default))
        spreads = float(day[i]), float(launch[i])
        yield SlotEstimate(
            slot, settings_s, default_s, float(ratio_bounds[i]), *spreads, nights_needed, by_launches
        )
