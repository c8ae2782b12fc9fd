"""What tuning takes off an application's recorded time, and what it could at best (beside step 12).

Notation: of one kind of calls ``n`` are made by a rank and take ``T`` seconds without waiting; the fastest
that the machine was measured to do one is ``t``. Tuning reaches at most max(T − n t, 0). Files that bring
the time of a call from t_d to t_t save T (1 − t_t / t_d): what counts is the time in the run itself, of which
the campaign knows the share that goes.
"""

import math
from collections.abc import Iterator, Sequence

from autotune.importers.profiles import CallProfile, Calls
from autotune.importers.recording import RecordedCalls, Recording
from autotune.recommend.front import Gain


def reachable_s(recorded: Recording, gains: Sequence[Gain]) -> tuple[float, float]:
    """Seconds of a mean rank that tuning can reach at best, and which share of its time was measured.

    Slots are those of the gains: the envelope that a campaign measured. Calls of other communicator sizes or
    collectives are taken to be out of reach.
    """
    reached = covered = 0.0
    for one, near in _met(recorded, gains):
        best_s = math.fsum(share * min(g.tuned_s, g.default_s) for g, share in near)
        reached += max(one.busy_s - one.calls_per_rank * best_s, 0.0)
        covered += one.seconds
    return reached, covered / (recorded.collectives_s or 1.0)


def saved_s(recorded: Recording, gains: Sequence[Gain]) -> tuple[float, float, float]:
    """Seconds that a run saves, and the ends of about 95 % of it, as if all sizes erred together."""
    saved = low = high = 0.0
    for one, near in _met(recorded, gains):
        for gain, share in near:
            at_stake = share * one.busy_s
            least, most = gain.interval
            saved += at_stake * (1.0 - 1.0 / gain.ratio)
            low += at_stake * (1.0 - 1.0 / least if least > 0 else -math.inf)
            high += at_stake * (1.0 - 1.0 / most)
    return saved, low, high


def _met(
    recorded: Recording, gains: Sequence[Gain]
) -> Iterator[tuple[RecordedCalls, list[tuple[Gain, float]]]]:
    """Calls that were measured, each with its gains in the sizes next to its own and their shares."""
    for one in recorded.calls:
        slots = [g.slot for g in gains if g.slot[0] == one.collective and g.slot[1] == one.comm_size]
        if slots and one.tunable:
            profile = CallProfile("", (Calls(one.message_bytes, 1.0, one.collective, one.comm_size),))
            shares = profile.weights(slots)
            yield one, [(g, shares[g.slot]) for g in gains if shares.get(g.slot)]
