"""The time of an application's recorded run that tuning saves, and its upper bound.

A rank makes ``n`` calls of one kind, which take ``T`` seconds without the waiting for late ranks; the best
measured time of one such call on this machine is ``t``. Tuning saves at most max(T − n t, 0). Exported files
that reduce the time of a call from t_d to t_t save T (1 − t_t / t_d): T is the time in the run itself, and
the campaign's measurements give the share of T that is saved. If T is far more than n t_d, most of it has
another cause than the campaign measured (ranks that were preempted, other load, waiting that was not
recorded): then the share is that of n t_d. In point-to-point messages waiting cannot be separated from
transfer: the saving is the same share of n t_d, or of T if T is less, and its interval begins at 0 and ends
at the share of T.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autotune.application.profiles import CallProfile, Calls
from autotune.application.recording import RecordedCalls, Recording
from autotune.application.tunable import TunableCalls, tunable
from autotune.collectives import PATTERNS
from autotune.history.lookup import reached
from autotune.recommend.recommendation import Gain

Ends = tuple[float, float, float]  # A value, and the lower and the upper end of its interval.
BOTHER = 0.01
"""Share of a run's time below which a saving is not worth a campaign. Runs of an application differ by about
as much, so that nobody would notice the saving, and a verification in a few dozen runs would be
inconclusive."""
UNLIKE = 10.0
"""Ratio of the recorded time of calls to the measured time of the same calls by default, beyond which most of
the recorded time must have another cause. Among 37 kinds of calls of Quantum ESPRESSO and HPC Challenge 34
took 0.3 to 6.6 times the measured time; the other three, in which ranks waited but the waiting was not
recorded, took 12 to 160 times. With any threshold from 3 to 50 the possible saving in these applications
differs by less than 0.03 % of the run, and the advice stays the same."""


def reachable_s(recorded: Recording, gains: Sequence[Gain]) -> tuple[float, float]:
    """Return the seconds of a mean rank that tuning can save at best, and a share of its time in collectives.

    The share is that of the calls that the campaign measured, by the slots (collective, communicator size,
    message size) of the gains. All other calls are assumed to save nothing: calls of other collectives, and
    calls with sizes for which the measurements are no evidence (see ``history.lookup``).
    """
    reach = covered = 0.0
    for calls, near_gains in met(recorded.calls, gains):
        best_s = math.fsum(share * min(g.tuned_s, g.default_s) for g, share in near_gains)
        reach += max(calls.busy_s - calls.calls_per_rank * best_s, 0.0)
        covered += calls.seconds
    return reach, covered / (recorded.collectives_s or 1.0)


@dataclass(frozen=True, slots=True)
class Savings:
    """Says how much time exported files save in each recorded run.

    The intervals are computed as if the errors at all sizes had one sign.
    """

    seconds: tuple[Ends, ...]
    """Seconds saved in each run, with an interval of about 95 % by the errors of the campaign's
    measurements."""
    shares: tuple[Ends, ...]  # Share of the wall time saved in each run, with its interval of about 95 %.
    draw_s: float
    """Standard error in seconds because not all calls of a single run were timed; 0 if several runs were
    recorded."""
    unlike: tuple[tuple[RecordedCalls, float], ...] = ()
    """Calls that take more than ``UNLIKE`` times the measured time of the same calls, each with this
    ratio."""

    @property
    def unlike_s(self) -> float:
        """Return the seconds of the calls in ``unlike`` beyond their measured time, which are not saved."""
        return math.fsum(calls.busy_s * (1.0 - 1.0 / times) for calls, times in self.unlike)


def savings(recorded: Recording, gains: Sequence[Gain]) -> Savings:
    """Return the time that exported files save in each of the recorded runs.

    Args:
        recorded: The recording of one run or several.
        gains: The measured times with the files and by default.
    """
    measured = list(met(recorded.calls, gains))
    unlike = tuple((c, times) for c, near_gains in measured if (times := _times(c, near_gains)) > UNLIKE)
    fractions = {id(calls): 1.0 / times for calls, times in unlike}
    parts = [(c, _share_saved(near_gains, fractions.get(id(c), 1.0))) for c, near_gains in measured]
    if recorded.runs:
        walls = [run.run_s for run in recorded.runs]
        busy = [[calls.runs[i].busy_s for calls, _ in parts] for i in range(len(walls))]
        draw_s = 0.0
    else:
        walls, busy = [recorded.run_s], [[calls.busy_s for calls, _ in parts]]
        draw_s = math.hypot(*(s[0] * math.hypot(c.seconds_se or 0.0, c.waiting_se or 0.0) for c, s in parts))
    messages = _total([(1.0, _in_messages(c, gains)) for c in tunable(recorded) if c.name in PATTERNS])
    saved = [share for _, share in parts]
    seconds = [_total([(1.0, messages), *zip(run, saved, strict=True)]) for run in busy]
    shares = [(s / run, low / run, high / run) for (s, low, high), run in zip(seconds, walls, strict=True)]
    return Savings(tuple(seconds), tuple(shares), draw_s, unlike)


def _in_messages(calls: TunableCalls, gains: Sequence[Gain]) -> Ends:
    """Return the seconds saved in calls in which waiting cannot be separated from transfer."""
    near_gains = near(gains, calls.name, calls.comm_size, calls.message_bytes)
    value, _, high = _share_saved(near_gains, 1.0)
    default_s = calls.count * math.fsum(share * gain.default_s for gain, share in near_gains)
    ends = (min(calls.busy_s, default_s) * value, calls.busy_s * high)
    return ends[0], min(0.0, ends[0]), max(ends)


def _times(calls: RecordedCalls, near_gains: Sequence[tuple[Gain, float]]) -> float:
    """Return the ratio of the recorded time of calls to the time by default that was measured for them."""
    default_s = calls.calls_per_rank * math.fsum(share * gain.default_s for gain, share in near_gains)
    return calls.busy_s / default_s if default_s > 0 else 1.0


def _share_saved(near_gains: Sequence[tuple[Gain, float]], fraction: float) -> Ends:
    """Return the share of the time of calls that is saved, if only a ``fraction`` of this time can be saved.

    ``near_gains`` are the gains at the nearest measured sizes, each with its share of the calls.
    """
    return _total([(fraction * share, gain.saved) for gain, share in near_gains])


def _total(parts: Sequence[tuple[float, Ends]]) -> Ends:
    """Return the weighted sum of values and of their intervals' ends; a part is (weight, value with ends)."""
    value, low, high = (math.fsum(weight * ends[k] for weight, ends in parts) for k in range(3))
    return value, low, high


def met(
    calls: Iterable[RecordedCalls], gains: Sequence[Gain]
) -> Iterator[tuple[RecordedCalls, list[tuple[Gain, float]]]]:
    """Yield those calls for which there are measurements, each with the gains at the nearest measured sizes.

    Each gain comes with its share of the calls.
    """
    for call in calls:
        if call.tunable and (matches := near(gains, call.collective, call.comm_size, call.message_bytes)):
            yield call, matches


def near(
    gains: Sequence[Gain], collective: str, comm_size: int | None, message_bytes: float
) -> list[tuple[Gain, float]]:
    """Return the gains that were measured nearest to calls of a size, each with its share of the calls.

    The list is empty where no size near enough was measured. If ``comm_size`` is None, gains at all
    communicator sizes are used.
    """
    slots = [g.slot for g in gains if g.slot[0] == collective and comm_size in (None, g.slot[1])]
    if not reached(slots, collective, comm_size, message_bytes):
        return []
    shares = CallProfile("", (Calls(message_bytes, 1.0, collective, comm_size),)).weights(slots)
    return [(g, shares[g.slot]) for g in gains if shares.get(g.slot)]
