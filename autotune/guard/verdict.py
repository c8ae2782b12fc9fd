"""Compare tonight's launches with those of earlier nights: slower, behind the default, or neither."""

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
"""Loss that "same" excludes at every size, as a verification does by ``verify.margin``."""
_LOG_MAX_LOSS = math.log1p(-0.01)
"""ln of the speed-up below which settings lose against the default: ``verify.max_loss``."""
_DAY_H = 24
"""Hours during which conditions are shared."""
_ALPHA = 0.05
"""Error rate of an interval."""


class Kind(StrEnum):
    """Kind of loss."""

    SLOWER = "slower than before"
    """Slower than in earlier nights."""
    BEHIND = "slower than the default"
    """Slower than the default, in launches in turn."""
    KEPT = "slower than as kept"
    """Slower than the state that was kept, launched at the same moments."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss in one slot."""

    slot: Slot
    """Slot of the loss."""
    kind: Kind
    """Reference that the loss is against."""
    since: str
    """First night of the loss."""
    ratio: float
    """Time over that of the reference."""
    interval: tuple[float, float]
    """Interval (95 %) of the ratio, valid at any night."""
    default: float
    """The same ratio of the untouched stack: where it rose as much, the stack is slower, not the settings."""


@dataclass(frozen=True, slots=True)
class SlotEstimate:
    """Estimates for one slot."""

    slot: Slot
    """Slot of the estimates."""
    settings_s: float
    """Tonight's time under the settings, in seconds."""
    default_s: float
    """Tonight's time of the untouched stack, in seconds."""
    ratio_bound: float
    """Largest ratio to earlier nights that is not excluded; infinite where nothing is excluded."""
    day: float
    """Standard deviation of ln t between days; NaN where there is one night alone."""
    launch: float
    """Standard deviation of ln t of a launch within its night."""
    nights_needed: float
    """Nights needed to detect a loss of ``LOSS`` in one; infinite where they are more than are compared."""
    by_launches: bool = True
    """Whether more launches a night would reduce that number, which they do not where days differ by too
    much."""


@dataclass(frozen=True, slots=True)
class NightVerdict:
    """Result of tonight's launches."""

    found: tuple[Loss, ...] = ()
    """Losses."""
    seen: tuple[SlotEstimate, ...] = ()
    """Estimates of every slot."""
    suspected: tuple[Slot, ...] = ()
    """Slots in which one more night may show a loss."""
    nights: int = 0
    """Number of earlier nights that tonight was compared with."""

    @property
    def inconclusive(self) -> tuple[SlotEstimate, ...]:
        """Return the slots in which a loss of ``LOSS`` is not excluded."""
        lost = {loss.slot for loss in self.found}
        return tuple(s for s in self.seen if s.slot not in lost and s.ratio_bound > 1 + LOSS)

    @property
    def worse(self) -> tuple[Slot, ...]:
        """Return the slots to be tuned again.

        In these the settings lost more than the default did.
        """
        return tuple(
            dict.fromkeys(
                f.slot
                for f in self.found
                if f.slot != WHOLE and (f.kind is Kind.BEHIND or f.ratio > f.default * (1 - _LOG_MAX_LOSS))
            )
        )


@dataclass(frozen=True)
class _Series:
    """Nights as numbers; the last one is tonight."""

    slots: tuple[Slot, ...]
    settings: Floats
    """Mean ln t of each night, ``(n_nights, n_slots)``."""
    default: Floats
    launches: Floats
    """Number of launches of the settings in each night."""
    within: Floats
    """Variance of ln t between the launches of the settings in each night."""


def judge(
    nights: Sequence[Night], rates: float = Rates().a_year, bounds: bool = True, at_once: bool = True
) -> NightVerdict:
    """Compare the last of some nights with the others; see ``guard.nights`` for the claims.

    Args:
        nights: The oldest first, as ``kept.comparable`` returns them.
        rates: False claims that are expected in a year without a change.
        bounds: Whether to return estimates of every slot with the losses that are not excluded.
        at_once: Whether to compare the launches of two checks of one day where a known change was made. This
            is needless where the state that was kept was launched at the same moments as the current one.
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
    """Return the slots that tonight has on both sides, and that most of the earlier nights have too."""
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
    """Return the nights before one that it is compared with, and the last ones from it on."""
    last = len(series.settings)
    return np.array([*range(max(0, since - PAST), since), *range(max(since, last - FRESH), last)], dtype=int)


def _evidence(
    nights: Sequence[Night], series: _Series, since: int, limit: float
) -> Iterator[tuple[Slot, Kind, float, float]]:
    """Yield each claim that could be made of nights from one on.

    Yields:
        Slot, kind of loss, ln of the evidence of all these nights, and the least of any larger half of them.
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
    """Return each night's day, or its date with the time where a day has several nights."""
    days = [night.day for night in nights]
    return [night.day if days.count(night.day) == 1 else night.date for night in nights]


def _since(nights: Sequence[Night], name: str) -> int | None:
    """Return the index of the night with a name of ``_names``; None where it is not among these."""
    return next((i for i, night in enumerate(nights) if name in (night.date, night.day)), None)


def _at_once(nights: Sequence[Night], slots: tuple[Slot, ...], limit: float, name: str) -> Iterator[Loss]:
    """Yield losses against the previous night, within a day, that the launches of one check show.

    They are claimed only with a known change in between: one night alone may be a bad one.

    Nights give no information on their scale before there are three. But the conditions of a day are in the
    launches of both sides, so each launch, with the untouched one that was made with it, counts in order as a
    night does; any walk of the machine from launch to launch is allowed for.
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
    """Return ln of the seconds of both sides, ``(2, n_pairs, n_slots)``: complete launches, in order."""
    sides = [night.side(slots, tuned) for tuned in (True, False)]
    pairs = min(map(len, sides))
    both_sides = np.stack([side[:pairs] for side in sides])
    return np.asarray(both_sides[:, np.isfinite(both_sides).all(axis=(0, 2))])


def _loss(
    nights: Sequence[Night], series: _Series, slot: Slot, kind: Kind, since: int, day: str
) -> Loss | None:
    """Return a loss with its size, in relation to the other slots; None where it no longer exists."""
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
    """Yield the estimates of every slot, with the loss since a night that is not excluded."""
    part = _window(series, since)
    y, first = series.settings[part], int((part < since).sum())
    ratio_bounds = np.full(len(series.slots), math.inf)
    if first:  # the times themselves, because a loss of all sizes and both sides is to be excluded as well
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
