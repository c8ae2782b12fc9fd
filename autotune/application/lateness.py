"""Find the ranks that others waited for in a collective, from the times at which ranks entered and left it.

The module is no part of a campaign. A rank enters a call at time b and leaves it at time e, both on the clock
of rank 0. If the ranks that it needs have arrived at time a, it waited min(max(a − b, 0), e − b). A rank
needs all others; in a call with a root, the root needs all others, these need the root, and the root of a
broadcast or scatter needs nobody. For a call with a root this is an approximation: inner ranks of a tree wait
for some others too.

A rank comes late because of the program, which kept it outside of MPI since its last collective, or because
of MPI: that collective released it later than others, or calls in between took it longer. If the late rank
was outside of MPI for o seconds, and a rank that waited w seconds for it was outside for o' seconds, then
min(w, max(o - o', 0)) of the w seconds were caused outside of MPI. No tuning removes these.

A *stream* is the calls of one collective and one power of two of the size on one communicator. In each stream
the recorder stores all of the longest calls of each rank, so that a rare long wait is neither missed nor
multiplied. A call that is among the longest on the waiting ranks is short on the rank that they waited for,
which identifies that rank. Of the other calls the recorder stores a random sample, the same calls on all
ranks; the share of waiting in this sample is assumed for all of the other calls.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.application.recorded_time import PATTERNS, Lateness, LateRank
from autotune.collectives import COLLECTIVES, Pattern

SAMPLE = np.dtype([
    ("call", "<i8"), ("begin_s", "<f8"), ("end_s", "<f8"), ("root", "<i4"), ("weight", "<i4"),
    ("outside_s", "<f8"),
])  # fmt: skip
"""Type of one call that a rank recorded: its number, its entry and exit in seconds, the rank of its root in
MPI_COMM_WORLD, the number of calls among which it was drawn, and the seconds that the rank spent outside of
MPI since its last collective ended; NaN where these seconds are not known."""
_MOST_RANKS = 16  # Largest number of late ranks that a result names.
_LITTLE = 0.1  # If waiting is a smaller share than this of the time in calls, no rank counts as late.
_MAINLY = 0.6  # Share of all waiting above which one rank counts as the late one, or late calls as periodic.
_REGULAR = 0.25
"""Largest deviation of the time between two late calls from the median, as a share of the median, with which
late calls count as periodic. Calls at random times would deviate so little in one of six cases."""


@dataclass(frozen=True, slots=True)
class KeptCalls:
    """Calls of one stream that one rank recorded."""

    rank: int  # Rank in MPI_COMM_WORLD.
    calls: float  # Number of calls of the stream, recorded or not.
    thinned: float  # ``drawn`` still contains one in this many of the calls that were drawn.
    cut_s: float  # Calls that took at least this many seconds are in ``longest``.
    drawn: Any  # Calls that were drawn at random, an array of the type ``SAMPLE``.
    longest: Any  # The longest calls, an array of the type ``SAMPLE``.


@dataclass(frozen=True, slots=True)
class Waited:
    """Says who waited for whom in one stream of calls; seconds are means over the ranks of the run."""

    long_s: float  # Seconds in the longest calls.
    of_long_s: float  # Part of ``long_s`` that was waiting for late ranks.
    share: float  # Share of the time in all other calls that was waiting for late ranks.
    share_se: float  # Standard error of ``share``.
    caused: Mapping[int, tuple[float, float]]
    """Maps each rank to the waiting of others that it caused: the seconds in the longest calls, and its share
    of all waiting in the drawn calls."""
    waited: Mapping[int, tuple[float, float]]
    """Maps each rank to its own waiting: the seconds in the longest calls, and the waiting in the drawn calls
    as a multiple of a mean rank's."""
    last: Mapping[int, float]  # Maps each rank to the number of late calls that it entered last.
    late: int  # Number of late calls: those with more waiting than the mean, and the longest calls.
    examined: int  # Number of calls that were examined: the longest ones, and drawn ones of all ranks.
    at_s: tuple[tuple[float, float], ...]
    """Time in seconds at which each of the longest calls was entered, and the seconds of waiting in it."""
    n_calls: float  # Number of calls of the stream.
    outside_long_s: float = 0.0  # Part of ``of_long_s`` that is known to have its cause outside of MPI.
    outside: float = 0.0
    """Share of the waiting in all other calls that is known to have its cause outside of MPI."""
    outside_known: bool = False  # Whether ``outside_long_s`` or ``outside`` was measured.


def waited(name: str, comm_size: int, per_rank: Sequence[KeptCalls], size: int) -> Waited | None:
    """Return who waited for whom in a stream of calls, or None where too few ranks recorded it.

    ``comm_size`` is the number of ranks of the communicator, ``size`` that of the run.
    """
    if len(per_rank) < comm_size or comm_size < 2:
        return None
    longest = np.concatenate([rank_calls.longest["call"] for rank_calls in per_rank])
    calls, n_ranks_with = np.unique(longest, return_counts=True)
    long_calls = calls[2 * n_ranks_with >= comm_size]
    per_rank = sorted(per_rank, key=lambda rank_calls: rank_calls.rank)
    ranks, n = [rank_calls.rank for rank_calls in per_rank], len(per_rank)
    n_calls = max(rank_calls.calls for rank_calls in per_rank)
    drawn = [(rank_calls.rank, rank_calls.drawn) for rank_calls in per_rank]
    drawn_waits = _waits(name, comm_size, drawn, long_calls)
    caused, waiting = np.zeros(n), np.zeros(n)
    share = share_se = usual_s = outside = 0.0
    outside_known = False
    examined, n_late = long_calls.size, long_calls.size
    if drawn_waits is not None:
        waits, took, weight, late, outside_s = drawn_waits
        per_call = waits.sum(axis=0)
        total, all_waits = float(weight @ took.sum(axis=0)), float(weight @ per_call)
        explained = _from_outside(waits, outside_s, np.arange(n)[:, None] == late)
        outside_known = bool(np.isfinite(explained).any())
        outside = float(np.nansum(explained, axis=0) @ weight) / max(all_waits, 1e-300)
        if total > 0:
            share = all_waits / total
            drawn_of = weight * max(rank_calls.thinned for rank_calls in per_rank)
            # A call that represents only itself has no sampling error; with all calls stored there is none.
            errors = (weight * (per_call - share * took.sum(axis=0))) ** 2
            share_se = math.sqrt(float(errors @ (1.0 - 1.0 / np.maximum(drawn_of, 1.0)))) / total
            usual_s = max(total - all_waits, 0.0) / float(weight.sum()) / n
        examined += weight.size
        caused = np.bincount(late, weight * per_call, n) / max(all_waits, 1e-300)
        waiting = waits @ weight / max(all_waits, 1e-300)
    blamed, own_s, last, at_s, long_s, explained_s = _longest(per_rank, long_calls, usual_s)
    if drawn_waits is not None:  # a short call counts as late if it has more waiting than the mean call
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
        n_calls,
        float(np.nansum(explained_s)) / size,
        outside,
        outside_known or bool(np.isfinite(explained_s).any()),
    )


def _from_outside(waits: Any, outside_s: Any, late: Any) -> Any:
    """Return the seconds of waiting with a cause outside of MPI, ``(n_ranks, n_calls)``; NaN: not known."""
    # The maximum is NaN where the time outside of MPI is not known for a late rank.
    late_outside_s = np.where(late, outside_s, -np.inf).max(axis=0)
    late_outside_s[~late.any(axis=0)] = np.nan
    return np.where(late, np.nan, np.minimum(waits, np.maximum(late_outside_s - outside_s, 0.0)))


def _longest(
    per_rank: Sequence[KeptCalls], long_calls: Any, usual_s: float
) -> tuple[Any, Any, Any, tuple[tuple[float, float], ...], float, Any]:
    """Return who waited for whom in the longest calls.

    A rank on which a call was short, while it was long on others, came late and caused their waiting. Where
    the times of all ranks are known, the rank that entered the call last caused the waiting.

    Returns:
        For each rank, ``(n_ranks,)``, the seconds that others waited for it, the seconds that it waited
        itself, and the number of calls that it entered last; the time at which each call was entered with the
        waiting in it; the seconds of all these calls; and the result of ``_from_outside``.
    """
    parts = [(i, part) for i, kept in enumerate(per_rank) for part in (kept.longest, kept.drawn)]
    samples, place = _concatenated(parts)
    is_long = np.isin(samples["call"], long_calls)
    samples, place = samples[is_long], place[is_long]
    table = np.full((3, len(per_rank), long_calls.size), np.nan)
    for values, key in zip(table, ("begin_s", "end_s", "outside_s"), strict=True):
        values[place, np.searchsorted(long_calls, samples["call"])] = samples[key]
    begin, end, outside_s = table
    took = end - begin
    is_kept = ~np.isnan(took)
    complete = is_kept.all(axis=0)
    # A call that a rank did not record was short on it, if its longest calls include much shorter ones.
    cut_s = np.array([rank_calls.cut_s for rank_calls in per_rank])[:, None]
    late = ~is_kept & (cut_s < np.nanmedian(took, axis=0) / 2 if long_calls.size else False)
    late[np.nan_to_num(begin, nan=-np.inf).argmax(axis=0)[complete], complete] = True
    until_last = np.clip(np.nanmax(begin, axis=0, initial=-np.inf) - begin, 0.0, took)
    waits = np.where(is_kept, np.maximum(np.where(complete, until_last, took - usual_s), 0.0), 0.0)
    part, total = late / np.maximum(late.sum(axis=0), 1), waits.sum(axis=0)
    entered = np.nanmin(begin, axis=0, initial=np.inf)
    call_waits = tuple(sorted(zip(entered.tolist(), total.tolist(), strict=True)))
    explained_s = _from_outside(waits, outside_s, late)
    return part @ total, waits.sum(axis=1), part.sum(axis=1), call_waits, float(np.nansum(took)), explained_s


def lateness(
    streams: Sequence[Waited], in_all_s: float, in_calls_s: float
) -> tuple[float, float, Lateness | None]:
    """Return the share of waiting in calls of one kind, its standard error, and which ranks were late.

    Args:
        streams: Waiting in each stream of such calls, that is, on each communicator.
        in_all_s: Seconds in all calls of these streams, mean over the ranks of the run.
        in_calls_s: Part of ``in_all_s`` in those calls whose waiting is returned.
    """
    if not streams or in_all_s <= 0:
        return 0.0, 0.0, None
    all_calls = math.fsum(stream.n_calls for stream in streams)
    weighted = [(stream.n_calls / all_calls, stream) for stream in streams]
    long_s = min(math.fsum(stream.long_s for stream in streams), in_all_s)
    rest_s = in_all_s - long_s
    share = math.fsum(weight * stream.share for weight, stream in weighted)
    share_se = math.hypot(*(weight * stream.share_se for weight, stream in weighted))
    waiting_s = min(math.fsum(stream.of_long_s for stream in streams) + share * rest_s, in_all_s)
    part = in_calls_s / in_all_s
    caused_s, own_s, last = (defaultdict[int, float](float) for _ in range(3))
    for weight, stream in weighted:
        short_waiting_s = weight * stream.share * rest_s
        for sums, by_rank in ((caused_s, stream.caused), (own_s, stream.waited)):
            for rank, (seconds, drawn) in by_rank.items():
                sums[rank] += part * (seconds + drawn * short_waiting_s)
        for rank, calls in stream.last.items():
            last[rank] += calls
    examined = sum(stream.examined for stream in streams)
    n_late = max(sum(stream.late for stream in streams), 1)
    late_ranks = [
        LateRank(rank, min(last[rank] / n_late, 1.0), float(seconds), float(own_s[rank]))
        for rank, seconds in sorted(caused_s.items(), key=lambda rank_seconds: -rank_seconds[1])[:_MOST_RANKS]
    ]
    pattern, period_s = _pattern(streams, late_ranks, waiting_s, in_all_s, n_late)
    outside_s = math.fsum(stream.outside_long_s for stream in streams)
    outside_s += rest_s * math.fsum(weight * stream.share * stream.outside for weight, stream in weighted)
    is_known = waiting_s > 0 and any(stream.outside_known for stream in streams)
    outside = min(outside_s / waiting_s, 1.0) if is_known else None
    late = Lateness(examined, pattern, period_s, tuple(late_ranks), outside) if examined else None
    return waiting_s / in_all_s, share_se * rest_s / in_all_s, late


def _pattern(
    streams: Sequence[Waited], late_ranks: Sequence[LateRank], waiting_s: float, in_all_s: float, n_late: int
) -> tuple[str, float | None]:
    """Return how ranks come late, one of ``PATTERNS``, and the period in seconds or None."""
    if waiting_s < _LITTLE * in_all_s or not late_ranks:
        return PATTERNS[0], None
    main = max(streams, key=lambda stream: stream.of_long_s)
    # Calls with ``usual_s`` or more seconds of waiting contain half of all waiting. One extreme call raises
    # the maximum of all calls, but hardly ``usual_s``.
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
    # One rank counts as the late one if it comes last more often than by chance and causes most waiting.
    ranks, first = max(2, len({r for stream in streams for r in stream.waited})), late_ranks[0]
    chance = 1 / ranks + 3 * math.sqrt((1 - 1 / ranks) / ranks / n_late)
    caused_s = math.fsum(r.caused_s for r in late_ranks)
    mainly = first.caused_s > _MAINLY * caused_s
    return (PATTERNS[1] if mainly and first.last > chance else PATTERNS[2]), None


def waits(name: str, comm_size: int, per_rank: Sequence[tuple[int, Any]]) -> tuple[float, float]:
    """Return the seconds waited and the seconds in the calls that all ranks recorded, summed over ranks."""
    joint = _waits(name, comm_size, per_rank)
    return (0.0, 0.0) if joint is None else (float(joint[0].sum()), float(joint[1].sum()))


def _concatenated(per_rank: Sequence[tuple[int, Any]]) -> tuple[Any, Any]:
    ranks = np.repeat([rank for rank, _ in per_rank], [len(samples) for _, samples in per_rank])
    return np.concatenate([samples for _, samples in per_rank]), ranks


def _waits(
    name: str, comm_size: int, per_rank: Sequence[tuple[int, Any]], excluded: Any = ()
) -> tuple[Any, Any, Any, Any, Any] | None:
    """Return the waiting in the calls that all ranks recorded; None where there are no such calls.

    ``per_rank`` has the number of each rank and its recorded calls, an array of the type ``SAMPLE``; calls
    with the numbers in ``excluded`` are left out.

    Returns:
        Seconds waited and seconds in the call, ``(n_ranks, n_calls)`` each; the number of calls that each
        call represents and the index of the rank that others waited for, ``(n_calls,)`` each; seconds outside
        of MPI before the call, ``(n_ranks, n_calls)``.
    """
    if len(per_rank) < comm_size:
        return None
    samples, rank_of = _concatenated(per_rank)
    calls, n_ranks_with = np.unique(samples["call"], return_counts=True)
    common = np.isin(samples["call"], np.setdiff1d(calls[n_ranks_with == len(per_rank)], excluded))
    if not common.any():
        return None
    samples, rank_of = samples[common], rank_of[common]
    table = samples[np.lexsort((samples["call"], rank_of))].reshape(len(per_rank), -1)
    per_rank = sorted(per_rank, key=lambda pair: pair[0])
    begin, end, root = (table[key] for key in ("begin_s", "end_s", "root"))
    ranks = np.array([rank for rank, _ in per_rank])[:, None]
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
