"""Clocks of several ranks → one time axis, and a validity code for each sample taken in start windows.

Step 7 of the flow; the probe calls it on every rank. Pure arithmetic on time stamps: who sends which
message when is the probe's business.

A barrier lets ranks go at different moments and warms up what is measured. A start window does not: all
ranks agree on a moment in the future on one time axis, wait for it and call. That needs the offset of each
clock to the reference rank's, and its drift, for two crystals differ by microseconds a second.

Notation: local clock x, reference clock y, offset y − x. An exchange is (t_send, t_remote, t_recv): local
clock, the reference's clock while it held the message, local clock again. Whatever the two ways took, the
offset is within [t_remote − t_recv, t_remote − t_send].
"""

from dataclasses import dataclass
from enum import IntFlag

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotune.measure.location import FloatArray


class Validity(IntFlag):
    """Why a sample cannot be believed; the flags add up. Values are written to files: only ever add."""

    STARTED_LATE = 1  # A rank came to the window after its start: ranks did not start together.
    OVERRAN = 2  # A rank was still in the call when the window ended: the next sample's start was in danger.
    CLOCK_UNSURE = 4  # Clocks are known less well than the tolerance asks, against the run time.


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Correction of the local clock to the reference's, at one moment."""

    offset_s: float  # Reference − local, in seconds: the middle of the interval.
    bound_s: float  # The true offset lies within ± this, in seconds.
    at_s: float  # Local time the offset belongs to, in seconds.
    consistent: bool
    """All exchanges agree on an interval. If not, the clock drifted or was stepped during them, and the
    shortest exchange alone speaks."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Linear model of the offset: reference(x) = x + offset_s + drift · (x − at_s)."""

    offset_s: float  # Reference − local at `at_s`, in seconds.
    drift: float  # Change of the offset per second of local time (1e-6 is one microsecond a second).
    at_s: float  # Local time the offset belongs to, in seconds.
    bound_s: float  # Largest distance of an offset from the line plus that offset's own bound, in seconds.

    def to_reference(self, local_s: ArrayLike) -> FloatArray:
        """Reference time of local times, same shape."""
        x = np.asarray(local_s, dtype=np.float64)
        return np.asarray(x + (self.offset_s + self.drift * (x - self.at_s)))

    def to_local(self, reference_s: ArrayLike) -> FloatArray:
        """Local time of reference times, same shape: when to start for an agreed start."""
        y = np.asarray(reference_s, dtype=np.float64)
        return np.asarray(self.at_s + (y - self.at_s - self.offset_s) / (1.0 + self.drift))


def clock_offset(t_send_s: ArrayLike, t_remote_s: ArrayLike, t_recv_s: ArrayLike) -> ClockOffset:
    """Offset of the reference's clock from a burst of ping-pong exchanges, with a bound that is certain.

    Every exchange confines the offset to an interval as wide as its round trip; their intersection is
    narrower than the shortest round trip whenever the two ways were delayed differently in different
    exchanges.

    All three are `(n,)`: the local clock before sending, the reference clock between receiving and answering,
    the local clock after the answer.

    Raises:
        ValueError: No exchange, rows of different lengths, or an answer before its question.
    """
    send, remote, recv = (np.atleast_1d(np.asarray(t, np.float64)) for t in (t_send_s, t_remote_s, t_recv_s))
    if send.ndim != 1 or not send.size or not send.shape == remote.shape == recv.shape:
        raise ValueError(
            f"exchanges need three rows of one length, got {send.shape}, {remote.shape}, {recv.shape}"
        )
    round_trip = recv - send
    if not (round_trip >= 0).all():
        raise ValueError("an exchange whose answer came before its question: wrong order of columns?")
    shortest = int(np.argmin(round_trip))
    lowest, highest = remote - recv, remote - send
    low, high = float(np.max(lowest)), float(np.min(highest))
    consistent = low <= high
    if not consistent:
        low, high = float(lowest[shortest]), float(highest[shortest])
    return ClockOffset(
        offset_s=(low + high) / 2,
        bound_s=(high - low) / 2,
        at_s=float((send[shortest] + recv[shortest]) / 2),
        consistent=consistent,
    )


def clock_drift(offsets: list[ClockOffset]) -> Clock:
    """Line through offsets taken at different times, each weighted by 1 / bound².

    One alone gives drift 0. Spread them over the launch: a drift of 1 µs/s shows against a bound of 0.2 µs
    only after a good part of a second.

    Raises:
        ValueError: No offsets.
    """
    if not offsets:
        raise ValueError("no clock offsets")
    x = np.array([o.at_s for o in offsets])
    y = np.array([o.offset_s for o in offsets])
    bound = np.array([o.bound_s for o in offsets])
    # An interval that shrank to nothing still cannot weigh infinitely.
    weight = 1.0 / np.maximum(bound, max(float(np.max(bound)) * 1e-3, 1e-12)) ** 2
    at = float(np.average(x, weights=weight))
    offset = float(np.average(y, weights=weight))
    spread = float(np.sum(weight * (x - at) ** 2))
    drift = float(np.sum(weight * (x - at) * (y - offset))) / spread if spread > 0 else 0.0
    residual = y - offset - drift * (x - at)
    return Clock(offset, drift, at, float(np.max(np.abs(residual) + bound)))


def run_time(start_s: ArrayLike, stop_s: ArrayLike) -> FloatArray:
    """Run time `(n,)` of each call: last exit − first entry over ranks, each `(n_ranks, n)`."""
    return np.asarray(np.max(np.asarray(stop_s, np.float64), 0) - np.min(np.asarray(start_s, np.float64), 0))


def validity(
    window_s: ArrayLike,
    length_s: ArrayLike,
    start_s: ArrayLike,
    stop_s: ArrayLike,
    *,
    clock_bound_s: ArrayLike = 0.0,
    lateness_s: float = 0.0,
    clock_tolerance: float = 0.1,
) -> NDArray[np.uint8]:
    """Validity code of each sample; it concerns the sample as a whole, so one rank's failing marks it.

    A window that overran leaves its own sample's start valid. In the round-time scheme, where the next
    start is agreed only after all have finished, such a sample is sound: drop that flag there.

    Args:
        window_s: `(n,)`, agreed starts on the reference clock.
        length_s: `(n,)` or scalar, lengths of the windows; infinite for round-time.
        start_s: `(n_ranks, n)`, when each rank left its wait loop and entered the call.
        stop_s: `(n_ranks, n)`, when it came back.
        clock_bound_s: `(n_ranks,)` or scalar, `Clock.bound_s` of each rank.
        lateness_s: A rank entering up to this long after the agreed start is in time: at least the period
            of the wait loop.
        clock_tolerance: Accepted ratio of the largest clock bound to the run time.

    Returns:
        `(n,)`, sums of `Validity` flags; 0 is valid.
    """
    start, stop = np.asarray(start_s, np.float64), np.asarray(stop_s, np.float64)
    window = np.asarray(window_s, np.float64)
    late = (start - window > lateness_s).any(axis=0)
    overran = (stop > window + np.asarray(length_s, np.float64)).any(axis=0)
    unsure = np.max(np.asarray(clock_bound_s, np.float64)) > clock_tolerance * run_time(start, stop)
    codes = late * int(Validity.STARTED_LATE) + overran * int(Validity.OVERRAN)
    return (codes + unsure * int(Validity.CLOCK_UNSURE)).astype(np.uint8)
