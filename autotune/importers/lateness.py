"""For whom ranks waited in a collective, out of the times at which some of its calls were entered and left.

Beside the flow of a campaign. With b and e these two times of a rank, on the clock of rank 0, and a the time
at which the ranks that it needs had come (all of them; in a call with a root, for the others the root, for
the root of a broadcast or scatter nobody), it waited min(max(a − b, 0), e − b). In a call with a root this is
an approximation: inner ranks of a tree wait for some others too.

A rank comes late because of what it did outside of MPI since its last collective, or of what MPI did: that
collective let it go later, or calls between took it longer. Where it was outside for o seconds and one that
waited w for it for o', min(w, max(o - o', 0)) of w are of the first kind. No tuning takes these away.

Calls are of two strata. The longest of each rank are all known, so that a rare long wait is neither missed
nor multiplied; a rank that others waited for has such a call among its short ones, which is how it is found.
Of the rest some were drawn, the same on all ranks, and their share of waiting is taken to be that of all.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.collectives import COLLECTIVES, Pattern
from autotune.importers.recorded_time import PATTERNS, Lateness, LateRank

SAMPLE = np.dtype(
    [
        *(("call", "<i8"), ("begin_s", "<f8"), ("end_s", "<f8")),
        *(("root", "<i4"), ("weight", "<i4"), ("outside_s", "<f8")),
    ]
)
"""One call that a rank kept: number, entry, exit, world rank of its root, how many it was drawn of, seconds
outside of MPI since the rank's last collective ended, NaN where they are not known."""
_MOST = 16  # Late ranks that are named.
_LITTLE = 0.1  # Share of the time in calls: with less waiting nobody counts as late.
_MAINLY = 0.6
"""Share of the waiting: a rank that causes as much is late, and a period must hold as much of it."""
_REGULAR = 0.25
"""By how much of a period late calls may be off it; of calls at random a sixth is so near the median."""


@dataclass(frozen=True, slots=True)
class KeptCalls:
    """Calls that one rank kept of a stream; both lists as ``SAMPLE``."""

    rank: int
    calls: float
    thinned: float  # One of so many drawn calls is still there.
    cut_s: float  # Calls that took as long are among the longest.
    drawn: Any
    longest: Any


@dataclass(frozen=True, slots=True)
class Waited:
    """Waiting of one stream, seconds as means over the ranks of the run."""

    long_s: float  # In its longest calls.
    of_long_s: float  # Waited, of these.
    share: float  # Share of waiting in all other calls.
    share_se: float
    caused: Mapping[int, tuple[float, float]]
    """Rank → waiting that it caused in the longest calls; in those drawn, as a share of it all."""
    waited: Mapping[int, tuple[float, float]]  # Rank → its own, likewise.
    last: Mapping[int, float]  # Rank → late calls, those with more waiting than the mean, that it was last in
    late: int  # Such calls.
    examined: int
    at_s: tuple[tuple[float, float], ...]  # When the longest calls were entered, and what was waited in each.
    n_calls: float  # Calls of the stream.
    outside_long_s: float = 0.0  # Of ``of_long_s``, what is known to come from outside of MPI.
    outside: float = 0.0  # Of the waiting in all other calls the share that is known to.
    outside_known: bool = False  # Whether it is known of any of them.


def waited(name: str, comm_size: int, kept: Sequence[KeptCalls], size: int) -> Waited | None:
    """Who waited for whom in a stream of calls, by what its ranks kept; None: not known.

    ``size`` is the number of ranks of the run.
    """
    if len(kept) < comm_size or comm_size < 2:
        return None
    calls, met = np.unique(np.concatenate([one.longest["call"] for one in kept]), return_counts=True)
    long = calls[2 * met >= comm_size]
    kept = sorted(kept, key=lambda one: one.rank)
    ranks = [one.rank for one in kept]
    found = _waits(name, comm_size, [(one.rank, one.drawn) for one in kept], long)
    n = len(kept)
    caused, waiting, last = np.zeros(n), np.zeros(n), np.zeros(n)
    share = share_se = usual_s = outside = 0.0
    outside_known = False
    examined, n_late = long.size, long.size
    if found is not None:
        waits, took, weight, late, outside_s = found
        per_call = waits.sum(axis=0)
        total, all_waits = float(weight @ took.sum(axis=0)), float(weight @ per_call)
        explained = _from_outside(waits, outside_s, np.arange(n)[:, None] == late)
        outside_known = bool(np.isfinite(explained).any())
        outside = float(np.nansum(explained, axis=0) @ weight) / max(all_waits, 1e-300)
        if total > 0:
            share = all_waits / total
            of = weight * max(one.thinned for one in kept)
            # What each call was drawn of says how much of its own error is left: nothing where all were kept.
            errors = (weight * (per_call - share * took.sum(axis=0))) ** 2
            share_se = math.sqrt(float(errors @ (1.0 - 1.0 / np.maximum(of, 1.0)))) / total
            usual_s = max(total - all_waits, 0.0) / float(weight.sum()) / n
        examined += weight.size
        caused = np.bincount(late, weight * per_call, n) / max(all_waits, 1e-300)
        waiting = waits @ weight / max(all_waits, 1e-300)
    blamed, own_s, last, at_s, long_s, explained_s = _longest(kept, long, usual_s)
    if found is not None:  # of short calls those with more waiting than the mean over all
        n_calls = max(one.calls for one in kept)
        mean_s = (float(own_s.sum()) + all_waits * n_calls / float(weight.sum())) / max(n_calls, 1.0)
        is_late = per_call >= max(mean_s, 1e-12)
        n_late += int(is_late.sum())
        last = last + np.bincount(late[is_late], minlength=n)
    return Waited(
        long_s / size,
        float(own_s.sum()) / size,
        share,
        share_se,
        {r: (s / size, part) for r, s, part in zip(ranks, blamed.tolist(), caused.tolist(), strict=True)},
        {r: (s, size * part) for r, s, part in zip(ranks, own_s.tolist(), waiting.tolist(), strict=True)},
        dict(zip(ranks, last.tolist(), strict=True)),
        n_late,
        int(examined),
        at_s,
        max(one.calls for one in kept),
        float(np.nansum(explained_s)) / size,
        outside,
        outside_known or bool(np.isfinite(explained_s).any()),
    )


def _from_outside(waits: Any, outside_s: Any, late: Any) -> Any:
    """``(n_ranks, n_calls)``: seconds waited that come from outside of MPI; NaN: that is not known.

    ``late`` marks who came last, whom the others are compared with.
    """
    of_late = np.where(late, outside_s, -np.inf).max(axis=0)  # NaN where it is not known of the late one
    of_late[~late.any(axis=0)] = np.nan
    return np.where(late, np.nan, np.minimum(waits, np.maximum(of_late - outside_s, 0.0)))


def _longest(
    kept: Sequence[KeptCalls], long: Any, usual_s: float
) -> tuple[Any, Any, Any, tuple[tuple[float, float], ...], float, Any]:
    """For the longest calls, ``(n_ranks,)`` each: seconds that a rank caused, its own, calls it was last in.

    Then when each was and how much was waited in it, the time in all, and ``_from_outside``. Ranks for which
    a long call was a short one came late: they are to blame. Where the times of all are known it is the one
    that came last.
    """
    samples, place = _joint([(i, part) for i, one in enumerate(kept) for part in (one.longest, one.drawn)])
    of_long = np.isin(samples["call"], long)
    samples, place = samples[of_long], place[of_long]
    begin, end, outside_s = np.full((3, len(kept), long.size), np.nan)
    begin[place, np.searchsorted(long, samples["call"])] = samples["begin_s"]
    end[place, np.searchsorted(long, samples["call"])] = samples["end_s"]
    outside_s[place, np.searchsorted(long, samples["call"])] = samples["outside_s"]
    took = end - begin
    there = ~np.isnan(took)
    known = there.all(axis=0)
    # Short it was where even the shortest of a rank's longest calls is much shorter.
    cut_s = np.array([one.cut_s for one in kept])[:, None]
    late = ~there & (cut_s < np.nanmedian(took, axis=0) / 2 if long.size else False)
    late[np.nan_to_num(begin, nan=-np.inf).argmax(axis=0)[known], known] = True
    waits = np.where(
        known, np.clip(np.nanmax(begin, axis=0, initial=-np.inf) - begin, 0.0, took), took - usual_s
    )
    waits = np.where(there, np.maximum(waits, 0.0), 0.0)
    part, total = late / np.maximum(late.sum(axis=0), 1), waits.sum(axis=0)
    entered = np.nanmin(begin, axis=0, initial=np.inf)
    at = tuple(sorted(zip(entered.tolist(), total.tolist(), strict=True)))
    explained_s = _from_outside(waits, outside_s, late)
    return part @ total, waits.sum(axis=1), part.sum(axis=1), at, float(np.nansum(took)), explained_s


def lateness(
    found: Sequence[Waited], in_all_s: float, in_calls_s: float
) -> tuple[float, float, Lateness | None]:
    """Share of waiting in calls alike, its standard error, and who was late.

    ``found``: of each stream of them; ``in_all_s``: seconds in all calls of these streams, mean over the
    ranks of the run; ``in_calls_s``: of these, in the calls alike.
    """
    if not found or in_all_s <= 0:
        return 0.0, 0.0, None
    all_calls = math.fsum(one.n_calls for one in found)
    of = [one.n_calls / all_calls for one in found]
    long_s = min(math.fsum(one.long_s for one in found), in_all_s)
    rest_s = in_all_s - long_s
    share = math.fsum(w * one.share for w, one in zip(of, found, strict=True))
    share_se = math.hypot(*(w * one.share_se for w, one in zip(of, found, strict=True)))
    waiting_s = min(math.fsum(one.of_long_s for one in found) + share * rest_s, in_all_s)
    part = in_calls_s / in_all_s
    caused, own, last = (defaultdict[int, float](float) for _ in range(3))
    for weight, one in zip(of, found, strict=True):
        rest = weight * one.share * rest_s
        for rank, (seconds, drawn) in one.caused.items():
            caused[rank] += part * (seconds + drawn * rest)
        for rank, (seconds, drawn) in one.waited.items():
            own[rank] += part * (seconds + drawn * rest)
        for rank, calls in one.last.items():
            last[rank] += calls
    examined, n_late = sum(one.examined for one in found), max(sum(one.late for one in found), 1)
    named = [
        LateRank(rank, min(last[rank] / n_late, 1.0), float(seconds), float(own[rank]))
        for rank, seconds in sorted(caused.items(), key=lambda item: -item[1])[:_MOST]
    ]
    pattern, period_s = _pattern(found, named, waiting_s, in_all_s, n_late)
    outside_s = math.fsum(one.outside_long_s for one in found)
    outside_s += rest_s * math.fsum(w * one.share * one.outside for w, one in zip(of, found, strict=True))
    is_known = waiting_s > 0 and any(one.outside_known for one in found)
    outside = min(outside_s / waiting_s, 1.0) if is_known else None
    late = Lateness(examined, pattern, period_s, tuple(named), outside) if examined else None
    return waiting_s / in_all_s, share_se * rest_s / in_all_s, late


def _pattern(
    found: Sequence[Waited], named: Sequence[LateRank], waiting_s: float, in_all_s: float, n_late: int
) -> tuple[str, float | None]:
    """How lateness comes, one of ``PATTERNS``, and the period where it comes at one."""
    if waiting_s < _LITTLE * in_all_s or not named:
        return PATTERNS[0], None
    main = max(found, key=lambda one: one.of_long_s)
    # Half of the waiting was in calls of so much of it or more: one wild call raises their maximum, not this.
    at_s, total_s = np.array(main.at_s).reshape(-1, 2).T
    falling = np.sort(total_s)[::-1]
    usual_s = falling[np.searchsorted(np.cumsum(falling), falling.sum() / 2)] if falling.size else 0.0
    times = at_s[total_s > usual_s / 2]
    gaps = np.diff(times)
    rare = times.size < main.n_calls / 4 and main.of_long_s > _MAINLY * waiting_s
    if gaps.size >= 4 and rare:
        period_s = float(np.median(gaps))
        if np.mean(np.abs(gaps - period_s) < _REGULAR * period_s) > 0.75:
            return PATTERNS[3], period_s
    # As often last as nobody is by chance, and to blame for most of it.
    ranks, first = max(2, len({r for one in found for r in one.waited})), named[0]
    chance = 1 / ranks + 3 * math.sqrt((1 - 1 / ranks) / ranks / n_late)
    caused_s = math.fsum(r.caused_s for r in named)
    mainly = first.caused_s > _MAINLY * caused_s
    return (PATTERNS[1] if mainly and first.last > chance else PATTERNS[2]), None


def waits(name: str, comm_size: int, kept: Sequence[tuple[int, Any]]) -> tuple[Any, Any, Any]:
    """For calls kept by all ranks, ``(n_calls,)`` each: seconds waited, seconds taken, weight."""
    found = _waits(name, comm_size, kept)
    if found is None:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    return found[0].sum(axis=0), found[1].sum(axis=0), found[2]


def _joint(kept: Sequence[tuple[int, Any]]) -> tuple[Any, Any]:
    """All samples one behind the other, and the rank of each."""
    ranks = np.repeat([rank for rank, _ in kept], [len(samples) for _, samples in kept])
    return np.concatenate([samples for _, samples in kept]), ranks


def _waits(
    name: str, comm_size: int, kept: Sequence[tuple[int, Any]], without: Any = ()
) -> tuple[Any, Any, Any, Any, Any] | None:
    """By rank waited and taken, weight and place of who came last of each call, by rank outside of MPI.

    ``(n_ranks, n_calls)`` those by rank, ``(n_calls,)`` the others.
    """
    if len(kept) < comm_size:
        return None
    samples, rank_of = _joint(kept)
    calls, met = np.unique(samples["call"], return_counts=True)
    common = np.isin(samples["call"], np.setdiff1d(calls[met == len(kept)], without))
    if not common.any():
        return None
    samples, rank_of = samples[common], rank_of[common]
    table = samples[np.lexsort((samples["call"], rank_of))].reshape(len(kept), -1)
    kept = sorted(kept, key=lambda one: one[0])
    begin, end, root = (table[key] for key in ("begin_s", "end_s", "root"))
    ranks = np.array([rank for rank, _ in kept])[:, None]
    last = np.broadcast_to(begin.max(axis=0), begin.shape)
    late = begin.argmax(axis=0)
    pattern = COLLECTIVES[name].pattern if name in COLLECTIVES else Pattern.ALL_TO_ALL
    if pattern is not Pattern.ALL_TO_ALL:
        is_root = ranks == root
        come = np.max(np.where(is_root, begin, -np.inf), axis=0)
        of_root = begin if pattern is Pattern.ONE_TO_ALL else last
        last = np.where(is_root, of_root, come)
        late = np.where(is_root.any(axis=0) & (pattern is Pattern.ONE_TO_ALL), is_root.argmax(axis=0), late)
    took = np.maximum(end - begin, 0.0)
    waits = np.minimum(np.maximum(last - begin, 0.0), took)
    return waits, took, table["weight"][0].astype(float), late, table["outside_s"]
