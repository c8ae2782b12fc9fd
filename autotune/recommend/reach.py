"""What tuning could take off an application's recorded time at best (beside step 12).

Notation: of one kind of calls ``n`` are made by a rank and take ``T`` seconds without waiting; the fastest
that the machine was measured to do one is ``t``. Tuning reaches at most max(T − n t, 0).
"""

import math
from collections.abc import Sequence

from autotune.importers.profiles import CallProfile, Calls
from autotune.importers.recording import Recording
from autotune.recommend.front import Gain


def reachable_s(recorded: Recording, gains: Sequence[Gain]) -> tuple[float, float]:
    """Seconds of a mean rank that tuning can reach at best, and which share of its time was measured.

    Slots are those of the gains: the envelope that a campaign measured. Calls of other communicator sizes or
    collectives are taken to be out of reach.
    """
    reached = covered = 0.0
    for one in recorded.calls:
        slots = [g.slot for g in gains if g.slot[0] == one.collective and g.slot[1] == one.comm_size]
        if not slots or one.kind != "blocking":
            continue
        profile = CallProfile("", (Calls(one.message_bytes, 1.0, one.collective, one.comm_size),))
        near = profile.weights(slots)
        best_s = math.fsum(near[g.slot] * min(g.tuned_s, g.default_s) for g in gains if g.slot in near)
        reached += max(one.seconds - one.waiting_s - one.calls_per_rank * best_s, 0.0)
        covered += one.seconds
    return reached, covered / (recorded.collectives_s or 1.0)
