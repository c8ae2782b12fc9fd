"""Savings by tuning in an application's recorded time, and the upper bound on them (beside step 12).

Notation: of one kind of calls ``n`` are made by a rank and take ``T`` seconds without waiting; the fastest
that the machine was measured to do one is ``t``. Tuning reaches at most max(T − n t, 0). Files that bring
the time of a call from t_d to t_t save T (1 − t_t / t_d): what counts is the time in the run itself, of which
the campaign knows the share that goes. Where T is far more than n t_d, most of it is not what the campaign
measured (ranks that were preempted, other load, waiting that was not seen): then only n t_d counts. Of
messages waiting is not separable from transfer: what is saved is that share of n t_d, or of T where that is
less, and its interval begins at 0 and ends at the share of T.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autotune.collectives import PATTERNS
from autotune.history.lookup import reached
from autotune.importers.profiles import CallProfile, Calls
from autotune.importers.recording import RecordedCalls, Recording
from autotune.importers.tunable import TunableCalls, tunable
from autotune.recommend.recommendation import Gain

Ends = tuple[float, float, float]  # A value, and the ends of its interval.
BOTHER = 0.01
"""Share of a run below which it is not worth a campaign: runs of an application differ by about as much, so
that nobody would see it, and a verification in a few dozen runs would be inconclusive."""
UNLIKE = 10.0
"""Recorded calls that take so many times what was measured of the same by default are not the same. Of 37
kinds of calls of Quantum ESPRESSO and HPC Challenge 34 took 0.3 to 6.6 times that, the others, which waited
unseen, 12 to 160 times; by any number from 3 to 50 in its place what could be won there differs by less than
0.03 % of the run, and no verdict does."""


def reachable_s(recorded: Recording, gains: Sequence[Gain]) -> tuple[float, float]:
    """Seconds of a mean rank that tuning can reach at best, and which share of its time was measured.

    Slots are those of the gains: the envelope that a campaign measured. Calls of other communicator sizes,
    other collectives, or sizes beyond those measured (see ``history.lookup``) are out of reach.
    """
    reach = covered = 0.0
    for one, beside in met(recorded.calls, gains):
        best_s = math.fsum(share * min(g.tuned_s, g.default_s) for g, share in beside)
        reach += max(one.busy_s - one.calls_per_rank * best_s, 0.0)
        covered += one.seconds
    return reach, covered / (recorded.collectives_s or 1.0)


@dataclass(frozen=True, slots=True)
class Savings:
    """Savings of files in each recorded run, ``(n_runs,)`` each, as if all sizes erred together."""

    seconds: tuple[Ends, ...]  # With about 95 % by what the campaign measured.
    shares: tuple[Ends, ...]  # Of the run's wall time.
    draw_s: float  # Standard error of a single run by the draw of what was timed; 0 of several.
    unlike: tuple[tuple[RecordedCalls, float], ...] = ()
    """Calls that take over ``UNLIKE`` times what was measured of the same, and how many times."""

    @property
    def unlike_s(self) -> float:
        """Seconds of these, of which nothing is promised."""
        return math.fsum(one.busy_s * (1.0 - 1.0 / times) for one, times in self.unlike)


def savings(recorded: Recording, gains: Sequence[Gain]) -> Savings:
    """Savings of files with these gains in each of the recorded runs."""
    measured = list(met(recorded.calls, gains))
    unlike = tuple((one, times) for one, beside in measured if (times := _times(one, beside)) > UNLIKE)
    theirs = {id(one): 1.0 / times for one, times in unlike}
    parts = [(one, _share_saved(beside, theirs.get(id(one), 1.0))) for one, beside in measured]
    if recorded.runs:
        walls = [run.run_s for run in recorded.runs]
        busy = [[one.runs[i].busy_s for one, _ in parts] for i in range(len(walls))]
        draw_s = 0.0
    else:
        walls, busy = [recorded.run_s], [[one.busy_s for one, _ in parts]]
        draw_s = math.hypot(*(s[0] * math.hypot(c.seconds_se or 0.0, c.waiting_se or 0.0) for c, s in parts))
    messages = _total([(1.0, _of_messages(one, gains)) for one in tunable(recorded) if one.name in PATTERNS])
    saved = [share for _, share in parts]
    seconds = [_total([(1.0, messages), *zip(run, saved, strict=True)]) for run in busy]
    shares = [(s / run, low / run, high / run) for (s, low, high), run in zip(seconds, walls, strict=True)]
    return Savings(tuple(seconds), tuple(shares), draw_s, unlike)


def _of_messages(one: TunableCalls, gains: Sequence[Gain]) -> Ends:
    """Seconds saved of calls in which waiting is not separable from transfer."""
    beside = near(gains, one.name, one.comm_size, one.message_bytes)
    value, _, high = _share_saved(beside, 1.0)
    alone_s = one.count * math.fsum(share * gain.default_s for gain, share in beside)
    ends = (min(one.busy_s, alone_s) * value, one.busy_s * high)
    return ends[0], min(0.0, ends[0]), max(ends)


def _times(one: RecordedCalls, beside: Sequence[tuple[Gain, float]]) -> float:
    """How many times as long calls took as by default when measured."""
    alone_s = one.calls_per_rank * math.fsum(share * gain.default_s for gain, share in beside)
    return one.busy_s / alone_s if alone_s > 0 else 1.0


def _share_saved(beside: Sequence[tuple[Gain, float]], theirs: float) -> Ends:
    """Share of calls' time that is saved, by gains with their shares; ``theirs``: so much of it counts."""
    return _total([(theirs * share, gain.saved) for gain, share in beside])


def _total(parts: Sequence[tuple[float, Ends]]) -> Ends:
    value, low, high = (math.fsum(weight * ends[k] for weight, ends in parts) for k in range(3))
    return value, low, high


def met(
    calls: Iterable[RecordedCalls], gains: Sequence[Gain]
) -> Iterator[tuple[RecordedCalls, list[tuple[Gain, float]]]]:
    """Calls that were measured, each with its gains in the sizes next to its own and their shares."""
    for one in calls:
        if one.tunable and (beside := near(gains, one.collective, one.comm_size, one.message_bytes)):
            yield one, beside


def near(
    gains: Sequence[Gain], collective: str, comm_size: int | None, message_bytes: float
) -> list[tuple[Gain, float]]:
    """Gains that apply to calls of a size, with their shares; none where no near size was measured."""
    slots = [g.slot for g in gains if g.slot[0] == collective and comm_size in (None, g.slot[1])]
    if not reached(slots, collective, comm_size, message_bytes):
        return []
    shares = CallProfile("", (Calls(message_bytes, 1.0, collective, comm_size),)).weights(slots)
    return [(g, shares[g.slot]) for g in gains if shares.get(g.slot)]
