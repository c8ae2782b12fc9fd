"""Estimate the time that tuning saves in an application's recorded runs, and its upper bound.

A rank makes ``n`` calls of one kind, which take ``T`` seconds without the waiting for late ranks; the best
measured time of one such call on this machine is ``t``. Tuning saves at most max(T − n t, 0). Exported files
that reduce the time of a call from t_d to t_t save T (1 − t_t / t_d): T is the time in the run itself, and
the campaign's measurements give the share of T that is saved. If T is far more than n t_d, most of it has
another cause than the campaign measured (ranks that were preempted, other load, waiting that was not
recorded); then only the share of n t_d is saved. In point-to-point messages waiting cannot be separated from
the transfer: the saving is the same share of n t_d, or of T if T is less. The interval of this saving begins
at 0 and ends at the share of T. A *gain* has the measured times of one call by default and tuned, for one
collective, communicator size and message size.

Runs differ, some by much where other jobs use the machine. Therefore the saving of one run is predicted by
the 20 % trimmed mean over N recorded runs, with an interval by Student's t [2]. The error of this mean and
the error of the campaign's measurements are independent of each other: the squares of the distances from the
estimate to the ends of the two intervals are added [1]. If a single run was recorded, its only known error is
the one that arises because not all calls were timed.

References:
    1. G. Y. Zou, A. Donner: "Construction of confidence limits about effect measures: a general approach",
       Statistics in Medicine 27 (2008), 1693-1702, eq. 4 and 5.
    2. J. W. Tukey, D. H. McLaughlin: "Less vulnerable confidence and significance procedures for location
       based on a single sample: trimming/winsorization 1", Sankhya A 25 (1963), 331-352.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.application.profiles import CallProfile, Calls
from autotune.application.recording import RecordedCalls, Recording, TunableCalls, tunable
from autotune.collectives import PATTERNS
from autotune.history.lookup import reached
from autotune.recommend.recommendation import Gain

Ends = tuple[float, float, float]  # A value, and the lower and the upper end of its interval.
BOTHER = 0.01
"""Share of a run's time below which a saving is not worth a campaign. Runs of an application differ by about
as much, so that nobody would notice the saving, and a verification in a few dozen runs would be
inconclusive."""
_LEVEL = 0.975  # One-sided confidence level of each end of a prediction's interval.
_TRIM = 0.2  # Share of the runs that the trimmed mean leaves out at each end; none of fewer than five.
UNLIKE = 10.0
"""Ratio of the recorded time of calls to the measured time of the same calls by default, beyond which most of
the recorded time must have another cause. Among 37 kinds of calls of Quantum ESPRESSO and HPC Challenge 34
took 0.3 to 6.6 times the measured time; the other three, in which ranks waited but the waiting was not
recorded, took 12 to 160 times. With any threshold from 3 to 50 the possible saving in these applications
differs by less than 0.03 % of the run, and the advice stays the same."""


def reachable_s(recorded: Recording, gains: Sequence[Gain]) -> tuple[float, float]:
    """Return the seconds that tuning saves a mean rank at best, and the covered share of its collectives.

    The share is the time in calls for which the gains are evidence (see ``history.lookup``), divided by the
    time in all collectives. All other calls are assumed to save nothing: calls of collectives that were not
    measured, and calls with communicator or message sizes far from the measured ones.
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

    seconds: tuple[Ends, ...]  # Seconds saved in each run, with the interval by the campaign's errors.
    shares: tuple[Ends, ...]  # Share of the wall time saved in each run, with its interval of about 95 %.
    draw_s: float  # Standard error in seconds because not all calls were timed; 0 for several runs.
    unlike: tuple[tuple[RecordedCalls, float], ...] = ()
    """Calls whose time is more than ``UNLIKE`` times the measured one, each with this ratio."""

    @property
    def unlike_s(self) -> float:
        """Return the seconds by which calls in ``unlike`` exceed their measured time; they are not saved."""
        return math.fsum(calls.busy_s * (1.0 - 1.0 / times) for calls, times in self.unlike)


def savings(recorded: Recording, gains: Sequence[Gain]) -> Savings:
    """Return the time that files with the measured ``gains`` save in each of the recorded runs."""
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
    """Return the seconds saved in calls whose waiting cannot be separated from the transfer."""
    near_gains = near(gains, calls.name, calls.comm_size, calls.message_bytes)
    share_saved, _, high = _share_saved(near_gains, 1.0)
    default_s = calls.count * math.fsum(share * gain.default_s for gain, share in near_gains)
    value = min(calls.busy_s, default_s) * share_saved
    return value, min(0.0, value), max(value, calls.busy_s * high)


def _times(calls: RecordedCalls, near_gains: Sequence[tuple[Gain, float]]) -> float:
    """Return the ratio of the recorded time of calls to the time by default that was measured for them."""
    default_s = calls.calls_per_rank * math.fsum(share * gain.default_s for gain, share in near_gains)
    return calls.busy_s / default_s if default_s > 0 else 1.0


def _share_saved(near_gains: Sequence[tuple[Gain, float]], fraction: float) -> Ends:
    """Return the share of the calls' time that is saved, if the gains apply only to a ``fraction`` of it."""
    return _total([(fraction * share, gain.saved) for gain, share in near_gains])


def _total(parts: Sequence[tuple[float, Ends]]) -> Ends:
    """Return the weighted sum of values and of their intervals' ends."""
    value, low, high = (math.fsum(weight * ends[k] for weight, ends in parts if weight) for k in range(3))
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


def predicted(runs: Sequence[Ends], draw_se: float) -> Ends:
    """Return the predicted saving of a run with its interval of about 95 %.

    Args:
        runs: Saving that each recorded run would have had, with the ends of its interval.
        draw_se: Standard error of a single run because not all calls were timed, in the unit of ``runs``.
    """
    from scipy.special import ndtri, stdtrit

    sides = map(np.asarray, zip(*runs, strict=True))
    (mean, variance, n), (low, *_), (high, *_) = map(trimmed, sides)
    if n > 1:
        error = float(stdtrit(n - 1, _LEVEL)) * math.sqrt(variance / n)
    else:
        error = float(ndtri(_LEVEL)) * draw_se
    return mean, mean - math.hypot(mean - low, error), mean + math.hypot(high - mean, error)


def trimmed(values: NDArray[np.float64], share: float = _TRIM) -> tuple[float, float, int]:
    """Return the trimmed mean, the variance of one value, and the number of values that were not left out.

    With g = ⌊share · n⌋ values left out at each end and h = n − 2g remaining values, the variance of one
    value is SS_w / (h − 1), where SS_w is the sum of squared deviations of the winsorised values. The
    variance of the trimmed mean is 1/h of the variance of one value, with h − 1 degrees of freedom. For g = 0
    these are the ordinary mean and variance. If a single value remains, the variance is NaN.
    """
    ordered, n = np.sort(values), len(values)
    cut = math.floor(share * n)
    remaining = n - 2 * cut
    location = float(np.mean(ordered[cut : n - cut]))
    if remaining < 2:
        return location, math.nan, remaining
    winsorised = np.clip(ordered, ordered[cut], ordered[n - cut - 1])
    squares = float(np.sum((winsorised - winsorised.mean()) ** 2))
    return location, squares / (remaining - 1), remaining
