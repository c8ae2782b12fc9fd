"""Tonight's launches against those of earlier nights: slower, behind the default, or neither."""

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
"""Loss that "same" excludes at every size: as a verification does, by ``verify.margin``."""
_LEAST = math.log1p(-0.01)
"""Ln of the speed-up from which on settings lose against the default: ``verify.max_loss``."""
_DAY_H = 24
"""Hours: as long conditions are shared."""
_ALPHA = 0.05
"""Error rate of an interval."""


class Kind(StrEnum):
    """Kind of loss."""

    SLOWER = "slower than before"
    """Than in the nights before."""
    BEHIND = "slower than the default"
    """In launches in turn."""


@dataclass(frozen=True, slots=True)
class Found:
    """One slot in which something was lost."""

    slot: Slot
    """Where."""
    kind: Kind
    """Against what."""
    since: str
    """The first night of it."""
    ratio: float
    """Time over what it is compared with."""
    interval: tuple[float, float]
    """95 %, valid at whatever night one looks."""
    default: float
    """The same ratio of the untouched stack: where it rose as much, the stack is slower, not the settings."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Estimates for one slot."""

    slot: Slot
    """Where."""
    settings_s: float
    """Tonight's time under the settings."""
    default_s: float
    """Tonight's time of the untouched stack."""
    most: float
    """Ratio to earlier nights that is not excluded, at most; infinite: nothing is."""
    day: float
    """Standard deviation of ln t between days; NaN: of one night that is not known."""
    launch: float
    """Standard deviation of a launch within its night."""
    wanted: float
    """Nights needed to detect a loss of ``LOSS`` in one; infinite: more than are compared."""


@dataclass(frozen=True, slots=True)
class NightVerdict:
    """Result of tonight's launches."""

    found: tuple[Found, ...] = ()
    """Losses."""
    seen: tuple[Seen, ...] = ()
    """Every slot."""
    suspected: tuple[Slot, ...] = ()
    """Where one more night may show a loss."""
    nights: int = 0
    """Before tonight that were compared with."""

    @property
    def inconclusive(self) -> tuple[Seen, ...]:
        """Slots in which a loss of ``LOSS`` is not excluded."""
        lost = {one.slot for one in self.found}
        return tuple(s for s in self.seen if s.slot not in lost and s.most > 1 + LOSS)

    @property
    def worse(self) -> tuple[Slot, ...]:
        """Slots to be tuned again: the settings lost there what the default did not lose, or more than it."""
        return tuple(
            dict.fromkeys(
                f.slot
                for f in self.found
                if f.slot != WHOLE and (f.kind is Kind.BEHIND or f.ratio > f.default * (1 - _LEAST))
            )
        )


@dataclass(frozen=True)
class _Series:
    """Nights as numbers, the last one tonight."""

    slots: tuple[Slot, ...]
    settings: Floats
    """Mean ln t of each night, ``(n_nights, n_slots)``."""
    default: Floats
    launches: Floats
    """Number of launches of the settings in each night."""
    within: Floats
    """Variance between them."""


def judge(nights: Sequence[Night], rates: float = Rates().a_year, bounds: bool = True) -> NightVerdict:
    """Compare the last of some nights with the others; see ``guard.nights`` for the claims.

    Args:
        nights: The oldest first, as ``kept.comparable`` makes them.
        rates: False claims that are expected in a year without a change.
        bounds: Say of every slot what is not excluded; else its claims alone.
    """
    slots = _common(nights)
    if not slots:
        return NightVerdict()
    nights = [night for night in nights if _known(night, slots)]
    series, budget = _series(nights, slots), Rates(rates, 2 * len(slots) + 1)
    states = [night.state for night in nights]
    upgrades = np.cumsum([False, *(a != b for a, b in pairwise(states))])
    last = len(nights) - 1
    earlier = {(key, day) for night in nights[:-1] for key, day in night.found}
    days = _names(nights)
    found: dict[tuple[Slot, Kind], Found] = {}
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
            still = any(
                (slot_text(slot), name) in earlier for name in (nights[since].date, nights[since].day)
            )
            if claim >= limit or (kind is Kind.SLOWER and still):
                if (one := _found(nights, series, slot, kind, since, days[since])) is not None:
                    found.setdefault((slot, kind), one)
            elif evidence >= limit / 2:
                suspected[slot] = None
    changed = bool(last and upgrades[last] != upgrades[last - 1])
    limit = budget.limit(int(upgrades[last]) if changed else 0)
    for one in _at_once(nights, slots, limit, days[last]) if last else ():
        if changed:
            found.setdefault((one.slot, one.kind), one)
        else:
            suspected[one.slot] = None
    left = tuple(slot for slot in suspected if slot not in {one.slot for one in found.values()})
    recent = [i for i in range(1, last + 1) if upgrades[i] != upgrades[i - 1] and i > last - FRESH]
    seen = tuple(_seen(series, recent[-1] if recent else last)) if bounds else ()
    return NightVerdict(tuple(found.values()), seen, left, last)


def _common(nights: Sequence[Night]) -> tuple[Slot, ...]:
    """Slots that tonight has on both sides, and so has most of the nights before."""
    if not nights:
        return ()
    have = [{slot for slot in slots_of([night]) if _known(night, (slot,))} for night in nights]
    counts = {slot: sum(slot in one for one in have) for slot in have[-1]}
    return tuple(sorted(slot for slot, n in counts.items() if 2 * n > len(nights)))


def _known(night: Night, slots: Sequence[Slot]) -> bool:
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
    """Nights before one that it is compared with, and the last ones from it on."""
    last = len(series.settings)
    return np.array([*range(max(0, since - PAST), since), *range(max(since, last - FRESH), last)], dtype=int)


def _evidence(
    nights: Sequence[Night], series: _Series, since: int, limit: float
) -> Iterator[tuple[Slot, Kind, float, float]]:
    """Each claim that could be made of nights from one on, with the evidence of all and of any half."""
    part = _window(series, since)
    first, sides = int((part < since).sum()), (series.settings[part], series.default[part])
    for slots, views, walks in (
        (series.slots, of_sizes(*sides), STEADY),
        ((WHOLE,), of_all_sizes(*sides), WANDERING),
    ):
        known: tuple[Sequence[float], Floats] = (walks, series.launches[part])
        pair = log_evidence_of_rise(views, first, *known), log_claim_of_rise(views, first, limit, *known)
        yield from (
            (slot, Kind.SLOWER, float(e), float(least)) for slot, e, least in zip(slots, *pair, strict=True)
        )
    within = log_evidence_within([night.blocks(series.slots) for night in nights[since:]], _LEAST)
    yield from ((slot, Kind.BEHIND, float(e), float(e)) for slot, e in zip(series.slots, within, strict=True))


def _names(nights: Sequence[Night]) -> list[str]:
    """Each night by its day, or by its time too where a day has several."""
    days = [night.day for night in nights]
    return [night.day if days.count(night.day) == 1 else night.date for night in nights]


def _since(nights: Sequence[Night], name: str) -> int | None:
    """The night that goes by a name; None: it is not among these."""
    return next((i for i, night in enumerate(nights) if name in (night.date, night.day)), None)


def _at_once(nights: Sequence[Night], slots: tuple[Slot, ...], limit: float, name: str) -> Iterator[Found]:
    """Losses against the night before, within a day, that the launches of one check show.

    A claim of them takes something known that changed in between: one night alone may be a bad one.

    Nights say nothing of their scale before there are three. But what a day does to launches is in both, so
    that each launch beside the untouched one that was made with it counts, in order, as a night does; any
    walk of the machine from launch to launch is allowed for.
    """
    before, tonight = nights[-2:]
    if tonight.hours_from(before) >= _DAY_H:
        return
    pairs = [_in_pairs(night, slots) for night in (before, tonight)]
    first = pairs[0].shape[1]
    settings, default = np.concatenate(pairs, axis=1)
    for where, views in ((slots, of_sizes(settings, default)), ((WHOLE,), of_all_sizes(settings, default))):
        evidence = log_evidence_of_rise(views, first, WANDERING)
        for i in np.flatnonzero(evidence >= limit):
            lost, beyond = rise(views[..., i].T, first)
            if max(lost, beyond) < -_LEAST:
                continue
            ends = bounds_of_rise(views[0][:, [i]], first, _ALPHA, WANDERING)
            low, high = (math.exp(float(end[0])) for end in ends)
            yield Found(where[i], Kind.SLOWER, name, math.exp(lost), (low, high), math.exp(lost - beyond))


def _in_pairs(night: Night, slots: tuple[Slot, ...]) -> Floats:
    """Ln of the seconds of both sides, ``(2, n_pairs, n_slots)``: launches in order, those that are whole."""
    sides = [night.side(slots, tuned) for tuned in (True, False)]
    pairs = min(map(len, sides))
    both = np.stack([side[:pairs] for side in sides])
    return np.asarray(both[:, np.isfinite(both).all(axis=(0, 2))])


def _found(
    nights: Sequence[Night], series: _Series, slot: Slot, kind: Kind, since: int, day: str
) -> Found | None:
    """Size of a loss, beside what the nights did to the other slots; None where it is gone."""
    if kind is Kind.BEHIND:
        blocks = [block for night in nights[since:] for block in night.blocks((slot,))]
        low, high = (math.exp(-float(bound(blocks, _ALPHA / 2, sign)[0])) for sign in (-1.0, 1.0))
        return Found(slot, kind, day, math.exp(-float(estimate(blocks)[0])), (low, high), 1.0)
    part = _window(series, since)
    first = int((part < since).sum())
    if first < 1:
        return None
    sides = series.settings[part], series.default[part]
    walks: Sequence[float] = WANDERING if slot == WHOLE else STEADY
    column = 0 if slot == WHOLE else series.slots.index(slot)
    views = (of_all_sizes if slot == WHOLE else of_sizes)(*sides)[..., column]
    lost, beyond = rise(views.T, first)
    if max(lost, beyond) < -_LEAST:
        return None
    ends = bounds_of_rise(views[0][:, None], first, _ALPHA, walks, series.launches[part])
    low, high = (float(end[0]) for end in ends)
    return Found(slot, kind, day, math.exp(lost), (math.exp(low), math.exp(high)), math.exp(lost - beyond))


def _seen(series: _Series, since: int) -> Iterator[Seen]:
    """Every slot, with the loss that is not excluded since a night."""
    part = _window(series, since)
    y, first = series.settings[part], int((part < since).sum())
    most = np.full(len(series.slots), math.inf)
    if first:  # the times themselves: what all sizes and both sides lost is to be excluded as well
        most = np.exp(bounds_of_rise(y, first, _ALPHA, WANDERING, series.launches[part])[1])
    before = slice(max(0, since - PAST), since) if since else slice(0, 1)
    day, launch = components(series.settings[before], series.within[before], series.launches[before])
    for i, slot in enumerate(series.slots):
        per_night = float(series.launches[-1])
        wanted = nights_wanted(
            math.log1p(LOSS), float(np.nan_to_num(day[i])), launch[i], per_night, -math.log(_ALPHA / 2)
        )
        ours, default = (float(np.exp(y[-1, i])) for y in (series.settings, series.default))
        yield Seen(slot, ours, default, float(most[i]), float(day[i]), float(launch[i]), wanted)
