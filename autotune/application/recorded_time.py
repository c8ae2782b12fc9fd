"""Define parts of a `Recording`: late ranks, durations, timeline, start of the run, other calls of MPI.

Seconds are means over the ranks of the run, as everywhere in a recording. They have an interval that contains
the time that the program itself would measure. All calls of a microsecond or more are timed, and so is a
random sample of shorter calls; the time between two readings of the clock is an upper bound for the calls in
between.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

FAMILIES = ("collectives", "point-to-point", "one-sided", "files", "completion", "setup")
"""Families of MPI operations, in the order of ``enum family`` in ``probe/recorder/file.h``. The family
``completion`` has MPI_Wait, MPI_Test and the like, as far as they did not complete requests of other
families."""
DISTANCES = ("", "self", "socket", "node", "network")
"""Distances to the peer: the rank itself, a rank on the same socket, on the same node, or across the network.
They are in the order of ``enum distance`` in ``probe/recorder/file.h``; empty where there is no peer, or the
distance is not known."""
PATTERNS = ("none", "same", "wandering", "periodic")
"""Which ranks come late: none, always the same (imbalance), changing ones (noise), or some periodically."""
_TWO_SIDED = ("send", "bsend", "ssend", "rsend", "recv")
PROBED: Mapping[str, str] = {
    **dict.fromkeys((*_TWO_SIDED, "sendrecv", "sendrecv_replace"), "pingpong"),
    **{f"i{name}": "pingpong" for name in _TWO_SIDED},
    **{f"{name}_init": "pingpong" for name in _TWO_SIDED},
    **{f"{r}{name}": name for name in ("put", "get", "accumulate") for r in ("", "r")},
    **{f"{r}get_accumulate": "accumulate" for r in ("", "r")},
}
"""Maps each operation to the transfer by which the benchmark probe measures it. For messages the probe
measures half of a round trip, for one-sided operations the transfer with its flush."""

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Histogram:
    """Histogram of the durations of calls on all ranks, in logarithmic classes."""

    lower_s: tuple[float, ...] = ()
    """Lower limit in seconds of each class that is not empty; the upper limit is √2 times as large."""
    calls: tuple[float, ...] = ()
    """Number of calls in each class; if not all calls were timed, it is estimated from the timed ones."""

    def __post_init__(self) -> None:
        numbers = (*self.lower_s, *self.calls)
        if len(self.lower_s) != len(self.calls) or not all(math.isfinite(x) and x >= 0 for x in numbers):
            raise ValueError("a histogram needs a finite number of at least 0 for each class")


@dataclass(frozen=True, slots=True)
class LateRank:
    """A rank that others waited for."""

    rank: int  # Rank in MPI_COMM_WORLD.
    last: float  # Share of the calls that this rank entered last.
    caused_s: float  # Seconds that the others waited for this rank, mean over the ranks of the run.
    waited_s: float  # Seconds that this rank itself waited in these calls.


@dataclass(frozen=True, slots=True)
class Lateness:
    """Says which ranks the others waited for in calls of the same kind."""

    examined: int  # Number of calls that were examined.
    pattern: str  # Which ranks come late, one of ``PATTERNS``.
    period_s: float | None  # Seconds between late calls if these are periodic; None if they are not.
    ranks: tuple[LateRank, ...]  # At most 16 late ranks; those that caused most waiting come first.
    outside: float | None = None
    """Share of the waiting that is known to have its cause outside of MPI; None where it is not known."""

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise ValueError(f"unknown pattern {self.pattern!r}")
        if self.outside is not None and not 0 <= self.outside <= 1:
            raise ValueError(f"a share of {self.outside}")


@dataclass(frozen=True, slots=True)
class OtherCalls:
    """Counts and times of calls that are no collectives.

    The calls have the same operation, distance to the peer and power of two of the message size.
    """

    family: str  # One of ``FAMILIES``, except the first.
    operation: str  # MPI's name in lower case without ``mpi_``: ``waitall``, ``file_write_at_all``.
    distance: str  # One of ``DISTANCES``.
    message_bytes: float
    """Mean message size in bytes (for MPI_Wait and the like that of the largest message); 0 without data."""
    calls: int  # Exact number of calls over all ranks; for several runs the mean, rounded.
    calls_per_rank: float  # Number of calls of a rank, mean over all ranks of the run.
    seconds: float
    """Seconds in these calls, and in MPI_Wait and the like for the requests that these calls began, mean over
    all ranks. For the family ``completion``, all seconds in its calls."""
    seconds_low: float  # Lower end of the 95 % interval that contains ``seconds``.
    seconds_high: float  # Upper end of the 95 % interval.
    completing_s: float = 0.0
    """Part of ``seconds`` in MPI_Wait and the like. For the family ``completion``, the part of its seconds
    that is included in the calls that began the requests."""
    timed: int = 0  # Number of calls among ``calls`` whose time was taken.
    histogram: Histogram | None = None  # Durations of the calls, without MPI_Wait and the like.
    derived: int = 0  # Number of calls among ``calls`` whose datatype the program has defined.

    def __post_init__(self) -> None:
        if self.family not in FAMILIES[1:] or self.distance not in DISTANCES:
            raise ValueError(f"unknown family {self.family!r} or distance {self.distance!r}")
        seconds = (self.seconds, self.seconds_low, self.seconds_high, self.completing_s)
        counts = (self.message_bytes, self.calls, self.calls_per_rank, self.timed, self.derived)
        if not all(0 <= x < math.inf for x in (*seconds, *counts)):
            raise ValueError("a number that is not finite or below 0")

    @property
    def pattern(self) -> str:
        """Return the communication pattern with which the benchmark probe measures such calls; empty: none.

        Non-blocking and persistent messages belong to a halo exchange, blocking ones to a ping-pong.
        """
        name = PROBED.get(self.operation, "")
        if name == "pingpong" and self.operation.endswith("_init"):
            return "halo_persistent"
        return "halo" if name == "pingpong" and self.operation.startswith("i") else name

    @property
    def own_s(self) -> float:
        """Return the seconds of these calls in MPI, without those that other entries already include."""
        return max(self.seconds - self.completing_s, 0.0) if self.family == "completion" else self.seconds


@dataclass(frozen=True, slots=True)
class Timeline:
    """Time that a mean rank of the run's largest MPI job spends in MPI in each slice of the run."""

    slice_s: float  # Length of a slice in seconds; the first slice begins at the end of MPI_Init.
    seconds: Mapping[str, tuple[float, ...]]
    """Maps each family of calls to its seconds in each slice, ``(n_slices,)``. Time in MPI_Wait and the like
    counts in the families of the calls that began the requests."""

    def __post_init__(self) -> None:
        if len({len(values) for values in self.seconds.values()}) > 1 or not self.slice_s > 0:
            raise ValueError("a timeline has as many slices in each family")


@dataclass(frozen=True, slots=True)
class Started:
    """Says how a run was started, as far as it affects MPI."""

    launcher: str = ""  # Name of the launcher; empty if it is not a known one.
    options: tuple[tuple[str, ...], ...] = ()
    """The launcher's options without dashes, each with its values: ``("mca", "btl", "self,tcp")``."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """MPI's variables in the environment of rank 0, also those that ``--mca`` and ``-x`` set."""


def means_of(runs: Sequence[tuple[OtherCalls, ...]]) -> tuple[OtherCalls, ...]:
    """Return the means over several runs of their calls that are no collectives.

    Args:
        runs: The calls of each run, ``(n_runs,)``. Calls that a run did not make count as zero calls in it.
    """
    groups: dict[tuple[str, str, int], list[OtherCalls]] = {}
    for run in runs:
        for entry in run:
            key = entry.operation, entry.distance, int(entry.message_bytes).bit_length()
            groups.setdefault(key, []).append(entry)
    means = (mean_row(group, len(runs), "completing_s") for group in groups.values())
    return tuple(sorted(means, key=lambda calls: -calls.seconds))


def mean_row(rows: Sequence[_Row], n: int, *more: str) -> _Row:
    """Return the mean over ``n`` runs of calls of one kind; runs without such calls have no row.

    Args:
        rows: The calls in those runs that made some, as ``OtherCalls`` or ``RecordedCalls``.
        n: Number of runs.
        more: Names of further fields of which the mean is returned.
    """
    group: Sequence[Any] = rows

    def mean(name: str) -> Any:
        values = [getattr(row, name) for row in group]
        return None if None in values else math.fsum(values) / n

    calls = sum(row.calls for row in group)
    sums: dict[float, float] = {}
    for histogram in (row.histogram for row in group if row.histogram):
        for lower_s, in_class in zip(histogram.lower_s, histogram.calls, strict=True):
            sums[lower_s] = sums.get(lower_s, 0.0) + in_class / n
    found: _Row = replace(
        group[0],
        message_bytes=math.fsum(row.message_bytes * row.calls for row in group) / max(calls, 1),
        calls=round(calls / n),
        histogram=Histogram(tuple(sorted(sums)), tuple(sums[key] for key in sorted(sums))) if sums else None,
        **{name: mean(name) for name in ("calls_per_rank", "seconds", "seconds_low", "seconds_high", *more)},
        **{name: round(mean(name)) for name in ("timed", "derived")},
    )
    return found
