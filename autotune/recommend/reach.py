"""What tuning takes off an application's recorded time, and what it could at best (beside step 12).

Notation: of one kind of calls ``n`` are made by a rank and take ``T`` seconds without waiting; the fastest
that the machine was measured to do one is ``t``. Tuning reaches at most max(T − n t, 0). Files that bring
the time of a call from t_d to t_t save T (1 − t_t / t_d): what counts is the time in the run itself, of which
the campaign knows the share that goes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune.history.lookup import reached
from autotune.importers.profiles import CallProfile, Calls
from autotune.importers.recording import RecordedCalls, Recording
from autotune.recommend.recommendation import Gain

Ends = tuple[float, float, float]  # A value, and the ends of its interval.


def reachable_s(recorded: Recording, gains: Sequence[Gain]) -> tuple[float, float]:
    """Seconds of a mean rank that tuning can reach at best, and which share of its time was measured.

    Slots are those of the gains: the envelope that a campaign measured. Calls of other communicator sizes,
    other collectives, or sizes beyond those measured (see ``history.lookup``) are out of reach.
    """
    reach = covered = 0.0
    for one, near in _met(recorded, gains):
        best_s = math.fsum(share * min(g.tuned_s, g.default_s) for g, share in near)
        reach += max(one.busy_s - one.calls_per_rank * best_s, 0.0)
        covered += one.seconds
    return reach, covered / (recorded.collectives_s or 1.0)


@dataclass(frozen=True, slots=True)
class Savings:
    """What files would have saved each recorded run, ``(n_runs,)`` each, as if all sizes erred together."""

    seconds: tuple[Ends, ...]  # With about 95 % by what the campaign measured.
    shares: tuple[Ends, ...]  # Of the run's wall time.
    draw_s: float
    """Standard error of a single run by the draw of what was timed; of several it is in their spread: 0."""


def savings(recorded: Recording, gains: Sequence[Gain]) -> Savings:
    """What files that gain so much would have saved each of the recorded runs."""
    met = [(one, _share_saved(near)) for one, near in _met(recorded, gains)]
    if recorded.runs:
        walls = [run.run_s for run in recorded.runs]
        busy = [[one.runs[i].busy_s for one, _ in met] for i in range(len(walls))]
        draw_s = 0.0
    else:
        walls, busy = [recorded.run_s], [[one.busy_s for one, _ in met]]
        draw_s = math.hypot(*(s[0] * math.hypot(c.seconds_se or 0.0, c.waiting_se or 0.0) for c, s in met))
    seconds = [_total([(s, share) for s, (_, share) in zip(run, met, strict=True)]) for run in busy]
    shares = [
        (s / run_s, low / run_s, high / run_s) for (s, low, high), run_s in zip(seconds, walls, strict=True)
    ]
    return Savings(tuple(seconds), tuple(shares), draw_s)


def _share_saved(near: Sequence[tuple[Gain, float]]) -> Ends:
    """Of the time of calls whose gains are these, with their shares."""
    return _total([(share, gain.saved) for gain, share in near])


def _total(parts: Sequence[tuple[float, Ends]]) -> Ends:
    """Weighted sums, end by end."""
    value, low, high = (math.fsum(weight * ends[k] for weight, ends in parts) for k in range(3))
    return value, low, high


def _met(
    recorded: Recording, gains: Sequence[Gain]
) -> Iterator[tuple[RecordedCalls, list[tuple[Gain, float]]]]:
    """Calls that were measured, each with its gains in the sizes next to its own and their shares."""
    for one in recorded.calls:
        slots = [g.slot for g in gains if g.slot[0] == one.collective and g.slot[1] == one.comm_size]
        if one.tunable and reached(slots, one.collective, one.comm_size, one.message_bytes):
            profile = CallProfile("", (Calls(one.message_bytes, 1.0, one.collective, one.comm_size),))
            shares = profile.weights(slots)
            yield one, [(g, shares[g.slot]) for g in gains if shares.get(g.slot)]
