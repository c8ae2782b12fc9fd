"""Converts the clocks of several ranks to one time axis, and finds invalid samples taken in start windows.

The probe (step 6 of the data flow) calls these functions on every rank. The module is pure arithmetic on time
stamps: the probe decides which rank sends which message when.

A barrier releases ranks at different moments, and warms up the code that is measured. A start window does
neither: all ranks agree on a moment in the future on one time axis, wait for it and make the call. For a
common time axis, the offset of each clock to the clock of the reference rank must be known, and the offset's
drift, since two crystals differ by microseconds a second.

Notation: local clock x, reference clock y, offset y − x. An exchange of messages is (t_send, t_remote,
t_recv): the local clock when the message was sent, the reference clock when it arrived there, and the local
clock when the answer arrived. However long the messages took, the offset is within [t_remote − t_recv,
t_remote − t_send].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import TypeAlias

Times: TypeAlias = Sequence[float]  # Times in seconds.


class Validity(IntFlag):
    """Reasons why a sample is invalid; the flags add up. Values are written to files: never change one."""

    STARTED_LATE = 1  # A rank entered the call after the window's start: ranks did not start together.
    OVERRAN = 2  # A rank was still in the call when the window ended, so the next start may be late.
    CLOCK_UNSURE = 4  # The bound of the clock's error exceeds the tolerated share of the run time.


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Offset of the reference clock to the local clock, at one moment."""

    offset_s: float  # Reference clock − local clock, in seconds: the middle of the interval of the offset.
    bound_s: float  # Largest possible error of ``offset_s``, in seconds.
    at_s: float  # Local time at which the offset was determined, in seconds.
    consistent: bool
    """Whether the offset's intervals from all exchanges intersect.

    If not, the clock drifted or was stepped during the exchanges, and only the shortest exchange is used."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Linear model of the reference clock: reference(x) = x + offset_s + drift · (x − at_s)."""

    offset_s: float  # Reference clock − local clock at the local time ``at_s``, in seconds.
    drift: float  # Change of the offset per second of local time (1e-6 is one microsecond a second).
    at_s: float  # Local time at which the offset is ``offset_s``, in seconds.
    bound_s: float  # Maximum over the measured offsets of |offset − line| + the offset's bound, in seconds.

    def to_reference(self, local_s: Times) -> list[float]:
        """Convert times of the local clock to times of the reference clock."""
        return [x + (self.offset_s + self.drift * (x - self.at_s)) for x in local_s]

    def to_local(self, reference_s: Times) -> list[float]:
        """Convert times of the reference clock, such as agreed starts, to times of the local clock."""
        return [self.at_s + (y - self.at_s - self.offset_s) / (1.0 + self.drift) for y in reference_s]


def clock_offset(send_s: Times, remote_s: Times, recv_s: Times) -> ClockOffset:
    """Compute the offset of the reference clock from a burst of ping-pong exchanges, with its error bound.

    Every exchange limits the offset to an interval that is as wide as its round trip. The intersection of
    these intervals is narrower than the shortest round trip if the ways there and back were delayed
    differently in different exchanges.

    Args:
        send_s: Local clock before the message was sent, in seconds, one value for each exchange.
        remote_s: Reference clock between receiving the message and answering, in seconds.
        recv_s: Local clock after the answer arrived, in seconds.

    Raises:
        ValueError: If there is no exchange, the lengths differ, or an answer arrived before its message was
            sent.
    """
    lengths = len(send_s), len(remote_s), len(recv_s)
    if not lengths[0] or len(set(lengths)) > 1:
        raise ValueError(f"exchanges need three rows of one length, got {lengths}")
    round_trips = [recv - send for send, recv in zip(send_s, recv_s, strict=True)]
    if min(round_trips) < 0:
        raise ValueError("an exchange whose answer came before its question: wrong order of columns?")
    lowest = [remote - recv for remote, recv in zip(remote_s, recv_s, strict=True)]
    highest = [remote - send for remote, send in zip(remote_s, send_s, strict=True)]
    shortest = round_trips.index(min(round_trips))
    low, high = max(lowest), min(highest)
    consistent = low <= high
    if not consistent:
        low, high = lowest[shortest], highest[shortest]
    return ClockOffset(
        offset_s=(low + high) / 2,
        bound_s=(high - low) / 2,
        at_s=(send_s[shortest] + recv_s[shortest]) / 2,
        consistent=consistent,
    )


def clock_drift(offsets: Sequence[ClockOffset]) -> Clock:
    """Fit a line through offsets taken at different times, each weighted by 1 / bound².

    A single offset gives drift 0. The offsets should be spread over the launch, since a drift of 1 µs/s
    exceeds a bound of 0.2 µs only after 0.2 s.

    Raises:
        ValueError: If there are no offsets.
    """
    if not offsets:
        raise ValueError("no clock offsets")
    # A bound of 0 would give an infinite weight.
    smallest_bound_s = max(max(o.bound_s for o in offsets) * 1e-3, 1e-12)
    weights = [1.0 / max(o.bound_s, smallest_bound_s) ** 2 for o in offsets]
    at = _average([o.at_s for o in offsets], weights)
    offset = _average([o.offset_s for o in offsets], weights)
    spread = sum(w * (o.at_s - at) ** 2 for w, o in zip(weights, offsets, strict=True))
    common = sum(w * (o.at_s - at) * (o.offset_s - offset) for w, o in zip(weights, offsets, strict=True))
    drift = common / spread if spread > 0 else 0.0
    distances_s = (abs(o.offset_s - offset - drift * (o.at_s - at)) + o.bound_s for o in offsets)
    return Clock(offset, drift, at, max(distances_s))


def _average(values: Times, weights: Sequence[float]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def run_time(starts_s: Sequence[Times], stops_s: Sequence[Times]) -> list[float]:
    """Return each call's run time in seconds: last exit − first entry over all ranks.

    Args:
        starts_s: For each rank, the times at which it entered the calls.
        stops_s: For each rank, the times at which it returned.
    """
    return [
        max(ends) - min(begins)
        for begins, ends in zip(zip(*starts_s, strict=True), zip(*stops_s, strict=True), strict=True)
    ]


def validity(
    windows_s: Times,
    length_s: float,
    starts_s: Sequence[Times],
    stops_s: Sequence[Times],
    *,
    clock_bound_s: float = 0.0,
    lateness_s: float = 0.0,
    clock_tolerance: float = 0.1,
) -> bytes:
    """Return the validity code of each sample; a sample is invalid if a single rank was late or too slow.

    A call that exceeds its window has itself started correctly. In the round-time scheme, where ranks agree
    on the next start only after all of them have finished, such a sample is valid: there the caller removes
    the flag ``OVERRAN``.

    Args:
        windows_s: Agreed start of each window on the reference clock, in seconds.
        length_s: Length of each window in seconds; infinite for the round-time scheme.
        starts_s: For each rank, the times at which it left its wait loop and entered the call.
        stops_s: For each rank, the times at which it returned from the call.
        clock_bound_s: Largest ``Clock.bound_s`` of a rank, in seconds.
        lateness_s: Seconds after the agreed start within which a rank is in time; at least the period of the
            wait loop.
        clock_tolerance: Accepted ratio of the clock bound to the run time.

    Returns:
        For each sample the sum of its ``Validity`` flags, where 0 means valid.
    """
    codes = bytearray()
    by_call = zip(windows_s, zip(*starts_s, strict=True), zip(*stops_s, strict=True), strict=True)
    for window, begins, ends in by_call:
        code = Validity.STARTED_LATE * any(begin - window > lateness_s for begin in begins)
        code |= Validity.OVERRAN * any(end > window + length_s for end in ends)
        code |= Validity.CLOCK_UNSURE * (clock_bound_s > clock_tolerance * (max(ends) - min(begins)))
        codes.append(code)
    return bytes(codes)
